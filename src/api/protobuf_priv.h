/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Protobuf as it is on the wire: a run of items, each with a number, a wire type and a value. What
 * they mean is for others to say. False: the bytes are cut off or not well-formed.
 */
enum pb_wire {
	PB_VARINT = 0,
	PB_I64 = 1,
	PB_LEN = 2,
	PB_GROUP = 3, /* its members follow, up to PB_GROUP_END */
	PB_GROUP_END = 4,
	PB_I32 = 5,
};

enum {
	PB_VARINT_MAX = 10, /* bytes */
};

struct pb_reader {
	const unsigned char *p, *end;
};

struct pb_item {
	uint64_t number;
	enum pb_wire wire;
	uint64_t n;             /* PB_VARINT, PB_I64, PB_I32 */
	struct pb_reader bytes; /* PB_LEN */
};

bool pb_item(struct pb_reader *r, struct pb_item *it);
/* What belongs to an item that nobody wants: of a group, everything up to its end. */
bool pb_skip(struct pb_reader *r, const struct pb_item *it);
bool pb_varint(struct pb_reader *r, uint64_t *ret);
bool pb_fixed(struct pb_reader *r, size_t size, uint64_t *ret);
size_t pb_varint_write(unsigned char to[PB_VARINT_MAX], uint64_t n); /* the number of bytes */

/*
 * Messages with few members, which are no objects in JSON: the numbers and the bytes under 1 to 3.
 * An absent one is zero. wires has the wire type of each number that is known: "02" is a number and
 * a text.
 */
struct pb_parts {
	int64_t n[4];
	struct pb_reader bytes[4];
};
bool pb_parts(struct pb_reader r, const char *wires, struct pb_parts *ret);
