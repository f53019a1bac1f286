/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct json;
struct json_doc;

/* The documents that reviews.c sends to an API server, and what the answers say. */

/* What somebody wants to enter. */
struct review_object {
	const char *ns, *pod;
};

struct json_doc *review_token(const char *token, const char *const *audiences);
/* The user whose token it is; NULL: it is not valid, or for somebody else than us. */
struct json_doc *review_read_token(const struct json *review, const char *const *audiences);

/* user: as review_read_token() returns it. */
struct json_doc *review_access(const struct json *user, const struct review_object *what);
/* Somebody with a certificate; groups is NULL-terminated. */
struct json_doc *review_access_named(const char *user, const char *const *groups,
				     const struct review_object *what);
bool review_read_access(const struct json *review);
