/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;
struct bytes;

/*
 * JSON trees over yyjson. A json_doc owns memory; every struct json lives in one doc and is freed
 * with it. Functions that build take the doc that owns the tree they change. A value is in at most
 * one place in a tree: to use it again, json_copy() or json_lend() it. Functions that read accept
 * NULL and treat it as an absent value.
 *
 * Objects keep the order of their members. A doc must not be used by two threads, except that once
 * nobody changes it any more, all may read it.
 */
struct json_doc;
struct json;
struct json_iter;

enum json_type {
	JSON_NONE, /* no value: a NULL pointer */
	JSON_NULL,
	JSON_BOOL,
	JSON_INT, /* fits int64 or uint64 */
	JSON_REAL,
	JSON_STR,
	JSON_ARR,
	JSON_OBJ,
	JSON_TYPE_MAX_,
};

struct json_limits {
	size_t max_len;     /* bytes of text; 0 means 16 MiB */
	unsigned max_depth; /* 0 means 256 */
	/* Not NULL: a member that appears twice stays in the tree, in its place, and *duplicates
	 * tells whether there is any. For a reader that settles them before anybody else looks. */
	bool *duplicates;
};

struct json_doc *json_doc_new(void);
void json_doc_free(struct json_doc *d);
AUTOPTR(json_doc)
struct json *json_root(const struct json_doc *d); /* NULL until set */
void json_set_root(struct json_doc *d, struct json *v);
size_t json_doc_mem(const struct json_doc *d); /* roughly how many bytes it holds, shared or not */

/*
 * Strict RFC 8259. ERR_MALFORMED gives the line and column; a duplicate member (unless limits say
 * otherwise) or U+0000 in a string is ERR_MALFORMED too. More than max_len bytes is ERR_TOO_LARGE.
 */
must_use struct err *json_parse(const char *text, size_t len, const struct json_limits *limits,
				struct json_doc **ret);
void json_write(const struct json *v, struct buf *out);        /* compact */
void json_write_pretty(const struct json *v, struct buf *out); /* indented by two spaces */
struct bytes *json_to_bytes(const struct json *v);
char *json_to_text(const struct json *v); /* malloc'd */

/* Reading */
enum json_type json_type(const struct json *v);
const char *json_type_name(enum json_type t); /* "string", the name used in error texts */
bool json_is(const struct json *v, enum json_type t);
struct json *json_get(const struct json *obj, const char *key);
/*
 * json_at_path(o, "status.podIP"): dots separate members; list elements are given by number. For
 * keys that contain dots, use json_get().
 */
struct json *json_at_path(const struct json *v, const char *path);
struct json *json_at(const struct json *arr, size_t i);
size_t json_len(const struct json *v);      /* members or elements; 0 for anything else */
const char *json_str(const struct json *v); /* NULL unless a string */
size_t json_str_len(const struct json *v);
/* A real without a fraction counts too. */
int64_t json_int(const struct json *v, int64_t otherwise);
double json_real(const struct json *v, double otherwise);
bool json_bool(const struct json *v, bool otherwise);
/* Shorthands for the value of a member. */
const char *json_get_str(const struct json *obj, const char *key); /* NULL unless a string */
int64_t json_get_int(const struct json *obj, const char *key, int64_t otherwise);
bool json_get_bool(const struct json *obj, const char *key, bool otherwise);
/* Equal as JSON: the order of members does not matter, and 1 equals 1.0. NULL equals only NULL. */
bool json_equal(const struct json *a, const struct json *b);

struct json_iter {
	const struct json *of;
	size_t i, n;
	void *pos;       /* private to json/ */
	const char *key; /* NULL in lists */
	struct json *val;
};
bool json_next(struct json_iter *it);
/*
 * Iterates over an object or a list. The body may change the inside of a value, but must not add to
 * or remove from `v`.
 */
#define json_each(it, v) for (struct json_iter it = { .of = (v) }; json_next(&it);)

