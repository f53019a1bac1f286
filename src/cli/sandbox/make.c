/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New sandboxes for commands: a claim of a pool, or a Sandbox without one. The name is chosen here
 * and not by the server, so that what was asked for can be removed even if no answer came.
 *
 * `?wait=Ready` makes the create one round trip with a cay server. Another server ignores it and
 * answers at once; then a watch follows the object.
 */
#include "api/agents.h"
#include "api/meta.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/sandbox/sandbox_priv.h"
#include "loop/loop.h"

enum {
	FIRST_WAIT_S = 2, /* in the create itself; afterwards we look at what is reported */
	REMOVE_TRIES = 5,
	REMOVE_AGAIN_MS = 200,
	WATCH_AGAIN_MS = 200, /* a watch that ended early is begun anew */
};

void made_done(struct made *m)
{
	free(m->claim);
	free(m->sandbox);
	free(m->pool);
	*m = (struct made){ 0 };
}

/* What to create */

static void set_end(struct json_doc *d, struct json *at, uint64_t ttl_ms)
{
	char text[CLOCK_TEXT_MAX];

	if (!ttl_ms)
		return;
	clock_format(clock_wall() + (usec)ttl_ms * 1000, text);
	json_set_str(d, at, "shutdownTime", text);
	json_set_str(d, at, "shutdownPolicy", "Delete");
}

static struct json *new_object(struct json_doc *d, const char *api, const char *kind,
			       const char *name)
{
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "apiVersion", api);
	json_set_str(d, o, "kind", kind);
	json_set_str(d, json_need_obj(d, o, "metadata"), "name", name);
	return json_need_obj(d, o, "spec");
}

static char *claim_text(const struct make_spec *spec)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *s = new_object(d, API_EXTENSIONS, "SandboxClaim", spec->name);

	json_set_str(d, json_need_obj(d, s, "warmPoolRef"), "name", spec->pool);
	if (spec->ttl_ms)
		set_end(d, json_need_obj(d, s, "lifecycle"), spec->ttl_ms);
	return json_to_text(json_root(d));
}

static char *sandbox_text(const struct make_spec *spec)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *s = new_object(d, API_SANDBOX, "Sandbox", spec->name);
	struct json *pod = json_need_obj(d, json_need_obj(d, s, "podTemplate"), "spec");
	struct json *container = json_obj(d);
	struct json *command = json_need_arr(d, container, "command");

	json_set_str(d, container, "name", "main");
	json_set_str(d, container, "image", spec->image);
	json_push_str(d, command, "sleep");
	json_push_str(d, command, "infinity");
	json_push(d, json_need_arr(d, pod, "containers"), container);
	set_end(d, s, spec->ttl_ms);
	return json_to_text(json_root(d));
}

/* Waiting */

struct follow {
	struct feed feed;
	struct json_doc *last;
	struct err *e;
};

/* Reasons that no waiting will change: somebody has to change the object or the host. */
static struct err *hopeless(const struct json *object)
{
	static const char *const reasons[] = { "EnvVarsInjectionRejected",
					       "VolumeClaimTemplatesError",
					       "InvalidMetadata",
					       "TemplateNotFound",
					       "WarmPoolNotFound",
					       "PodFailed",
					       "PodSucceeded",
					       NULL };
	static const char *const words[] = {
		"ErrImagePull",         "ImagePullBackOff",  "InvalidImageName",
		"ErrImageNeverPull",    "CrashLoopBackOff",  "CreateContainerConfigError",
		"CreateContainerError", "RunContainerError", NULL
	};
	const struct json *ready = condition_of(object, "Ready");
	const char *reason = str_or(json_get_str(ready, "reason"), "");
	const char *message = str_or(json_get_str(ready, "message"), "");
	bool bad = str_in(reason, reasons);

	for (size_t i = 0; words[i] && !bad; i++)
		bad = strstr(message, words[i]) != NULL;
	return bad ? err_new(ERR_UNAVAILABLE, "%s: %s", reason, message) : NULL;
}

