/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/cay/approval.h"
#include "api/meta.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "hooks/hooks_priv.h"
#include "json/json.h"

/*
 * Deliveries as objects. From its acceptance to its end a delivery is a Secret, which has the event
 * and, in annotations, all that it takes to go on after a restart; its name comes from the trigger
 * and the id, so that the same delivery cannot be made twice. At its end it becomes a line of
 * another Secret (seen.c). Both belong to the Trigger and go with it.
 *
 * Secrets, because an event may be as confidential as what it is about.
 */
#define SHOWN_MESSAGE_MAX 1000

static const char *const state_names[DELIVERY_STATE_MAX_] = {
	[DELIVERY_ACCEPTED] = "Accepted", [DELIVERY_STARTING] = "Started",
	[DELIVERY_STARTED] = "Started",   [DELIVERY_WAITING] = "Waiting",
	[DELIVERY_ENDING] = "Ended",
};

static struct json_doc *secret_draft(const struct hook *k, const char *name, const char *type)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta, *owner = json_obj(d);

	json_set_root(d, root);
	json_set_str(d, root, "type", type);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", name);
	json_set_str(d, meta, "namespace", k->ns);
	json_set_str(d, owner, "apiVersion", "cay.dev/v1alpha1");
	json_set_str(d, owner, "kind", "Trigger");
	json_set_str(d, owner, "name", k->name);
	json_set_str(d, owner, "uid", k->uid);
	json_push(d, json_need_arr(d, meta, "ownerReferences"), owner);
	return d;
}

static void set_data(struct json_doc *d, const char *key, const char *p, size_t len)
{
	autofree char *text = base64_encode(p, len, false);

	json_set_str(d, json_need_obj(d, json_root(d), "data"), key, text);
}

/* Malloc'd, and NUL-terminated; NULL: there is none. */
static char *get_data(const struct object *secret, const char *key, size_t *ret_len)
{
	const char *text = json_get_str(json_get(secret->root, "data"), key);
	void *p = NULL;
	struct err *e = text ? base64_decode(text, false, &p, ret_len) : NULL;

	if (e) {
		err_free(e);
		return NULL;
	}
	return p;
}

/* A delivery */

static char *record_name(const struct delivery *d)
{
	autofree char *what = xasprintf("record:%s", d->uid);
	char key[HOOK_KEY_LEN + 1];

	proof_key(what, d->id, key);
	return xasprintf("hook-%s", key);
}

void journal_accept(struct hooks *h, struct delivery *d, const struct object *trigger)
{
	const struct hook *k = hook_of(h, trigger);
	struct json_doc *doc;
	struct json *notes;
	char at[CLOCK_TEXT_MAX];

	d->record = record_name(d);
	doc = secret_draft(k, d->record, TYPE_DELIVERY);
	notes = json_need_obj(doc, json_get(json_root(doc), "metadata"), "annotations");
	clock_format_micro(d->at, at);
	json_set_str(doc, notes, KEY_DELIVERY, d->id);
	json_set_str(doc, notes, KEY_DELIVERY_PROOF, d->known->proof);
	json_set_str(doc, notes, KEY_DELIVERY_STATE, state_names[d->state]);
	json_set_str(doc, notes, KEY_DELIVERY_TIME, at);
	json_set_str(doc, notes, KEY_DELIVERY_FROM, d->from);
	json_set_str(doc, notes, KEY_DELIVERY_SESSION, d->session);
	json_set_str(doc, notes, KEY_DELIVERY_TITLE, d->title);
	if (d->own)
		json_set_str(doc, notes, KEY_DELIVERY_OWN, "true");
	set_data(doc, "event", d->event, d->len);
	client_create(h->spec.client, &(struct client_ref){ .kind = h->secret, .ns = d->ns }, doc,
		      &d->write);
}

void journal_state(struct delivery *d)
{
	struct json_doc *doc = json_doc_new();
	struct json *root = json_obj(doc), *notes;

	json_set_root(doc, root);
	notes = json_need_obj(doc, json_need_obj(doc, root, "metadata"), "annotations");
	json_set_str(doc, notes, KEY_DELIVERY_STATE, state_names[d->state]);
	client_patch(
		d->hooks->spec.client,
		&(struct client_ref){ .kind = d->hooks->secret, .ns = d->ns, .name = d->record },
		PATCH_MERGE, doc, &d->write);
}

void journal_drop(struct hooks *h, const char *ns, const char *record)
{
	client_delete(h->spec.client,
		      &(struct client_ref){ .kind = h->secret, .ns = ns, .name = record },
		      &(struct client_delete_spec){ .grace_s = -1 }, NULL);
}

/* What is remembered */

