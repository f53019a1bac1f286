/* SPDX-License-Identifier: Apache-2.0 */
#include "server/write/write.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/bytes.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/call/trace.h"
#include "server/objects/objects.h"
#include "server/read/render.h"
#include "server/write/write_priv.h"
#include "trace/trace.h"

/*
 * Writes over HTTP: from a call to an operation, and from its outcome to an answer that is sent
 * once the commit is on disk. The answer carries the object as this write left it, whatever
 * controllers have made of it since.
 */
struct op write_op(struct admit *a, struct call *c)
{
	const struct route *r = &c->route;

	return (struct op){
		.admit = a,
		.user = c->user.name,
		.who = &c->user,
		.kind = r->kind,
		.ns = r->ns,
		.name = r->name,
		.sub = r->sub,
		.external = true,
		.warn = call_warn,
		.note = call_note,
		.warn_arg = c,
	};
}

struct err *write_acceptable(struct call *c)
{
	struct render how;

	return render_of(c, &how);
}

struct err *write_options(struct call *c, struct op *op)
{
	struct err *e = options_read(c, &op->options);

	op->manager = e || !str_empty(op->options.manager) ? str_or(op->options.manager, "")
							   : call_manager(c);
	return e;
}

struct err *write_begin(struct admit *a, struct call *c, struct op *ret)
{
	struct err *e = write_acceptable(c);

	*ret = write_op(a, c);
	return e ? e : write_options(c, ret);
}

/* What the audit log tells of it: the name may have been made from generateName. */
static void note_outcome(struct call *c, const struct op *op)
{
	c->dry_run = op->options.dry_run;
	if (!*c->route.name && op->result)
		c->route.name = arena_strdup(c->arena, op->result->name);
}

void write_finish(struct call *c, struct op *op, int status, struct err *e)
{
	struct bytes *text = NULL;
	struct render how;

	note_outcome(c, op);
	if (!e)
		e = render_of(c, &how);
	if (!e)
		e = render_text(&how, op->result, &text);
	if (e) {
		if (op->causes.n) {
			causes_done(&c->causes);
			c->causes = op->causes;
			op->causes = (struct causes){ 0 };
		}
		if (op->details != DETAILS_RESOURCE)
			c->details = op->details;
		if (op->absent_ns) {
			c->route.kind = op->admit->objects->namespace;
			c->route.name = op->absent_ns;
		}
		call_fail(c, e);
		return;
	}
	call_reply_durably(c, status, text);
}

/* The name in a body that has been taken over, for error details. */
static void note_name(struct call *c, const struct json_doc *d)
{
	const char *name = json_get_str(json_get(json_root(d), "metadata"), "name");

	if (!*c->route.name && name)
		c->route.name = arena_strdup(c->arena, name);
}

static struct err *read_object(struct call *c, struct op *op, struct json_doc **ret)
{
	struct decode_input in;
	struct err *e = body_input(c, &in);

	return e ? e : op_decode(op, &in, ret);
}

/* Takes d over. */
static struct err *create_traced(struct call *c, struct op *op, struct json_doc *d)
{
	struct trace_context at = trace_context_of(c->span);
	struct trace_span *span =
		c->span ? trace_start(c->calls->tracer, "admission", SPAN_INTERNAL, &at) : NULL;
	struct err *e;

	call_trace_stamp(c, d);
	e = op_create(op, d);
	if (e)
		trace_failed(span);
	trace_end(span);
	return e;
}

void write_create(struct admit *a, struct waiters *ws, struct call *c)
{
	struct json_doc *d = NULL;
	uint64_t wait_s = 0;
	autoop op = { 0 };
	struct err *e = write_begin(a, c, &op);

	if (!e)
		e = wait_read(c, &wait_s);
	if (!e)
		e = read_object(c, &op, &d);
	if (!e) {
		note_name(c, d);
		e = create_traced(c, &op, d);
	}
	if (!e && !op.options.dry_run && wait_s) {
		note_outcome(c, &op);
		wait_ready(ws, c, op.result, wait_s);
	} else
		write_finish(c, &op, STATUS_CREATED, e);
}

void write_update(struct admit *a, struct call *c)
{
	struct json_doc *d = NULL;
	autoop op = { 0 };
	struct err *e = write_begin(a, c, &op);

	if (!e)
		e = read_object(c, &op, &d);
	if (!e)
		e = op_update(&op, d);
	write_finish(c, &op, op.created ? STATUS_CREATED : STATUS_OK, e);
}

/* Members that appear twice in what is applied. */
static struct err *report(struct call *c, const struct op *op, const struct causes *reports)
{
	autofree char *text = NULL;

	for (size_t i = 0; i < reports->n && op->options.strictness == STRICTNESS_WARN; i++)
		call_warn(c, reports->list[i].message);
	if (!reports->n || op->options.strictness != STRICTNESS_STRICT)
		return NULL;
	text = causes_text(reports);
	return err_new(ERR_MALFORMED, "error strict decoding YAML: %s", text);
}

static struct err *apply(struct call *c, struct op *op, const struct json *patch,
			 const struct causes *reports)
{
	struct err *e = report(c, op, reports);

	c->applies = true;
	return e ? e : op_apply(op, patch);
}

void write_patch(struct admit *a, struct call *c)
{
	autoptr(json_doc) d = NULL;
	autoop op = { 0 };
	struct causes reports = { 0 };
	enum patch_type how;
	struct err *e = write_begin(a, c, &op);

	if (!e)
		e = body_patch(c, &reports, &how, &d);
	if (!e && how == PATCH_APPLY)
		e = apply(c, &op, json_root(d), &reports);
	else if (!e)
		e = op_patch(&op, how, json_root(d), &reports);
	causes_done(&reports);
	write_finish(c, &op, op.created ? STATUS_CREATED : STATUS_OK, e);
}
