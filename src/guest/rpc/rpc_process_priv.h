/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/str.h"
#include "guest/rpc/pb_priv.h"

struct err;
struct process;
struct process_wish;
struct rpc;

/* The messages of process.v1 that are read, and what its methods share. */
struct process_config {
	struct pb_strings command, env; /* env: each name followed by its value */
	char *cwd;
};

struct process_pty {
	uint32_t cols, rows;
};

struct start_request {
	struct process_config config;
	uint32_t has_pty;
	struct process_pty pty;
};

struct execute_request {
	struct process_config config;
};

struct stdin_request {
	int32_t id;
	uint32_t which; /* the number of the member that is there */
	struct span input;
};

struct signal_request {
	int32_t id, signal;
};

struct resize_request {
	int32_t id;
	uint32_t cols, rows;
};

/* Fields of answers. */
enum {
	START_INIT = 1,
	START_STDOUT, /* PROCESS_STDOUT and PROCESS_STDERR, and 1 */
	START_STDERR,
	START_EXIT,
	EXECUTE_EXIT_CODE = 1,
	EXECUTE_STDOUT,
	EXECUTE_STDERR,
	STDIN_INPUT = 2,
	STDIN_EOF,
};

extern const struct pb_message start_request_message, start_response_message;
extern const struct pb_message execute_request_message, execute_response_message;
extern const struct pb_message stdin_request_message, stdin_response_message;
extern const struct pb_message signal_request_message, signal_response_message;
extern const struct pb_message resize_request_message, resize_response_message;

/* rpc_process.c */
void rpc_start(struct rpc *c, const void *request);
/* rpc_execute.c */
void rpc_execute(struct rpc *c, const void *request);
/* rpc_input.c */
void rpc_write_stdin(struct rpc *c, const void *request);
void rpc_send_signal(struct rpc *c, const void *request);
void rpc_resize_tty(struct rpc *c, const void *request);

/* Starts what cfg says; w has the rest of it. */
must_use struct err *rpc_spawn(struct rpc *c, const struct process_config *cfg,
			       struct process_wish *w, struct process **ret);
