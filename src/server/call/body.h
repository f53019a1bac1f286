/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/patch.h"
#include "base/err.h"

struct call;
struct json_doc;
struct type;

/*
 * What a client says besides the path, decoded: the body, and the parameters of the query. Nothing
 * else in the server looks into either, apart from the words of exec.
 */
enum {
	BODY_MAX = 3 << 20,
};

/* Parameters of the query. */
const char *call_query(struct call *c, const char *name); /* decoded, in the arena; NULL: absent */
bool call_query_true(struct call *c, const char *name);   /* there, and neither 0 nor false */
/* *ret stays when the parameter is absent or empty. ERR_MALFORMED: no number, or out of range. */
must_use struct err *call_query_int(struct call *c, const char *name, int64_t min, int64_t max,
				    int64_t *ret);
must_use struct err *call_query_uint(struct call *c, const char *name, uint64_t max, uint64_t *ret);

/* The body as JSON, whatever its type says; it may be empty (then *ret is NULL). */
must_use struct err *body_json(struct call *c, struct json_doc **ret);
/* The same by Content-Type: JSON, or protobuf of type t. */
must_use struct err *body_tree(struct call *c, const struct type *t, struct json_doc **ret);
/* The object of a create or update; it must be there. */
must_use struct err *body_object(struct call *c, struct json_doc **ret);
/* A patch, and of which type it is; it must be there. */
must_use struct err *body_patch(struct call *c, enum patch_type *ret_how, struct json_doc **ret);

/* CreateOptions, UpdateOptions, PatchOptions */
enum strictness {
	STRICTNESS_IGNORE,
	STRICTNESS_WARN,
	STRICTNESS_STRICT,
};
struct write_options {
	bool dry_run;
	enum strictness unknown; /* fields */
};
must_use struct err *options_read(struct call *c, struct write_options *ret);

struct delete_options {
	const char *uid;
	uint64_t rev;            /* 0: any */
	const char *propagation; /* NULL: default */
	int64_t grace_s;         /* < 0: default */
};
/* From body and query. Sets *dry_run, and leaves it otherwise. */
must_use struct err *options_read_delete(struct call *c, struct delete_options *ret, bool *dry_run);
