/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects around a measurement: a namespace that is removed in the end, a template, pools. All
 * of this is polled for and not watched, because each watch would cost the server work for every
 * claim that is measured.
 */
#include <stdio.h>

#include "api/agents.h"
#include "api/meta.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	ANSWER_MS = 60000,
	POLL_MS = 50,
	STUCK_MS = 120000, /* without a change */
};

#define OURS "/apis/" API_EXTENSIONS "/namespaces/%s/"

struct err *world_ask(struct bench *b, const struct ask *ask, struct json_doc **ret)
{
	struct call c = { 0 };
	struct err *e;

	call_start(&c, &b->lane, ask);
	e = bench_until(b, &c.over, ANSWER_MS);
	if (!e && !call_ok(&c))
		e = err_wrap(call_error(&c), "%s %s", ask->method, ask->path);
	if (!e && ret)
		e = json_parse(buf_head(&c.body), c.body.len,
			       &(struct json_limits){ .max_len = c.body.len + 1 }, ret);
	call_done(&c);
	return e;
}

static struct err *post(struct bench *b, const char *path, const char *body)
{
	return world_ask(b, &(struct ask){ .method = "POST", .path = path, .body = body }, NULL);
}

static struct err *make_template(struct bench *b)
{
	autofree char *path = xasprintf(OURS "sandboxtemplates", b->ns);
	autofree char *body = xasprintf(
		"{\"apiVersion\":\"" API_EXTENSIONS
		"\",\"kind\":\"SandboxTemplate\",\"metadata\":{\"name\":\"bench\"},\"spec\":{\"podTemplate\":{"
		"\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"%s\",\"command\":[\"sleep\",\"infinity\"],"
		"\"ports\":[{\"containerPort\":%d}]}]}}}}",
		settings_text(b->settings, "image"), RUNTIME_PORT);

	return post(b, path, body);
}

struct err *world_open(struct bench *b)
{
	char suffix[6];
	autofree char *body = NULL;
	struct err *e;

	random_suffix(suffix, 5);
	b->ns = xasprintf("bench-%s", suffix);
	body = xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%s\"}}",
		b->ns);
	e = post(b, "/api/v1/namespaces", body);
	if (e)
		return e;
	b->has_ns = true;
	return NULL;
}

struct err *world_ready(struct bench *b, const char *path, const char *what)
{
	usec deadline = clock_mono() + (usec)ANSWER_MS * 1000;
	struct err *e = NULL;
	bool ready = false;

	while (!e && !ready) {
		autoptr(json_doc) now = NULL;

		e = world_ask(b, &(struct ask){ .method = "GET", .path = path }, &now);
		if (e)
			return e;
		ready = conditions_true(json_at_path(json_root(now), "status.conditions"), "Ready");
		if (!ready && clock_mono() > deadline)
			return err_new(ERR_TIMEOUT, "%s was not Ready within %d s", what,
				       ANSWER_MS / 1000);
		if (!ready)
			e = world_trouble(b);
		if (!e && !ready)
			e = bench_pause(b, POLL_MS);
	}
	return e;
}

struct err *world_sandbox(struct bench *b, const char *name, const char *runtime_class)
{
	autofree char *path = xasprintf("/apis/" API_SANDBOX "/namespaces/%s/sandboxes", b->ns);
	autofree char *one = xasprintf("%s/%s", path, name);
	autofree char *class = runtime_class
				       ? xasprintf("\"runtimeClassName\":\"%s\",", runtime_class)
				       : xstrdup("");
	autofree char *body = xasprintf(
		"{\"apiVersion\":\"" API_SANDBOX
		"\",\"kind\":\"Sandbox\",\"metadata\":{\"name\":\"%s\"},\"spec\":{\"podTemplate\":{\"spec\":{%s"
		"\"containers\":[{\"name\":\"main\",\"image\":\"%s\",\"command\":[\"sleep\",\"infinity\"],"
		"\"ports\":[{\"containerPort\":%d}]}]}}}}",
		name, class, settings_text(b->settings, "image"), RUNTIME_PORT);
	autofree char *what = xasprintf("Sandbox %s", name);
	struct err *e = post(b, path, body);

	return e ? e : world_ready(b, one, what);
}

/* How many objects a collection has; polled until there are none. */
static struct err *count(struct bench *b, const char *path, int64_t *ret)
{
	autoptr(json_doc) list = NULL;
	autofree char *limited = xasprintf("%s?limit=1", path);
	struct err *e = world_ask(b, &(struct ask){ .method = "GET", .path = limited }, &list);

