/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * Version 2026-07-28: there is no initialize and no session. Each request names its version and
 * what the client can do in params._meta, and repeats in headers what those on its way may want to
 * know; both must agree. A client that leaves has cancelled its request.
 */
#define META "io.modelcontextprotocol/"

static const char wrapped[] = "=?base64?";

/* A header's value, which may be wrapped because no header could carry it. malloc'd; NULL: none. */
static char *unwrap(const char *value)
{
	autofree char *inner = NULL;
	void *bytes = NULL;
	size_t len;
	struct err *e;

	if (!value || !str_starts(value, wrapped) || !str_ends(value, "?="))
		return xstrdup(value);
	len = strlen(value) - strlen(wrapped);
	inner = xstrndup(value + strlen(wrapped), len > 2 ? len - 2 : 0);
	e = base64_decode(inner, false, &bytes, &len);
	if (e) {
		err_free(e);
		return NULL;
	}
	return bytes;
}

/* The parameter that Mcp-Name repeats; NULL: none. */
static const char *named(const struct rpc *r)
{
	if (str_eq(r->method, "tools/call"))
		return json_get_str(r->params, "name");
	return str_eq(r->method, "resources/read") ? json_get_str(r->params, "uri") : NULL;
}

const char *stateless_fault(const struct rpc *r, enum rpc_code *ret)
{
	const struct json *meta = json_get(r->params, "_meta");
	autofree char *name = unwrap(r->post->routed_name);

	*ret = RPC_INVALID_PARAMS;
	if (!json_get(meta, META "protocolVersion"))
		return "params._meta: " META "protocolVersion is missing";
	if (!json_is(json_get(meta, META "clientCapabilities"), JSON_OBJ))
		return "params._meta: " META "clientCapabilities is missing";
	*ret = RPC_BAD_HEADER;
	if (!str_eq(json_get_str(meta, META "protocolVersion"), MCP_STATELESS))
		return "MCP-Protocol-Version and params._meta name different versions";
	if (!str_eq(r->post->routed_method, r->method))
		return "Mcp-Method must be the method";
	if (named(r) && !str_eq(name, named(r)))
		return "Mcp-Name must be the name of the tool, or the address of the resource";
	return NULL;
}

void stateless_discover(struct rpc *r)
{
	struct json_doc *d = r->post->out;
	struct json *result = json_obj(d);

	json_push_str(d, json_need_arr(d, result, "supportedVersions"), MCP_STATELESS);
	json_set(d, result, "capabilities", mcp_capabilities(d));
	json_set_str(d, result, "instructions", mcp_instructions);
	rpc_result(r, result);
}

void stateless_stamp(struct rpc *r, struct json *result)
{
	struct json_doc *d = r->post->out;

	json_set_str(d, result, "resultType", "complete");
	if (!str_eq(r->method, "tools/call")) { /* what others may keep, and for whom */
		json_set_int(d, result, "ttlMs", 0);
		json_set_str(d, result, "cacheScope", "private");
	}
	json_set(d, json_need_obj(d, result, "_meta"), META "serverInfo",
		 mcp_server_info(d, r->mcp));
}

int stateless_status(enum rpc_code code)
{
	switch (code) {
	case RPC_PARSE:
	case RPC_INVALID_REQUEST:
	case RPC_INVALID_PARAMS:
	case RPC_BAD_HEADER:
	case RPC_BAD_VERSION:
		return 400;
	case RPC_NO_METHOD:
		return 404;
	case RPC_INTERNAL:
	case RPC_REFUSED:
	case RPC_NO_SESSION:
	case RPC_NO_RESOURCE:
	case RPC_CANCELLED:
		break;
	}
	return 0;
}
