/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/str.h"
#include "loop/queue.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"

/*
 * Probes: one try after the other, each due at a time that the queue of probes keeps. A verdict
 * changes after as many tries in a row as the thresholds say, and wakes the Pod. A startup probe
 * ends with its first success; until then the others are not tried. A lifecycle hook is a probe
 * with a single try. How a try is made is in probe_try.c.
 */
enum {
	WHY_MAX = 256, /* bytes of what a sandbox answered */
};

struct probe {
	struct container *c;
	enum probe_kind kind;
	char *key;
	struct probe_score score;
	usec due;      /* of the next try */
	usec deadline; /* of the try that is under way; 0: none is */
	void *try_;
	char *why; /* the try that brought a bad verdict about; NULL: the verdict is not bad */
};

static const struct {
	const char *name;
	size_t rule;       /* offset in the container's view */
	bool ok;           /* before the first verdict */
	uint64_t early_ms; /* a program that starts quickly should not wait a whole period */
	const char *event; /* of a hook that failed; NULL: it is a probe */
} kinds[PROBE_KIND_MAX_] = {
	[PROBE_STARTUP] = { "Startup", offsetof(struct pod_container_view, startup), false, 100 },
	[PROBE_READINESS] = { "Readiness", offsetof(struct pod_container_view, readiness), false,
			      5 },
	[PROBE_LIVENESS] = { "Liveness", offsetof(struct pod_container_view, liveness), true, 100 },
	[PROBE_POST_START] = { "PostStart", offsetof(struct pod_container_view, post_start), false,
			       0, "FailedPostStartHook" },
	[PROBE_PRE_STOP] = { "PreStop", offsetof(struct pod_container_view, pre_stop), false, 0,
			     "FailedPreStopHook" },
};

const struct pod_probe_view *probe_rule(const struct probe *p)
{
	return (const void *)((const char *)p->c->view + kinds[p->kind].rule);
}

struct container *probe_container(const struct probe *p)
{
	return p->c;
}

bool probe_is_hook(const struct probe *p)
{
	return kinds[p->kind].event;
}

/* It has its answer, and is not tried again. */
static bool probe_done(const struct probe *p)
{
	if (probe_is_hook(p))
		return p->score.ok || p->score.dead;
	return p->kind == PROBE_STARTUP && p->score.ok;
}

static void tell_failure(struct probe *p, const char *why)
{
	if (probe_is_hook(p))
		pod_event(p->c->pod, true, kinds[p->kind].event,
			  "%s hook of container %s failed: %s", kinds[p->kind].name,
			  p->c->view->name, why);
	else
		pod_event(p->c->pod, true, "Unhealthy", "%s probe failed: %s", kinds[p->kind].name,
			  why);
}

bool probe_count(struct probe_score *s, const struct pod_probe_view *rule, bool good)
{
	struct probe_score was = *s;

	s->n_ok = good ? s->n_ok + 1 : 0;
	s->n_bad = good ? 0 : s->n_bad + 1;
	if (s->n_ok >= rule->need_ok)
		s->ok = true;
	if (s->n_bad >= rule->need_bad) {
		s->ok = false;
		s->dead = true;
	}
	return was.ok != s->ok || was.dead != s->dead;
}

static void stop_try(struct probe *p)
{
	void *t = take(p->try_);

	p->deadline = 0;
	if (t)
		p->c->pod->pods->tries->stop(t);
}

void probe_tried(struct probe *p, bool good, const char *text)
{
	const struct pod_probe_view *rule = probe_rule(p);
	struct pods *ps = p->c->pod->pods;
	autofree char *why = xstrdup(text); /* it may be part of the try, which ends here */

	stop_try(p);
	p->due = pods_now(ps) + (usec)rule->period_s * 1000000;
	if (good ? p->score.n_ok + 1 == rule->need_ok : p->score.n_bad + 1 == rule->need_bad) {
		free(p->why);
		p->why = good ? NULL
			      : xasprintf("%s probe failed: %.*s", kinds[p->kind].name,
					  (int)utf8_prefix(why, strnlen(why, WHY_MAX)), why);
	}
	if (probe_count(&p->score, rule, good)) {
		if (p->kind == PROBE_STARTUP && p->score.ok)
			container_probe(p->c);
		pod_wake(p->c->pod);
	}
	if (!good && p->score.n_bad == rule->need_bad)
		tell_failure(p, why);
	if (probe_is_hook(p))
		container_hooked(p->c, p->kind == PROBE_PRE_STOP);
	(void)queue_add(ps->probes, p->key);
}

