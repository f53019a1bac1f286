/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a NetworkPolicy takes to act, seen from inside: a command in a sandbox connects to the
 * node's name server over and over, until that is refused or works again, and prints the time. As
 * many other sandboxes as the pool has members idle beside it.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	RUNS_MAX = 50,
	ANSWER_MS = 60000,
	SETTLE_MS = 100, /* the command in the sandbox is at it by then */
};

#define CONNECT "(exec 3<>/dev/tcp/$gw/53) 2>/dev/null"
#define LOOP(while_or_until)                                                           \
	"timeout 30 bash -c 'read _ gw </etc/resolv.conf; " while_or_until " " CONNECT \
	"; do :; done; date +%s%N'"

/* The wall clock, in microseconds, when the loop in the sandbox ended. */
static struct err *read_time(const struct call *c, double *ret)
{
	autoptr(json_doc) doc = NULL;
	autofree char *text = NULL;
	struct err *e;
	int64_t ns = 0;

	if (!call_ok(c))
		return call_error(c);
	e = json_parse(buf_head(&c->body), c->body.len, NULL, &doc);
	if (e)
		return e;
	text = xstrdup(str_or(json_get_str(json_root(doc), "stdout"), ""));
	text[strcspn(text, "\n")] = '\0';
	e = parse_int(text, 1, INT64_MAX, &ns);
	if (e)
		return err_wrap(e,
				"the policy had no effect within 30 s, or the command failed: %s",
				str_or(json_get_str(json_root(doc), "stderr"), ""));
	*ret = (double)ns / 1e3;
	return NULL;
}

/* Starts the loop, makes the change, and waits for the loop's end. */
static struct err *one(struct bench *b, struct lane *l, const char *loop, const struct ask *change,
		       struct row *row)
{
	struct call c = { 0 };
	double begin, end = 0;
	struct err *e;

	exec_command(b, &c, l, "policy", loop);
	e = bench_pause(b, SETTLE_MS);
	begin = (double)clock_wall();
	if (!e)
		e = world_ask(b, change, NULL);
	if (!e)
		e = bench_until(b, &c.over, ANSWER_MS);
	if (!e)
		e = read_time(&c, &end);
	if (!e)
		samples_add(&row->us, end - begin);
	call_done(&c);
	return e;
}

static struct err *measure(struct bench *b, size_t n)
{
	autofree char *all =
		xasprintf("/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies", b->ns);
	autofree char *path = xasprintf("%s/shut", all);
	const struct ask shut = {
		.method = "POST",
		.path = all,
		.body = "{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"NetworkPolicy\","
			"\"metadata\":{\"name\":\"shut\"},\"spec\":{\"podSelector\":{},\"policyTypes\":[\"Egress\"]}}"
	};
	const struct ask open = { .method = "DELETE", .path = path };
	struct row *shuts = bench_row(b, "policy", "policy shuts", NULL,
				      "POST of a NetworkPolicy to the first refused connection"),
		   *opens = bench_row(b, "policy", "policy opens", NULL,
				      "DELETE of it to the first connection that works");
	struct err *e = NULL;
	struct lane lane;

	row_figure(shuts, "sandboxes", (double)settings_int(b->settings, "pool") + 1);
	lane_init(&lane, &b->router);
	for (size_t i = 0; !e && i < n; i++) {
		e = one(b, &lane, LOOP("while"), &shut, shuts);
		if (!e)
			e = one(b, &lane, LOOP("until"), &open, opens);
	}
	lane_done(&lane);
	return e;
}

struct err *scenario_policy(struct bench *b)
{
	size_t n = (size_t)MIN(settings_int(b->settings, "runs"), (int64_t)RUNS_MAX);
	struct err *e;

	if (!*b->router.addr) {
		(void)fprintf(stderr, "cay: bench: policy: left out, because --router is empty\n");
		return NULL;
	}
	e = world_pool(b, "policy", (unsigned)settings_int(b->settings, "pool"));
	if (!e)
		e = world_sandbox(b, "policy", NULL);
	if (!e)
		e = measure(b, n);
	return e ? e : world_empty(b);
}
