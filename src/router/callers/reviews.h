/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct client;
struct list;
struct loop;
struct router;
struct router_ask;

/*
 * A policy for a router whose objects are behind an API server: that server is asked whose token it
 * is (TokenReview), and whether the caller may create pods/exec for the sandbox's Pod
 * (SubjectAccessReview). Answers are remembered for a while, under the SHA-256 of the token. A
 * client certificate that the listener has verified says who asks without a TokenReview.
 */
struct reviews;

enum reviews_mode {
	REVIEWS_ALLOW,  /* nobody is asked for anything */
	REVIEWS_TOKEN,  /* whoever can prove who he is may enter every sandbox */
	REVIEWS_NOBODY, /* beside those whom the router itself lets in, by scoped tokens */
	REVIEWS_RBAC,   /* whoever may create pods/exec for the sandbox's Pod */
	REVIEWS_MODE_MAX_,
};

struct reviews_spec {
	enum reviews_mode mode;
	const char *const *audiences; /* of tokens; NULL-terminated, or NULL. Outlives this. */
	bool token_optional;          /* REVIEWS_TOKEN: those without a token may enter too */
	uint64_t ttl_ms;              /* how long an answer is remembered */
	size_t max;                   /* answers that are remembered */
	unsigned ask_ms;              /* how long the API server may take; 0: 3 s */
};
struct reviews *reviews_new(struct loop *l, struct client *c, const struct reviews_spec *spec);
void reviews_guard(struct reviews *rs, struct router *r); /* becomes its policy */
void reviews_free(struct reviews *rs); /* after the router, and before the client */
AUTOPTR(reviews)

struct reviews_stats {
	uint64_t asked, remembered; /* questions that the API server got, and that it did not get */
	size_t known, under_way;
};
void reviews_stats(const struct reviews *rs, struct reviews_stats *ret);
