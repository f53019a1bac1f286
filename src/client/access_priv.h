/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "client/access.h"
#include "loop/loop.h"

struct arena;
struct series;

struct access {
	const struct access_ops *ops;
	void *ctx;
	struct access_policy policy; /* ask NULL: everyone is let in */
	void *policy_arg;
	struct list sessions;    /* struct access_session */
	size_t n_for_input;      /* sessions that wait for the end of their input */
	struct audit *audit;     /* NULL: there is no record */
	struct access_door door; /* is NULL: there is none */
	access_woken woken;      /* NULL: nobody wants to know */
	void *woken_arg;
	access_knocked knocked; /* the same */
	void *knocked_arg;
	access_measured measured; /* the same */
	void *measured_arg;
	struct series *entries, *took; /* what was opened, and how long it lasted */
};

enum session_state {
	SESSION_ASKING, /* within the question */
	SESSION_WAITING,
	SESSION_ALLOWED,   /* and not begun yet */
	SESSION_RECORDING, /* it begins when that it was allowed is on record */
	SESSION_REFUSED,
	SESSION_OPEN,
};

struct access_session {
	struct list on_access;
	struct access *access;
	const struct access_ops *ops;
	void *inner; /* the implementation's session; NULL: it has not begun */
	struct access_events ev;
	void *arg;
	const char *way; /* static */
	char *ns, *pod, *user;
	usec started;
	enum session_state state;
	struct held *held; /* NULL: nobody was asked */
	struct access_question question;
	struct access_permit permit; /* the attachment is our own */
	struct err *refusal;
	struct deferred late; /* an answer that did not come at once */
	struct audit_wait recorded;
	struct timer *input_deadline; /* NULL: its input is not waited for */
	bool was_full;
};

/*
 * What a session is for, as its caller said it. One of the three is set.
 */
struct errand {
	const char *way, *sub; /* of access_ask; of the audit record */
	const struct access_exec_spec *exec;
	const struct access_log_spec *logs;
	const struct access_dial_spec *dial;
};
const struct access_target *errand_to(const struct errand *e);

/*
 * A session that is not let in yet, or not known to be: a copy of its errand, and what its client
 * has sent so far.
 */
struct held {
	struct arena *arena;
	struct errand errand;
	struct buf input;
	struct buf said; /* by the policy, and not yet passed on */
	bool ended;      /* the input */
	bool for_input;  /* the policy wants to know all of it first */
	bool paused;     /* the output */
	uint16_t cols, rows;
};
struct held *held_new(const struct errand *e);
void held_free(struct held *h);
AUTOPTR(held)
