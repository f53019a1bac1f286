/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/filter_watch.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/wall.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/host/conntrack.h"
#include "node/host/firewall.h"
#include "node/host/instance.h"

/*
 * A message about our table only wakes us. What decides is a comparison of the table with what it
 * was right after it was loaded, so it does not matter who sent which message, whether it was lost,
 * or that our own changes are told to us as well.
 *
 *   quiet ── message ──> look, and restore at once
 *     soon after that ── message ──> look ── different ──> pause, then restore
 *
 * Rules of ours that change are loaded by the same jobs, one at a time. If only policies and limits
 * differ, and the table is as it was, their elements are changed instead.
 */
enum {
	RECEIVE = 32 * 1024,
	BUDGET = 16, /* messages a turn: anybody with rights over the filter can send more */
	CALM_US = 10 * 1000 * 1000, /* so long after a restoration, another one waits */
	PAUSE_MS = 100,             /* at first, then twice as long each time */
	PAUSE_MAX_MS = 30 * 1000,
};

struct filter_watch {
	struct filter_watch_spec spec;
	char *name;                     /* of the table, without its family */
	char *right;                    /* the table as it must be */
	struct firewall_rules in_force; /* those that it has */
	uint32_t generation;            /* of all tables, when it was so; 0: unknown */
	int fd;
	struct watch *watch;
	struct timer *timer; /* the end of a pause */
	struct jobs jobs;
	bool busy, again;
	bool changed;              /* the rules have to be loaded */
	void (*loaded)(void *arg); /* and this has to be told then */
	void *loaded_arg;
	bool told; /* that it is not intact; once is enough */
	size_t restored;
	usec last;
	unsigned pause_ms;
};

struct look {
	struct filter_watch *w;
	bool restore;
	struct firewall_rules rules, was;
	uint32_t generation; /* when the new rules were there */
	bool changed;
	char *right; /* the new rules, as the kernel has them */
	bool same, removed;
	struct err *e;
	struct err *kept; /* why flows go on to Pods that they are no longer led to */
};

/* Whether it is as it was at a generation of all tables, which is that of now. */
static bool is_right(const struct filter_watch *w, uint32_t generation)
{
	autofree char *text = NULL;

	if (generation == w->generation)
		return true;
	firewall_text(w->spec.instance, &text);
	return str_eq(text, w->right) && firewall_generation() == generation;
}

/* False: it has to be loaded as a whole, which also undoes what others did to it. */
static bool change_work(struct look *k)
{
	uint32_t generation = firewall_generation();
	struct err *e;

	if (!generation || !is_right(k->w, generation))
		return false;
	e = firewall_change(k->w->spec.instance, &k->was, &k->rules);
	if (e) {
		err_free(e);
		return false;
	}
	k->generation = firewall_generation();
	return k->generation == generation + 1; /* or somebody else came in between */
}

static void load_work(struct look *k)
{
	if (!change_work(k)) {
		k->e = firewall_load(k->w->spec.instance, &k->rules);
		k->generation = firewall_generation();
	}
	if (!k->e)
		firewall_text(k->w->spec.instance, &k->right);
	if (!k->e && !k->right)
		k->e = err_new(ERR_SYS, "read the packet filter back after loading it");
	if (!k->e && k->rules.ways != k->was.ways)
		k->kept = conntrack_keep(k->w->spec.instance, k->rules.ways);
}

static void look_work(void *arg)
{
	struct look *k = arg;
	struct filter_watch *w = k->w;
	uint32_t generation;
	autofree char *text = NULL;

	if (k->changed) {
		load_work(k);
		return;
	}
	generation = firewall_generation();
	k->same = generation && generation == w->generation;
	if (k->same)
		return; /* what woke us was our own change */
	firewall_text(w->spec.instance, &text);
	k->same = str_eq(text, w->right);
	k->removed = !text;
	if (!k->same && k->restore)
		k->e = firewall_load(w->spec.instance, &k->rules);
}

static void start_look(struct filter_watch *w, bool restore);

static void tell(struct filter_watch *w, const struct look *k)
{
	const struct filter_news news = { .intact = k->same || (k->restore && !k->e),
					  .removed = k->removed,
					  .ours = k->changed,
					  .restored = w->restored,
					  .pause_ms = w->pause_ms,
					  .e = k->e };

	w->told = !news.intact;
	w->spec.news(w->spec.arg, &news);
}

static void pause_then_restore(struct filter_watch *w)
{
	w->pause_ms = w->pause_ms ? MIN(2 * w->pause_ms, (unsigned)PAUSE_MAX_MS) : PAUSE_MS;
	timer_set(w->timer, w->pause_ms);
}

static void drop_rules(const struct firewall_rules *r)
{
	bytes_unref(r->policies);
	bytes_unref(r->limits);
	bytes_unref(r->services);
	bytes_unref(r->ways);
}

/* Instead of those that were held before. */
static void hold_rules(struct firewall_rules *to, const struct firewall_rules *from)
{
	const struct firewall_rules was = *to;

	*to = *from;
	to->policies = bytes_ref(from->policies);
	to->limits = bytes_ref(from->limits);
	to->services = bytes_ref(from->services);
	to->ways = bytes_ref(from->ways);
	drop_rules(&was);
}

/* Rules that changed once more meanwhile are loaded next. */
static void load_done(struct filter_watch *w, struct look *k)
{
	if (k->e) {
		w->changed = true;
		pause_then_restore(w);
		tell(w, k);
		return;
	}
	free(w->right);
	w->right = take(k->right);
	w->generation = k->generation;
	hold_rules(&w->in_force, &k->rules);
	if (k->kept)
		log_warn("cannot have flows of UDP forgotten, those of Pods that left a Service "
			 "stay with them until they pause",
			 KV("err", k->kept));
	if (w->told) {
		k->same = true;
		tell(w, k);
	}
	if (!w->changed && w->loaded)
		take(w->loaded)(w->loaded_arg);
	if (w->spec.in_force)
		w->spec.in_force(w->spec.arg);
}

