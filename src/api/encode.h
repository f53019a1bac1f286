/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct json;
struct type;

/*
 * The way out in Kubernetes' protobuf: the tree of a built-in kind becomes the bytes that Go writes
 * for the same object. decode.h is the way in.
 *
 *   object  "k8s\0" Unknown { 1: TypeMeta { 1: apiVersion, 2: kind }, 2: message, 3: "", 4: "" }
 *   list    the same, around { 1: ListMeta, 2: message, 2: message, ... }
 *   event   length (4 bytes, big-endian) { 1: type, 2: { 1: object } }
 */
#define ENCODE_PROTOBUF "application/vnd.kubernetes.protobuf"

bool encode_has_protobuf(const struct type *t); /* built-in kinds do, custom resources do not */
extern const struct type *const encode_status;  /* meta/v1 Status */
extern const struct type *const encode_partial; /* PartialObjectMetadata: the metadata alone */

/* What an object is called on the wire. */
struct encode_name {
	const char *api_version, *kind;
};
void encode_object(const struct encode_name *name, const struct json *v, const struct type *t,
		   struct buf *out);

/* Lists in pieces: the head, every item, the tail. The head comes with the length of all items, as
 * encode_item() writes them, because the length of the whole is at its beginning. */
struct encode_list {
	struct encode_name name;
	uint64_t rev;
	const char *next;  /* the continue token; NULL: this is the end */
	int64_t remaining; /* -1: not told */
};
void encode_list_head(const struct encode_list *l, size_t items_len, struct buf *out);
void encode_item(const struct json *v, const struct type *t, struct buf *out);
size_t encode_item_len(size_t message_len); /* of an item with a message of that length */
void encode_message(const struct json *v, const struct type *t, struct buf *out);
void encode_list_tail(struct buf *out);

/* A frame of a watch. The object is what out holds from `at` on, written by encode_object(). */
void encode_event(const char *type, size_t at, struct buf *out);