static char *chunk_name(const struct hook *k, unsigned number)
{
	char key[HOOK_KEY_LEN + 1];

	proof_key("seen", k->uid, key);
	return xasprintf("hook-%s-%u", key, number);
}

void journal_seen(struct hooks *h, struct hook *k, struct known *n, struct client_write *w)
{
	struct chunk *old, *c = seen_note(k, n, &old);
	autofree char *name = NULL, *old_name = NULL;
	struct json_doc *doc;

	if (old) {
		old_name = chunk_name(k, old->number);
		journal_drop(h, k->ns, old_name);
		chunk_free(old);
	}
	if (!c) {
		w->done(w, NULL, NULL);
		return;
	}
	name = chunk_name(k, c->number);
	doc = secret_draft(k, name, TYPE_SEEN);
	json_set_str(doc, json_need_obj(doc, json_get(json_root(doc), "metadata"), "annotations"),
		     KEY_TRIGGER, k->name);
	set_data(doc, "seen", buf_head(&c->text), c->text.len);
	if (c->made)
		client_patch(h->spec.client,
			     &(struct client_ref){ .kind = h->secret, .ns = k->ns, .name = name },
			     PATCH_MERGE, doc, w);
	else
		client_create(h->spec.client,
			      &(struct client_ref){ .kind = h->secret, .ns = k->ns }, doc, w);
}

void journal_noted(struct hook *k, const struct known *n)
{
	struct chunk *c;

	list_each(c, &k->chunks, on)
		c->made |= c->number == n->chunk;
}

/* What is shown */

static struct json *shown_entry(struct json_doc *d, const struct shown *s)
{
	struct json *o = json_obj(d);
	char at[CLOCK_TEXT_MAX];

	json_set_str(d, o, "id", s->id);
	clock_format(s->at, at);
	json_set_str(d, o, "time", at);
	if (s->finished) {
		clock_format(s->finished, at);
		json_set_str(d, o, "finished", at);
	}
	if (!str_empty(s->session))
		json_set_str(d, o, "session", s->session);
	json_set_str(d, o, "outcome", s->outcome);
	if (s->message)
		json_set(d, o, "message",
			 json_new_strn(d, s->message,
				       utf8_prefix(s->message, MIN(strlen(s->message),
								   (size_t)SHOWN_MESSAGE_MAX))));
	if (!str_empty(s->approval))
		json_set_str(d, o, "approval", s->approval);
	if (s->code >= 0)
		json_set_int(d, o, "exitCode", s->code);
	if (s->output && s->output->len)
		json_set(d, o, "output", json_new_strn(d, buf_head(s->output), s->output->len));
	return o;
}

/* A repetition beside what it repeats, once. */
static bool same(const struct json *entry, const struct shown *s)
{
	return str_eq(json_get_str(entry, "id"), s->id) &&
	       str_eq(json_get_str(entry, "outcome"), "Duplicate") ==
		       str_eq(s->outcome, "Duplicate");
}

bool journal_shows(struct hooks *h, const char *ns, const char *trigger, const struct shown *s)
{
	autoptr(object) o = client_get(h->spec.client, h->trigger, ns, trigger);

	json_each(it, o ? json_get(object_status(o), "deliveries") : NULL)
		if (same(it.val, s) && str_eq(json_get_str(it.val, "outcome"), s->outcome))
			return true;
	return false;
}

void journal_show(struct hooks *h, const char *ns, const char *trigger, const struct shown *s)
{
	autoptr(object) o = client_get(h->spec.client, h->trigger, ns, trigger);
	struct json_doc *d;
	struct json *root, *list;
	bool placed = false;

	if (!o)
		return;
	d = json_doc_new();
	root = json_obj(d);
	json_set_root(d, root);
	list = json_need_arr(d, json_need_obj(d, root, "status"), "deliveries");
	json_each(it, json_get(object_status(o), "deliveries")) {
		if (!placed && same(it.val, s)) {
			json_push(d, list, shown_entry(d, s));
			placed = true;
		} else {
			json_push(d, list, json_copy(d, it.val));
		}
	}
	if (!placed)
		json_insert(d, list, 0, shown_entry(d, s));
	while (json_len(list) > HOOKS_SHOWN)
		json_remove(list, json_len(list) - 1);
	client_patch(h->spec.client,
		     &(struct client_ref){
			     .kind = h->trigger, .ns = ns, .name = trigger, .sub = "status" },
		     PATCH_MERGE, d, NULL);
}

/* After a start */

struct found {
	struct object **list;
	size_t n;
};

static bool gather(void *arg, struct object *o)
{
	const char *type = json_get_str(o->root, "type");
	struct found *f = arg;

	if (!str_eq(type, TYPE_DELIVERY) && !str_eq(type, TYPE_SEEN))
		return true;
	f->list = xrealloc(f->list, (f->n + 1) * sizeof(struct object *));
	f->list[f->n++] = object_ref(o);
	return true;
}

