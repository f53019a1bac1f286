/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "mcp/mcp_priv.h"

/*
 * create_sandbox: a claim with the labels that say whose it is, and a wait until it is Ready. A
 * claim whose sandbox nobody gets to know of, because it failed or was cancelled, is deleted.
 */
struct create {
	struct rpc *rpc;
	struct mcp *mcp;
	struct client_write write;
	struct timer *timer;
	char *key; /* in mcp.waiting; NULL: not yet */
	char *ns, *name, *uid;
	struct err *error; /* of the create */
};

static void create_free(struct create *c)
{
	if (c->key)
		(void)map_take(c->mcp->waiting, c->key);
	client_cancel(&c->write);
	timer_free(c->timer);
	err_free(c->error);
	free(c->key);
	free(c->ns);
	free(c->name);
	free(c->uid);
	free(c);
}

static void drop_claim(struct create *c)
{
	const struct client_ref ref = { .kind = c->mcp->claims, .ns = c->ns, .name = c->name };
	const struct client_delete_spec spec = { .uid = c->uid, .grace_s = -1 };

	if (c->name)
		client_delete(c->mcp->spec.client, &ref, &spec, NULL);
}

/* Takes e over. */
static void fail(struct create *c, struct err *e)
{
	struct rpc *r = c->rpc;

	drop_claim(c);
	create_free(c);
	r->stop = NULL;
	tool_failed(r, e, NULL);
}

static void create_stop(void *work)
{
	drop_claim(work);
	create_free(work);
}

static void on_durable(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct create *c = container_of(w, struct create, write);
	struct rpc *r = c->rpc;
	struct json_doc *d = r->post->out;
	struct json *out;

	if (e) {
		fail(c, e);
		return;
	}
	out = json_obj(d);
	json_set_str(d, out, "sandbox_claim_name", c->name);
	create_free(c);
	r->stop = NULL;
	tool_done(r, out);
}

/* Reasons that waiting does not change. */
static bool is_terminal(const char *reason)
{
	static const char *const rows[] = {
		"TemplateNotFound",         "WarmPoolNotFound",
		"InvalidMetadata",          "ClaimExpired",
		"EnvVarsInjectionRejected", "VolumeClaimTemplatesError",
		"SandboxExpired",           NULL,
	};

	return str_in(reason, rows);
}

/* What has become of the claim. May free c. */
static void look(struct create *c)
{
	autoptr(object) o = client_get(c->mcp->spec.client, c->mcp->claims, c->ns, c->name);
	const struct claim_view *v = o && str_eq(o->uid, c->uid) ? claim_view(o) : NULL;

	if (!v || v->deleting) {
		fail(c, err_new(ERR_NOT_FOUND, "the claim %s was deleted meanwhile", c->name));
	} else if (v->ready.is_true) {
		(void)map_take(c->mcp->waiting, c->key);
		free(take(c->key));
		timer_clear(c->timer);
		c->write.done = on_durable;
		client_sync(c->mcp->spec.client, &c->write);
	} else if (is_terminal(v->ready.reason)) {
		fail(c, err_new(ERR_UNAVAILABLE, "%s: %s", v->ready.reason,
				str_or(v->ready.message, "")));
	}
}

/* Each look may end others; so they are taken by name, and looked for again. */
void create_look(struct mcp *m)
{
	size_t n = map_len(m->waiting), i = 0;
	char **keys = xnew_n(char *, n + 1);

	map_each(it, m->waiting)
		keys[i++] = xstrdup(it.key);
	for (i = 0; i < n; i++) {
		struct create *c = map_get(m->waiting, keys[i]);

		if (c)
			look(c);
		free(keys[i]);
	}
	free(keys);
}

static void on_late(void *arg)
{
	struct create *c = arg;
	autoptr(object) o = client_get(c->mcp->spec.client, c->mcp->claims, c->ns, c->name);
	const struct claim_view *v = o ? claim_view(o) : NULL;

	fail(c, err_new(ERR_TIMEOUT, "it is not ready in time: %s: %s",
			v ? str_or(v->ready.reason, "Pending") : "Deleted",
			v ? str_or(v->ready.message, "nothing was reported") : "it is gone"));
}

static void on_created(struct client_write *w, struct err *e, struct object *obj)
{
	struct create *c = container_of(w, struct create, write);

	c->error = e;
	if (!e) {
		c->name = xstrdup(obj->name);
		c->uid = xstrdup(obj->uid);
	}
}

static struct err *check_labels(const struct json *labels)
{
	json_each(it, labels)
		if (str_starts(it.key, "mcp.k8s-agent-sandbox/") ||
		    str_starts(it.key, "mcp.cay.dev/") || str_starts(it.key, "cay.dev/"))
			return err_new(ERR_INVALID, "labels: %s is set by the server", it.key);
	return NULL;
}

static void add_map(const struct rpc *r, const char *arg, struct json_doc *d, struct json *to)
{
	const struct json *map = arg_map(r, arg);

	if (json_len(map))
		json_set(d, json_need_obj(d, to, "additionalPodMetadata"), arg + strlen("pod_"),
			 json_copy(d, map));
}

static struct json_doc *claim_doc(const struct rpc *r)
{
	const struct mcp_session *s = r->post->session;
	int64_t after_s = arg_int(r, "shutdown_after_seconds");
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *labels, *spec;
	char when[CLOCK_TEXT_MAX];

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "generateName", "sandbox-claim-");
	labels = arg_map(r, "labels") ? json_copy(d, arg_map(r, "labels")) : json_obj(d);
	json_set(d, meta, "labels", labels);
	if (!s->alone)
		json_set_str(d, labels, MCP_SESSION_LABEL, s->id);
	json_set_str(d, labels, MCP_OWNER_LABEL, r->post->caller->owner);
	spec = json_need_obj(d, root, "spec");
	json_set_str(d, json_need_obj(d, spec, "warmPoolRef"), "name", arg_text(r, "warmpool"));
	add_map(r, "pod_labels", d, spec);
	add_map(r, "pod_annotations", d, spec);
	if (after_s > 0) {
		struct json *life = json_need_obj(d, spec, "lifecycle");

		clock_format(clock_wall() + after_s * 1000000, when);
		json_set_str(d, life, "shutdownTime", when);
		json_set_str(d, life, "shutdownPolicy", "Delete");
	}
	return d;
}

void create_start(struct rpc *r)
{
	const char *ns = arg_ns(r);
	struct err *e = check_labels(arg_map(r, "labels"));
	struct create *c;

	if (!e)
		e = claims_may_create(r, ns, arg_text(r, "warmpool"));
	if (e) {
		tool_failed(r, e, NULL);
		return;
	}
	c = xnew(struct create);
	c->rpc = r;
	c->mcp = r->mcp;
	c->ns = xstrdup(ns);
	c->timer = timer_new(r->mcp->loop, on_late, c);
	c->write.done = on_created;
	client_create(r->mcp->spec.client,
		      &(struct client_ref){ r->mcp->claims, c->ns, NULL, NULL }, claim_doc(r),
		      &c->write);
	if (!c->name) {
		e = take(c->error);
		fail(c, e ? e : err_new(ERR_INTERNAL, "the claim was not created"));
		return;
	}
	c->key = xasprintf("%s/%s", c->ns, c->name);
	map_put(r->mcp->waiting, c->key, c);
	timer_set(c->timer, (uint64_t)arg_int(r, "sandbox_ready_timeout"));
	r->work = c;
	r->stop = create_stop;
	look(c);
}
