/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "base/mem.h"
#include "client/client.h"
#include "control/control_priv.h"
#include "control/event_priv.h"
#include "control/pass_priv.h"

/*
 * The writes of a pass: each knows the key it belongs to, and tells it of its end.
 *
 * A client tells of an end late, even after the controllers are gone, or never when it is freed
 * itself. So it is given a ticket instead of a pointer: the controllers take back the tickets of
 * their writes when they go, and an end whose ticket is void finds nobody.
 */
struct running {
	struct list link; /* of control->running */
	struct control *c;
	struct item *item;
	enum slot slot;
	unsigned flags;
	char *what;
	struct json_doc *event;
	uint32_t at; /* its ticket */
};

/* Of this thread's loop. A ticket is a place and how often that place was used before. */
static _Thread_local struct {
	struct running *holder; /* NULL: free */
	uint32_t use;
	uint32_t next_free;
} *tickets;
static _Thread_local uint32_t n_tickets, first_free;

_Static_assert(sizeof(uintptr_t) == 8, "a ticket holds a place and its use");

static uintptr_t ticket_new(struct running *r)
{
	if (first_free == n_tickets) {
		uint32_t n = n_tickets ? 2 * n_tickets : 64;

		tickets = xrealloc(tickets, n * sizeof(*tickets));
		for (uint32_t i = n_tickets; i < n; i++) {
			tickets[i].holder = NULL;
			tickets[i].use = 0;
			tickets[i].next_free = i + 1;
		}
		n_tickets = n;
	}
	r->at = first_free;
	first_free = tickets[r->at].next_free;
	tickets[r->at].holder = r;
	return (uintptr_t)tickets[r->at].use << 32 | r->at;
}

static struct running *ticket_holder(uintptr_t ticket)
{
	uint32_t at = (uint32_t)ticket;

	return tickets[at].use == (uint32_t)(ticket >> 32) ? tickets[at].holder : NULL;
}

static void running_free(struct running *r)
{
	tickets[r->at].holder = NULL;
	tickets[r->at].use++;
	tickets[r->at].next_free = first_free;
	first_free = r->at;
	list_del(&r->link);
	json_doc_free(r->event);
	free(r->what);
	free(r);
}

void pass_forget_all(struct control *c)
{
	while (!list_empty(&c->running))
		running_free(list_first(&c->running, struct running, link));
}

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
	struct running *r = ticket_holder((uintptr_t)arg);
	struct item *item;
	bool wake;

	if (!r) {
		err_free(e);
		return;
	}
	item = r->item;
	wake = running_record(r, e);
	running_free(r);
	queue_release(&item->q, wake);
}

/* What to hand to the client; false when the slot rests. */
static bool begin(struct pass *p, const struct write *w, void **ret_arg)
{
	struct running *r;

	if (pass_rests(p, w->slot)) {
		json_doc_free(w->event);
		return false;
	}
	r = xnew(struct running);
	r->c = p->c;
	r->item = p->item;
	r->slot = w->slot;
	r->flags = w->flags;
	r->what = xstrdup(w->what);
	r->event = w->event;
	list_add_tail(&p->c->running, &r->link);
	if (!(w->flags & WRITE_QUIET))
		p->started = true;
	queue_hold(&p->item->q);
	*ret_arg = (void *)ticket_new(r);
	return true;
}

void pass_create(struct pass *p, const struct write *w, struct json_doc *doc)
{
	void *arg;

	if (begin(p, w, &arg))
		client_create(p->c->client, w->kind, w->ns, doc, ended, arg);
	else
		json_doc_free(doc);
}

void pass_patch(struct pass *p, const struct write *w, struct json_doc *doc)
{
	void *arg;

	if (begin(p, w, &arg))
		client_patch(p->c->client, w->kind, w->ns, w->name, w->sub, PATCH_MERGE, doc, ended,
			     arg);
	else
		json_doc_free(doc);
}

void pass_delete(struct pass *p, const struct write *w, const struct client_delete_spec *spec)
{
	void *arg;

	if (begin(p, w, &arg))
		client_delete(p->c->client, w->kind, w->ns, w->name, spec, ended, arg);
}
