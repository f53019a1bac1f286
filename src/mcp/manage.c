/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/view_claim.h"
#include "api/view_sandbox.h"
#include "base/str.h"
#include "client/client.h"
#include "mcp/mcp_priv.h"

/* delete_sandbox and get_sandbox_status, and the resource that lists claims. */

struct removal {
	struct rpc *rpc;
	struct client_write write;
	struct err *error; /* of the delete */
	bool done;
};

static void removal_stop(void *work)
{
	struct removal *d = work;

	client_cancel(&d->write);
	err_free(d->error);
	free(d);
}

/* Takes e over. */
static void removal_end(struct removal *d, struct err *e)
{
	struct rpc *r = d->rpc;

	r->stop = NULL;
	removal_stop(d);
	if (e)
		tool_failed(r, e, NULL);
	else
		tool_done(r, NULL);
}

static void on_durable(struct client_write *w, struct err *e, struct object *obj unused)
{
	removal_end(container_of(w, struct removal, write), e);
}

static void on_deleted(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct removal *d = container_of(w, struct removal, write);

	d->error = e;
	d->done = true;
}

void delete_start(struct rpc *r)
{
	autoptr(object) claim = NULL;
	struct err *e = claims_find(r, "delete", &claim);
	struct client_delete_spec spec = { .grace_s = -1 };
	struct removal *d;

	if (e) {
		tool_failed(r, e, NULL);
		return;
	}
	spec.uid = claim->uid;
	d = xnew(struct removal);
	d->rpc = r;
	d->write.done = on_deleted;
	client_delete(r->mcp->spec.client,
		      &(struct client_ref){ claim->kind, claim->ns, claim->name, NULL }, &spec,
		      &d->write);
	if (!d->done || d->error) {
		e = d->error ? take(d->error) : err_new(ERR_UNCERTAIN, "there was no answer");
		removal_end(d, e);
		return;
	}
	r->work = d;
	r->stop = removal_stop;
	d->write.done = on_durable;
	client_sync(r->mcp->spec.client, &d->write);
}

void status_start(struct rpc *r)
{
	autoptr(object) claim = NULL;
	autoptr(object) sandbox = claims_attached(r);
	struct err *e = sandbox ? claims_may_look(r->post, sandbox) : claims_find(r, "get", &claim);
	struct json_doc *d = r->post->out;
	const struct condition_view *ready;
	struct json *out;

	if (e) {
		tool_failed(r, e, NULL);
		return;
	}
	ready = sandbox ? &sandbox_view(sandbox)->ready : &claim_view(claim)->ready;
	out = json_obj(d);
	json_set_str(d, out, "status", str_or(ready->reason, "Pending"));
	json_set_bool(d, out, "ready", ready->is_true);
	json_set_str(d, out, "message", str_or(ready->message, ""));
	tool_done(r, out);
}

struct listing {
	struct json_doc *doc;
	struct json *contents;
	const char *uri;
};

static void add_name(void *arg, const char *name)
{
	struct listing *l = arg;
	struct json *c = json_obj(l->doc);

	json_set_str(l->doc, c, "uri", l->uri);
	json_set_str(l->doc, c, "mimeType", "text/plain");
	json_set_str(l->doc, c, "text", name);
	json_push(l->doc, l->contents, c);
}

static void add_claim(void *arg, struct object *o)
{
	add_name(arg, o->name);
}

void resource_read(struct rpc *r)
{
	static const char scheme[] = "sandboxes://";
	struct json_doc *d = r->post->out;
	const char *uri = json_get_str(r->params, "uri");
	const char *ns = uri && str_starts(uri, scheme) ? uri + strlen(scheme) : NULL;
	struct listing l = { .doc = d, .uri = uri };
	autoptr(err) e = NULL;
	struct json *result;

	if (!uri) {
		rpc_error(r, RPC_INVALID_PARAMS, "uri: must be a string");
		return;
	}
	if (!ns || meta_bad_dns_label(ns)) {
		result = json_obj(d);
		json_set_str(d, result, "uri", uri);
		rpc_error_data(r, RPC_NO_RESOURCE, "Resource not found", result);
		return;
	}
	result = json_obj(d);
	l.contents = json_need_arr(d, result, "contents");
	e = claims_may(r, "list", ns, NULL);
	if (!e)
		claims_each(r->post, ns, add_claim, &l);
	if (claims_each_attached(r->post, ns, !e, add_name, &l) || !e)
		rpc_result(r, result);
	else
		rpc_error(r, RPC_REFUSED, err_text(e));
}
