/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/agent/agent.h"
#include "cli/sandbox/remote.h"

struct buf;

/* What the commands for agents and sessions share. */

/* verbs.c: `cay agent VERB NAME...` */
struct verb {
	const char *name;
	size_t least, most; /* names after it */
	struct err *(*run)(struct remote *r, const struct settings *s);
};
/* Finds the verb of the first word, counts the names, and runs it. table ends with a NULL name. */
int verbs_run(const struct command *c, const struct settings *s, const struct verb *table);
/* Runs fn once the number of words is right. */
int names_run(const struct command *c, const struct settings *s, size_t n,
	      struct err *(*fn)(struct remote *r, const struct settings *s));

/* objects.c */

#define LIST_SETTING \
	{ "all-namespaces", SETTING_BOOL, "false", NULL, "List all namespaces", .letter = 'A' }

/* Of kinds whose objects may be over. */
#define ALL_SETTING { "all", SETTING_BOOL, "false", NULL, "List those that are over as well" }

/* How a cell is made of an object. */
enum cell {
	CELL_TEXT,  /* of the path; numbers and booleans too */
	CELL_AGE,   /* the time at the path, as its age */
	CELL_LEFT,  /* the time at the path, as what is left until then */
	CELL_READY, /* of the condition Ready: the reason while it is not true */
	CELL_DEED,  /* what an Approval asks about */
};
struct column {
	const char *head;
	enum cell cell;
	const char *path;
};
/* A kind of cay.dev. columns ends with a NULL head; the first is the name. */
struct cay_kind {
	const char *plural, *word; /* "sessions", "session" */
	const struct column *columns;
	bool (*over)(const struct json *o); /* lists leave it out without --all; NULL: none is */
};
extern const struct cay_kind kind_agents, kind_sessions, kind_attachments, kind_approvals,
	kind_triggers;

char *cay_path(const struct cay_kind *k, const char *ns, const char *name); /* malloc'd */
must_use struct err *cay_list(struct remote *r, const struct settings *s, const struct cay_kind *k);
/* Those that names from the first word on say; each is printed. */
must_use struct err *cay_show(struct remote *r, const struct settings *s, const struct cay_kind *k,
			      const char *name);
/* ERR_NOT_FOUND says that it may be gone already. */
must_use struct err *cay_remove(struct remote *r, const struct settings *s,
				const struct cay_kind *k, const char *name);
/* A merge patch; ret may be NULL. sub: "/status", or "". */
must_use struct err *cay_patch(struct remote *r, const char *path, const char *sub,
			       const char *body, struct json_doc **ret);
must_use struct err *cay_create(struct remote *r, const struct cay_kind *k, const struct json *o,
				struct json_doc **ret);
/* "session/x ended", or the object as -o says. */
void cay_said(const struct settings *s, const struct cay_kind *k, const struct json *o,
	      const char *what);
/* A document with apiVersion, kind and metadata.name; *ret_spec is its spec. */
struct json_doc *cay_draft(const char *kind, const char *name, struct json **ret_spec);