static void start_try(struct probe *p)
{
	struct pods *ps = p->c->pod->pods;
	const struct pod_probe_view *rule = probe_rule(p);
	void *t;

	if (rule->sleeps) {
		p->deadline = pods_now(ps) + (usec)rule->sleep_s * 1000000;
		return;
	}
	p->deadline = pods_now(ps) + (usec)rule->timeout_s * 1000000;
	p->c->pod->sleep.n_tries++;
	t = ps->tries->start(p);
	if (p->deadline)
		p->try_ = t;
	else if (t)
		ps->tries->stop(t); /* it has ended already */
}

static struct probe *probe_by_key(struct pods *ps, const char *key)
{
	autofree char *uid = xstrndup(key, strcspn(key, "/"));
	struct pod *p = map_get(ps->pods, uid);

	for (size_t i = 0; p && i < p->n_containers; i++) {
		struct container *c = p->containers[i];
		struct probe *const list[] = { c->startup, c->readiness, c->liveness, c->post_start,
					       c->pre_stop };

		for (size_t k = 0; k < ARRAY_LEN(list); k++)
			if (list[k] && str_eq(list[k]->key, key))
				return list[k];
	}
	return NULL;
}

static struct again probe_pass(void *arg, struct queue_item *it)
{
	struct pods *ps = arg;
	struct probe *p = probe_by_key(ps, it->key);
	usec left;

	if (!p || probe_done(p))
		return again_never(); /* its container has ended, or has started */
	if (p->c->pod->sleep.frozen) {
		stop_try(p); /* it says nothing about the container */
		return again_never();
	}
	if (p->deadline && p->deadline <= pods_now(ps))
		probe_tried(p, probe_rule(p)->sleeps, "it took too long");
	else if (!p->deadline && p->due <= pods_now(ps))
		start_try(p);
	left = (p->deadline ? p->deadline : p->due) - pods_now(ps);
	return again_after(left > 0 ? (uint64_t)left / 1000 + 1 : 0);
}

/* As if the last try had just ended. */
void probes_resume(struct container *c)
{
	struct probe *const list[] = { c->startup, c->readiness, c->liveness };
	struct pods *ps = c->pod->pods;

	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		if (!list[i])
			continue;
		stop_try(list[i]);
		list[i]->due = pods_now(ps) + (usec)probe_rule(list[i])->period_s * 1000000;
		(void)queue_add(ps->probes, list[i]->key);
	}
}

struct queue *probes_queue_new(struct pods *ps)
{
	const struct queue_spec spec = { .loop = ps->loop, .run = probe_pass, .arg = ps };
	struct queue *q = queue_new(&spec);

	queue_open(q);
	return q;
}

struct probe *probe_new(struct container *c, enum probe_kind kind)
{
	struct pods *ps = c->pod->pods;
	struct probe *p = xnew(struct probe);
	uint64_t delay_ms;

	p->c = c;
	p->kind = kind;
	if (!probe_rule(p)->there) {
		free(p);
		return NULL;
	}
	p->key = xasprintf("%s/%s/%s", c->pod->obj->uid, c->view->name, kinds[kind].name);
	p->score.ok = kinds[kind].ok;
	delay_ms = MAX(probe_rule(p)->delay_s * 1000ULL, kinds[kind].early_ms);
	p->due = pods_now(ps) + (usec)delay_ms * 1000;
	(void)queue_add(ps->probes, p->key);
	return p;
}

void probe_free(struct probe *p)
{
	if (!p)
		return;
	stop_try(p);
	free(p->why);
	free(p->key);
	free(p);
}

void probe_assume_ok(struct probe *p)
{
	if (p)
		p->score.ok = true;
}

bool probe_ok(const struct probe *p)
{
	return !p || p->score.ok;
}

const char *probe_trouble(const struct probe *p)
{
	return p && !p->score.ok ? p->why : NULL;
}

bool probe_dead(const struct probe *p)
{
	return p && p->score.dead;
}
