/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/access.h"
#include "node/pod/pod_priv.h"
#include "node/pod/usage_priv.h"

/*
 * The Pods that are gone, as sources of use. Whoever adds up what was used reads each source as a
 * counter, so one must not disappear before its last value was read and written down elsewhere.
 */
enum {
	OVER_MAX = 4096, /* beyond that, those that went first are forgotten */
};

static void over_drop(void *p)
{
	struct usage_over *o = p;

	free(o->uid);
	free(o->ns);
	free(o->sandbox);
	free(o);
}

void usage_sources_init(struct usage_sources *s)
{
	s->over = map_new(over_drop);
}

void usage_sources_done(struct usage_sources *s)
{
	map_free(s->over);
}

static void forget_oldest(struct usage_sources *s)
{
	const struct usage_over *oldest = NULL;

	map_each(it, s->over) {
		const struct usage_over *o = it.value;

		if (!oldest || o->at < oldest->at)
			oldest = o;
	}
	if (!oldest)
		return;
	s->n_lost += !oldest->settled;
	(void)map_del(s->over, oldest->uid);
}

void usage_over_put(struct usage_sources *s, const struct usage_over *from)
{
	struct usage_over *o = xnew(struct usage_over);

	*o = *from;
	o->uid = xstrdup(from->uid);
	o->ns = xstrdup(from->ns);
	o->sandbox = xstrdup(from->sandbox);
	o->settled = o->leaving = false;
	if (map_len(s->over) >= OVER_MAX)
		forget_oldest(s);
	map_put(s->over, o->uid, o);
}

const char *usage_sandbox_of(const struct pod *p)
{
	struct owner_view owner = owner_view_of(p->obj);

	return owner.type == OWNER_SANDBOX ? owner.name : NULL;
}

static struct access_usage usage_of(const struct usage_sums *s, int64_t at)
{
	return (struct access_usage){ .at_us = at,
				      .cpu_us = MAX(s->cpu_usec, (int64_t)0),
				      .memory_byte_s = MAX(s->memory_byte_s, (int64_t)0),
				      .disk_byte_s = MAX(s->disk_byte_s, (int64_t)0),
				      .received = s->received,
				      .sent = s->sent };
}

static void tell_pod(const struct usage_told *t, const struct pod *p,
		     void (*fn)(void *arg, const struct access_source *s), void *arg)
{
	struct usage_sums rest = usage_sums_less(usage_sums_of(p), &p->attached);
	const struct access_source s = { .uid = p->obj->uid,
					 .ns = p->obj->ns,
					 .sandbox = str_or(usage_sandbox_of(p), ""),
					 .used = usage_of(&rest, t->wall) };

	fn(arg, &s);
}

static void tell_attached(const struct usage_told *t, const struct attached *a,
			  void (*fn)(void *arg, const struct access_source *s), void *arg)
{
	struct access_source s = { .uid = a->uid,
				   .ns = a->ns,
				   .sandbox = str_or(a->sandbox, ""),
				   .attachment = true,
				   .over = !a->n_meters };

	if (a->ns && attached_sum(t->attached, a->uid, &s.used))
		fn(arg, &s);
}

void usage_sources_each(const struct usage_told *t,
			void (*fn)(void *arg, const struct access_source *s), void *arg)
{
	map_each(it, t->pods)
		tell_pod(t, it.value, fn, arg);
	map_each(it, t->attached)
		tell_attached(t, it.value, fn, arg);
	map_each(it, t->sources->over) {
		const struct usage_over *o = it.value;

		fn(arg, &(struct access_source){ .uid = o->uid,
						 .ns = o->ns,
						 .sandbox = str_or(o->sandbox, ""),
						 .over = true,
						 .used = usage_of(&o->used, o->at) });
	}
}

bool usage_sources_settled(struct usage_sources *s, struct map *attached, const char *uid)
{
	struct usage_over *o = map_get(s->over, uid);
	struct attached *a = map_get(attached, uid);

	if (o)
		o->settled = true;
	if (a && !a->n_meters)
		a->settled = true;
	return o || (a && a->settled);
}

void usage_sources_forget(struct usage_sources *s, struct map *attached)
{
	map_each(it, attached)
		if (((const struct attached *)it.value)->leaving)
			(void)map_del(attached, it.key);
	map_each(it, s->over)
		if (((const struct usage_over *)it.value)->leaving)
			(void)map_del(s->over, it.key);
}
