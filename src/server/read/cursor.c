/* SPDX-License-Identifier: Apache-2.0 */
#include "server/read/cursor.h"

#include "api/object.h"
#include "base/mem.h"
#include "server/objects/objects.h"
#include "store/store.h"

/* Objects that one call looks at. */
enum {
	SCAN_MAX = 64,
};

struct err *cursor_init(struct cursor *c, const struct objects *os, const struct filter *f,
			uint64_t rev)
{
	*c = (struct cursor){ .objects = os, .filter = f };
	return store_view_new(os->store, buf_head(&f->prefix), rev, &c->view);
}

void cursor_done(struct cursor *c)
{
	store_view_free(take(c->view));
	store_entry_unref(take(c->at));
	free(take(c->after));
}

void cursor_rewind(struct cursor *c)
{
	store_entry_unref(take(c->at));
	c->ended = false;
}

const char *cursor_key(const struct cursor *c)
{
	return c->at ? c->at->key : c->after;
}

static struct store_entry *following(const struct cursor *c)
{
	const char *after = cursor_key(c);

	if (!c->filter->exact)
		return store_view_next(c->view, after);
	return after ? NULL : store_view_get(c->view, buf_head(&c->filter->prefix));
}

struct err *cursor_check(const struct cursor *c)
{
	if (!store_view_lost(c->view))
		return NULL;
	return err_new(ERR_GONE, "too much has changed since this answer began");
}

struct err *cursor_next(struct cursor *c, struct object **ret)
{
	struct store_entry *en;
	struct err *e;

	*ret = NULL;
	for (unsigned i = 0; i < SCAN_MAX && !c->ended; i++) {
		autoptr(object) o = NULL;

		e = cursor_check(c);
		if (e)
			return e;
		en = following(c);
		if (!en) {
			c->ended = true;
			break;
		}
		o = objects_of_entry(c->objects, en);
		store_entry_ref(en);
		store_entry_unref(c->at);
		c->at = en;
		if (!o || !filter_matches(c->filter, o))
			continue;
		*ret = take(o);
		break;
	}
	return NULL;
}

bool cursor_more(const struct cursor *c)
{
	return following(c) != NULL;
}
