/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * JSON-RPC 2.0: from the text of a message to calls, and from their ends to the answers. A message
 * is a request, a notification or a response; version 2025-03-26 also has lists of them.
 *
 *   post_take() → rpc … rpc → rpc_result(), rpc_error() → answered()
 */
void post_init(struct post *p, struct mcp *m, const struct access_target *who)
{
	p->mcp = m;
	p->caller = caller_new(who);
	p->out = json_doc_new();
	p->answers = json_arr(p->out);
	list_init(&p->calls);
	list_add_tail(&m->posts, &p->on);
}

static bool is_alone(const struct post *p)
{
	return p->session && p->session->alone;
}

static void rpc_free(struct rpc *r)
{
	list_del(&r->on);
	free(r);
}

static void stop(struct rpc *r)
{
	void (*fn)(void *work) = take(r->stop);

	if (fn)
		fn(take(r->work));
}

void post_done(struct post *p)
{
	struct rpc *r, *next;

	list_each_safe(r, next, &p->calls, on) {
		stop(r);
		rpc_free(r);
	}
	list_del(&p->on);
	mcp_session_unref(take(p->session));
	mcp_choice_done(&p->choice);
	caller_free(take(p->caller));
	free(take(p->routed_method));
	free(take(p->routed_name));
	json_doc_free(take(p->in));
	json_doc_free(take(p->out));
}

/* One thing less is under way. */
static void settle(struct post *p)
{
	if (!--p->open)
		p->answered(p);
}

static struct json *error_object(struct json_doc *d, int code, const char *text)
{
	struct json *e = json_obj(d);

	json_set_int(d, e, "code", code);
	json_set_str(d, e, "message", text);
	return e;
}

static struct json *answer_new(struct json_doc *d, const struct json *id)
{
	struct json *a = json_obj(d);

	json_set_str(d, a, "jsonrpc", "2.0");
	json_set(d, a, "id", id ? json_copy(d, id) : json_new_null(d));
	return a;
}

struct json *post_error(struct json_doc *d, int code, const char *text)
{
	struct json *a = answer_new(d, NULL);

	json_set(d, a, "error", error_object(d, code, text));
	return a;
}

/* Adds the answer and ends the call. */
static void rpc_end(struct rpc *r, const char *member, struct json *value)
{
	struct post *p = r->post;
	struct json *a = answer_new(p->out, r->id);

	json_set(p->out, a, member, value);
	json_push(p->out, p->answers, a);
	rpc_free(r);
	settle(p);
}

void rpc_result(struct rpc *r, struct json *result)
{
	if (is_alone(r->post))
		stateless_stamp(r, result);
	rpc_end(r, "result", result);
}

void rpc_error_data(struct rpc *r, enum rpc_code code, const char *text, struct json *data)
{
	struct json *e = error_object(r->post->out, code, text);

	if (data)
		json_set(r->post->out, e, "data", data);
	if (is_alone(r->post))
		r->post->status = stateless_status(code);
	rpc_end(r, "error", e);
}

void rpc_error(struct rpc *r, enum rpc_code code, const char *text)
{
	rpc_error_data(r, code, text, NULL);
}

void rpc_progress(struct rpc *r, const char *text)
{
	const struct json *token = json_get(json_get(r->params, "_meta"), "progressToken");
	autoptr(json_doc) d = NULL;
	struct json *m, *params;

	if (!r->post->tell || (!json_is(token, JSON_STR) && !json_is(token, JSON_INT)))
		return;
	d = json_doc_new();
	m = json_obj(d);
	json_set_str(d, m, "jsonrpc", "2.0");
	json_set_str(d, m, "method", "notifications/progress");
	params = json_need_obj(d, m, "params");
	json_set(d, params, "progressToken", json_copy(d, token));
	json_set_int(d, params, "progress", 0);
	json_set_str(d, params, "message", text);
	r->post->tell(r->post, m);
}

void post_cancel_calls(struct post *p, const char *why)
{
	struct rpc *r, *next;

	if (!p->open) /* its text is still to come, and is refused then */
		return;
	p->open++; /* it stays until the loop is over */
	list_each_safe(r, next, &p->calls, on) {
		stop(r);
		rpc_error(r, RPC_CANCELLED, why);
	}
	settle(p);
}

