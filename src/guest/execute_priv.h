/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct http_request;
struct rt;

/* How a command ended, as the API reports it. */
struct result {
	struct buf text[2]; /* stdout, stderr */
	int exit_code;
	bool timed_out;
	unsigned part; /* how far the answer has been written: which part, and where in it */
	size_t at;
};

/* Adds a line of ours at the end of stderr, on a line of its own. */
void result_note(struct result *res, const char *fmt, ...) printf_like(2, 3);
void result_reply(struct http_request *r, struct result *res); /* takes ownership of res */

/* execute.c: runs the command and answers r. */
void execute_run(struct rt *rt, struct http_request *r, const char *command, double limit_s);