/* An event of the watch. False: it is decided. */
static bool on_event(struct feed *f, const char *p, size_t len)
{
	struct follow *w = container_of(f, struct follow, feed);
	autoptr(json_doc) doc = NULL;
	const struct json *object;
	const char *type;

	w->e = json_parse(p, len, NULL, &doc);
	if (w->e)
		return false;
	object = json_get(json_root(doc), "object");
	type = json_get_str(json_root(doc), "type");
	if (str_eq(type, "BOOKMARK"))
		return true;
	if (str_eq(type, "DELETED") || str_eq(type, "ERROR")) {
		w->e = err_new(ERR_UNAVAILABLE, "somebody has deleted it, or the watch was cut");
		return false;
	}
	json_doc_free(w->last);
	w->last = json_doc_new();
	json_set_root(w->last, json_copy(w->last, object));
	w->e = hopeless(object);
	return !w->e && !is_ready(object);
}

static struct err *not_ready(const struct json *object, const char *name)
{
	const struct json *ready = condition_of(object, "Ready");

	return err_new(ERR_TIMEOUT, "%s is not Ready in time (%s: %s); see `cay explain %s`", name,
		       str_or(json_get_str(ready, "reason"), "no reason given"),
		       str_or(json_get_str(ready, "message"), "nothing reported"), name);
}

/* Follows *doc until it is Ready; collection is the path of its kind. */
static struct err *wait_ready(struct remote *r, const char *collection, usec deadline,
			      struct json_doc **doc)
{
	struct follow w = { .feed = { .line = on_event }, .last = *doc };
	struct err *e = hopeless(json_root(*doc));

	while (!e && !is_ready(json_root(w.last))) {
		const struct json *meta = json_get(json_root(w.last), "metadata");
		autofree char *path = xasprintf(
			"%s?watch=true&fieldSelector=metadata.name%%3D%s&resourceVersion=%s",
			collection, json_get_str(meta, "name"),
			json_get_str(meta, "resourceVersion"));
		usec left = (deadline - clock_mono()) / 1000;

		if (left <= 0)
			break;
		w.feed.timeout_ms = (uint64_t)left;
		e = remote_feed(r, path, &w.feed);
		if (!e)
			e = take(w.e);
		if (!e && !is_ready(json_root(w.last)))
			e = remote_pause(r, WATCH_AGAIN_MS);
	}
	err_free(w.e);
	if (!e && !is_ready(json_root(w.last)))
		e = not_ready(json_root(w.last),
			      json_str(json_at_path(json_root(w.last), "metadata.name")));
	*doc = w.last;
	return e;
}

/* Creating */

static struct err *create(struct remote *r, const char *collection, const char *body,
			  uint64_t wait_ms, struct json_doc **ret)
{
	unsigned wait_s = (unsigned)MIN(wait_ms / 1000 + 1, (uint64_t)FIRST_WAIT_S);
	autofree char *path =
		xasprintf(wait_ms ? "%s?wait=Ready&timeoutSeconds=%u" : "%s", collection, wait_s);

	return remote_ask(
		r, &(struct ask){ .method = "POST", .path = path, .body = body, .what = "create" },
		ret);
}

struct err *make_sandbox(struct remote *r, const struct make_spec *spec, struct made *ret)
{
	autofree char *collection =
		spec->pool ? path_claims(remote_ns(r), NULL) : path_sandboxes(remote_ns(r), NULL);
	autofree char *body = spec->pool ? claim_text(spec) : sandbox_text(spec);
	autoptr(json_doc) doc = NULL;
	autofree char *note = xasprintf("waiting for %s", spec->name);
	usec deadline = clock_mono() + (usec)spec->wait_ms * 1000;
	struct err *e;

	remote_note(r, note);
	if (spec->pool)
		ret->claim = xstrdup(spec->name);
	else
		ret->sandbox = xstrdup(spec->name);
	e = create(r, collection, body, spec->wait_ms, &doc);
	if (!e && spec->wait_ms)
		e = wait_ready(r, collection, deadline, &doc);
	remote_note(r, NULL);
	if (err_is(e, ERR_EXISTS)) /* and is not ours to remove */
		made_done(ret);
	if (e)
		return err_wrap(e, "%s %s", spec->pool ? "claim" : "sandbox", spec->name);
	if (spec->pool)
		ret->sandbox =
			xstrdup(json_str(json_at_path(json_root(doc), "status.sandbox.name")));
	return NULL;
}

