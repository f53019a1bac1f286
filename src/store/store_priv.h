/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "store/store.h"

struct disk;
struct map;
struct tree;
struct watch;
struct writer;

/*
 * What one transaction writes: the last state of every key that changed, in the order in which they
 * first did, and the newest revision. A key that was deleted and then created anew is in it twice.
 */
struct batch_op {
	struct store_entry *entry; /* a reference */
	bool deleted;
};
struct batch {
	struct batch_op *ops;
	size_t n, cap;
	uint64_t rev;
};

/* meter.c: what commits cost. */
struct meter;
struct meter *meter_new(void);
void meter_free(struct meter *m);
void meter_commit(struct meter *m, usec took, size_t n_rows);

/* reserve.c: head-room for a full disk, next to the file. */
struct reserve {
	char *path, *log;
	uint64_t bytes; /* of each of the two parts; 0: no head-room */
};
void reserve_init(struct reserve *r, const char *path, uint64_t bytes);
void reserve_done(struct reserve *r);
bool reserve_make(struct reserve *r);    /* true if all of it is there */
bool reserve_release(struct reserve *r); /* true if that freed space */

/* disk.c: the SQLite file. For one thread at a time. */
must_use struct err *disk_open(const struct store_spec *spec, struct disk **ret);
uint64_t disk_id(const struct disk *d);
struct disk_row {
	const char *key;
	uint64_t rev, create_rev;
	struct bytes *value; /* borrowed */
};
must_use struct err *disk_load(struct disk *d,
			       struct err *(*fn)(void *arg, const struct disk_row *row), void *arg,
			       uint64_t *ret_rev);
/* On a full disk the head-room is used up for it. */
must_use struct err *disk_commit(struct disk *d, const struct batch *b);
/*
 * Moves the write-ahead log into the file if it is long; pressing: only if it is very long. Makes
 * used head-room again once there is space.
 */
void disk_tidy(struct disk *d, bool pressing);
bool disk_short(const struct disk *d); /* it lives on its head-room: call disk_tidy() often */
void disk_free(struct disk *d);
AUTOPTR(disk)

/* writer.c: the thread that commits. report() is called on the loop. */
struct writer_report {
	bool done;         /* the batch is on disk */
	struct err *e;     /* it is not, and is being retried; the callee owns e */
	unsigned failures; /* attempts that failed since the last report */
	usec took;         /* of the attempt that worked */
	bool short_of_space;
};
must_use struct err *writer_start(struct loop *l, struct disk *d,
				  void (*report)(void *arg, struct writer_report r), void *arg,
				  struct writer **ret);
/* b still belongs to the caller and must not change until it is reported on. One at a time. */
void writer_give(struct writer *w, const struct batch *b);
/* Blocks until there is a report on the batch that was given. */
void writer_wait(struct writer *w);
/* Ends the thread after one more attempt at the batch it is working on. NULL if that is on disk. */
struct err *writer_stop(struct writer *w);
void writer_free(struct writer *w);
AUTOPTR(writer)

/* store.c */
struct store_sync_wait {
	struct list link;
	uint64_t rev;
	void (*fn)(void *arg, struct err *e);
	void *arg;
};
struct store_hook {
	struct list link;
	void (*fn)(void *arg, const struct store_event *ev);
	void *arg;
};

struct store {
	struct loop *loop;
	struct loop_flush *flush;
	struct disk *disk;
	struct writer *writer;
	const struct store_tags *tags;

	struct tree
		*live; /* key → struct store_entry, a reference; the keys are the entries' own */
	struct map *by_key; /* the same entries, borrowed: most lookups want one key */
	uint64_t rev, committed, id;

	/* The events base+1 … rev, each at ring[rev % ring_cap]. */
	struct store_event *ring;
	size_t ring_cap;
	uint64_t base, cooled; /* the newest event whose tags were looked at */
	size_t history_bytes, max_history_bytes;

	struct batch batches[2]; /* one is gathered while the other is being committed */
	unsigned gathering;      /* index of the one being gathered */
	bool in_flight;
	struct err *broken; /* why the store is read-only: the last commit failed; or NULL */
	bool short_of_space;
	void (*state_changed)(void *arg);
	void *state_arg;

	struct list hooks, syncs;
	struct list views;   /* struct store_view */
	struct map *counts;  /* prefix, up to and with a '/' → number of live keys, as a pointer */
	struct map *watched; /* prefix → struct watch_group */
	size_t n_watches;
	struct store_stats stats;
	struct meter *meter;
};

static inline struct store_event *store_slot(const struct store *s, uint64_t rev)
{
	return &s->ring[rev % s->ring_cap];
}
/* True if prefix (see struct store_watch) covers key. */
bool store_prefix_means(const char *prefix, const char *key);

void store_entry_drop_tag(struct store_entry *e);

/* history.c: the ring. */
void history_init(struct store *s, const struct store_spec *spec);
void history_done(struct store *s);
/* Takes over the references of the event, whose revision becomes the newest. */
void history_add(struct store *s, const struct store_event *ev);

/* view.c: an event was recorded, and a key came (1) or went (-1). */
void store_views_note(struct store *s, const struct store_event *ev);
void store_count_change(struct store *s, const char *key, int change);

/* watch.c: the events from+1 … to have become durable. */
void store_watches_wake(struct store *s, uint64_t from, uint64_t to);
