/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct access;
struct client;
struct http_request;
struct loop;

/*
 * Events that start sessions. POST /hooks/NAMESPACE/NAME with an HMAC makes a delivery of a
 * Trigger: it is written down, then it finds or makes a Session, and when that is active the
 * trigger's command runs in its sandbox, with the event on its standard input. On the loop's
 * thread.
 */
struct hooks;

#define HOOKS_PATH "/hooks/"

/* What became of a delivery, or of a request that was none. Texts are borrowed. */
struct hooks_record {
	const char *ns, *name;
	const char *from;    /* the peer's address */
	const char *id;      /* NULL: not known */
	const char *outcome; /* "Ran", "Refused", …; "Unauthorized" where no delivery was made */
	const char *message; /* NULL: none */
	int status;          /* of the answer; 0: it was answered before */
};

struct hooks_spec {
	struct client *client; /* outlives it */
	struct access *access; /* outlives it; NULL: there is no node, and no command runs */
	/* Somebody needs a Sandbox that is not awake. True: it is being woken. May be NULL. */
	bool (*wake)(void *arg, const char *ns, const char *sandbox);
	void (*record)(void *arg, const struct hooks_record *r); /* may be NULL */
	void *arg;
};
/* Takes up what was accepted and had not begun. */
struct hooks *hooks_new(struct loop *l, const struct hooks_spec *spec);
/* Commands are killed; what they were run for is said to be interrupted after the next start.
 * Requests stay unanswered: the HTTP server is freed before or after. */
void hooks_free(struct hooks *h);
AUTOPTR(hooks)

/* Answers a request whose path begins with HOOKS_PATH, and whose head has arrived. */
void hooks_visit(struct hooks *h, struct http_request *req);

struct hooks_stats {
	uint64_t accepted, filtered, repeated, refused, limited;
	size_t pending;
};
void hooks_stats(const struct hooks *h, struct hooks_stats *ret);
