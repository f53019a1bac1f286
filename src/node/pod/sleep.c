/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/str.h"
#include "client/access.h"
#include "node/host/packet_wait.h"
#include "node/pod/pod_priv.h"
#include "node/pod/probe_priv.h"

/*
 * Whether somebody uses a Pod, and the sleep of one that nobody does. What passes through here
 * (sessions) is known to the microsecond; of everything else the kernel keeps counters, which are
 * looked at when somebody asks, so that no packet and no request costs anything. A Pod whose use
 * nobody asks about costs nothing at all.
 *
 * A frozen Pod keeps its processes, memory and connections. Whatever needs it thaws it first:
 * sessions and hooks do so here, and everything that comes over its network is seen by a packet
 * socket on the host's end of its link.
 *
 *   awake ── pods_freeze() ──→ frozen ── pod_used(), a packet, pods_thaw(), its end ──→ awake
 */
enum {
	BUSY_SHARE =
		10, /* processor time counts from one part in so many: gVisor alone takes 3 % */
	TRY_BYTES = 4096,       /* that a try of a probe may take, in both directions */
	TRY_CPU_US = 20 * 1000, /* and of processor time */
	CHECK_MS = 5,           /* between two looks whether it has stopped */
	CHECK_US = 1000 * 1000, /* that it may take */
	THAW_MS = 50,           /* between two tries to thaw it */
	THAWS_MAX = 20,         /* tries; after them it stays frozen until the next use */
};

static bool looks_at(const struct container *c)
{
	return c->task && c->state == CONTAINER_RUNNING;
}

/* The counters as they are now. */
static void count(const struct pod *p, int64_t *ret_bytes, int64_t *ret_cpu)
{
	const struct pods *ps = p->pods;
	struct runtime_usage net = { .ip = p->net ? p->net->ip : NULL, .brief = true };

	*ret_bytes = *ret_cpu = 0;
	if (p->net)
		ps->rt->usage(ps->rt_ctx, &net, 1);
	*ret_bytes = net.received + net.sent;
	for (size_t i = 0; i < p->n_containers; i++) {
		struct runtime_usage u = { .id = p->containers[i]->log, .brief = true };

		if (!looks_at(p->containers[i]))
			continue;
		ps->rt->usage(ps->rt_ctx, &u, 1);
		*ret_cpu += u.cpu_usec;
	}
}

/* From now on, what the counters say is news. */
static void begin_anew(struct pod *p)
{
	struct pod_sleep *s = &p->sleep;

	count(p, &s->bytes, &s->cpu_usec);
	s->looked = s->last = pods_now(p->pods);
	s->n_tries = 0;
}

/* What the runtime of a container runs is known from the answer to the look before: a command that
 * began since then has come over the network, and is seen there. */
static bool runs_commands(const struct pod *p)
{
	bool any = false;

	for (size_t i = 0; i < p->n_containers; i++) {
		struct container *c = p->containers[i];

		if (!looks_at(c))
			continue;
		any |= c->commands > 0;
		if (p->pods->rt->ask_busy && !p->pods->rt->ask_busy(c->task))
			c->commands = 0;
	}
	return any;
}

static void look(struct pod *p)
{
	struct pod_sleep *s = &p->sleep;
	usec now = pods_now(p->pods);
	int64_t bytes, cpu, cpu_used;
	bool used = s->n_execs > 0;

	if (!s->looked) {
		begin_anew(p);
		return;
	}
	count(p, &bytes, &cpu);
	used |= runs_commands(p);
	used |= bytes - s->bytes > (int64_t)s->n_tries * TRY_BYTES;
	cpu_used = cpu - s->cpu_usec - (int64_t)s->n_tries * TRY_CPU_US;
	used |= now > s->looked && cpu_used * BUSY_SHARE >= now - s->looked;
	s->bytes = bytes;
	s->cpu_usec = cpu;
	s->looked = now;
	s->n_tries = 0;
	if (used)
		s->last = now;
}

static struct pod *find(struct pods *ps, const struct access_target *of)
{
	autoptr(object) o = client_get(ps->client, ps->kind_pod, of->ns, of->pod);
	struct pod *p = o ? map_get(ps->pods, o->uid) : NULL;

