/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/call/call.h"
#include "server/server.h"

struct admit;
struct authoriser;
struct http_handler;
struct objects;
struct pages;
struct streams;
struct tokens;
struct users;
struct waiters;
struct watchers;

/* The front door: from the head of a request to the room that answers it. */
struct front {
	struct calls calls;
	struct tokens *tokens;
	struct authoriser *by;
	struct objects *objects;
	struct admit *admit;
	struct waiters *waiters;
	struct watchers *watchers;
	struct streams *streams;
	struct pages *pages;
	const struct users *users;
	struct server_endpoint endpoints[SERVER_ENDPOINTS_MAX];
	size_t n_endpoints;
};
extern const struct http_handler front_handler; /* its arg is a struct front */
