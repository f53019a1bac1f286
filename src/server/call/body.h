/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/options.h"
#include "api/patch.h"
#include "base/err.h"

struct call;
struct causes;
struct json_doc;
struct type;

/*
 * What a client sends besides the path, decoded: the body, and the parameters of the query. Nothing
 * else in the server looks into either, apart from the command of an exec.
 */
enum {
	BODY_MAX = DECODE_LEN_MAX,
};

/* Parameters of the query. */
const char *call_query(struct call *c, const char *name); /* decoded, in the arena; NULL: absent */
bool call_query_true(struct call *c, const char *name);   /* there, and neither 0 nor false */
/* *ret stays when the parameter is absent or empty. ERR_MALFORMED: not a number, or out of range.
 */
must_use struct err *call_query_int(struct call *c, const char *name, int64_t min, int64_t max,
				    int64_t *ret);
/* ERR_MALFORMED: ?timeout= is not a duration. It has no effect otherwise. */
must_use struct err *call_check_timeout(struct call *c);
must_use struct err *call_query_uint(struct call *c, const char *name, uint64_t max, uint64_t *ret);

/* The body for the decode stage, by Content-Type. ERR_MEDIA_TYPE: not one that we read. */
must_use struct err *body_input(struct call *c, struct decode_input *ret);
/* A body of type t that is not an object of a kind, as in body_decode(); an absent body counts as
 * an empty one. */
must_use struct err *body_tree(struct call *c, const struct type *t, const struct body_kind *as,
			       struct json_doc **ret);
/* A patch and its type; reports (may be NULL) gets its unknown and duplicate members. */
must_use struct err *body_patch(struct call *c, struct causes *reports, enum patch_type *ret_how,
				struct json_doc **ret);

enum {
	MANAGER_MAX = 128, /* bytes of the name of a manager */
};
/* The name that owns what a call writes, if it does not say: its program, from the User-Agent. */
const char *call_manager(struct call *c);

/* True if the patch is a server-side apply, by Content-Type. */
bool body_applies(struct call *c);

/* The options of the request, by its verb. Those of a deletion are in its body if it has one. */
must_use struct err *options_read(struct call *c, struct write_options *ret);
must_use struct err *options_read_delete(struct call *c, struct delete_options *ret);
/* Of a deletion that is asked for in the body, by an Eviction. */
must_use struct err *options_read_eviction(struct call *c, struct delete_options *ret);
must_use struct err *options_read_list(struct call *c, struct list_options *ret);
