/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "client/access.h"
#include "oversight/machine_priv.h"
#include "oversight/oversight.h"

struct audit_verify;
struct timer;

/* Somebody who asked, from the head of the request to the end of its answer. */
struct visitor {
	struct list on;
	struct oversight *o;
	struct http_request *req; /* NULL: it was answered, or the client has left */
	struct access_target who; /* copies, without a Pod */
	struct timer *end; /* of their credential; NULL: it has none, or it does not matter */
	void (*over)(struct visitor *v);
};
void visitor_init(struct visitor *v, struct oversight *o, struct http_request *req,
		  const struct access_target *who);
void visitor_done(struct visitor *v);
/* over() is called when the credential has ended that they asked with. */
void visitor_on_end(struct visitor *v, void (*over)(struct visitor *v));
/* ERR_UNAUTHENTICATED: it has. */
must_use struct err *visitor_check_end(const struct visitor *v);
void visitor_begin(struct visitor *v, const char *type); /* an answer in pieces */

struct oversight {
	struct loop *loop;
	struct oversight_spec spec;
	bool ending;
	unsigned n_jobs; /* under way, those of the audit log that are ours among them */

	/* audit.c */
	struct list readings; /* struct reading */
	size_t n_answers, n_followers;
	struct audit_listener listener;

	/* verify.c */
	struct list waiting; /* struct waiter */
	size_t n_waiting;
	struct audit_look look;
	struct audit_verify *verify; /* while it runs */
	bool verifying, verified;    /* verified: the job says that it is over */
	struct err *verify_err;
	usec verify_began, verify_ended; /* monotonic */
	usec verify_since;               /* wall clock */
	uint64_t verify_bytes, verify_of;
	char *verdict; /* the last one */

	/* overview.c */
	struct list streams; /* struct overview */
	size_t n_streams;
	struct timer *tick;
	unsigned n_ticks;
	uint64_t n_changes;
	struct machine machine;
	usec machine_at; /* monotonic; 0: never */
	bool measuring, tell_all;
};

void audit_visit(struct oversight *o, struct http_request *req, const struct access_target *who);
void audit_done(struct oversight *o);
void verify_visit(struct oversight *o, struct http_request *req, const struct access_target *who);
void verify_done(struct oversight *o);
void overview_visit(struct oversight *o, struct http_request *req, const struct access_target *who);
void overview_done(struct oversight *o);

/*
 * query.c: parameters. ERR_MALFORMED names the one that is wrong. One that is empty is absent.
 */
must_use struct err *query_check(const char *query, const char *const *known);
must_use struct err *query_bool(const char *query, const char *name, bool *ret);
must_use struct err *query_uint(const char *query, const char *name, uint64_t max, uint64_t *ret,
				bool *ret_given);
must_use struct err *query_time(const char *query, const char *name, usec now, usec *ret);
char *query_text(const char *query, const char *name); /* malloc'd; NULL: absent */
