/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods of each runtime class that the server has, one at a time: from the POST to the event that
 * says Ready, a command in one that runs, and from the DELETE to the event that it is gone. Beside
 * them what other programs need for the same (bench/peers.c).
 */
#include <stdio.h>

#include "api/meta.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

enum {
	RUNS_MAX = 100,
	LEAST_RUNS = 10,
	SERIES_MS = 20000, /* a slow class is measured less often than a fast one */
	FIRST_MS = 20000,  /* for the first Pod of a class: it may not run here at all */
	POD_MS = 60000,
	CLASSES_MAX = 16,
};

/* The watch on the Pods of our namespace. */
struct pods_seen {
	struct bench *b;
	struct lane lane;
	struct call watch;
	char *name; /* of the Pod that is waited for */
	bool ready, gone;
};

struct class_rows {
	struct row *start, *exec, *remove;
};

static void on_pod(struct call *call, const char *text, size_t len)
{
	struct pods_seen *s = container_of(call, struct pods_seen, watch);
	autoptr(json_doc) doc = NULL;
	autoptr(err) e = json_parse(text, len, NULL, &doc);
	const struct json *pod = e ? NULL : json_get(json_root(doc), "object");

	if (!pod || !s->name || !str_eq(json_str(json_at_path(pod, "metadata.name")), s->name))
		return;
	if (str_eq(json_get_str(json_root(doc), "type"), "DELETED"))
		s->gone = true;
	else if (conditions_true(json_at_path(pod, "status.conditions"), "Ready"))
		s->ready = true;
}

static struct err *watch(struct pods_seen *s)
{
	autofree char *path =
		xasprintf("/api/v1/namespaces/%s/pods?watch=true&timeoutSeconds=86400", s->b->ns);
	struct err *e = NULL;

	lane_init(&s->lane, &s->b->api);
	s->watch = (struct call){ .line = on_pod };
	call_start(&s->watch, &s->lane, &(struct ask){ .method = "GET", .path = path });
	while (!e && !s->watch.status && !s->watch.over)
		e = bench_pause(s->b, 10);
	if (!e && s->watch.status != 200)
		e = err_wrap(call_error(&s->watch), "watch Pods");
	return e;
}

/* What keeps the Pod from running, in its own words. */
static struct err *reason(struct bench *b, const char *path)
{
	autoptr(json_doc) doc = NULL;
	struct err *e = world_ask(b, &(struct ask){ .method = "GET", .path = path }, &doc);
	const struct json *status, *waits;

	if (e)
		return e;
	status = json_get(json_root(doc), "status");
	waits = json_at_path(json_at(json_get(status, "containerStatuses"), 0), "state.waiting");
	return err_new(ERR_UNAVAILABLE, "%s: %s",
		       str_or(json_get_str(waits, "reason"),
			      str_or(json_get_str(status, "reason"), "it does not become Ready")),
		       str_or(json_get_str(waits, "message"),
			      str_or(json_get_str(status, "message"), "no message")));
}

static struct err *remove_pod(struct pods_seen *s, const char *path, struct row *row)
{
	double begin = (double)clock_mono();
	struct err *e = world_ask(s->b, &(struct ask){ .method = "DELETE", .path = path }, NULL);

	if (!e)
		e = bench_until(s->b, &s->gone, POD_MS);
	if (!e && row)
		samples_add(&row->us, (double)clock_mono() - begin);
	return e;
}

/* rows NULL: the first one, which is not measured and may fail. */
static struct err *one_pod(struct pods_seen *s, const char *class, unsigned n,
			   const struct class_rows *rows)
{
	autofree char *all = xasprintf("/api/v1/namespaces/%s/pods", s->b->ns);
	autofree char *name = xasprintf("%s-%u", class, n);
	autofree char *path = xasprintf("%s/%s", all, name);
	autofree char *body = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\"},\"spec\":{\"runtimeClassName\":\"%s\","
		"\"containers\":[{\"name\":\"main\",\"image\":\"%s\",\"command\":[\"sleep\",\"infinity\"]}]}}",
		name, class, settings_text(s->b->settings, "image"));
	double begin = (double)clock_mono();
	struct err *e;

	s->name = name;
	s->ready = s->gone = false;
	e = world_ask(s->b, &(struct ask){ .method = "POST", .path = all, .body = body }, NULL);
	if (!e)
		e = bench_until(s->b, &s->ready, rows ? POD_MS : FIRST_MS);
	if (!e && rows)
		samples_add(&rows->start->us, (double)clock_mono() - begin);
	if (!e)
		e = remove_pod(s, path, rows ? rows->remove : NULL);
	else if (!rows && err_is(e, ERR_TIMEOUT)) {
		err_free(e);
		e = reason(s->b, path);
		err_free(remove_pod(s, path, NULL)); /* the namespace goes in the end anyway */
	}
	s->name = NULL;
	return e;
}