/* Building */
struct json *json_obj(struct json_doc *d);
struct json *json_arr(struct json_doc *d);
struct json *json_new_null(struct json_doc *d);
struct json *json_new_bool(struct json_doc *d, bool b);
struct json *json_new_int(struct json_doc *d, int64_t i);
struct json *json_new_real(struct json_doc *d, double r);
struct json *json_new_str(struct json_doc *d, const char *s); /* copies s; NULL becomes null */
struct json *json_new_strn(struct json_doc *d, const char *s, size_t len);
struct json *json_new_strf(struct json_doc *d, const char *fmt, ...) printf_like(2, 3);
/* Deep, from any doc; NULL stays NULL. */
struct json *json_copy(struct json_doc *d, const struct json *v);

/*
 * Sharing. A frozen doc never changes again, so its contents may be lent to other docs: they cost
 * nothing there until they are changed. Whoever changes what is inside a tree that may have been
 * lent goes down from its root by json_own(); changing a frozen value is a bug (assert).
 */
/* The same tree, whose root is an object (assert), without what editing has left behind. Takes d
 * over. */
struct json_doc *json_freeze(struct json_doc *d);
/*
 * A shelf makes docs share what is equal in them: the values that one member of their roots had
 * lately. For one thread; NULL does nothing. Docs may outlive it.
 */
struct json_shelf;
struct json_shelf *json_shelf_new(const char *member); /* borrowed */
void json_shelf_free(struct json_shelf *s);
struct json_doc *json_freeze_shelved(struct json_doc *d, struct json_shelf *shelf);
/* The value v of `from` for use in d. Copied, unless `from` is frozen; NULL stays NULL. */
struct json *json_lend(struct json_doc *d, struct json_doc *from, const struct json *v);
/* A new doc whose root is the root of `from`, lent and owned. */
struct json_doc *json_branch(struct json_doc *from);
/* Makes the members of v d's own, so that they can be changed, and those inside them owned. Returns
 * v, which may be NULL or a scalar. */
struct json *json_own(struct json_doc *d, struct json *v);
struct json *json_own_all(struct json_doc *d, struct json *v); /* at every depth */
/* Moves v from another doc, which is taken over and stays until d ends. Returns v. */
struct json *json_move(struct json_doc *d, struct json_doc *from, struct json *v);
/*
 * Called for each step of *it with the same *was, which begins as an iterator over an earlier state
 * of what *it goes over: what was there then in the place of it->val. NULL: nothing, or it is so
 * far from where it could be expected that it was not found.
 */
struct json *json_follow(struct json_iter *was, const struct json_iter *it);
/* Equal at a glance: text, members and elements are not only alike but the very same in memory. */
bool json_same(const struct json *a, const struct json *b);

/* Replaces a member in place or adds it at the end. A NULL val removes it. Returns val. */
struct json *json_set(struct json_doc *d, struct json *obj, const char *key, struct json *val);
/* Adds a member that obj does not have, without searching for it. */
void json_add(struct json_doc *d, struct json *obj, const char *key, struct json *val);
/* A NULL s removes the member. */
void json_set_str(struct json_doc *d, struct json *obj, const char *key, const char *s);
void json_set_int(struct json_doc *d, struct json *obj, const char *key, int64_t i);
void json_set_bool(struct json_doc *d, struct json *obj, const char *key, bool b);
bool json_del(struct json *obj, const char *key); /* of an object that is owned */
/* The member, owned, if it is an object (or a list); otherwise a new one is put there. */
struct json *json_need_obj(struct json_doc *d, struct json *obj, const char *key);
struct json *json_need_arr(struct json_doc *d, struct json *obj, const char *key);
void json_push(struct json_doc *d, struct json *arr, struct json *val);
void json_push_str(struct json_doc *d, struct json *arr, const char *s);
void json_insert(struct json_doc *d, struct json *arr, size_t i, struct json *val);
void json_remove(struct json *arr, size_t i); /* of a list that is owned */
void json_clear(struct json *v);              /* removes all members or elements */
