/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/view.h"

struct arena;
struct json;
struct json_doc;

/*
 * Ask before executing: the rules of an agent, and the question to a person that they may lead to.
 */
enum verdict {
	VERDICT_ALLOW,
	VERDICT_ASK,
	VERDICT_DENY,
	VERDICT_MAX_,
};
const char *verdict_name(enum verdict v);     /* "Allow" */
enum verdict verdict_named(const char *name); /* VERDICT_MAX_: there is no such one */
/* The stricter of two: Deny over Ask over Allow. */
enum verdict verdict_stricter(enum verdict x, enum verdict y);

/* What is about to be done. NULL: not of this kind, or not known; rules that name it do not match.
 */
struct deed {
	const char *const *argv; /* ends with NULL */
	const char *path;        /* of a file that is read or written */
	const char *host;        /* that a sandbox connects to */
	const char *tool;        /* of MCP */
	bool input;              /* it reads something that these do not tell, or has a terminal */
};

/*
 * A rule matches if all that it names matches. argv is a list of patterns, one for each argument;
 * a last "**" stands for any number of arguments. So ["git", "push", "**"] is every push.
 */
struct approval_rule {
	enum verdict action;
	const char *const *argv; /* ends with NULL; NULL: not named, like the others */
	const char *path, *host, *tool;
	bool without_input;
};
struct approval_rules {
	enum verdict otherwise; /* default */
	const struct approval_rule *rules;
	size_t n_rules;
	usec expire; /* how long a question stays open */
};
/* From spec.approval of an agent; NULL: everything is allowed. Allocated from a. */
void approval_rules_read(const struct json *tree, struct arena *a, struct approval_rules *ret);
/* The first rule that matches decides. *ret_rule, if it is not NULL: its number, or -1. */
enum verdict approval_rules_decide(const struct approval_rules *r, const struct deed *d,
				   int *ret_rule);

/*
 * The rule that allows this deed from now on, and nothing else of what it names: "always". NULL:
 * no rule can say exactly that, because of characters that have a meaning in patterns. A deed with
 * a path is told by its tool and path; what a file shall contain is not for rules to say.
 */
struct json *approval_rule_for(const struct deed *d, struct json_doc *doc);

/* An Approval. */
enum approval_decision {
	APPROVAL_OPEN,
	APPROVAL_ONCE,
	APPROVAL_ALWAYS,
	APPROVAL_DENIED,
	APPROVAL_EXPIRED,
	APPROVAL_DECISION_MAX_,
};
const char *approval_decision_name(enum approval_decision d); /* "Once"; "" while it is open */

struct approval_view {
	const char *agent, *session, *attachment, *sandbox; /* "" where there is none */
	const char *operation;                              /* "exec", "tool", "egress", … */
	const char *digest; /* of the whole operation: what it is bound to */
	const char *requested_by;
	usec created, expires;
	enum approval_decision decision; /* expired: its condition Expired says so */
	const char *by;                  /* who decided; "" */
	bool used;                       /* what was allowed once has begun */
	bool deleting;
};
extern const struct view_type approval_view_type;
const struct approval_view *approval_view(const struct object *o);
/* The same at a moment: one that is open when it expires has expired. */
enum approval_decision approval_decision_at(const struct approval_view *v, usec now);
