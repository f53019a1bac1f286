/* SPDX-License-Identifier: Apache-2.0 */
#include "server/read/read.h"

#include "api/kind.h"
#include "api/object.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/read/filter.h"
#include "server/read/render.h"
#include "store/store.h"

/*
 * Get: like a list, at the newest committed revision.
 */
void read_get(const struct objects *os, struct call *c)
{
	const struct route *r = &c->route;
	autofree char *key = key_of(r->kind, r->ns, r->name);
	autoptr(store_view) v = NULL;
	autoptr(object) o = NULL;
	struct render how;
	struct bytes *text;
	struct store_entry *en;
	uint64_t rev = store_committed_rev(os->store), wanted;
	struct err *e;

	e = render_of(c, &how);
	if (!e)
		e = version_read(c, call_query(c, "resourceVersion"), rev, &wanted);
	if (!e)
		e = store_view_new(os->store, key, rev, &v);
	if (!e) {
		en = store_view_get(v, key);
		o = en ? objects_of_entry(os, en) : NULL;
		e = o && render_shows(&how, o) ? render_text(&how, o, &text)
					       : err_absent(r->kind, r->name);
	}
	if (e)
		call_fail(c, e);
	else
		call_reply_bytes(c, STATUS_OK, text);
}