	return p && !p->gone ? p : NULL;
}

bool pods_activity(struct pods *ps, const struct access_target *of, struct access_activity *ret)
{
	struct pod *p = find(ps, of);

	if (!p || p->phase != POD_ACTIVE)
		return false;
	if (!p->sleep.frozen)
		look(p);
	*ret = (struct access_activity){ .last_us = p->sleep.last - ps->skew,
					 .frozen = p->sleep.frozen };
	return true;
}

/* Freezing */

static struct err *set_frozen(struct pod *p, bool frozen)
{
	struct err *first = NULL;

	for (size_t i = 0; i < p->n_containers; i++) {
		struct container *c = p->containers[i];
		struct err *e = NULL;

		if (c->task && container_live(c->state))
			e = p->pods->rt->freeze(c->task, frozen);
		if (first)
			err_free(e);
		else
			first = e;
		if (first && frozen)
			return first;
	}
	return first;
}

static void on_packet(void *arg)
{
	pod_used(arg, "packet");
}

static struct err *wait_for_packets(struct pod *p)
{
	const struct pods *ps = p->pods;
	char link[16];

	if (!p->net || !ps->rt->net_link || !ps->rt->net_link(ps->rt_ctx, p->net, link))
		return NULL; /* it has no link over which a packet could come */
	return packet_wait_new(ps->loop, link, on_packet, p, &p->sleep.packets);
}

static bool has_stopped(const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (looks_at(p->containers[i]) && !p->pods->rt->frozen(p->containers[i]->task))
			return false;
	return true;
}

static void thaw(struct pod *p, const char *why);

static void check(void *arg)
{
	struct pod *p = arg;
	struct pod_sleep *s = &p->sleep;

	if (!s->frozen)
		return;
	if (s->n_thaws) {
		thaw(p, s->thawed_by);
		return;
	}
	if (has_stopped(p)) {
		pod_page_out_later(p);
		return;
	}
	if (pods_now(p->pods) < s->check_until) {
		timer_set(s->check, CHECK_MS);
		return;
	}
	pod_event(p, true, "FreezeFailed",
		  "Its processes did not stop within a second: one waits for the kernel");
	pod_used(p, "failed");
}

static void tell_woken(const struct pod *p, const char *why, usec began)
{
	struct access *access = p->pods->access;

	if (access && why)
		access_tell_woken(access, &(struct access_wake){ .ns = p->obj->ns,
								 .pod = p->obj->name,
								 .cause = why,
								 .took_us = clock_mono() - began });
}

/* It stays frozen. The timer tries again, and after its last try the next use does. */
static void thaw_later(struct pod *p, const char *why, const struct err *e)
{
	struct pod_sleep *s = &p->sleep;

	if (!s->n_thaws++)
		log_error("cannot thaw a Pod, trying again", KV("pod", p->obj->name), KV("err", e));
	if (why)
		s->thawed_by = why;
	if (!s->check)
		s->check = timer_new(p->pods->loop, check, p);
	if (s->n_thaws < THAWS_MAX) {
		timer_set(s->check, THAW_MS);
		return;
	}
	s->n_thaws = 0;
	timer_clear(s->check);
	err_free(wait_for_packets(p));
}

/* why: as pod_used() has it; NULL: nobody is told. */
static void thaw(struct pod *p, const char *why)
{
	struct pod_sleep *s = &p->sleep;
	usec began = clock_mono();
	struct err *e;

	pod_page_out_stop(p);     /* first, because a thaw takes back what that allows */
	e = set_frozen(p, false); /* somebody waits for it */
	packet_wait_free(take(s->packets), &p->pods->jobs);
	if (e) {
		thaw_later(p, why, e);
		err_free(e);
		return;
	}
	s->frozen = false;
	s->n_thaws = 0;
	s->thawed_by = NULL;
	if (s->check)
		timer_clear(s->check);
	s->looked = 0; /* what was counted meanwhile is no news; nobody waits for that now */
	s->last = pods_now(p->pods);
	for (size_t i = 0; i < p->n_containers; i++)
		probes_resume(p->containers[i]);
	tell_woken(p, why, began);
}

/* Whether all that it runs can be stopped, and goes on running until it is told to end. */
static struct err *may_freeze(const struct pod *p)
{
	bool any = false;