	if (e)
		return e;
	*ret = (int64_t)json_len(json_get(json_root(list), "items")) +
	       json_int(json_at_path(json_root(list), "metadata.remainingItemCount"), 0);
	return NULL;
}

static struct err *until_none(struct bench *b, const char *path)
{
	usec changed = clock_mono();
	int64_t n = -1, was = -1;
	struct err *e = count(b, path, &n);

	while (!e && n) {
		if (n != was)
			changed = clock_mono();
		was = n;
		if (clock_mono() > changed + (usec)STUCK_MS * 1000)
			return err_new(ERR_TIMEOUT,
				       "%lld objects of %s were not removed within %d s",
				       (long long)n, path, STUCK_MS / 1000);
		bench_say(b, "waiting until what was measured is removed: %lld left", (long long)n);
		e = bench_pause(b, POLL_MS);
		if (!e)
			e = count(b, path, &n);
	}
	return e;
}

static struct err *delete_all(struct bench *b, const char *path)
{
	return world_ask(b, &(struct ask){ .method = "DELETE", .path = path }, NULL);
}

struct err *world_empty(struct bench *b)
{
	autofree char *pools = xasprintf(OURS "sandboxwarmpools", b->ns);
	autofree char *claims = xasprintf(OURS "sandboxclaims", b->ns);
	autofree char *sandboxes =
		xasprintf("/apis/" API_SANDBOX "/namespaces/%s/sandboxes", b->ns);
	autofree char *pods = xasprintf("/api/v1/namespaces/%s/pods", b->ns);
	struct err *e = delete_all(b, pools);

	if (!e)
		e = delete_all(b, claims);
	if (!e)
		e = delete_all(b, sandboxes);
	if (!e)
		e = until_none(b, sandboxes);
	return e ? e : until_none(b, pods);
}

/* Why this Pod does not run, if waiting longer is of no use; NULL: it may. */
static struct err *pod_trouble(const struct json *pod)
{
	static const char *const hopeless[] = {
		"ErrImagePull",      "ImagePullBackOff",     "InvalidImageName",
		"ErrImageNeverPull", "CrashLoopBackOff",     "CreateContainerConfigError",
		"RunContainerError", "CreateContainerError", NULL
	};
	const char *name = json_str(json_at_path(pod, "metadata.name"));
	const struct json *status = json_get(pod, "status");

	if (str_eq(json_get_str(status, "phase"), "Failed"))
		return err_new(ERR_UNAVAILABLE, "Pod %s has failed: %s: %s", name,
			       str_or(json_get_str(status, "reason"), "no reason given"),
			       str_or(json_get_str(status, "message"), ""));
	json_each(it, json_get(status, "containerStatuses")) {
		const struct json *waits = json_at_path(it.val, "state.waiting");
		const char *reason = json_get_str(waits, "reason");

		if (reason && str_in(reason, hopeless))
			return err_new(ERR_UNAVAILABLE, "Pod %s does not start: %s: %s", name,
				       reason, str_or(json_get_str(waits, "message"), ""));
	}
	return NULL;
}

struct err *world_trouble(struct bench *b)
{
	autoptr(json_doc) list = NULL;
	autofree char *path = xasprintf("/api/v1/namespaces/%s/pods?limit=20", b->ns);
	struct err *e = world_ask(b, &(struct ask){ .method = "GET", .path = path }, &list);

	if (e)
		return e;
	json_each(it, json_get(json_root(list), "items")) {
		e = pod_trouble(it.val);
		if (e)
			return e;
	}
	return NULL;
}

struct err *world_pool_full(struct bench *b, const char *name, unsigned n)
{
	autofree char *path = xasprintf(OURS "sandboxwarmpools/%s", b->ns, name);
	usec changed = clock_mono(), looked = changed;
	int64_t ready = -1, was = -1;
	struct err *e = NULL;