static void look_done(void *arg)
{
	struct look *k = arg;
	struct filter_watch *w = k->w;

	w->busy = false;
	if (k->changed) {
		load_done(w, k);
	} else if (!k->same && k->restore && !k->e) {
		w->restored++;
		w->last = clock_mono();
		tell(w, k);
	} else if (!k->same) {
		pause_then_restore(w);
		if (k->e || !w->told)
			tell(w, k);
	} else if (w->told) {
		tell(w, k); /* whoever changed it has put it back */
	}
	drop_rules(&k->rules);
	drop_rules(&k->was);
	err_free(k->e);
	err_free(k->kept);
	free(k);
	if ((w->again || w->changed) && !timer_armed(w->timer))
		start_look(w, false);
}

/* One at a time. */
static void start_look(struct filter_watch *w, bool restore)
{
	struct look *k;

	w->again = w->busy;
	if (w->busy)
		return;
	w->busy = true;
	k = xnew(struct look);
	k->w = w;
	k->restore = restore;
	hold_rules(&k->rules, &w->spec.rules);
	hold_rules(&k->was, &w->in_force);
	k->changed = w->changed;
	w->changed = false;
	jobs_run(&w->jobs, look_work, look_done, k);
}

static void on_pause_over(void *arg)
{
	start_look(arg, true);
}

void filter_watch_change(struct filter_watch *w, const struct firewall_rules *rules,
			 void (*loaded)(void *arg), void *arg)
{
	hold_rules(&w->spec.rules, rules);
	if (loaded) {
		w->loaded = loaded;
		w->loaded_arg = arg;
	}
	w->changed = true;
	if (!timer_armed(w->timer))
		start_look(w, false);
}

unsigned filter_watch_policies(const struct filter_watch *w)
{
	return w->in_force.policies_number;
}

unsigned filter_watch_limits(const struct filter_watch *w)
{
	return w->in_force.limits_number;
}

static void on_change(struct filter_watch *w)
{
	bool calm = !w->restored || clock_mono() - w->last >= CALM_US;

	if (!wall_stands("filter-watch") || timer_armed(w->timer))
		return;
	if (calm)
		w->pause_ms = 0;
	start_look(w, calm);
}

/* The first attribute of every message but NEWGEN is the name of the table. */
static bool is_ours(const struct filter_watch *w, const struct nlmsghdr *h)
{
	const struct nlattr *a;

	if (h->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES || (h->nlmsg_type & 0xff) == NFT_MSG_NEWGEN)
		return false;
	mnl_attr_for_each(a, h, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) == NFTA_TABLE_NAME &&
		    mnl_attr_validate(a, MNL_TYPE_NUL_STRING) >= 0)
			return str_eq(mnl_attr_get_str(a), w->name);
	}
	return false;
}

static void on_message(void *arg, unused unsigned ready)
{
	_Alignas(8) char room[RECEIVE];
	struct filter_watch *w = arg;
	bool changed = false;

	for (int i = 0; i < BUDGET; i++) {
		const struct nlmsghdr *h = (const void *)room;
		ssize_t n = recv(w->fd, room, sizeof(room), MSG_DONTWAIT);
		int left = (int)n;

		changed |= n < 0 && errno == ENOBUFS; /* some were lost: ours may be among them */
		if (n <= 0)
			break;
		for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
			changed |= is_ours(w, h);
	}
	if (changed)
		on_change(w);
}

static struct err *subscribe(struct filter_watch *w)
{
	const struct sockaddr_nl any = { .nl_family = AF_NETLINK };
	int group = NFNLGRP_NFTABLES;

	w->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);
	/* Unbound, it would pass for the sender of every message, and get none. */
	if (w->fd < 0 || bind(w->fd, (const struct sockaddr *)&any, sizeof(any)) < 0 ||
	    setsockopt(w->fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		return err_sys(errno, "follow changes of the packet filter");
	return NULL;
}

struct err *filter_watch_new(const struct filter_watch_spec *spec, struct filter_watch **ret)
{
	autoptr(filter_watch) w = xnew(struct filter_watch);
	autofree char *table = instance_table(spec->instance);
	struct err *e;

	w->spec = *spec;
	w->spec.rules = (struct firewall_rules){ 0 };
	hold_rules(&w->spec.rules, &spec->rules);
	hold_rules(&w->in_force, &spec->rules);
	w->name = xstrdup(strchr(table, ' ') + 1);
	w->fd = -1;
	jobs_init(&w->jobs, spec->loop, NULL, NULL);
	w->timer = timer_new(spec->loop, on_pause_over, w);
	e = subscribe(w); /* first: what happens right after the load is told */
	if (!e)
		e = firewall_load(spec->instance, &spec->rules);
	if (e)
		return e;
	firewall_text(spec->instance, &w->right);
	if (!w->right)
		return err_new(ERR_SYS, "read the packet filter back after loading it");
	w->watch = watch_new(spec->loop, w->fd, on_message, w);
	watch_want(w->watch, WATCH_READ);
	*ret = take(w);
	return NULL;
}

void filter_watch_free(struct filter_watch *w)
{
	if (!w)
		return;
	watch_free(w->watch);
	jobs_wait(&w->jobs);
	timer_free(w->timer);
	if (w->fd >= 0)
		(void)close(w->fd);
	free(w->name);
	free(w->right);
	drop_rules(&w->spec.rules);
	drop_rules(&w->in_force);
	free(w);
}
