/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "guest/execute/setting.h"
#include "guest/execute/spool.h"
#include "guest/runtime/sse.h"

struct http_request;
struct rt;
struct timer;
struct watch;

/*
 * A command of POST /execute. Somebody waits for it (r), reads it as it runs (sse), or has left and
 * may ask again with the same words (key); otherwise it is ended and forgotten.
 */
struct execution {
	struct list on; /* the runtime's */
	struct rt *rt;
	struct http_request *r; /* who waits for the result; NULL: nobody */
	struct sse *sse;        /* who reads the output as it comes; NULL: nobody */
	char *key;              /* what a caller that takes it over must say; NULL: it cannot be */
	size_t key_len;
	pid_t pid; /* 0: reaped */
	int status;
	double limit_s;
	bool timed_out;
	bool detach;         /* a caller that leaves does not end it */
	bool late;           /* RT_DRAIN_MS have passed since it ended */
	bool over;           /* the result is complete */
	bool answering;      /* the result is on its way to a caller */
	struct timer *timer; /* for the time limit, then for the drain */
	struct timer *grace; /* for a caller that comes back */
	struct capture {
		struct execution *x;
		int fd; /* -1: ended */
		struct watch *watch;
		struct spool spool; /* unless it is read as it comes: */
		struct sse_text text;
		size_t owed; /* bytes that were in the pipe when the command ended */
	} out[2];
	/* The answer, and how far it has been written: which part, and where in it. */
	struct buf note; /* follows stderr */
	int exit_code;
	unsigned part;
	uint64_t at;
};

/* What to run, for how long, and who asked. */
struct execute_wish {
	const char *command;
	double limit_s;
	bool detach, stream;
	struct setting setting;
	struct span key; /* p NULL: there is none */
};

/* execute.c: runs the command and answers r. */
void execute_run(struct rt *rt, struct http_request *r, struct execute_wish *wish);
/* True if a command that was left behind by a caller with this key now belongs to r. */
bool execute_take_over(struct rt *rt, struct http_request *r, struct span key);
/* The answer to x->r is over: sent, or else the caller left before its end. */
void execution_answered(struct execution *x, bool sent);

/* execute_http.c: writes the result of x to r, then calls execution_answered(). */
void execute_reply(struct execution *x, struct http_request *r);
void execute_reply_failed(struct http_request *r, bool stream, const char *reason);
void execute_note(struct execution *x, const char *fmt, ...) printf_like(2, 3);