	while (!e && ready < (int64_t)n) {
		autoptr(json_doc) pool = NULL;

		if (ready >= 0)
			e = bench_pause(b, POLL_MS);
		if (!e)
			e = world_ask(b, &(struct ask){ .method = "GET", .path = path }, &pool);
		if (e)
			return e;
		ready = json_int(json_at_path(json_root(pool), "status.readyReplicas"), 0);
		if (ready != was)
			changed = looked = clock_mono();
		was = ready;
		if (clock_mono() > looked + (usec)TROUBLE_MS * 1000) {
			looked = clock_mono();
			e = world_trouble(b);
		}
		if (!e && clock_mono() > changed + (usec)STUCK_MS * 1000)
			return err_new(
				ERR_TIMEOUT,
				"only %lld of %u members of pool %s became ready; is there room for "
				"them (cay serve --max-pods)?",
				(long long)ready, n, name);
		bench_say(b, "filling pool %s: %lld of %u", name, (long long)ready, n);
	}
	return e;
}

struct err *world_pool(struct bench *b, const char *name, unsigned n)
{
	autofree char *path = xasprintf(OURS "sandboxwarmpools", b->ns);
	autofree char *body =
		xasprintf("{\"apiVersion\":\"" API_EXTENSIONS
			  "\",\"kind\":\"SandboxWarmPool\",\"metadata\":{\"name\":\"%s\"},"
			  "\"spec\":{\"replicas\":%u,\"sandboxTemplateRef\":{\"name\":\"bench\"}}}",
			  name, n);
	struct err *e = b->has_template ? NULL : make_template(b);

	b->has_template = true;
	if (!e)
		e = post(b, path, body);
	return e ? e : world_pool_full(b, name, n);
}

static struct err *patch_pool(struct bench *b, const char *pool, const char *body)
{
	autofree char *path = xasprintf(OURS "sandboxwarmpools/%s", b->ns, pool);

	return world_ask(b,
			 &(struct ask){ .method = "PATCH",
					.path = path,
					.body = body,
					.type = "application/merge-patch+json" },
			 NULL);
}

struct err *world_refill(struct bench *b, const char *pool, bool on)
{
	autofree char *body = xasprintf("{\"metadata\":{\"annotations\":{\"" KEY_REFILL "\":%s}}}",
					on ? "null" : "\"off\"");

	return patch_pool(b, pool, body);
}

struct err *world_refilled(struct bench *b, const char *pool, struct row *row, int64_t left)
{
	autofree char *path = xasprintf(OURS "sandboxwarmpools/%s", b->ns, pool);
	autoptr(json_doc) doc = NULL;
	struct err *e = world_ask(b, &(struct ask){ .method = "GET", .path = path }, &doc);
	int64_t more;

	if (e)
		return e;
	more = json_int(json_at_path(json_root(doc), "status.replicas"), 0) - left;
	row_figure(row, "refilled", (double)MAX(more, (int64_t)0));
	if (more > 0)
		(void)fprintf(
			stderr,
			"cay: bench: %s: the server refilled the pool; it does not know the annotation " KEY_REFILL
			"\n",
			row->name);
	return NULL;
}

struct err *world_scale(struct bench *b, const char *pool, unsigned n)
{
	autofree char *body = xasprintf("{\"spec\":{\"replicas\":%u}}", n);

	return patch_pool(b, pool, body);
}

struct err *world_unclaim(struct bench *b, const char *prefix, size_t n)
{
	struct err *e = NULL;

	for (size_t i = 0; !e && i < n; i++) {
		autofree char *path = xasprintf(OURS "sandboxclaims/%s-%zu", b->ns, prefix, i);

		e = world_ask(b, &(struct ask){ .method = "DELETE", .path = path }, NULL);
		if (e && err_is(e, ERR_NOT_FOUND)) /* its POST had failed, and was counted */
			err_free(take(e));
	}
	return e;
}

/* Before its namespace: a controller would try to keep what belongs to it. */
static struct err *remove_template(struct bench *b)
{
	autofree char *path = xasprintf(OURS "sandboxtemplates/bench", b->ns);

	return b->has_template
		       ? world_ask(b, &(struct ask){ .method = "DELETE", .path = path }, NULL)
		       : NULL;
}

void world_close(struct bench *b)
{
	autofree char *path = xasprintf("/api/v1/namespaces/%s", b->ns);
	autoptr(err) e = NULL;

	if (!b->has_ns)
		return;
	b->stopped = false; /* a second signal gives up on this too */
	bench_say(b, "removing namespace %s", b->ns);
	e = world_empty(b);
	if (!e)
		e = remove_template(b);
	err_free(take(e));
	e = world_ask(b, &(struct ask){ .method = "DELETE", .path = path }, NULL);
	if (e)
		(void)fprintf(stderr, "cay: bench: namespace %s is left: %s\n", b->ns, err_text(e));
}
