/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large file into a sandbox and out of it through the router, beside a `cp` of it inside: what
 * the disk itself can do.
 */
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

enum {
	TIMES = 5,
	ANSWER_MS = 300000,
};
#define MB       1e6
#define BOUNDARY "cay-bench-boundary"
static const char sandbox_name[] = "files";

/* One file in a multipart body, as the published clients send it. */
static char *upload_body(size_t bytes)
{
	static const char head[] = "--" BOUNDARY "\r\nContent-Disposition: form-data; "
				   "name=\"file\"; filename=\"big\"\r\n\r\n";
	static const char tail[] = "\r\n--" BOUNDARY "--\r\n";
	size_t len = sizeof(head) - 1 + bytes + sizeof(tail) - 1;
	char *body = xmalloc(len + 1);

	memcpy(body, head, sizeof(head) - 1);
	memset(body + sizeof(head) - 1, 'x', bytes);
	memcpy(body + sizeof(head) - 1 + bytes, tail, sizeof(tail)); /* ends the text too */
	return body;
}

static struct err *times(struct bench *b, struct row *row, const struct ask *ask, double bytes)
{
	struct err *e = NULL;
	struct lane lane;
	double us;

	lane_init(&lane, &b->router);
	for (int i = 0; !e && i < TIMES; i++) {
		struct call c = { 0 };
		double begin = (double)clock_mono();

		call_start(&c, &lane, ask);
		e = bench_until(b, &c.over, ANSWER_MS);
		if (!e && call_ok(&c))
			samples_add(&row->us, (double)clock_mono() - begin);
		else if (!e)
			e = call_error(&c);
		call_done(&c);
	}
	lane_done(&lane);
	if (samples_quantile(&row->us, 0.5, &us))
		row_figure(row, "mb_per_s", bytes / MB / (us / 1e6));
	return err_wrap(e, "%s", row->name);
}

static struct err *measure(struct bench *b, double bytes)
{
	autofree char *body = upload_body((size_t)bytes);
	const struct ask up = { .method = "POST",
				.path = "/upload",
				.body = body,
				.type = "multipart/form-data; boundary=" BOUNDARY,
				.sandbox = sandbox_name,
				.ns = b->ns };
	const struct ask down = {
		.method = "GET", .path = "/download/big", .sandbox = sandbox_name, .ns = b->ns
	};
	const struct ask cp = { .method = "POST",
				.path = "/execute",
				.body = "{\"command\":\"cp big copy\"}",
				.sandbox = sandbox_name,
				.ns = b->ns };
	struct err *e = times(
		b, bench_row(b, "files", "upload", NULL, "POST /upload to its answer"), &up, bytes);

	if (!e)
		e = times(b, bench_row(b, "files", "download", NULL, "GET /download to its end"),
			  &down, bytes);
	if (!e)
		e = times(b, bench_row(b, "files", "cp", NULL, "cp of that file in the sandbox"),
			  &cp, bytes);
	return e;
}

struct err *scenario_files(struct bench *b)
{
	double bytes = (double)settings_int(b->settings, "file-mb") * MB;
	struct err *e = *b->router.addr
				? NULL
				: err_new(ERR_INVALID, "--router is empty: it leads to the files");

	if (!e)
		e = world_sandbox(b, sandbox_name, NULL);
	if (!e)
		e = measure(b, bytes);
	return e ? e : world_empty(b);
}
