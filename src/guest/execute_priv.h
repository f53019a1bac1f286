/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct http_request;
struct rt;

/* A command's end as the API tells it. */
struct result {
	struct buf text[2]; /* stdout, stderr */
	int exit_code;
	bool timed_out;
	unsigned part; /* how far the answer is written: which of its parts, and where in it */
	size_t at;
};

/* A line of ours at the end of stderr, on a line of its own. */
void result_note(struct result *res, const char *fmt, ...) printf_like(2, 3);
void result_reply(struct http_request *r, struct result *res); /* takes res over */

/* execute.c: runs it and answers r. */
void execute_run(struct rt *rt, struct http_request *r, const char *command, double limit_s);
