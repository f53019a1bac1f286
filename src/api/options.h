/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/decode.h"
#include "base/err.h"

struct arena;
struct causes;

/*
 * The options of a request, as meta/v1 defines them. They are read from the parameters of the URL;
 * those of a deletion from its body instead, when it has one. Texts are in the arena.
 *
 * ERR_MALFORMED: a value cannot be read. ERR_INVALID: it can, but is not allowed; the causes say
 * why, and the details of the answer name a kind of OPTIONS_GROUP: options_kind().
 */
#define OPTIONS_GROUP "meta.k8s.io"

enum options_of {
	OPTIONS_CREATE,
	OPTIONS_UPDATE,
	OPTIONS_PATCH,
	OPTIONS_APPLY, /* the same kind of options, other rules */
	OPTIONS_DELETE,
	OPTIONS_LIST,
	OPTIONS_OF_MAX_,
};
const char *options_kind(enum options_of of); /* "CreateOptions" */

/* Where options come from, and where their causes and texts go. */
struct options_input {
	struct decode_query query;
	struct decode_input body; /* OPTIONS_DELETE: len is 0 when there is none */
	struct arena *arena;
	struct causes *causes;
};

/* CreateOptions, UpdateOptions, PatchOptions */
struct write_options {
	bool dry_run;
	enum strictness strictness;
	const char *manager; /* who owns what is written; NULL: not said */
	bool force;          /* OPTIONS_APPLY: conflicts are won */
};
must_use struct err *write_options_read(enum options_of of, const struct options_input *in,
					struct write_options *ret);

struct delete_options {
	const char *uid;              /* NULL: any */
	const char *resource_version; /* NULL: any */
	const char *propagation;      /* NULL: default */
	int64_t grace_s;              /* < 0: default */
	bool dry_run;
};
must_use struct err *delete_options_read(const struct options_input *in,
					 struct delete_options *ret);
/* Of a tree that is part of something else; in has no body. NULL counts as empty. */
must_use struct err *delete_options_of(const struct json *o, const struct options_input *in,
				       struct delete_options *ret);

enum choice {
	CHOICE_UNSET,
	CHOICE_FALSE,
	CHOICE_TRUE,
};
struct list_options {
	/* NULL or "": not given */
	const char *labels, *fields, *resource_version, *version_match, *continue_token;
	int64_t limit;     /* 0: none */
	int64_t timeout_s; /* < 0: not given */
	bool watch, bookmarks;
	enum choice initial_events;
};
must_use struct err *list_options_read(const struct options_input *in, struct list_options *ret);
