/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "control/item_priv.h"

struct client_delete_spec;
struct control;
struct json_doc;
struct kind;
struct object;

/*
 * One pass over one key, and the writes it starts.
 *
 * A write may end before the call returns (in one process) or later (over HTTP). A pass that has
 * started any that matter stops there (again_wait()); when the last of them has ended, the key runs
 * again and sees their effects in the cache and their errors in out[]. A slot with an error rests
 * in that pass: nothing is tried twice without the pause that again_retry() brings.
 */
struct pass {
	struct control *c;
	struct item *item;
	const struct key *key;
	usec now;
	struct outcome out[SLOT_MAX_]; /* of the writes that the last pass started */
	bool started;
};

enum {
	WRITE_QUIET = 1,       /* its success wakes nobody */
	WRITE_GONE_OK = 2,     /* ERR_NOT_FOUND counts as success */
	WRITE_CONFLICT_OK = 4, /* ERR_CONFLICT too: somebody else's change will wake us */
};

struct write {
	enum slot slot;
	const struct kind *kind;
	const char *ns, *name;
	const char *sub;        /* NULL, "status" or "finalize" */
	const char *what;       /* put before the error's text; NULL: nothing */
	struct json_doc *event; /* sent when the write worked; taken over */
	unsigned flags;
};

void pass_begin(struct pass *p, struct control *c, struct item *it);
void pass_end(struct pass *p);
bool pass_rests(const struct pass *p, enum slot slot);

/* The doc is taken over. All patches are merge patches. */
void pass_create(struct pass *p, const struct write *w, struct json_doc *doc);
void pass_update(struct pass *p, const struct write *w, struct json_doc *doc);
void pass_patch(struct pass *p, const struct write *w, struct json_doc *doc);
void pass_delete(struct pass *p, const struct write *w, const struct client_delete_spec *spec);

/* Cancels the waits for all writes under way, because the controllers are being freed. */
void pass_forget_all(struct control *c);

/* The first error of the last writes, handed over; NULL when all went well. */
struct err *pass_take_error(struct pass *p);