static struct err *exec_in_class(struct bench *b, const char *class, size_t n, struct row *row)
{
	autofree char *name = xasprintf("exec-%s", class);
	struct err *e = world_sandbox(b, name, class);

	if (!e)
		e = exec_times(b, name, n, row);
	return e ? e : world_empty(b);
}

static struct row *named_row(struct bench *b, const char *floor, const char *what,
			     const char *doing, const char *of)
{
	autofree char *name = xasprintf("%s %s", doing, of);

	return bench_row(b, "runtimes", name, floor, what);
}

static struct err *measure_class(struct pods_seen *s, const char *class, struct class_rows *ret)
{
	unsigned n = (unsigned)MIN(settings_int(s->b->settings, "runs"), (int64_t)RUNS_MAX);
	usec deadline;
	struct err *e = one_pod(s, class, 0, NULL);

	if (e && !err_is(e, ERR_UNAVAILABLE))
		return e;
	if (e) {
		if (s->b->stopped)
			return e;
		(void)fprintf(stderr, "cay: bench: runtime class %s is left out: %s\n", class,
			      err_text(e));
		err_free(e);
		return NULL;
	}
	ret->start = named_row(s->b, "launch", "Pod, POST to Ready event", "start", class);
	ret->remove = named_row(s->b, NULL, "Pod that runs, DELETE to the event that it is gone",
				"remove", class);
	deadline = clock_mono() + (usec)SERIES_MS * 1000;
	for (unsigned i = 1; !e && i <= n && (i <= LEAST_RUNS || clock_mono() < deadline); i++)
		e = one_pod(s, class, i, ret);
	if (e || !*s->b->router.addr)
		return e;
	ret->exec = named_row(s->b, "exec", "/bin/true in a running sandbox, through the router",
			      "exec", class);
	return exec_in_class(s->b, class, n, ret->exec);
}

static void peer_row(struct bench *b, const struct json *us, const char *doing, const char *name,
		     struct row *ours)
{
	autofree char *what = xasprintf("%s itself, behind the same walls", name);
	autofree char *of = xasprintf("by %s", name);

	if (us)
		row_peer(named_row(b, NULL, what, doing, of), us, ours);
}

/* What is not there is said and left out. */
static void peers(struct bench *b, const struct class_rows *ours)
{
	static const char *const which[] = { "all", NULL };
	unsigned n = (unsigned)MIN(settings_int(b->settings, "runs"), (int64_t)RUNS_MAX);
	autoptr(json_doc) all = NULL;
	autoptr(err) e = program_measure(b, "peers", n, which, &all);

	if (e) {
		(void)fprintf(stderr, "cay: bench: no other programs beside ours: %s\n",
			      err_text(e));
		return;
	}
	json_each(it, json_root(all)) {
		const char *missing = json_get_str(it.val, "missing");

		if (missing) {
			(void)fprintf(stderr, "cay: bench: %s is left out: %s\n", it.key, missing);
			continue;
		}
		peer_row(b, json_get(it.val, "us"), "start", it.key, ours->start);
		peer_row(b, json_get(it.val, "exec_us"), "exec", it.key, ours->exec);
		peer_row(b, json_get(it.val, "remove_us"), "remove", it.key, ours->remove);
	}
}

static struct err *measure_classes(struct pods_seen *s, const struct json *classes)
{
	struct class_rows native = { 0 };
	struct err *e = NULL;
	size_t n = 0;

	json_each(it, classes) {
		const char *class = json_str(json_at_path(it.val, "metadata.name"));
		struct class_rows rows = { 0 };

		if (!class || n++ == CLASSES_MAX)
			continue;
		e = measure_class(s, class, &rows);
		if (e)
			return err_wrap(e, "runtime class %s", class);
		if (str_eq(class, "native"))
			native = rows;
	}
	peers(s->b, &native);
	return NULL;
}

struct err *scenario_runtimes(struct bench *b)
{
	struct pods_seen s = { .b = b };
	autoptr(json_doc) classes = NULL;
	struct err *e = world_ask(
		b, &(struct ask){ .method = "GET", .path = "/apis/node.k8s.io/v1/runtimeclasses" },
		&classes);

	if (!e)
		e = watch(&s);
	if (!e)
		e = measure_classes(&s, json_get(json_root(classes), "items"));
	call_done(&s.watch);
	lane_done(&s.lane);
	return e;
}