/* The Trigger that it belongs to, a new reference; NULL: it is gone, and this goes with it. */
static struct object *owner_of(struct hooks *h, const struct object *secret)
{
	const struct json *ref =
		json_at(json_get(json_get(secret->root, "metadata"), "ownerReferences"), 0);
	const char *name = json_get_str(ref, "name");
	autoptr(object) o = name ? client_get(h->spec.client, h->trigger, secret->ns, name) : NULL;

	return o && str_eq(o->uid, json_get_str(ref, "uid")) ? take(o) : NULL;
}

static void load_chunk(struct hooks *h, const struct object *secret)
{
	autoptr(object) trigger = owner_of(h, secret);
	const char *dash = strrchr(secret->name, '-');
	uint64_t number = 0;
	struct err *e = dash ? parse_uint(dash + 1, UINT32_MAX, &number) : NULL;
	size_t len = 0;
	autofree char *text = trigger && dash && !e ? get_data(secret, "seen", &len) : NULL;

	if (text)
		seen_load(hook_of(h, trigger), (unsigned)number, text, len);
	err_free(e);
}

/* That nothing has begun is certain for one that waits only while its approval is unused. */
static bool may_go_on(struct hooks *h, const struct delivery *d, const char *state)
{
	autoptr(object) o = NULL;

	if (str_eq(state, state_names[DELIVERY_ACCEPTED]))
		return true;
	if (!str_eq(state, state_names[DELIVERY_WAITING]))
		return false;
	o = approval_of(h, d);
	return o && !approval_view(o)->used;
}

static const char *note_of(const struct object *o, const char *key)
{
	return str_or(object_annotation(o, key), "");
}

static struct delivery *read_delivery(struct hooks *h, const struct object *o,
				      const struct object *trigger)
{
	const char *proof = note_of(o, KEY_DELIVERY_PROOF);
	struct delivery *d = delivery_new(h, trigger);
	char key[HOOK_KEY_LEN + 1];
	autofree char *event = NULL;
	size_t len = 0;

	d->id = xstrdup(note_of(o, KEY_DELIVERY));
	proof_key("id", d->id, key);
	d->known = known_new(key, *proof ? proof : NULL);
	d->record = xstrdup(o->name);
	d->from = xstrdup(note_of(o, KEY_DELIVERY_FROM));
	d->session = xstrdup(note_of(o, KEY_DELIVERY_SESSION));
	d->title = xstrdup(note_of(o, KEY_DELIVERY_TITLE));
	d->agent = xstrdup(trigger_view(trigger)->agent); /* whatever somebody wrote beside it */
	d->own = object_annotation(o, KEY_DELIVERY_OWN);
	err_free(clock_parse(note_of(o, KEY_DELIVERY_TIME), &d->at));
	d->known->at = d->at;
	(void)snprintf(d->known->session, sizeof(d->known->session), "%s", d->session);
	event = get_data(o, "event", &len);
	delivery_take(d, event ? event : "", len);
	return d;
}

static void load_delivery(struct hooks *h, const struct object *o)
{
	autoptr(object) trigger = owner_of(h, o);
	struct delivery *d;
	struct hook *k;

	if (!trigger)
		return;
	d = read_delivery(h, o, trigger);
	k = hook_of(h, trigger);
	if (seen_find(k, d->known->id, NULL)) { /* it was over, but for this */
		journal_drop(h, d->ns, d->record);
		delivery_free(d);
		return;
	}
	seen_add(k, d->known);
	if (may_go_on(h, d, note_of(o, KEY_DELIVERY_STATE)))
		delivery_line_up(d);
	else
		delivery_interrupted(d);
}

static int by_time(const void *a, const void *b)
{
	const struct object *x = *(struct object *const *)a, *y = *(struct object *const *)b;

	return strcmp(note_of(x, KEY_DELIVERY_TIME), note_of(y, KEY_DELIVERY_TIME));
}

void journal_open(struct hooks *h)
{
	struct found f = { 0 };

	client_each(h->spec.client, h->secret, NULL, gather, &f);
	if (f.n)
		qsort(f.list, f.n, sizeof(struct object *), by_time);
	for (size_t i = 0; i < f.n; i++)
		if (str_eq(json_get_str(f.list[i]->root, "type"), TYPE_SEEN))
			load_chunk(h, f.list[i]);
	for (size_t i = 0; i < f.n; i++) {
		if (str_eq(json_get_str(f.list[i]->root, "type"), TYPE_DELIVERY))
			load_delivery(h, f.list[i]);
		object_unref(f.list[i]);
	}
	free(f.list);
}
