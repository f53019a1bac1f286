/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/str.h"
#include "loop/loop.h"
#include "store/store.h"
#include "test.h"

/* A store on a loop of its own, in memory or in a directory that is removed with it. */
struct fixture {
	struct loop *loop;
	struct store *store;
	char dir[64], path[96];
};

static inline struct err *fixture_open(struct fixture *f, const struct store_spec *like)
{
	struct store_spec spec = like ? *like : (struct store_spec){ 0 };

	spec.path = *f->path ? f->path : ":memory:";
	return store_open(f->loop, &spec, &f->store);
}

static inline void fixture_init(struct fixture *f, bool on_disk)
{
	*f = (struct fixture){ 0 };
	works(loop_new(&f->loop));
	if (on_disk) {
		(void)snprintf(f->dir, sizeof(f->dir), "/tmp/cay-store-XXXXXX");
		is_true(mkdtemp(f->dir) != NULL);
		(void)snprintf(f->path, sizeof(f->path), "%s/store.db", f->dir);
	}
}

static inline void fixture_close(struct fixture *f)
{
	store_free(f->store);
	f->store = NULL;
}

static inline void fixture_done(struct fixture *f)
{
	fixture_close(f);
	(void)loop_turn(f->loop, 0); /* lets closed handles go */
	loop_free(f->loop);
	if (*f->dir)
		works(file_remove_tree(-100 /* AT_FDCWD */, f->dir));
}

static inline struct err *put(struct store *s, const char *key, const char *value, uint64_t if_rev)
{
	autoptr(bytes) b = bytes_new(value, strlen(value));

	return store_put(s, key, b, NULL, if_rev);
}

static inline struct err *del(struct store *s, const char *key, uint64_t if_rev)
{
	autoptr(bytes) b = bytes_new("gone", 4);

	return store_delete(s, key, b, NULL, if_rev);
}

struct synced {
	bool called;
	struct err *e;
};
static inline void on_synced(void *arg, struct err *e)
{
	struct synced *s = arg;

	s->called = true;
	s->e = e;
}

/* Runs the loop until everything is durable (or known not to be). */
static inline struct err *sync_now(struct fixture *f)
{
	struct synced s = { 0 };

	store_sync(f->store, on_synced, &s);
	while (!s.called)
		(void)loop_turn(f->loop, 1000);
	return s.e;
}

static inline const char *value_of(struct store *s, const char *key)
{
	struct store_entry *e = store_get(s, key);

	return e ? e->value->data : NULL;
}
