/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct arena;
struct json;
struct json_doc;

/*
 * C structs as JSON, described by a table. The same rows write and read, so that the two cannot
 * drift apart. This is for our own files and messages, not for foreign documents.
 *
 *   struct point { int64_t x; const char *label; };
 *   static const struct record_field point_fields[] = {
 *   	RECORD(struct point, x, RECORD_INT64),
 *   	RECORD(struct point, label, RECORD_STR),
 *   	{ 0 },
 *   };
 *
 * NULL strings and lists, zeroes and false are left out when writing; an absent member is read as
 * one of these. Unknown members are ignored, so that an older program can read what a newer one
 * wrote.
 */
enum record_type {
	RECORD_STR,    /* const char * */
	RECORD_STRS,   /* const char **, ends with NULL */
	RECORD_BOOL,   /* bool */
	RECORD_INT,    /* int */
	RECORD_UINT,   /* unsigned */
	RECORD_UINT32, /* uint32_t */
	RECORD_INT64,  /* int64_t */
	RECORD_OBJECT, /* an embedded struct with a table of its own */
	RECORD_LIST,   /* struct x *, with the number of elements in a size_t */
	RECORD_TYPE_MAX_,
};

struct record_field {
	const char *name; /* NULL ends a table */
	enum record_type type;
	size_t at;
	const struct record_field *of; /* OBJECT, LIST */
	size_t size, count_at;         /* LIST: size of an element; offset of their number */
};

#define RECORD(s, member, type_) { .name = #member, .type = (type_), .at = offsetof(s, member) }
#define RECORD_IN(s, member, fields) \
	{ .name = #member, .type = RECORD_OBJECT, .at = offsetof(s, member), .of = (fields) }
#define RECORD_MANY(s, member, n_member, fields) \
	{ .name = #member,                       \
	  .type = RECORD_LIST,                   \
	  .at = offsetof(s, member),             \
	  .of = (fields),                        \
	  .size = sizeof(*((s *)0)->member),     \
	  .count_at = offsetof(s, n_member) }

struct json *record_write(struct json_doc *d, const struct record_field *fields, const void *from);
/*
 * Everything that *ret points to is in the arena. ERR_MALFORMED names the member whose value has
 * the wrong type or does not fit; in that case ret contains only zeroes and what was read so far.
 */
must_use struct err *record_read(const struct json *v, const struct record_field *fields,
				 struct arena *a, void *ret);
