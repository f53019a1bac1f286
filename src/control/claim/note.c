/* SPDX-License-Identifier: Apache-2.0 */
#include "control/claim/note.h"

#include "api/object.h"
#include "base/map.h"
#include "base/mem.h"

/* A note is made when its claim is first seen, and is dropped with it. */
struct notes {
	struct map *by_uid; /* struct note, owned */
};

static void note_free(void *p)
{
	struct note *n = p;

	waiter_leave(&n->waiter);
	free(n->waiter.ns);
	free(n->waiter.name);
	free(n->reserved);
	free(n);
}

struct notes *notes_new(void)
{
	struct notes *n = xnew(struct notes);

	n->by_uid = map_new(note_free);
	return n;
}

void notes_free(struct notes *n)
{
	if (!n)
		return;
	map_free(n->by_uid);
	free(n);
}

struct note *notes_need(struct notes *n, const struct object *claim, usec now)
{
	struct note *note = map_get(n->by_uid, claim->uid);

	if (note)
		return note;
	note = xnew(struct note);
	note->first_seen = note->waiter.since = now;
	note->began = clock_mono();
	list_init(&note->waiter.link);
	note->waiter.ns = xstrdup(claim->ns);
	note->waiter.name = xstrdup(claim->name);
	map_put(n->by_uid, claim->uid, note);
	return note;
}

struct note *notes_get(struct notes *n, const char *uid)
{
	return map_get(n->by_uid, uid);
}

void notes_forget(struct notes *n, const char *uid)
{
	(void)map_del(n->by_uid, uid);
}

struct member *note_release(struct note *n, struct index *ix)
{
	autofree char *name = take(n->reserved);
	struct member *m = name ? index_member(ix, n->waiter.ns, name) : NULL;

	if (m)
		m->taken = false;
	return m;
}
