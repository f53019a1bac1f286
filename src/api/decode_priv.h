/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/decode.h"
#include "api/schema_priv.h"

struct buf;
struct kind;

/* What a walk over a tree has found. */
struct decode_walk {
	struct json_doc *d;
	struct causes *reports; /* NULL: reports are dropped */
	bool duplicates;        /* members may appear twice */
	const struct json *was; /* as in struct decode_request */
	struct err *first; /* about the first value of a wrong type; a worse error replaces it */
};

/* Where a walk is: reports name it by path, errors as Go does. */
struct place {
	struct path path;
	const struct place *up;
	const struct field *field; /* NULL: an element, an entry, or where Go starts reading */
	const struct type *of;     /* the struct that field is in */
	const struct json *was;    /* what is in this place of the walk's was; NULL: nothing */
};

/* decode_typed.c: reads v as Go reads it into a struct of type t. *v may become another value. */
must_use struct err *decode_typed(struct decode_walk *w, struct json **v, const struct type *t,
				  const struct place *at);
/* decode_loose.c: a custom resource. */
must_use struct err *decode_loose(struct decode_walk *w, struct json *root, const struct type *t);
/* Keeps the last of members that appear twice in obj. deep: also in everything inside it. */
void decode_settle_duplicates(struct decode_walk *w, struct json *obj, const struct place *at,
			      bool deep);
void decode_report(struct decode_walk *w, const char *what, const struct place *up,
		   const char *name);

/* decode_protobuf.c */
must_use struct err *decode_protobuf(const char *data, size_t len, const struct type *t,
				     struct json_doc **ret);

/* decode_words.c, decode_syntax.c: errors as Go words them. */
must_use struct err *go_mismatch(const struct place *at, const char *value, const struct type *t);
must_use struct err *go_bad_time(const char *text, bool micro);
/* An object of another kind, where one of k is expected. */
must_use struct err *go_other_kind(const struct kind *k, const char *api_version, const char *kind);
must_use struct err *go_bad_json(const char *text, size_t len); /* NULL: Go would read it */
/* The offset of the first character that standard base64 does not allow; -1: it is fine. */
long go_base64_error(const char *text, size_t len);
