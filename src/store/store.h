/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;
struct bytes;
struct loop;

/*
 * The store: every object as bytes under a key, in one order of revisions. All of it is in memory,
 * and every commit goes to one SQLite file (WAL, synchronous=FULL). It knows no kinds.
 *
 * A write takes effect in memory at once and is durable after the group commit that the end of the
 * loop's turn starts on the writer thread. Whoever answers the outside waits for store_sync().
 * Watches see committed events only; followers (store_on_change()) see them at once. All functions
 * must be called on the loop's thread. A revision that was handed out (that is, committed) is never
 * used again.
 *
 * If a commit fails (I/O error), the store becomes read-only: later writes fail with
 * ERR_UNAVAILABLE, waiting syncs get ERR_UNCERTAIN, and the writer retries the same batch until it
 * succeeds. A full disk is not that bad at first: commits continue in head-room that the store
 * keeps allocated, and whoever writes is expected to write only what makes space (store_state()).
 */
struct store;
struct tree_place;

/*
 * One object at one revision, reference-counted. It is immutable except for the tag: the decoded
 * form, owned by the entry, which past states lose after a while, and live ones too if their tag is
 * seldom read (then it is NULL: decode the value).
 */
struct store_entry {
	unsigned refs;
	unsigned op;         /* its position in the batch that it was last part of */
	uint64_t rev;        /* of this state */
	uint64_t create_rev; /* of the state that created the key */
	struct bytes *value;
	void *tag;
	const struct store_tags *tags;
	struct tree_place *place; /* of the key among the live ones, if this state is live */
	char key[];
};
struct store_entry *store_entry_ref(struct store_entry *e);
void store_entry_unref(struct store_entry *e);
AUTOREF(store_entry)

/* What the store needs to know about tags. It outlives every entry. */
struct store_tags {
	/* Decodes a value read at startup; the result becomes the entry's tag. NULL: none does. */
	struct err *(*decode)(void *arg, const char *key, struct bytes *value, uint64_t rev,
			      void **ret_tag);
	void (*free)(void *tag);
	size_t (*bytes)(const void *tag); /* the memory it takes, besides the value; NULL: none */
	/* Is it read so seldom that the value alone will do? NULL: none is. */
	bool (*seldom)(const void *tag);
};

struct store_spec {
	const char *path;              /* the SQLite file; ":memory:" for tests */
	uint64_t reserve;              /* bytes of head-room for a full disk; 0: none */
	bool accept_damaged_log;       /* go on without the commits after the damage */
	size_t max_history;            /* events kept for watches; 0 means 16384 */
	size_t max_history_bytes;      /* memory of past states, all in; 0 means 8 MiB */
	const struct store_tags *tags; /* NULL: no tags */
	void *arg;                     /* for tags->decode() */
};
must_use struct err *store_open(struct loop *l, const struct store_spec *spec, struct store **ret);
void store_free(struct store *s); /* commits pending writes first */
AUTOPTR(store)

uint64_t store_rev(const struct store *s); /* the newest, committed or not */
uint64_t store_committed_rev(const struct store *s);
uint64_t store_oldest_rev(const struct store *s); /* watches from earlier revisions get ERR_GONE */
size_t store_len(const struct store *s);
/* A random number that the file got when it was created; 0: it has none yet. */
uint64_t store_id(const struct store *s);

enum store_state {
	STORE_WRITABLE,
	STORE_SHORT,     /* the disk is full: write only what ends objects or makes them smaller */
	STORE_READ_ONLY, /* a commit failed, and none has succeeded since; writes are refused */
	STORE_STATE_MAX_,
};
enum store_state store_state(const struct store *s);
const char *store_trouble(const struct store *s); /* why it is not writable; "" if it is */
void store_on_state(struct store *s, void (*changed)(void *arg), void *arg); /* one at most */

/* Borrowed until the next write; NULL if there is no such key. */
struct store_entry *store_get(const struct store *s, const char *key);
/*
 * The first entry whose key is > after and starts with prefix (after NULL: the first of all); NULL
 * at the end.
 */
struct store_entry *store_next(const struct store *s, const char *prefix, const char *after);

#define STORE_ANY UINT64_MAX
/*
 * The next revision is store_rev() + 1, so that a value can contain its own. Takes a reference to
 * value and ownership of tag (on failure too). if_rev: 0 means that the key must not exist
 * (ERR_EXISTS) and STORE_ANY any state; otherwise ERR_CONFLICT unless the key is at that revision.
 */
must_use struct err *store_put(struct store *s, const char *key, struct bytes *value, void *tag,
			       uint64_t if_rev);
/* value and tag are the last state as watches will show it, with the revision of the deletion. */
must_use struct err *store_delete(struct store *s, const char *key, struct bytes *value, void *tag,
				  uint64_t if_rev);