	if (!p->pods->rt->freeze)
		return err_new(ERR_UNSUPPORTED, "this runtime cannot freeze");
	if (p->phase != POD_ACTIVE || p->view->deleting || p->pods->stopping)
		return err_new(ERR_UNAVAILABLE, "pod %s is not running", p->obj->name);
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];

		if (container_live(c->state) && !looks_at(c))
			return err_new(ERR_UNAVAILABLE, "container %s is starting or ending",
				       c->view->name);
		any |= looks_at(c);
	}
	return any ? NULL : err_new(ERR_UNAVAILABLE, "pod %s runs nothing", p->obj->name);
}

/* Packets are looked for first, and the counters last: what comes in between is in one of them. */
static struct err *freeze(struct pod *p)
{
	struct pod_sleep *s = &p->sleep;
	int64_t bytes, cpu;
	struct err *e = wait_for_packets(p);

	if (e)
		return e;
	s->frozen = true;
	e = set_frozen(p, true);
	if (e) {
		thaw(p, NULL);
		return e;
	}
	count(p, &bytes, &cpu);
	if (bytes != s->bytes) {
		thaw(p, NULL);
		return err_new(ERR_UNAVAILABLE, "somebody uses pod %s", p->obj->name);
	}
	if (!s->check)
		s->check = timer_new(p->pods->loop, check, p);
	s->check_until = pods_now(p->pods) + CHECK_US;
	check(p);
	return NULL;
}

struct err *pods_freeze(struct pods *ps, const struct access_target *of)
{
	struct pod *p = find(ps, of);
	struct err *e;

	if (!p)
		return err_new(ERR_NOT_FOUND, "pods \"%s\" not found", of->pod);
	if (p->sleep.frozen)
		return NULL;
	e = may_freeze(p);
	return e ? e : freeze(p);
}

void pod_used(struct pod *p, const char *why)
{
	if (!p->sleep.frozen)
		p->sleep.last = pods_now(p->pods);
	else if (!p->sleep.n_thaws) /* else that goes on already */
		thaw(p, why);
}

void pods_used(struct pods *ps, const char *uid, const char *why)
{
	struct pod *p = map_get(ps->pods, uid);

	if (p)
		pod_used(p, why);
}

void pods_session(struct pods *ps, const char *uid, int change)
{
	struct pod *p = map_get(ps->pods, uid);

	if (!p)
		return;
	p->sleep.n_execs += (unsigned)change;
	p->sleep.last = pods_now(ps);
}

void pods_thaw(struct pods *ps, const struct access_target *of)
{
	struct pod *p = find(ps, of);

	if (p && p->sleep.frozen)
		pod_used(p, "asked");
}

void pod_sleep_ends(struct pod *p)
{
	if (p->sleep.frozen)
		thaw(p, NULL);
}

static bool was_ready(const struct container *c)
{
	return json_get_bool(container_status_was(c), "ready", false);
}

/* A daemon that died in the middle of a freeze or of a thaw left a part of it frozen: that goes on.
 * So does what is not known to have been ready, because nobody would send it anything. */
void pod_slept(struct pod *p)
{
	const struct runtime_ops *rt = p->pods->rt;
	unsigned n = 0, n_frozen = 0;
	bool any = false;
	struct err *e = NULL;

	if (!rt->frozen)
		return;
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct container *c = p->containers[i];

		n += c->task != NULL;
		n_frozen += c->task && rt->frozen(c->task) && was_ready(c);
		any |= c->task && rt->frozen(c->task);
	}
	if (!any)
		return;
	p->sleep.frozen = true;
	if (n_frozen == n)
		e = wait_for_packets(p);
	if (e)
		log_warn("cannot wait for packets to a frozen Pod, thawing it",
			 KV("pod", p->obj->name), KV("err", e));
	if (e || n_frozen < n)
		thaw(p, NULL);
	else
		pod_page_out_later(p);
	err_free(e);
}

void pod_sleep_done(struct pod *p)
{
	pod_page_out_stop(p);
	packet_wait_free(take(p->sleep.packets), &p->pods->jobs);
	timer_free(p->sleep.check);
	timer_free(p->sleep.page_timer);
}
