/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "client/client.h"
#include "control/control_priv.h"
#include "control/event_priv.h"
#include "control/pass_priv.h"

/*
 * The writes of a pass: each knows the key it belongs to, and tells it of its end.
 */
struct running {
	struct control *c;
	struct item *item;
	enum slot slot;
	unsigned flags;
	char *what;
	struct json_doc *event;
};

void pass_begin(struct pass *p, struct control *c, struct item *it)
{
	*p = (struct pass){ .c = c, .item = it, .key = &it->key, .now = control_now(c) };
	for (size_t i = 0; i < SLOT_MAX_; i++) {
		p->out[i] = it->outcomes[i];
		it->outcomes[i] = (struct outcome){ 0 };
	}
}

void pass_end(struct pass *p)
{
	for (size_t i = 0; i < SLOT_MAX_; i++)
		err_free(take(p->out[i].e));
}

bool pass_rests(const struct pass *p, enum slot slot)
{
	return p->out[slot].e;
}

struct err *pass_take_error(struct pass *p)
{
	for (size_t i = 0; i < SLOT_MAX_; i++)
		if (p->out[i].e)
			return take(p->out[i].e);
	return NULL;
}

static bool is_fine(const struct err *e, unsigned flags)
{
	return !e || ((flags & WRITE_GONE_OK) && err_is(e, ERR_NOT_FOUND)) ||
	       ((flags & WRITE_CONFLICT_OK) && err_is(e, ERR_CONFLICT));
}

static void running_free(struct running *r)
{
	json_doc_free(r->event);
	free(r->what);
	free(r);
}

/* Counts what came out of the write; true when the key must run for it. */
static bool running_record(struct running *r, struct err *e)
{
	struct outcome *out = &r->item->outcomes[r->slot];
	bool worked = is_fine(e, r->flags);

	if (!e)
		event_send(r->c, take(r->event));
	if (worked && ((r->flags & WRITE_QUIET) || err_is(e, ERR_CONFLICT))) {
		err_free(e); /* of a conflict the watch will tell */
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

static void ended(void *arg, struct err *e, struct object *obj unused)
{
	struct running *r = arg;
	struct control *c = r->c;

	if (c->closed)
		err_free(e);
	else
		queue_write_end(c->queue, r->item, running_record(r, e));
	running_free(r);
	control_put(c);
}

static struct running *begin(struct pass *p, const struct write *w)
{
	struct running *r;

	if (pass_rests(p, w->slot)) {
		json_doc_free(w->event);
		return NULL;
	}
	r = xnew(struct running);
	r->c = p->c;
	r->item = p->item;
	r->slot = w->slot;
	r->flags = w->flags;
	r->what = xstrdup(w->what);
	r->event = w->event;
	if (!(w->flags & WRITE_QUIET))
		p->started = true;
	p->c->n_refs++;
	queue_write_begin(p->c->queue, p->item);
	return r;
}

void pass_create(struct pass *p, const struct write *w, struct json_doc *doc)
{
	struct running *r = begin(p, w);

	if (r)
		client_create(p->c->client, w->kind, w->ns, doc, ended, r);
	else
		json_doc_free(doc);
}

void pass_patch(struct pass *p, const struct write *w, struct json_doc *doc)
{
	struct running *r = begin(p, w);

	if (r)
		client_patch(p->c->client, w->kind, w->ns, w->name, w->sub, PATCH_MERGE, doc, ended,
			     r);
	else
		json_doc_free(doc);
}

void pass_delete(struct pass *p, const struct write *w, const struct client_delete_spec *spec)
{
	struct running *r = begin(p, w);

	if (r)
		client_delete(p->c->client, w->kind, w->ns, w->name, spec, ended, r);
}
