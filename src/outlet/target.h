/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct buf;

/*
 * Where a request is to go, from the path of the request to the outlet. Pure. What is decided about
 * is what is sent: names in lower case, a path in which no two servers would see different places.
 */
enum {
	TARGET_HOST_MAX = 254,
};
struct target {
	bool tls;
	bool literal;               /* the host is an address */
	char host[TARGET_HOST_MAX]; /* an address of IPv6 without brackets */
	uint16_t port;
	char *path;  /* begins with a slash, without the query; malloc'd */
	char *query; /* after the '?'; NULL: there is none. malloc'd */
};

/*
 * "/https/HOST[:PORT]/PATH" or "/http/…", with its query. ERR_NOT_FOUND: it is not of this form;
 * ERR_MALFORMED: the host, the port or the path is not to be understood in one way only.
 */
must_use struct err *target_read(const char *text, struct target *ret);
void target_done(struct target *t);

const char *target_scheme(const struct target *t);
/* As in Host: the port is left out if it is the one of the scheme. */
void target_authority(const struct target *t, struct buf *out);
/* The path and query to send. add_name, add_value: a parameter that takes the place of all of this
 * name; NULL: none. */
void target_write(const struct target *t, const char *add_name, const char *add_value,
		  struct buf *out);
/* A Location as the sandbox has to see it: what leads to the same server leads through the outlet
 * again. False: it stays as it is. */
bool target_location(const struct target *t, const char *location, struct buf *out);
