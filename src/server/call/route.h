/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct call;
struct kind;

/* What a request is about, read from method and path alone. */
enum verb {
	VERB_GET,
	VERB_LIST,
	VERB_WATCH,
	VERB_CREATE,
	VERB_UPDATE,
	VERB_PATCH,
	VERB_DELETE,
	VERB_DELETE_COLLECTION,
	VERB_MAX_,
};
const char *verb_name(enum verb v); /* as authorisation and discovery spell it */

#define KIND_MEASURED_VERBS (B(VERB_GET) | B(VERB_LIST)) /* of kinds that are only read */

struct route {
	bool resource; /* an object or a collection; otherwise a page of the server itself */
	bool watches;  /* the path says so, in its older form */
	enum verb verb;
	const char *group, *version, *plural; /* as asked; perhaps not served */
	const char *ns, *name, *sub;          /* "" where there is none */
	const struct kind *kind;              /* NULL: not served */
	const char *path;                     /* decoded, without a slash at the end */
	/* Of a request that is passed on (proxy): the path as sent up to there, and what follows
	 * it, "" or with a slash in front. */
	const char *base, *rest;
};
/* Fills in c->route, and c->kind with it; as far as possible on failure too. */
must_use struct err *route_read(struct call *c);

/* Subresources, as routing and discovery see them. A kind says which it has. */
enum sub {
	SUB_STATUS,
	SUB_FINALIZE,
	SUB_SCALE,
	SUB_TOKEN,
	SUB_LOG,
	SUB_EXEC,
	SUB_ATTACH,
	SUB_FORWARD,
	SUB_RESIZE,
	SUB_EPHEMERAL,
	SUB_EVICTION,
	SUB_PROXY,
	SUB_MAX_,
};
struct subresource {
	const char *name;
	const char *group, *version, *kind; /* of its representation; NULL: those of the object */
	unsigned verbs;                     /* B(VERB_…) */
	/* Handled with the head alone: the handler deals with body and answer (upgrades). */
	bool raw;
	bool named_after; /* the kind's name follows that of the object's: PodProxyOptions */
};
extern const struct subresource subresources[SUB_MAX_];
/* The kind of its representation, malloc'd. */
char *subresource_kind(const struct subresource *s, const struct kind *k);
enum sub subresource_find(const struct kind *k, const char *name); /* SUB_MAX_: none */
/* A stream into a Pod, whose handler deals with the body and the answer itself. */
bool route_is_raw(const struct route *r);
