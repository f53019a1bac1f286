/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"

struct admit;
struct call;
struct loop;
struct objects;

/* POSTs that wait for the object to be Ready. */
struct waiters {
	const struct objects *objects;
	struct loop *loop;
	struct list list; /* struct waiter */
};
void waiters_init(struct waiters *ws, const struct objects *objects, struct loop *l);
void waiters_done(struct waiters *ws);

/* Answer a call, errors at once and success after the commit. */
void write_create(struct admit *a, struct waiters *ws, struct call *c);
void write_update(struct admit *a, struct call *c);
void write_patch(struct admit *a, struct call *c);
void write_evict(struct admit *a, struct call *c); /* pods/eviction */
void write_delete(struct admit *a, struct call *c);
void write_delete_collection(struct admit *a, struct call *c);
void write_scale(struct admit *a, struct call *c); /* reads it too */
