/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "client/client.h"
#include "control/pass/item.h"

struct context;
struct json_doc;
struct trace_span;

/*
 * One pass over one key, and the writes it starts.
 *
 * A write may end before the call returns (in one process) or later (over HTTP). A pass that has
 * started any that matter stops there (again_wait()); when the last of them has ended, the key runs
 * again and sees their effects in the cache and their errors in out[]. A write that failed rests in
 * that pass: it is not started again before the pause that again_retry() causes.
 */
struct pass {
	struct context *c;
	void *own; /* what the key's controller keeps between passes; NULL: nothing */
	struct item *item;
	const struct key *key;
	usec now;
	struct outcome out[WRITES_MAX]; /* of the writes that the last pass started, by name */
	bool started;
	struct trace_span *span; /* of the pass; NULL: none is made */
};

enum {
	WRITE_QUIET = 1,       /* neither its success nor the change it makes wakes the key */
	WRITE_GONE_OK = 2,     /* ERR_NOT_FOUND counts as success */
	WRITE_CONFLICT_OK = 4, /* so does ERR_CONFLICT: the other's change will wake us */
};

struct write {
	unsigned name; /* of the controller's enum of writes */
	struct client_ref to;
	const char *what;       /* put before the text of its error; NULL: nothing */
	struct json_doc *event; /* sent if the write works; taken over */
	unsigned flags;
	/* Called when the write has taken effect, not when a flag lets a failure count as success.
	 * NULL: nobody wants to know. */
	void (*worked)(struct context *c, void *arg);
	void *arg; /* taken over: drop_arg() frees it in any case */
	void (*drop_arg)(void *arg);
};

void pass_begin(struct pass *p, struct context *c, struct item *it, void *own);
void pass_end(struct pass *p);
bool pass_rests(const struct pass *p, unsigned write);
/* For a watch: o changes because the key's own pass is writing it quietly. Only in one process are
 * changes seen from within the write. */
bool pass_tells(const struct context *c, enum control_kind kind, const struct object *o);
struct client_ref ref_of(const struct object *o); /* o must outlive it */

/* The doc is taken over. Patches are merge patches. */
void pass_create(struct pass *p, const struct write *w, struct json_doc *doc);
void pass_update(struct pass *p, const struct write *w, struct json_doc *doc);
void pass_patch(struct pass *p, const struct write *w, struct json_doc *doc);
void pass_delete(struct pass *p, const struct write *w, const struct client_delete_spec *spec);
/* Deletes the object with this uid, and no other that has its name by now. */
void pass_delete_uid(struct pass *p, const struct write *w, const char *uid);

/* Stops waiting for the writes under way: the controllers are being freed. */
void pass_forget_all(struct context *c);

/* The error of the last pass's first write (by name) that failed, owned by the caller; NULL when
 * all succeeded. */
struct err *pass_take_error(struct pass *p);