struct err *make_pool(struct remote *r, const char *template, struct made *ret)
{
	autofree char *path = path_pools(remote_ns(r), NULL);
	autofree char *template_path =
		xasprintf("/apis/" API_EXTENSIONS "/namespaces/%s/sandboxtemplates/%s",
			  remote_ns(r), template);
	autoptr(json_doc) d = json_doc_new();
	autofree char *body = NULL;
	const char *fault = meta_bad_dns_subdomain(template);
	char suffix[9];
	struct json *s;
	struct err *e;

	if (fault)
		return err_new(ERR_INVALID, "--template: \"%s\": %s", template, fault);
	e = remote_get(r, template_path, NULL);
	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return err_new(ERR_NOT_FOUND, "no template named %s in namespace %s", template,
			       remote_ns(r));
	}
	if (e)
		return e;
	random_suffix(suffix, sizeof(suffix) - 1);
	ret->pool = xasprintf("run-%s", suffix);
	s = new_object(d, API_EXTENSIONS, "SandboxWarmPool", ret->pool);
	json_set_int(d, s, "replicas", 0);
	json_set_str(d, json_need_obj(d, s, "sandboxTemplateRef"), "name", template);
	body = json_to_text(json_root(d));
	return remote_ask(r, &(struct ask){ .method = "POST", .path = path, .body = body }, NULL);
}

/* Choosing */

static struct err *several(const struct json *pools, const char *ns)
{
	autobuf names = { 0 };

	json_each(it, pools)
		buf_printf(&names, "%s%s", names.len ? ", " : "",
			   str_or(json_str(json_at_path(it.val, "metadata.name")), "?"));
	return err_new(ERR_INVALID, "namespace %s has %zu pools: %s; choose one with --pool", ns,
		       json_len(pools), buf_str(&names));
}

static const char *pool_of_template(const struct json *pools, const char *template)
{
	json_each(it, pools)
		if (str_eq(json_str(json_at_path(it.val, "spec.sandboxTemplateRef.name")),
			   template))
			return json_str(json_at_path(it.val, "metadata.name"));
	return NULL;
}

struct err *make_choose(struct remote *r, const char *template, char **ret_pool)
{
	autofree char *path = path_pools(remote_ns(r), NULL);
	autoptr(json_doc) doc = NULL;
	const struct json *pools;
	struct err *e = remote_get(r, path, &doc);

	if (e)
		return e;
	pools = json_get(json_root(doc), "items");
	if (template)
		*ret_pool = xstrdup(pool_of_template(pools, template));
	else if (json_len(pools) > 1)
		return several(pools, remote_ns(r));
	else
		*ret_pool = xstrdup(json_str(json_at_path(pools, "0.metadata.name")));
	return NULL;
}

/* Removing */

/* A create that we did not see the answer of may come after our delete: look again. */
static struct err *remove_one(struct remote *r, char *path)
{
	struct err *e = NULL;

	for (int i = 0; i < REMOVE_TRIES; i++) {
		err_free(e);
		e = remote_ask(r, &(struct ask){ .method = "DELETE", .path = path }, NULL);
		if (!err_is(e, ERR_NOT_FOUND))
			break;
		err_free(remote_pause(r, REMOVE_AGAIN_MS)); /* a signal makes us hurry */
	}
	free(path);
	if (err_is(e, ERR_NOT_FOUND))
		err_free(take(e));
	return e;
}

struct err *made_remove(struct remote *r, const struct made *m)
{
	struct err *e = NULL, *e2 = NULL;

	if (m->claim)
		e = remove_one(r, path_claims(remote_ns(r), m->claim));
	else if (m->sandbox)
		e = remove_one(r, path_sandboxes(remote_ns(r), m->sandbox));
	if (m->pool)
		e2 = remove_one(r, path_pools(remote_ns(r), m->pool));
	if (e)
		err_free(e2);
	return e ? e : e2;
}
