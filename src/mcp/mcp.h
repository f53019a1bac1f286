/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct access;
struct access_target;
struct client;
struct http_request;
struct loop;

/*
 * The Model Context Protocol: sandboxes as tools for the program that drives a language model, over
 * streamable HTTP. Whatever a tool does is decided as if its user had sent the API requests. On the
 * loop's thread.
 */
struct mcp;

/* What somebody is about to do, in the terms of authorisation. */
struct mcp_act {
	const char *verb, *group, *plural, *ns;
	const char *name, *sub; /* NULL: none */
	const char *pool;       /* that a claim is made from; NULL: none is made */
};

struct access_ask;
struct access_deed;
struct access_question;

/*
 * What agents have and other users have not; about those, each of these says what is said of
 * somebody without limits and attachments. arg: that of the spec.
 */
struct mcp_agents {
	/* ERR_FORBIDDEN: it was not granted this tool. */
	struct err *(*may_use)(void *arg, const struct access_target *who, const char *tool);
	bool (*attached)(void *arg, const struct access_target *who, const char *ns,
			 const char *sandbox);
	void (*each_attached)(void *arg, const struct access_target *who, const char *ns,
			      void (*fn)(void *fn_arg, const char *sandbox), void *fn_arg);
	/* Whether its path decides about a deed, so that it must be the real one. */
	bool (*minds_path)(void *arg, const struct access_target *who, const char *ns,
			   const struct access_deed *deed);
	/* As in struct access_policy, for tools that do not go into a sandbox. */
	void (*ask)(void *arg, const struct access_ask *ask, struct access_question *q);
	void (*cancel)(void *arg, struct access_question *q);
};

struct mcp_spec {
	struct client *client; /* outlives it; what it writes was asked for by may() before */
	struct access *access; /* outlives it; NULL: there is no node, and no command runs */
	const char *version;   /* of this program */
	/* ERR_FORBIDDEN, ERR_UNAUTHENTICATED. NULL: everybody may do everything. */
	struct err *(*may)(void *arg, const struct access_target *who, const struct mcp_act *act);
	const struct mcp_agents *agents; /* NULL: nobody is one */
	void *arg;
};
struct mcp *mcp_new(struct loop *l, const struct mcp_spec *spec);
/* Commands are killed and requests stay unanswered: the HTTP server is freed before or after. */
void mcp_free(struct mcp *m);
AUTOPTR(mcp)

/* Answers a request of this user, whose head has arrived. */
void mcp_visit(struct mcp *m, struct http_request *req, const struct access_target *who);

struct mcp_stats {
	uint64_t calls, failed; /* of tools */
	size_t sessions, active;
};
void mcp_stats(const struct mcp *m, struct mcp_stats *ret);
