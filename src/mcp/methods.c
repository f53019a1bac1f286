/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "mcp/mcp_priv.h"

/* The methods of the protocol, as a table. */

const char mcp_instructions[] =
	"Sandboxes for running untrusted code. create_sandbox takes one from a warm pool and tells "
	"its sandbox_claim_name; the other tools use it by that name. The resource "
	"sandboxes://NAMESPACE lists those that are there already. Commands run under /bin/sh "
	"in the directory to which relative paths of files belong. Delete a sandbox that is no "
	"longer needed; otherwise it ends after shutdown_after_seconds.";

struct json *mcp_capabilities(struct json_doc *d)
{
	struct json *can = json_obj(d);

	json_set(d, can, "tools", json_obj(d));
	json_set(d, can, "resources", json_obj(d));
	return can;
}

struct json *mcp_server_info(struct json_doc *d, const struct mcp *m)
{
	struct json *info = json_obj(d);

	json_set_str(d, info, "name", "K8sAgentSandbox");
	json_set_str(d, info, "title", "Cay sandboxes");
	json_set_str(d, info, "version", m->spec.version);
	return info;
}

static void initialize(struct rpc *r)
{
	struct post *p = r->post;
	struct json_doc *d = p->out;
	const char *wanted = json_get_str(r->params, "protocolVersion");
	enum mcp_version version = MCP_VERSION_MAX_ - 1;
	struct json *result;

	if (!wanted) {
		rpc_error(r, RPC_INVALID_PARAMS, "protocolVersion: must be a string");
		return;
	}
	(void)mcp_version_find(wanted, &version); /* the newest that we know, if it is another */
	mcp_session_unref(take(p->session));
	p->session = mcp_session_ref(mcp_session_open(p->mcp, &p->caller->who, &p->choice));
	p->session->version = version;
	p->opened = true;
	result = json_obj(d);
	json_set_str(d, result, "protocolVersion", mcp_versions[version]);
	json_set(d, result, "capabilities", mcp_capabilities(d));
	json_set(d, result, "serverInfo", mcp_server_info(d, p->mcp));
	json_set_str(d, result, "instructions", mcp_instructions);
	rpc_result(r, result);
}

static void ping(struct rpc *r)
{
	rpc_result(r, json_obj(r->post->out));
}

/* True if the answer is one page, as all of ours are. */
static bool first_page(struct rpc *r)
{
	if (!json_get(r->params, "cursor"))
		return true;
	rpc_error(r, RPC_INVALID_PARAMS, "cursor: there are no further pages");
	return false;
}

static void list_tools(struct rpc *r)
{
	struct json_doc *d = r->post->out;
	struct json *result;

	if (!first_page(r))
		return;
	result = json_obj(d);
	json_set(d, result, "tools", tools_list(d, r->post));
	rpc_result(r, result);
}

static void call_tool(struct rpc *r)
{
	static const struct json *const none = NULL;
	const char *name = json_get_str(r->params, "name");
	const struct json *args = json_get(r->params, "arguments");
	autofree char *text = NULL;
	struct err *e;

	r->tool = name ? tool_find(name) : NULL;
	if (!r->tool) {
		text = name ? xasprintf("Unknown tool: %.100s", name)
			    : xstrdup("name: must be a string");
		rpc_error(r, RPC_INVALID_PARAMS, text);
		return;
	}
	r->mcp->n_calls++;
	r->args = json_is(args, JSON_NULL) ? none : args;
	e = tool_granted(r->post, r->tool);
	if (!e)
		e = args_check(r->tool, r->args, r->post->session);
	if (e)
		tool_failed(r, e, NULL);
	else
		tool_start(r);
}

static struct json *resource_obj(struct json_doc *d, const char *member, const char *uri,
				 const char *help)
{
	struct json *o = json_obj(d);

	json_set_str(d, o, member, uri);
	json_set_str(d, o, "name", "sandboxes");
	json_set_str(d, o, "description", help);
	json_set_str(d, o, "mimeType", "text/plain");
	return o;
}

static void list_templates(struct rpc *r)
{
	struct json_doc *d = r->post->out;
	struct json *result;

	if (!first_page(r))
		return;
	result = json_obj(d);
	json_push(d, json_need_arr(d, result, "resourceTemplates"),
		  resource_obj(d, "uriTemplate", "sandboxes://{namespace}",
			       "The names of your sandboxes in a namespace"));
	rpc_result(r, result);
}

static void list_resources(struct rpc *r)
{
	struct json_doc *d = r->post->out;
	autofree char *uri = NULL;
	struct json *result;

	if (!first_page(r))
		return;
	uri = xasprintf("sandboxes://%s", arg_ns(r));
	result = json_obj(d);
	json_push(d, json_need_arr(d, result, "resources"),
		  resource_obj(d, "uri", uri, "The names of your sandboxes"));
	rpc_result(r, result);
}

enum where {
	IN_BOTH,
	WITH_SESSIONS, /* and before there is one */
	WITHOUT_SESSIONS,
};

static const struct {
	const char *name;
	void (*run)(struct rpc *r);
	enum where where;
} methods[] = {
	{ "initialize", initialize, WITH_SESSIONS },
	{ "ping", ping, WITH_SESSIONS },
	{ "server/discover", stateless_discover, WITHOUT_SESSIONS },
	{ "tools/list", list_tools, IN_BOTH },
	{ "tools/call", call_tool, IN_BOTH },
	{ "resources/list", list_resources, IN_BOTH },
	{ "resources/templates/list", list_templates, IN_BOTH },
	{ "resources/read", resource_read, IN_BOTH },
};

static void refuse_alone(struct rpc *r)
{
	r->post->status = 400;
	rpc_error(r, RPC_INVALID_REQUEST,
		  "Mcp-Session-Id is missing: initialize a session and name it");
}

static void run(struct rpc *r, size_t i)
{
	const struct mcp_session *s = r->post->session;
	const char *fault;
	enum rpc_code code;

	if (!s && methods[i].where != WITH_SESSIONS) {
		refuse_alone(r);
		return;
	}
	fault = s && s->alone ? stateless_fault(r, &code) : NULL;
	if (fault)
		rpc_error(r, code, fault);
	else
		methods[i].run(r);
}

void methods_run(struct rpc *r)
{
	const struct mcp_session *s = r->post->session;
	enum where elsewhere = s && s->alone ? WITH_SESSIONS : WITHOUT_SESSIONS;
	autofree char *text = NULL;

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_eq(methods[i].name, r->method) && methods[i].where != elsewhere) {
			run(r, i);
			return;
		}
	text = xasprintf("Method not found: %.100s", r->method);
	rpc_error(r, RPC_NO_METHOD, text);
}

/* The request of that id in the session of the post, wherever it came in. */
static void cancel(struct post *p, const struct json *id)
{
	struct post *other;
	struct rpc *r;

	list_each(other, &p->mcp->posts, on) {
		if (!p->session || other->session != p->session)
			continue;
		list_each(r, &other->calls, on)
			if (id && json_equal(r->id, id)) {
				if (r->stop)
					r->stop(take(r->work));
				r->stop = NULL;
				rpc_error(r, RPC_CANCELLED, "the request was cancelled");
				return;
			}
	}
}

/* Of the others nothing is expected. */
void methods_notified(struct post *p, const char *method, const struct json *params)
{
	if (str_eq(method, "notifications/cancelled"))
		cancel(p, json_get(params, "requestId"));
}
