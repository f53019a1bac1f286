/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct causes;
struct json;
struct json_doc;
struct kind;
struct type;

/*
 * The one way in: every body, whatever it was, becomes a tree of its type here, or an error in the
 * words of a kube-apiserver. After it, what a table calls a string is a string.
 *
 * A built-in kind is read as Go reads it into a struct and writes it again: wrong types are errors,
 * null is the zero value, and empties that Go's JSON omits are absent. A custom resource (a type
 * that is structural) is checked only in its metadata; the rest is pruned, and its types are for
 * schema_validate().
 */
enum decode_media {
	DECODE_JSON,
	DECODE_PROTOBUF,
	DECODE_TREE, /* what a patch made, or a program in this process */
};

struct decode_input {
	enum decode_media media;
	const char *text; /* the first two */
	size_t len;
	struct json_doc *tree; /* DECODE_TREE: taken over */
};

enum strictness {
	STRICTNESS_IGNORE,
	STRICTNESS_WARN,
	STRICTNESS_STRICT,
};

/* An object as one request carries it. */
struct decode_request {
	struct decode_input in;
	enum strictness strictness;
	void (*warn)(void *arg, const char *text); /* NULL: nobody wants to know */
	void *warn_arg;
	/* The tree is what a patch made: errors are ERR_INVALID and about the patch, with their
	 * details here. reports are what is odd about the patch itself. NULL: not patched. */
	struct causes *patch_causes;
	const struct causes *reports;
};

/* Bytes of a body, and how deeply it may be nested. */
enum {
	DECODE_LEN_MAX = 3 << 20,
	DECODE_DEPTH_MAX = 128,
};

/* reports (may be NULL) gets unknown and duplicate members as CAUSE_UNKNOWN, in Kubernetes' order.
 * ERR_MALFORMED: what is wrong; ERR_TOO_LARGE; ERR_MEDIA_TYPE: protobuf that the table lacks. */
must_use struct err *schema_decode(const struct type *t, const struct decode_input *in,
				   struct causes *reports, struct json_doc **ret);

/* A body that is no object: options, or one of these, which subresources take. It has an apiVersion
 * and a kind like any other; whether they are right is the caller's to say. */
must_use struct err *body_decode(const struct type *t, const struct decode_input *in,
				 struct json_doc **ret);
extern const struct type *const body_token_request, *const body_scale;

/* An object of kind k with its apiVersion and kind; what is odd goes where r says. */
must_use struct err *object_decode(const struct kind *k, const struct decode_request *r,
				   struct json_doc **ret);

/* A patch, of any JSON type: members that appear twice are reported and the last one stays. */
must_use struct err *patch_decode(const char *text, size_t len, bool is_json_patch,
				  struct causes *reports, struct json_doc **ret);

/*
 * The parameters of a URL as a tree of type t, which is one of the options of meta/v1: get answers
 * with the values of a name, one after the other, and NULL after the last.
 */
struct decode_query {
	const char *(*get)(void *arg, const char *name, size_t i);
	void *arg;
};
must_use struct err *schema_decode_query(const struct type *t, const struct decode_query *q,
					 struct json_doc **ret);
