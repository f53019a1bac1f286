/* SPDX-License-Identifier: Apache-2.0 */
#include "oversight/oversight.h"

#include <assert.h>

#include "audit/reader.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strv.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "oversight/oversight_priv.h"

enum {
	LOOK_MS = 10 * 1000,
};

void visitor_init(struct visitor *v, struct oversight *o, struct http_request *req,
		  const struct access_target *who)
{
	list_init(&v->on);
	v->o = o;
	v->req = req;
	v->who = (struct access_target){ .user = xstrdup(who->user),
					 .from = xstrdup(who->from),
					 .groups = (const char *const *)strv_copy(who->groups),
					 .account_ns = xstrdup(who->account_ns),
					 .by = xstrdup(who->by),
					 .expires = who->expires };
}

struct err *visitor_check_end(const struct visitor *v)
{
	if (!v->who.expires || clock_wall() / 1000000 < v->who.expires)
		return NULL;
	return err_new(ERR_UNAUTHENTICATED, "the credential of this stream has expired");
}

/* The wall clock may be set, and the machine may sleep: it is looked at now and then. */
static void arm_end(struct visitor *v)
{
	usec left = (usec)v->who.expires * 1000000 - clock_wall();

	timer_set(v->end, left > 0 ? (uint64_t)MIN(left / 1000 + 1, (usec)LOOK_MS) : 0);
}

static void on_end(void *arg)
{
	struct visitor *v = arg;
	autoptr(err) e = visitor_check_end(v);

	if (e)
		v->over(v);
	else
		arm_end(v);
}

void visitor_on_end(struct visitor *v, void (*over)(struct visitor *v))
{
	if (!v->who.expires)
		return;
	v->over = over;
	v->end = timer_new(v->o->loop, on_end, v);
	arm_end(v);
}

void visitor_done(struct visitor *v)
{
	list_del(&v->on);
	timer_free(v->end);
	strv_free((char **)(uintptr_t)v->who.groups);
	free((char *)(uintptr_t)v->who.user);
	free((char *)(uintptr_t)v->who.from);
	free((char *)(uintptr_t)v->who.account_ns);
	free((char *)(uintptr_t)v->who.by);
	if (v->req)
		http_request_set_owner(v->req, NULL, NULL);
}

/* Nothing in it is to be taken for anything but what it is. */
void visitor_begin(struct visitor *v, const char *type)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "Content-Type", type);
	http_headers_add(&h, "Cache-Control", "no-store");
	http_headers_add(&h, "X-Content-Type-Options", "nosniff");
	http_respond_start(v->req, 200, &h, -1);
	http_headers_done(&h);
}

struct oversight *oversight_new(struct loop *l, const struct oversight_spec *spec)
{
	struct oversight *o = xnew(struct oversight);

	o->loop = l;
	o->spec = *spec;
	list_init(&o->readings);
	list_init(&o->waiting);
	list_init(&o->streams);
	return o;
}

void oversight_free(struct oversight *o)
{
	if (!o)
		return;
	o->ending = true;
	audit_done(o);
	verify_done(o);
	overview_done(o);
	while (o->n_jobs)
		(void)loop_turn(o->loop, 100);
	timer_free(o->tick);
	audit_verify_free(o->verify);
	err_free(o->verify_err);
	free(o->verdict);
	free(o);
}

void oversight_visit(struct oversight *o, struct http_request *req, const struct access_target *who)
{
	static const struct {
		const char *path;
		void (*visit)(struct oversight *o, struct http_request *req,
			      const struct access_target *who);
	} rows[] = {
		{ OVERSIGHT_AUDIT, audit_visit },
		{ OVERSIGHT_VERIFY, verify_visit },
		{ OVERSIGHT_OVERVIEW, overview_visit },
	};

	http_request_set_owner(req, NULL, NULL); /* what is refused has none */
	if (!str_eq(http_request_method(req), "GET")) {
		o->spec.refuse(req, err_new(ERR_METHOD, "only GET is served here"));
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(http_request_path(req), rows[i].path)) {
			rows[i].visit(o, req, who);
			return;
		}
	o->spec.refuse(req, err_new(ERR_NOT_FOUND, "there is nothing at this path"));
}
