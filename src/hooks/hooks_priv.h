/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "client/access.h"
#include "client/client.h"
#include "crypto/crypto.h"
#include "hooks/hooks.h"
#include "hooks/proof.h"
#include "loop/loop.h"

struct map;

enum {
	HOOKS_READING_MAX = 64,      /* requests whose body is on its way, in all */
	HOOKS_READING_PEER_MAX = 16, /* and from one address */
	HOOKS_PENDING_MAX = 1024,    /* deliveries that are not over, of all triggers */
	HOOKS_PENDING_BYTES_MAX = 64 * 1024 * 1024, /* of their events */
	HOOKS_SEEN_MIN = 1000,                      /* ids that are remembered for each trigger, */
	HOOKS_SEEN_S = 900, /* and all of so many seconds; longer than a signature is good for */
	HOOKS_OUTPUT_MAX = 4096,           /* bytes that are kept of what a command writes */
	HOOKS_SHOWN = 20,                  /* deliveries in the status of a trigger */
	HOOKS_WAKE_MS = 5 * 60 * 1000,     /* for a session to become active */
	HOOKS_COMMAND_MS = 60 * 60 * 1000, /* for a command */
};

/* Annotations of sessions and of the Secrets in which deliveries are kept. */
#define KEY_TRIGGER          "cay.dev/trigger"
#define KEY_DELIVERY         "cay.dev/delivery"
#define KEY_DELIVERY_PROOF   "cay.dev/delivery-proof"
#define KEY_DELIVERY_STATE   "cay.dev/delivery-state"
#define KEY_DELIVERY_TIME    "cay.dev/delivery-time"
#define KEY_DELIVERY_FROM    "cay.dev/delivery-from"
#define KEY_DELIVERY_SESSION "cay.dev/delivery-session"
#define KEY_DELIVERY_TITLE   "cay.dev/delivery-title"
#define KEY_DELIVERY_OWN     "cay.dev/delivery-own-session"
#define TYPE_DELIVERY        "cay.dev/delivery"
#define TYPE_SEEN            "cay.dev/deliveries"

/*
 * What is remembered of a delivery for as long as it may come again. Found by the key of its id
 * and, where the signature is bound to a moment, by that of its signature.
 */
struct known {
	unsigned refs;
	usec at;
	bool filtered;
	bool noted; /* it is a line of this chunk */
	unsigned chunk;
	char session[HOOK_SESSION_LEN + 1]; /* "": none */
	char id[HOOK_KEY_LEN + 1];
	char proof[HOOK_KEY_LEN + 1]; /* "": none */
};

/* So many lines of what is remembered, in one Secret. */
struct chunk {
	struct list on;
	unsigned number;
	bool made; /* its Secret is there */
	size_t n;
	usec last;
	struct buf text;
};

/* A Trigger, as far as it has to be remembered beside its object. */
struct hook {
	char *ns, *name, *uid;
	struct map *known;  /* key → struct known, a reference */
	struct list chunks; /* struct chunk, the oldest first */
	size_t n_seen;      /* lines in all of them */
	usec *taken;        /* monotonic times of what was taken in the last minute: a ring */
	size_t n_taken, taken_at, taken_cap;
	size_t n_pending;
};

enum delivery_state {
	DELIVERY_ACCEPTED, /* waits for its turn and its session; nothing has begun */
	DELIVERY_STARTING, /* that it starts is being written down */
	DELIVERY_STARTED,  /* the command may have begun */
	DELIVERY_WAITING,  /* for an approval: nothing begins before that is marked as used */
	DELIVERY_ENDING,   /* its outcome is being written down */
	DELIVERY_STATE_MAX_,
};

struct delivery {
	struct list on;      /* hooks.deliveries, in the order in which they came */
	struct list on_lane; /* lane.deliveries */
	struct lane *lane;
	struct hooks *hooks;
	enum delivery_state state;
	char *ns, *trigger, *uid; /* the Trigger */
	char *agent, *session, *title, *sandbox, *pod;
	char *id, *from, *record; /* record: its Secret */
	struct known *known;
	usec at;
	bool own; /* the session is for this delivery alone */
	char *event;
	size_t len, sent;
	char digest[DIGEST_TEXT_LEN]; /* of the event */
	struct client_write write;
	struct timer *timer;
	struct deferred over; /* the end, out of a callback of the exec */
	struct access_session *exec;
	struct buf output;
	char *approval;
	bool made;           /* its Secret is there */
	struct err *refusal; /* or why not */
	/* How it ended. */
	const char *outcome;
	char *message;
	int code; /* < 0: none */
};

