/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct arena;

/*
 * Messages of Protocol Buffers, as far as the runtime's gRPC services need them. A message is a
 * table of its fields: decoding and the descriptions for server reflection both follow it. Answers
 * are so small that they are written field by field.
 */
enum pb_type {
	PB_INT32,    /* int32_t */
	PB_UINT32,   /* uint32_t */
	PB_BOOL,     /* bool */
	PB_ENUM,     /* int32_t */
	PB_STRING,   /* char *: UTF-8 without NUL; NULL if it is absent */
	PB_BYTES,    /* struct span, into the encoded message */
	PB_MESSAGE,  /* its struct */
	PB_STRINGS,  /* struct pb_strings: repeated string */
	PB_MAP,      /* struct pb_strings: map<string, string>, each name followed by its value */
	PB_BLOBS,    /* repeated bytes; for descriptions only */
	PB_MESSAGES, /* repeated message; likewise */
	PB_TYPE_MAX_,
};

enum {
	PB_LIST_MAX = 65536, /* entries of a repeated field */
	PB_UNSEEN = 0xffff,
};

struct pb_enum {
	const char *name;
	struct pb_value {
		const char *name; /* NULL: the list ends */
		int32_t number;
	} values[8];
};

struct pb_field {
	const char *name; /* NULL: the table ends */
	uint32_t number;
	enum pb_type type;
	uint16_t at;       /* where in the struct */
	uint16_t seen;     /* where its number is noted when it occurs, a uint32_t; or PB_UNSEEN */
	const char *oneof; /* the members of one have the same `seen`; NULL: none */
	bool optional;     /* its absence has a meaning */
	const struct pb_message *of;  /* PB_MESSAGE, PB_MESSAGES */
	const struct pb_enum *values; /* PB_ENUM */
};

struct pb_message {
	const char *name;              /* without its package, unless it begins with a dot */
	size_t size;                   /* of the struct; 0: it is never decoded */
	const struct pb_field *fields; /* NULL: none */
};

struct pb_strings {
	char **list;
	size_t n, space;
};

/*
 * Fills in *ret, which is zero: a message of m. Strings and lists are in a, bytes in data. Unknown
 * fields are passed over. ERR_MALFORMED: it cannot be read. ERR_INVALID: text with a NUL.
 * ERR_TOO_LARGE: a list of more than PB_LIST_MAX.
 */
must_use struct err *pb_decode(const struct pb_message *m, struct span data, struct arena *a,
			       void *ret);

void pb_put_varint(struct buf *out, uint64_t v);
void pb_put_int(struct buf *out, uint32_t number, int64_t v); /* nothing if it is 0 */
void pb_put_text(struct buf *out, uint32_t number, const char *s);
void pb_put_bytes(struct buf *out, uint32_t number, const void *p, size_t len);
/* What precedes len bytes that the caller adds itself. */
void pb_put_head(struct buf *out, uint32_t number, size_t len);
