/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/cay/team.h"
#include "base/clock.h"

struct json;

/*
 * What a request has to show and what an event says: pure functions of their arguments.
 */
enum {
	HOOK_BODY_MAX = 1024 * 1024,
	HOOK_DEPTH_MAX = 64,
	HOOK_ID_MAX = 128,    /* characters of a delivery's id, with its NUL one more */
	HOOK_KEY_LEN = 32,    /* hexadecimal digits that stand for an id */
	HOOK_TOLERANCE = 300, /* seconds that a sender's clock may be off */
	HOOK_SESSION_LEN = 63,
};

/* The headers that count, as they were sent; NULL: not at all. */
struct hook_headers {
	const char *hub_signature; /* X-Hub-Signature-256 */
	const char *signature;     /* X-Cay-Signature */
	const char *timestamp;     /* X-Cay-Timestamp */
	const char *hub_delivery;  /* X-GitHub-Delivery */
	const char *delivery;      /* X-Cay-Delivery */
};
struct hook_secret {
	const void *p;
	size_t len;
};

/*
 * Whether a body was signed with the secret as the form wants it. The time that it takes depends on
 * the length of the body alone.
 */
bool proof_holds(enum trigger_form form, const struct hook_headers *h,
		 const struct hook_secret *secret, struct hook_secret body, usec now);
/* The id of a delivery: the sender's, or the digest of the body. False: it is no id. */
bool proof_id(enum trigger_form form, const struct hook_headers *h, struct hook_secret body,
	      char ret[HOOK_ID_MAX + 1]);
/* What ids, and signatures, are remembered by. */
void proof_key(const char *what, const char *text, char ret[HOOK_KEY_LEN + 1]);

/* event.c */

/* Whether all filters match; NULL matches everything. *ret_path: the first that does not. */
bool event_passes(const struct json *filters, const struct json *event, const char **ret_path);
/* The text at a place, malloc'd; NULL: there is none, or no scalar. */
char *event_at(const struct json *event, const char *path);

/*
 * The name of the session of a key: the same for the same trigger, agent and key. It begins with
 * the trigger's name; eighty bits of a digest keep keys apart that somebody chose to be alike.
 */
struct event_session {
	const char *ns, *trigger, *agent, *key;
};
void event_session_name(const struct event_session *s, char ret[HOOK_SESSION_LEN + 1]);