enum store_event_type {
	STORE_ADDED,
	STORE_MODIFIED,
	STORE_DELETED,
	STORE_EVENT_TYPE_MAX_,
};
struct store_event {
	enum store_event_type type;
	uint32_t held; /* bytes of past states that only the history keeps; private to store/ */
	struct store_entry *entry; /* for DELETED, the last state */
	struct store_entry *prev;  /* the state before; NULL for ADDED */
};

/* fn is called within each write, before it is durable: only for use in the same process. */
void store_on_change(struct store *s, void (*fn)(void *arg, const struct store_event *ev),
		     void *arg);
/*
 * Calls fn(arg, NULL) once everything written so far is durable, at once if it is already. With an
 * error (ERR_UNCERTAIN), which the callee owns, it is not durable yet and may still become so.
 */
void store_sync(struct store *s, void (*fn)(void *arg, struct err *e), void *arg);

/*
 * Commits pending writes and blocks until that has succeeded or failed. For startup, before the
 * loop runs.
 */
must_use struct err *store_commit_now(struct store *s);

/* How many keys start with prefix, which ends in '/'. Takes no time. */
size_t store_count(const struct store *s, const char *prefix);

/*
 * The state at one past revision that the history still reaches, or at the newest. Whoever answers
 * the outside reads at store_committed_rev() and need not wait. It stays as it is while others
 * write, until it is freed (before the store) or lost.
 */
struct store_view;
/*
 * prefix covers everything that will be read. ERR_GONE: older than the history; ERR_INVALID: in the
 * future.
 */
must_use struct err *store_view_new(struct store *s, const char *prefix, uint64_t rev,
				    struct store_view **ret);
struct store_entry *store_view_get(const struct store_view *v, const char *key);
struct store_entry *store_view_next(const struct store_view *v, const char *after);
size_t store_view_count(const struct store_view *v); /* of its prefix, which ends in '/' */
/* So much has changed since (8,192 keys or 16 MiB of their past) that it was given up: what it
 * returns is no longer the past. Ask after reading. */
bool store_view_lost(const struct store_view *v);
void store_view_free(struct store_view *v);
AUTOPTR(store_view)

/*
 * A watch pulls: its wake function says that there may be more, store_watch_next() gets the next
 * committed event. A watch has no queue of its own: one that falls behind the history gets
 * ERR_GONE. A prefix that ends in '/' (or is empty) means every key that starts with it, any other
 * prefix means that one key.
 */
struct store_watch;
struct store_wake {
	void (*fn)(void *arg);
	void *arg;
};
/* Watches events after from_rev. ERR_GONE: older than the history; ERR_INVALID: in the future. */
must_use struct err *store_watch_new(struct store *s, const char *prefix, uint64_t from_rev,
				     struct store_wake wake, struct store_watch **ret);
/* *ret_have is false if there is nothing now. The event is borrowed until the next call. */
must_use struct err *store_watch_next(struct store_watch *w, struct store_event *ret,
				      bool *ret_have);
/* Everything up to this revision was seen: for bookmarks. */
uint64_t store_watch_rev(const struct store_watch *w);
void store_watch_free(struct store_watch *w);
AUTOPTR(store_watch)

struct store_stats {
	uint64_t commits, rows, failed_commits;
	size_t pending, history;
	size_t history_bytes; /* that past states take */
};
void store_stats(const struct store *s, struct store_stats *ret);
void store_write_metrics(const struct store *s, struct buf *b); /* histograms of commits */

/*
 * The objects under prefix in a store file that another process may be serving, as of its last
 * commit. Nothing is changed. Values are borrowed.
 */
must_use struct err *store_peek(const char *path, const char *prefix,
				void (*fn)(void *arg, const char *key, struct bytes *value),
				void *arg);

/* A store file as a whole, from outside. None of these needs a loop, and each blocks. */
struct store_facts {
	uint64_t rev, id; /* id 0: it has none */
	unsigned schema;  /* the version of its tables */
	size_t objects;
};

/*
 * Copies a store file that another process may be serving to a new file, which has everything up to
 * one commit and nothing after it, and is whole. progress (may be NULL) gets pages.
 */
struct store_copy {
	const char *from, *to;
	void (*progress)(void *arg, uint64_t done, uint64_t all);
	void *arg;
};
must_use struct err *store_copy(const struct store_copy *c, struct store_facts *ret);
/*
 * Makes a copy, which nobody has open, fit to take the place of a store: its tables become those of
 * today, and its revision moves on by so many, beyond all that the store which it replaces can have
 * handed out.
 */
must_use struct err *store_adopt(const char *path, uint64_t skip, struct store_facts *ret);

/* Looks at every part of a store file, and changes nothing. Values are borrowed. */
struct store_inspector {
	/* Something is wrong: with the object of this key, or, if that is NULL, with the file. */
	void (*fault)(void *arg, const char *key, const char *text);
	void (*row)(void *arg, const char *key, uint64_t rev, struct bytes *value);
	void *arg;
	bool log; /* its write-ahead log too, which nobody may be writing then */
};
/* An error means that the file could not be looked at. */
must_use struct err *store_inspect(const char *path, const struct store_inspector *i,
				   struct store_facts *ret);
