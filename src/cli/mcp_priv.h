/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "cli/cli.h"

/*
 * `cay mcp`: lines from standard input become requests to /mcp, and their answers lines on standard
 * output. mcp.c has the two ends and the order of things, mcp_call.c one request.
 */
struct mcp_bridge;

enum {
	MCP_LINE_MAX = 3 * 1024 * 1024,
	MCP_ANSWER_MAX = 32 * 1024 * 1024,
	MCP_OPEN_MAX = 24, /* requests at a time: fewer than the server allows a user */
};

struct mcp_bridge {
	struct loop *loop;
	struct cli_server at;
	struct http_pool *pool;
	char *path;              /* "/mcp?…" */
	char *session, *version; /* NULL: not initialized */
	char *hello;             /* the client's initialize, for beginning anew */
	struct list calls;       /* struct mcp_call.on: under way */
	size_t n_calls;
	bool opening;        /* everything else waits until the session is open */
	struct list waiting; /* struct mcp_call.on: for the session */
	/* A call is over, or something that others wait for has changed. */
	void (*changed)(struct mcp_bridge *b);
};

enum mcp_call_type {
	MCP_CALL_MESSAGE,
	MCP_CALL_HELLO,  /* opens the session */
	MCP_CALL_AGAIN,  /* opens it once more; the client does not see the answer */
	MCP_CALL_DELETE, /* ends it */
};

/* Takes over text, which may be NULL. msg: the same, parsed; NULL: nobody waits for an answer. */
void mcp_call_start(struct mcp_bridge *b, enum mcp_call_type type, char *text,
		    const struct json *msg);
void mcp_calls_cut(struct mcp_bridge *b); /* without answers */
/* The client does not want the answer of this request any more. False: the server need not be
 * told. */
bool mcp_call_forget(struct mcp_bridge *b, const char *id, const char *notification);
/* An answer of our own. id NULL: null. */
void mcp_say_error(const char *id, int code, const char *text);
void mcp_say(const char *text, size_t len); /* a line */
