/* SPDX-License-Identifier: Apache-2.0 */
#include "client/access.h"

#include "base/metrics.h"
#include "base/series.h"
#include "client/access_priv.h"

/*
 * The ways into Pods as a whole: who implements them, who decides about them, and what was counted.
 * What is not a way in is passed on; the sessions are in access_session.c.
 */
static const uint32_t took_us[] = { 1000,    5000,    10000,    50000,    100000,   500000,
				    1000000, 5000000, 10000000, 60000000, 600000000 };
static const struct series_spec entries_spec = {
	"cay_entries_total",
	"Ways into Pods that were asked for: exec, attach, logs and ports.",
	SERIES_COUNTER,
	{ "way", "result" },
	.max = 8,
};
static const struct series_spec took_spec = {
	"cay_entry_seconds",
	"How long they lasted, from the start to the end.",
	SERIES_HISTOGRAM,
	{ "way" },
	took_us,
	ARRAY_LEN(took_us),
	1000000,
	.max = 4,
};

struct access *access_new(const struct access_ops *ops, void *ctx)
{
	struct access *a = xnew(struct access);

	a->ops = ops;
	a->ctx = ctx;
	list_init(&a->sessions);
	a->entries = series_new(&entries_spec);
	a->took = series_new(&took_spec);
	return a;
}

void access_free(struct access *a)
{
	if (!a)
		return;
	series_free(a->entries);
	series_free(a->took);
	free(a);
}

void access_set_policy(struct access *a, const struct access_policy *p, void *arg)
{
	a->policy = p ? *p : (struct access_policy){ 0 };
	a->policy_arg = arg;
}

void access_set_audit(struct access *a, struct audit *log)
{
	a->audit = log;
}

void access_set_door(struct access *a, const struct access_door *door)
{
	a->door = door ? *door : (struct access_door){ 0 };
}

bool access_is_door(struct access *a, const struct access_target *to)
{
	return a->door.is && a->door.is(a->door.ctx, to);
}

static uint64_t waiting(const struct access *a)
{
	const struct access_session *s;
	uint64_t n = 0;

	list_each(s, &a->sessions, on_access)
		n += s->state == SESSION_WAITING;
	return n;
}

void access_metrics(const struct access *a, struct buf *b)
{
	metrics_gauge(
		b, "cay_entries_waiting",
		"Ways into Pods that wait for an answer, or for the input that it depends on.",
		waiting(a));
	series_write(a->entries, b);
	series_write(a->took, b);
}

bool access_usage(struct access *a, const struct access_target *of, struct access_usage *ret)
{
	return a->ops->usage && a->ops->usage(a->ctx, of, ret);
}

void access_detach(struct access *a, const char *uid)
{
	if (a->ops->detach)
		a->ops->detach(a->ctx, uid);
}

void access_keep_attached(struct access *a, bool (*keep)(void *arg, const char *uid), void *arg)
{
	if (a->ops->keep_attached)
		a->ops->keep_attached(a->ctx, keep, arg);
}

bool access_attachment_usage(struct access *a, const char *uid, struct access_usage *ret)
{
	return a->ops->attachment_usage && a->ops->attachment_usage(a->ctx, uid, ret);
}

void access_usage_each(struct access *a, void (*fn)(void *arg, const struct access_source *s),
		       void *arg)
{
	if (a->ops->usage_each)
		a->ops->usage_each(a->ctx, fn, arg);
}

void access_usage_settled(struct access *a, const char *uid)
{
	if (a->ops->usage_settled)
		a->ops->usage_settled(a->ctx, uid);
}

void access_set_measured(struct access *a, access_measured fn, void *arg)
{
	a->measured = fn;
	a->measured_arg = arg;
}

void access_tell_measured(struct access *a)
{
	if (a->measured)
		a->measured(a->measured_arg);
}

bool access_activity(struct access *a, const struct access_target *of, struct access_activity *ret)
{
	return a->ops->activity && a->ops->activity(a->ctx, of, ret);
}

struct err *access_freeze(struct access *a, const struct access_target *of)
{
	if (!a->ops->freeze)
		return err_new(ERR_UNSUPPORTED, "this node cannot freeze Pods");
	return a->ops->freeze(a->ctx, of);
}

void access_thaw(struct access *a, const struct access_target *of)
{
	if (a->ops->thaw)
		a->ops->thaw(a->ctx, of);
}

void access_set_woken(struct access *a, access_woken fn, void *arg)
{
	a->woken = fn;
	a->woken_arg = arg;
}

void access_tell_woken(struct access *a, const struct access_wake *w)
{
	if (a->woken)
		a->woken(a->woken_arg, w);
}

void access_set_knocked(struct access *a, access_knocked fn, void *arg)
{
	a->knocked = fn;
	a->knocked_arg = arg;
}

void access_tell_knocked(struct access *a, const char *ns, const char *sandbox)
{
	if (a->knocked)
		a->knocked(a->knocked_arg, ns, sandbox);
}
