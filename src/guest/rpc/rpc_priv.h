/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/macros.h"

struct face;
struct http_request;
struct pb_message;
struct rpc;
struct rt;

/*
 * gRPC calls of the runtime: what a call is, whichever method it calls. A call lives until its
 * client has the answer or has left.
 */
enum rpc_code {
	RPC_OK = 0,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_NOT_FOUND = 5,
	RPC_PERMISSION_DENIED = 7,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
};

struct rpc_method {
	const char *name; /* NULL: the table ends */
	const struct pb_message *request, *response;
	/* The request is complete and lives until call() returns, or with `keeps` until the call
	 * ends. */
	void (*call)(struct rpc *c, const void *request);
	bool keeps, many_requests, many_answers;
};

struct rpc_service {
	const char *package, *name; /* "process.v1", "ProcessService" */
	const char *file;           /* how its description is called */
	const struct rpc_method *methods;
};
extern const struct rpc_service process_service, watcher_service;
extern const struct rpc_service reflection_service, reflection_alpha_service;
extern const struct rpc_service *const rpc_services[]; /* NULL ends it */

struct rpc_events {
	/* The client has left or its time is up: nothing can be sent any more. */
	void (*gone)(void *arg);
	void (*drained)(void *arg); /* rpc_full() no longer holds. NULL: never of interest */
};

struct rt *rpc_rt(const struct rpc *c);
const char *rpc_base(const struct rpc *c); /* where its paths begin */
/* Until the call is finished, arg hears of its end. */
void rpc_own(struct rpc *c, const struct rpc_events *ev, void *arg);
/* Sends the head of the answer before there is a message. */
void rpc_begin(struct rpc *c);
void rpc_send(struct rpc *c, const struct buf *message);
/* A message of len bytes, which follow in pieces. */
void rpc_send_head(struct rpc *c, uint32_t len);
void rpc_send_piece(struct rpc *c, const void *p, size_t len);
bool rpc_full(const struct rpc *c);
/* The end of the call; its owner hears nothing more. A code other than RPC_OK has a text. */
void rpc_finish(struct rpc *c, enum rpc_code code, const char *fmt, ...) printf_like(3, 4);
void rpc_fail(struct rpc *c, struct err *e); /* with the code that fits e, which is freed */
void rpc_cut(struct rpc *c);                 /* a message that was begun cannot be completed */
