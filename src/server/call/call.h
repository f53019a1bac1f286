/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/schema.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/http.h"
#include "server/call/budget.h"
#include "server/call/effort.h"
#include "server/call/ends.h"
#include "server/call/route.h"
#include "server/call/slices.h"
#include "server/call/status.h"

struct access;
struct arena;
struct buf;
struct bytes;
struct http_request;
struct json;
struct json_doc;
struct call_counts;
struct kinds;
struct store;
struct trace_span;
struct tracer;
struct type;

/* Who asks. */
struct user_extra {
	const char *key, *value;
};
struct user {
	const char *name, *uid;
	const char *const *groups; /* NULL-terminated */
	const char *sa_ns;         /* the namespace of a service account, else NULL */
	int64_t expires;           /* when its token does, in seconds since 1970; 0: no token */
	bool renewed; /* whoever has the token gets another before it expires, all the time */
	const char *pod_uid;            /* of the Pod that its token is bound to; NULL: none */
	const char *by;                 /* who asks in this user's name; NULL: the user */
	const struct user_extra *extra; /* a key may have several values */
	size_t n_extra;
};

/* Whose limits count: those of whoever really asks. */
static inline const char *user_payer(const struct user *u)
{
	return u->by ? u->by : u->name;
}

/* At most so much of an answer is produced before the peer takes it. */
enum {
	ANSWER_OUT_MAX = 64 * 1024,
	CALL_NOTES_MAX = 2,
};

/* What the calls of a server share. */
struct calls {
	struct kinds *kinds;   /* what is served */
	struct access *access; /* knows what Pods use; NULL: there is no node */
	struct store *store;   /* answers to writes wait for its commits */
	struct slices slices;  /* long answers take turns */
	struct budget budget;  /* of answers under way */
	struct effort effort;  /* of the loop's time */
	struct ends ends;      /* of credentials by which something is open */
	struct audit *audit;   /* the record of writes and refusals; NULL: none */
	uint64_t n_requests, n_failures, n_limited;
	struct call_counts *counts; /* NULL: nobody counts */
	struct tracer *tracer;      /* NULL: nobody wants spans */
};

/*
 * One API request, from its head to its answer. It outlives the peer when necessary: whoever waits
 * on its behalf (for a commit, for an object to be Ready) holds a reference, and answering a
 * request whose peer has left is harmless.
 */
struct call {
	unsigned refs;
	struct calls *calls;
	struct http_request *req; /* NULL once the peer has left or the answer is complete */
	struct arena *arena;      /* of this request */
	struct user user;
	int64_t ends; /* when the credential does, in seconds since 1970; 0: nobody can tell */
	bool renewed; /* and what it opens goes on, see call_end() */
	struct route route;
	const struct kind
		*kind; /* a reference to route.kind, which may be removed while this waits */
	const char *method, *query;
	const char *from; /* the peer's address */
	usec began;
	bool dry_run;  /* the write leaves no trace but in the audit log */
	bool recorded; /* there */
	struct audit_note notes[CALL_NOTES_MAX + 1]; /* for it; texts are the arena's */
	bool applies;                                /* a server-side apply */
	int status;                                  /* of the answer; 0: none was given */
	struct trace_span *span;                     /* NULL: none is made */
	const char *body;
	size_t body_len;
	struct causes causes;        /* details of an ERR_INVALID */
	enum details details;        /* what the details of an error name */
	struct http_headers headers; /* of the answer: warnings, an ETag */
	const char *type;            /* of the answer, its media type; constant */
	size_t charged;              /* to the user's budget, until the answer is complete */
	bool entered;                /* it counts as one of the user's requests, until then */
	bool known;                  /* somebody asks, whose the time is */
	void (*left)(void *arg);     /* the request has ended while this waited; may be NULL */
	void *left_arg;
};
struct call *call_new(struct calls *calls, struct http_request *req);
/*
 * When what it opens ends, in seconds since 1970: with its credential. 0: never by itself. Tokens
 * of service accounts and of agents are renewed all the time by whoever uses them, and as in
 * Kubernetes nothing ends with the one that it was opened with. A narrowed one is not: it was lent.
 */
int64_t call_end(const struct call *c);
struct call *call_ref(struct call *c);
void call_unref(struct call *c);
AUTOREF(call)
void call_warn(void *arg, const char *text); /* a Warning header; arg is the call */
/* An annotation of the audit record. key is a constant; there are CALL_NOTES_MAX at most. */
void call_note(void *arg, const char *key, const char *text);

/* Counts it as one of its user's. ERR_EXHAUSTED: they have too many, too much unread, or have had
 * more than their part of the loop's time. */
must_use struct err *call_enter(struct call *c);
/* Something was done for it since then: the user pays for the time. */
void call_spent(struct call *c, usec since);
/* What the answer may hold in memory at one time; 0: nothing any more. */
void call_charge(struct call *c, size_t bytes);

/* Answers. All take over what they are given. */
void call_fail(struct call *c, struct err *e);
void call_reply_text(struct call *c, int status, const char *type, struct buf *text);
void call_reply_json(struct call *c, int status, struct json_doc *d);
/* In the form that the client prefers, as a message of type t or as JSON. */
void call_reply_tree(struct call *c, int status, struct json_doc *d, const struct type *t);
/* Of the type that c->type says. */
void call_reply_bytes(struct call *c, int status, struct bytes *text);
/* For the two functions that take bytes: v in the form that the client prefers. */
struct bytes *call_encode(struct call *c, const struct json *v, const struct type *t);
/* A page derived from the kinds: it carries their version as an ETag, and is not sent again to a
 * client that has it. Here the text stays the caller's. */
void call_reply_document(struct call *c, const char *type, const char *text);
/* An object or Status, once everything written until now is durable. */
void call_reply_durably(struct call *c, int status, struct bytes *text);
/* Begins an answer in pieces, of the type that c->type says, which whoever calls this writes with
 * http_respond_*(). From now on owner has the request's reference to the call, and ended() gives it
 * back. */
void call_stream(struct call *c, void *owner, void (*ended)(void *owner),
		 void (*drained)(void *owner));