static void refuse(struct post *p, int code, const char *text)
{
	json_push(p->out, p->answers, post_error(p->out, code, text));
}

/* What is wrong with a message, or NULL. A response needs no look: we ask nothing of clients. */
static const char *message_fault(const struct json *msg)
{
	const struct json *id = json_get(msg, "id"), *params = json_get(msg, "params");

	if (!json_is(msg, JSON_OBJ))
		return "a message is an object";
	if (!str_eq(json_get_str(msg, "jsonrpc"), "2.0"))
		return "jsonrpc: must be \"2.0\"";
	if (json_get(msg, "method") && !json_get_str(msg, "method"))
		return "method: must be a string";
	if (!json_get(msg, "method") && !json_get(msg, "result") && !json_get(msg, "error"))
		return "method: is missing";
	if (id && !json_is(id, JSON_STR) && !json_is(id, JSON_INT))
		return "id: must be a string or an integer";
	if (id && json_str_len(id) > 256)
		return "id: longer than 256 bytes";
	if (params && !json_is(params, JSON_OBJ))
		return "params: must be an object";
	return NULL;
}

/* Whether a request with this id is under way in the session. */
static bool id_is_used(const struct post *p, const struct json *id)
{
	const struct post *other;
	const struct rpc *r;

	list_each(other, &p->mcp->posts, on) {
		if (!p->session || other->session != p->session)
			continue;
		list_each(r, &other->calls, on)
			if (json_equal(r->id, id))
				return true;
	}
	return false;
}

static void run_request(struct post *p, const struct json *msg)
{
	struct rpc *r = xnew(struct rpc);
	bool used = id_is_used(p, json_get(msg, "id"));

	r->post = p;
	r->mcp = p->mcp;
	r->id = json_get(msg, "id");
	r->method = json_get_str(msg, "method");
	r->params = json_get(msg, "params");
	list_init(&r->on);
	p->open++;
	if (used) {
		rpc_error(r, RPC_INVALID_REQUEST, "a request with this id is under way");
		return;
	}
	list_add_tail(&p->calls, &r->on);
	methods_run(r);
}

static void run_message(struct post *p, const struct json *msg)
{
	const char *fault = message_fault(msg);
	const char *method = json_get_str(msg, "method");

	if (fault) {
		refuse(p, RPC_INVALID_REQUEST, fault);
		if (!p->batch)
			p->status = 400;
	} else if (method && json_get(msg, "id")) {
		run_request(p, msg);
	} else if (method) {
		methods_notified(p, method, json_get(msg, "params"));
	}
}

static const char *batch_fault(const struct post *p, const struct json *list)
{
	if (!p->session || p->session->version != MCP_2025_03_26)
		return "lists of messages are of version 2025-03-26 alone";
	if (!json_len(list))
		return "the list of messages is empty";
	if (json_len(list) > MCP_BATCH_MAX)
		return "more than 32 messages in a list";
	json_each(it, list)
		if (str_eq(json_get_str(it.val, "method"), "initialize"))
			return "initialize must not be in a list";
	return NULL;
}

static void run_all(struct post *p, const struct json *root)
{
	const char *fault;

	if (!json_is(root, JSON_ARR)) {
		run_message(p, root);
		return;
	}
	fault = batch_fault(p, root);
	if (fault) {
		refuse(p, RPC_INVALID_REQUEST, fault);
		p->status = 400;
		return;
	}
	p->batch = true;
	json_each(it, root)
		run_message(p, it.val);
}

void post_take(struct post *p, const char *text, size_t len)
{
	const struct json_limits limits = { .max_len = MCP_BODY_MAX, .max_depth = MCP_DEPTH_MAX };
	autoptr(err) e = json_parse(text, len, &limits, &p->in);

	p->open = 1;
	if (e) {
		refuse(p, RPC_PARSE, err_text(e));
		p->status = 400;
	} else {
		run_all(p, json_root(p->in));
	}
	settle(p);
}
