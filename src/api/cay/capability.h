/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct arena;
struct buf;
struct json;
struct json_doc;

/*
 * What an agent may do: rights over sandboxes, places on the network, credentials, tools, runtime
 * classes, and how many sandboxes it may have. Capabilities only ever shrink along a chain of
 * parents: a child's are contained in its parent's when it is written, and at use the intersection
 * along the chain counts. All of it is pure.
 */
enum right {
	RIGHT_EXEC,
	RIGHT_READ,
	RIGHT_WRITE,
	RIGHT_PORTS,
	RIGHT_LIFECYCLE,
	RIGHT_MAX_,
};
#define RIGHTS_ALL ((1U << RIGHT_MAX_) - 1)
/* Those of an agent, and of an attachment, that names none. */
#define RIGHTS_DEFAULT (RIGHTS_ALL & ~(1U << RIGHT_LIFECYCLE))
const char *right_name(enum right r);              /* "exec" */
enum right right_named(const char *name);          /* RIGHT_MAX_: there is no such right */
unsigned rights_read(const struct json *list);     /* a set of 1 << right; unknown names are none */
void rights_write(unsigned rights, struct buf *b); /* "exec, read"; "none" */
struct json *rights_list(unsigned rights, struct json_doc *d); /* ["exec","read"] */

/*
 * Names with patterns: a * stands for any text, so "*" is everything and "git-*" every name that
 * begins so. Of hosts, "*" is all and "*.example.org" every name below example.org; a * means
 * nothing elsewhere. A pattern contains another if it matches whatever that one does.
 */
bool pattern_matches(const char *pattern, const char *text);
bool pattern_contains(const char *outer, const char *inner);
bool host_matches(const char *pattern, const char *host); /* without regard to case */
bool host_contains(const char *outer, const char *inner);

/* One place on the network. Empty lists: ports 443 alone; any method; any path. */
struct egress {
	const char *host; /* a pattern */
	const int64_t *ports;
	size_t n_ports;
	const char *const *methods, *const *paths; /* each ends with NULL, and is never NULL */
};

struct capabilities {
	unsigned rights;
	const struct egress *egress;
	size_t n_egress;
	bool all_egress; /* of a ceiling that names none: every place, whatever egress says */
	const char *const *credentials; /* patterns; each list ends with NULL, and is never NULL */
	const char *const *tools;
	const char *const *runtime_classes;
	int64_t max_sandboxes; /* < 0: as many as others allow */
};

/* From spec.capabilities, defaults included; NULL: those of an agent that names none. Lists are
 * allocated from a, texts are borrowed from the tree. */
void capabilities_read(const struct json *tree, struct arena *a, struct capabilities *ret);
/* The same of a ceiling: whatever it does not name it does not limit. */
void capabilities_read_ceiling(const struct json *tree, struct arena *a, struct capabilities *ret);
/* As a tree for a status, in the order of the schema; a ceiling by capabilities_read_ceiling(). */
struct json *capabilities_write(const struct capabilities *c, struct json_doc *d);

/*
 * Whether inner is contained in outer. If not, the path of the first member that exceeds is put
 * into path, below spec.capabilities ("egress[1].ports[0]", "rights[2]" counted as written by
 * capabilities_write()), and what is wrong into why. Both may be NULL.
 */
bool capabilities_contain(const struct capabilities *outer, const struct capabilities *inner,
			  struct buf *path, struct buf *why);
/*
 * What both allow. Contained in both; and whatever is contained in both is contained in it, unless
 * that takes lists of more than CAPABILITY_MEET_MAX members, or patterns with more than one *: then
 * less is allowed. Borrows from x and y.
 */
enum {
	CAPABILITY_MEET_MAX = 64,
};
void capabilities_meet(const struct capabilities *x, const struct capabilities *y, struct arena *a,
		       struct capabilities *ret);
/* method, path NULL: not known, and a place that names some is not reached. */
bool capabilities_reach(const struct capabilities *c, const char *host, int64_t port,
			const char *method, const char *path);
bool capabilities_list_has(const char *const *patterns, const char *name);
