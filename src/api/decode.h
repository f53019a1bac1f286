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
 * The only way in: every body, in whatever format, becomes a tree of its type here, or an error in
 * the words of a kube-apiserver. From then on, what a table calls a string is a string.
 *
 * The tree of a built-in kind is what Go writes after reading the body into a struct: wrong types
 * are errors, null is the zero value, and empty values that Go's JSON omits are absent. In a custom
 * resource (a structural type) only the metadata is checked; the rest is pruned, and its types are
 * left to schema_validate().
 */
enum decode_media {
	DECODE_JSON,
	DECODE_PROTOBUF,
	DECODE_YAML, /* one document */
	DECODE_TREE, /* made by a patch, or by code in this process */
};

struct decode_input {
	enum decode_media media;
	const char *text; /* of any but DECODE_TREE */
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
	void (*warn)(void *arg, const char *text); /* NULL: warnings are dropped */
	void *warn_arg;
	/* Set when the tree was made by a patch: errors are then ERR_INVALID and about the patch,
	 * with their details here. reports has the patch's own unknown and duplicate members. */
	struct causes *patch_causes;
	const struct causes *reports;
	/* The settled object that the tree was branched from; NULL: none. What they share is not
	 * looked at again. */
	const struct json *was;
};

/* How long a body may be, in bytes, and how deeply nested. */
enum {
	DECODE_LEN_MAX = 3 << 20,
	DECODE_DEPTH_MAX = 128,
};

/* reports (may be NULL) gets unknown and duplicate members as CAUSE_UNKNOWN, in Kubernetes' order.
 * ERR_MALFORMED: the text says how; ERR_TOO_LARGE; ERR_MEDIA_TYPE: protobuf of a type
 * that has none.
 */
must_use struct err *schema_decode(const struct type *t, const struct decode_input *in,
				   struct causes *reports, struct json_doc **ret);

/* A body that is not an object: options, or one of these, which subresources take. It has an
 * apiVersion and a kind like any other; as says which, and NULL that the caller checks them. */
struct body_kind {
	const struct kind *as;
	const char *older; /* an apiVersion that is taken for its own; NULL: none is */
};
must_use struct err *body_decode(const struct type *t, const struct body_kind *as,
				 const struct decode_input *in, struct json_doc **ret);
extern const struct body_kind body_kind_token_request, body_kind_scale, body_kind_eviction;
extern const struct type *const body_token_request, *const body_scale, *const body_eviction;
extern const struct type *const body_token_review,
	*const body_self_review, *const body_access_review, *const body_self_access_review,
								    *const body_self_rules_review;

/* An object of kind k with its apiVersion and kind. Unknown and duplicate members go where r says.
 */
must_use struct err *object_decode(const struct kind *k, const struct decode_request *r,
				   struct json_doc **ret);

/* A patch, of any JSON type: members that appear twice are reported, and the last one stays. */
must_use struct err *patch_decode(const char *text, size_t len, bool is_json_patch,
				  struct causes *reports, struct json_doc **ret);

/* What is applied, YAML or JSON. The same, but what is wrong is "error decoding YAML". */
must_use struct err *apply_decode(const char *text, size_t len, struct causes *reports,
				  struct json_doc **ret);

/*
 * The parameters of a URL as a tree of type t, one of the options types of meta/v1. get returns the
 * i-th value of a name, and NULL after the last.
 */
struct decode_query {
	const char *(*get)(void *arg, const char *name, size_t i);
	void *arg;
};
must_use struct err *schema_decode_query(const struct type *t, const struct decode_query *q,
					 struct json_doc **ret);