/* The deliveries of a session: one at a time, in order. */
struct lane {
	char *key; /* "NS/SESSION" */
	struct list deliveries;
};

struct hooks {
	struct loop *loop;
	struct hooks_spec spec;
	const struct kind *trigger, *session, *agent, *sandbox, *approval, *secret;
	struct client_watch *watches[6];
	struct map *hooks; /* "NS/NAME" → struct hook, owned */
	struct map *lanes; /* key → struct lane, owned */
	struct list deliveries, visits;
	struct deferred look;
	size_t n_pending, pending_bytes;
	char nobody[32]; /* the secret of triggers that there are not */
	usec told_since; /* of refusals that were recorded */
	unsigned n_told;
	struct hooks_stats stats;
};

/* hooks.c */
struct hook *hook_of(struct hooks *h, const struct object *trigger);
/* Whether one more may be taken now. Otherwise *ret_after: in so many seconds. */
bool hook_pace(struct hook *k, int64_t per_minute, int *ret_after);
void hooks_tell(struct hooks *h, const struct hooks_record *r);

/* seen.c: what is remembered of deliveries */
struct known *known_new(const char *id_key, const char *proof_key);
void known_unref(struct known *n);
void seen_add(struct hook *k, struct known *n); /* in memory */
void seen_forget(struct hook *k, struct known *n);
const struct known *seen_find(const struct hook *k, const char *id_key, const char *proof_key);
/* Makes it a line of the last chunk, unless it is one already. The chunk is returned to be written;
 * NULL: it has been retired. *ret_old: one that is no longer needed, the caller's, or NULL. */
struct chunk *seen_note(struct hook *k, struct known *n, struct chunk **ret_old);
void seen_load(struct hook *k, unsigned number, const char *text, size_t len);
void seen_free(struct hook *k);
void chunk_free(struct chunk *c);

/* journal.c: deliveries as objects */
void journal_open(struct hooks *h); /* reads what there is */
/* The Secret of a new delivery; d->write.done is called. */
void journal_accept(struct hooks *h, struct delivery *d, const struct object *trigger);
void journal_state(struct delivery *d); /* writes its state down; d->write.done is called */
/* What is remembered of it is on its way to the disk; w->done is called. */
void journal_seen(struct hooks *h, struct hook *k, struct known *n, struct client_write *w);
void journal_noted(struct hook *k, const struct known *n); /* that has worked */
void journal_drop(struct hooks *h, const char *ns, const char *record);
/* Shows a delivery in the status of its trigger. */
struct shown {
	const char *id, *session, *outcome, *message, *approval;
	usec at, finished; /* finished 0: not yet */
	int code;          /* < 0: none */
	const struct buf *output;
};
/* Whether it is there with this outcome. */
bool journal_shows(struct hooks *h, const char *ns, const char *trigger, const struct shown *s);
void journal_show(struct hooks *h, const char *ns, const char *trigger, const struct shown *s);

/* delivery.c */
struct delivery *delivery_new(struct hooks *h, const struct object *trigger);
void delivery_free(struct delivery *d);
void delivery_take(struct delivery *d, const char *event, size_t len); /* its event */
void delivery_line_up(struct delivery *d); /* it is on disk: its turn comes */
void delivery_interrupted(struct delivery *d);
/* It is over. The message is taken over and may be NULL. The delivery is freed, now or later. */
void delivery_end(struct delivery *d, const char *outcome, char *message);
void deliveries_look(struct hooks *h);

/* command.c */
void delivery_run(struct delivery *d, const char *const *argv);
void delivery_ask(struct delivery *d); /* whether it waits for somebody */
void delivery_kill(struct delivery *d);
/* The question about the command of a delivery, the youngest; a reference, or NULL. */
struct object *approval_of(struct hooks *h, const struct delivery *d);

/* http.c */
void visits_free(struct hooks *h);
