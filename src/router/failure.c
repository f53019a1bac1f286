/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_server.h"
#include "router/router_priv.h"

/*
 * Why a request did not reach its sandbox, as the client is told: the status and `detail` that the
 * published clients know, and beside them a code for programs, what is the matter, and what to do.
 */
#define CONNECT "Could not connect to the backend sandbox"
#define TIMEOUT "Timed out waiting for the backend sandbox"
static const struct {
	const char *code, *detail, *cause, *remedy;
	int status;
} failures[ROUTER_FAILURE_MAX_] = {
	[ROUTER_NOT_FOUND] = { "SandboxNotFound", CONNECT,
			       "There is no Sandbox of this name in this namespace.",
			       "Check X-Sandbox-ID and X-Sandbox-Namespace; the name is that of the Sandbox, "
			       "which a claim has in status.sandbox.name.",
			       502 },
	[ROUTER_OTHER_UID] = { "SandboxReplaced", CONNECT,
			       "The Sandbox of this name has another uid than the one in X-Sandbox-UID.",
			       "It was deleted and made again: read its uid anew.", 502 },
	[ROUTER_UNCLAIMED] = { "SandboxUnclaimed", CONNECT,
			       "The Sandbox belongs to a warm pool and nobody has claimed it.",
			       "Create a SandboxClaim for the pool and use its status.sandbox.name.",
			       502 },
	[ROUTER_SUSPENDED] = { "SandboxSuspended", CONNECT,
			       "The Sandbox is suspended: nothing runs in it.",
			       "Set its spec.operatingMode to Running; with the annotation cay.dev/wake: "
			       "OnRequest, requests do.",
			       502 },
	[ROUTER_ENDED] = { "SandboxEnded", CONNECT,
			   "The Sandbox has ended: it expired, is being deleted, or its Pod has finished.",
			   "Its Ready condition says why. Make another.", 502 },
	[ROUTER_REFUSED] = { "PortRefused", CONNECT,
			     "The Sandbox runs, but nothing in it listens on the port.",
			     "Start a server there that listens on all addresses, or check X-Sandbox-Port.",
			     502 },
	[ROUTER_DEAF] = { "PortNotAccepting", TIMEOUT,
			  "The Sandbox runs, but did not accept the connection in time.",
			  "Its server is overloaded, stopped, or shut off by a policy.", 504 },
	[ROUTER_BROKEN] = { "ConnectionBroken", CONNECT,
			    "The connection into the Sandbox could not be made, or broke before an answer.",
			    "The request may have had an effect. Look at the logs of the Sandbox.",
			    502 },
	[ROUTER_NOT_READY] = { "SandboxStarting", TIMEOUT,
			       "The Sandbox did not become Ready in time.",
			       "Its Ready condition says what it waits for. Try again, or give a longer "
			       "X-Sandbox-Timeout.",
			       504 },
	[ROUTER_SILENT] = { "NoAnswer", TIMEOUT,
			    "The Sandbox took the request and sent no head of an answer in time.",
			    "Give a longer X-Sandbox-Timeout. The request may have had an effect.",
			    504 },
	[ROUTER_CROWDED] = { "TooManyWaiting", "Too many requests wait for the backend sandbox",
			     "The Sandbox is starting, and as many requests as may wait for it do.",
			     "Try again in a moment.", 503 },
};

enum router_failure failure_of_sandbox(const struct object *sandbox, const struct route *route)
{
	const struct sandbox_view *v = sandbox ? sandbox_view(sandbox) : NULL;

	if (!v)
		return ROUTER_NOT_FOUND;
	if (route->has_uid && !str_eq(route->uid, sandbox->uid))
		return ROUTER_OTHER_UID;
	if (!route->has_uid && v->in_pool)
		return ROUTER_UNCLAIMED;
	return v->suspended && !v->deleting ? ROUTER_SUSPENDED : ROUTER_ENDED;
}

enum router_failure failure_of_error(const struct err *e)
{
	switch (err_errno(e)) {
	case ECONNREFUSED:
		return ROUTER_REFUSED;
	case ETIMEDOUT:
		return ROUTER_DEAF;
	default:
		return err_is(e, ERR_TIMEOUT) ? ROUTER_SILENT : ROUTER_BROKEN;
	}
}

const char *failure_reason(const struct err *e)
{
	switch (err_errno(e)) {
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EACCES:
		return "dial";
	case ETIMEDOUT:
		return "timeout";
	default:
		return err_is(e, ERR_TIMEOUT) ? "timeout" : "eof";
	}
}

int failure_status(enum router_failure f)
{
	return failures[f].status;
}

void failure_answer(struct http_request *req, enum router_failure f, const char *id)
{
	autoptr(json_doc) d = json_doc_new();
	struct http_headers h = { 0 };
	struct json *o = json_obj(d);
	autobuf body = { 0 };

	if (grpc_is_call(req)) {
		buf_printf(&body, "%s: %s (%s: %s)", failures[f].detail, id, failures[f].code,
			   failures[f].cause);
		grpc_answer(req, failures[f].status, buf_str(&body));
		return;
	}
	json_set_root(d, o);
	json_set(d, o, "detail", json_new_strf(d, "%s: %s", failures[f].detail, id));
	json_set_str(d, o, "code", failures[f].code);
	json_set_str(d, o, "cause", failures[f].cause);
	json_set_str(d, o, "remediation", failures[f].remedy);
	json_write(o, &body);
	buf_add_char(&body, '\n');
	http_headers_add(&h, "X-Sandbox-Error", failures[f].code);
	if (failures[f].status == 503)
		http_headers_add(&h, "Retry-After", "1");
	http_respond(req, failures[f].status, &h,
		     (struct http_body){ "application/json", buf_head(&body), body.len });
	http_headers_done(&h);
}
