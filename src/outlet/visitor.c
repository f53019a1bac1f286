/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "outlet/outlet_priv.h"

/*
 * What each sandbox has under way, and how much more it may ask. They are kept by address, so there
 * are never more of them than addresses. An address that is another sandbox's now starts anew: what
 * the one before it did is not this one's. Its last requests may still be ending then; they keep
 * their visitor until they are over.
 */
static void visitor_free(struct visitor *v)
{
	free(v->uid);
	free(v);
}

void visitor_forget(void *visitor)
{
	struct visitor *v = visitor;

	v->forgotten = true;
	if (!v->active)
		visitor_free(v);
}

struct visitor *visitor_at(struct map *visitors, const char *ip, const char *uid)
{
	struct visitor *v = map_get(visitors, ip);

	if (v && str_eq(v->uid, uid))
		return v;
	v = xnew(struct visitor);
	v->uid = xstrdup(uid);
	map_put(visitors, ip, v);
	return v;
}

void visitor_enter(struct visitor *v)
{
	v->active++;
}

void visitor_leave(struct visitor *v)
{
	if (!--v->active && v->forgotten)
		visitor_free(v);
}

bool visitor_may_ask(struct visitor *v)
{
	uint32_t now = (uint32_t)(clock_mono() / 1000), since = now - v->since_ms;
	uint32_t back = since > 60000 ? BURST : since * REFILL_PER_SECOND / 1000;

	if (back) {
		v->spent = v->spent > back ? v->spent - back : 0;
		v->since_ms = now;
	}
	if (v->spent >= BURST)
		return false;
	v->spent++;
	return true;
}
