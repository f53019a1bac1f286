/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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
};

struct mcp_spec {
	struct client *client; /* outlives it; what it writes was asked for by may() before */
	struct access *access; /* outlives it; NULL: there is no node, and no command runs */
	const char *version;   /* of this program */
	/* ERR_FORBIDDEN, ERR_UNAUTHENTICATED. NULL: everybody may do everything. */
	struct err *(*may)(void *arg, const struct access_target *who, const struct mcp_act *act);
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
