/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pass/pass.h"

#include "api/object.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/pass/context.h"
#include "control/pass/event.h"

/*
 * The writes of a pass. Each knows the key it belongs to and notifies the queue when it has ended.
 */
struct running {
	struct list link; /* of context->running */
	struct client_write write;
	struct context *c;
	struct item *item;
	unsigned name;
	unsigned flags;
	char *what;
	struct json_doc *event;
	void (*worked)(struct context *c, void *arg);
	void *arg;
	void (*drop_arg)(void *arg);
};

static void running_free(struct running *r)
{
	client_cancel(&r->write);
	list_del(&r->link);
	json_doc_free(r->event);
	free(r->what);
	if (r->arg)
		r->drop_arg(r->arg);
	free(r);
}

void pass_forget_all(struct context *c)
{
	while (!list_empty(&c->running))
		running_free(list_first(&c->running, struct running, link));
}

void pass_begin(struct pass *p, struct context *c, struct item *it, void *own)
{
	*p = (struct pass){
		.c = c, .own = own, .item = it, .key = &it->key, .now = context_now(c)
	};
	for (size_t i = 0; i < WRITES_MAX; i++) {
		p->out[i] = it->outcomes[i];
		it->outcomes[i] = (struct outcome){ 0 };
	}
}

void pass_end(struct pass *p)
{
	for (size_t i = 0; i < WRITES_MAX; i++)
		err_free(take(p->out[i].e));
}

bool pass_rests(const struct pass *p, unsigned write)
{
	return p->out[write].e;
}

bool pass_tells(const struct context *c, enum control_kind kind, const struct object *o)
{
	const struct key *k = c->telling;

	return k && k->kind == kind && str_eq(k->name, o->name) && str_eq(k->ns, o->ns);
}

struct err *pass_take_error(struct pass *p)
{
	for (size_t i = 0; i < WRITES_MAX; i++)
		if (p->out[i].e)
			return take(p->out[i].e);
	return NULL;
}

static bool is_fine(const struct err *e, unsigned flags)
{
	return !e || ((flags & WRITE_GONE_OK) && err_is(e, ERR_NOT_FOUND)) ||
	       ((flags & WRITE_CONFLICT_OK) && err_is(e, ERR_CONFLICT));
}

/* Records the outcome of the write; true when its key must run because of it. Takes e over. */
static bool running_record(struct running *r, struct err *e)
{
	struct outcome *out = &r->item->outcomes[r->name];
	bool worked = is_fine(e, r->flags);

	if (!e)
		event_send(r->c, take(r->event));
	if (!e && r->worked)
		r->worked(r->c, r->arg);
	if (worked && ((r->flags & WRITE_QUIET) || err_is(e, ERR_CONFLICT))) {
		err_free(e); /* after a conflict the watch delivers the change */
		return false;
	}
	if (worked) {
		out->n_ok++;
		err_free(e);
		return true;
	}
	out->n_failed++;
	if (out->e)
		err_free(e);
	else
		out->e = r->what ? err_wrap(e, "%s", r->what) : e;
	return true;
}

static void ended(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct running *r = container_of(w, struct running, write);
	struct item *item = r->item;
	bool wake = running_record(r, e);

	running_free(r);
	queue_release(&item->q, wake);
}

/* Notes a write that is about to start; NULL when it rests. */
static struct client_write *begin(struct pass *p, const struct write *w)
{
	struct running *r;

	if (pass_rests(p, w->name)) {
		json_doc_free(w->event);
		if (w->arg)
			w->drop_arg(w->arg);
		return NULL;
	}
	r = xnew(struct running);
	r->write.done = ended;
	r->c = p->c;
	r->item = p->item;
	r->name = w->name;
	r->flags = w->flags;
	r->what = xstrdup(w->what);
	r->event = w->event;
	r->worked = w->worked;
	r->arg = w->arg;
	r->drop_arg = w->drop_arg;
	list_add_tail(&p->c->running, &r->link);
	if (!(w->flags & WRITE_QUIET))
		p->started = true;
	queue_hold(&p->item->q);
	return &r->write;
}

struct client_ref ref_of(const struct object *o)
{
	return (struct client_ref){ .kind = o->kind, .ns = o->ns, .name = o->name };
}

void pass_create(struct pass *p, const struct write *w, struct json_doc *doc)
{
	struct client_write *write = begin(p, w);

	if (write)
		client_create(p->c->client, &w->to, doc, write);
	else
		json_doc_free(doc);
}

void pass_update(struct pass *p, const struct write *w, struct json_doc *doc)
{
	struct client_write *write = begin(p, w);

	if (write)
		client_update(p->c->client, &w->to, doc, write);
	else
		json_doc_free(doc);
}

void pass_patch(struct pass *p, const struct write *w, struct json_doc *doc)
{
	struct client_write *write = begin(p, w);

	if (!write) {
		json_doc_free(doc);
		return;
	}
	p->c->telling = w->flags & WRITE_QUIET ? p->key : NULL;
	client_patch(p->c->client, &w->to, PATCH_MERGE, doc, write);
	p->c->telling = NULL;
}

void pass_delete(struct pass *p, const struct write *w, const struct client_delete_spec *spec)
{
	struct client_write *write = begin(p, w);

	if (write)
		client_delete(p->c->client, &w->to, spec, write);
}

void pass_delete_uid(struct pass *p, const struct write *w, const char *uid)
{
	pass_delete(p, w, &(struct client_delete_spec){ .uid = uid, .grace_s = -1 });
}
