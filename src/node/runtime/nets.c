/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"

/*
 * Networks are made ahead, each at the next free address. One at a certain address is made when it
 * is wanted: a Pod keeps its address when the daemon starts again. A network is a descriptor of its
 * namespace: when the last process and the descriptor are gone, so are the namespace, its link and
 * its route, and the address is free again. nets_unused.c says when that is.
 *
 * A refusal is tried again, because most often the old link of that name is still going away. If it
 * goes on, the pauses grow, and whoever waits is told why.
 */
enum {
	RETRY_MS = 10, /* at first, then twice as long each time */
	RETRY_MAX_MS = 1000,
	TROUBLE_MS = 300, /* a pause of this length is worth telling of */
	KEEP_MS = 1000,   /* so long an address is kept for whoever wanted it and was called */
};

static const struct {
	const char *name;
	unsigned next;
} states[NET_STATE_MAX_] = {
	[NET_QUEUED] = { "queued", B(NET_WANTED) },
	[NET_WANTED] = { "wanted", B(NET_QUEUED) | B(NET_READY) | B(NET_KEPT) },
	[NET_ASKED] = { "asked", B(NET_WANTED) | B(NET_READY) },
	[NET_READY] = { "ready", B(NET_IN_USE) },
	[NET_KEPT] = { "kept", B(NET_READY) | B(NET_IN_USE) },
	[NET_IN_USE] = { "in use", B(NET_PUT) },
	[NET_PUT] = { "put", B(NET_UNUSED) | B(NET_SPENT) },
	[NET_UNUSED] = { "unused", B(NET_CHECKED) },
	[NET_CHECKED] = { "checked", B(NET_READY) | B(NET_SPENT) },
	[NET_SPENT] = { "spent", 0 },
};

void net_enter(struct net *net, enum net_state next)
{
	struct nets *all = &net->native->nets;

	assert(states[net->state].next & B(next));
	log_debug("network moves", KV("address", net->face.ip), KV("from", states[net->state].name),
		  KV("to", states[next].name));
	list_del(&net->on);
	all->n[net->state]--;
	net->state = next;
	all->n[next]++;
	list_add_tail(&all->in[next], &net->on);
}

static void name_ip6(struct net *net)
{
	const struct instance *i = net->native->spec.instance;
	struct ip addr = instance_ip6(i, net->place);

	if (i->ip6)
		ip_text(&addr, net->face.ip6);
}

static struct net *net_new(struct native *n, unsigned place, enum net_state state)
{
	struct net *net = xnew(struct net);

	net->native = n;
	net->place = place;
	net->fd = -1;
	list_init(&net->waiters);
	list_init(&net->peers_on);
	instance_addr_text(n->spec.instance, place, net->face.ip);
	name_ip6(net);
	net->state = state;
	n->nets.n[state]++;
	list_add_tail(&n->nets.in[state], &net->on);
	return net;
}

void net_free(struct net *net)
{
	struct native *n = net->native;

	permit_put(&net->permit);
	while (!list_empty(&net->waiters))
		list_del(net->waiters.next);
	list_del(&net->on);
	list_del(&net->peers_on);
	n->nets.n[net->state]--;
	if (net->fd >= 0)
		(void)close(net->fd);
	if (net->place)
		nets_place_put(n, net->place);
	free(net);
	native_refill_later(n); /* there may have been no address left */
}

static unsigned stock(void *arg, unused bool later)
{
	struct native *n = arg;

	return n->nets.n[NET_READY];
}

static void keep(struct net *net)
{
	net->kept_until = clock_mono() + KEEP_MS * 1000LL;
}

/* Whoever wanted this address went away. */
static bool abandoned(const struct net *net)
{
	return list_empty(&net->waiters) && net->kept_until <= clock_mono();
}

void net_line_up(struct net *net)
{
	struct runtime_wait *w;

	while (!list_empty(&net->waiters)) {
		w = list_first(&net->waiters, struct runtime_wait, on);
		list_del(&w->on);
		line_join(&net->native->nets.line, w);
	}
}

void nets_line_up(struct native *n)
{
	static const enum net_state wanted[] = { NET_QUEUED, NET_WANTED };
	struct net *net;

	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		list_each(net, &n->nets.in[wanted[i]], on) {
			keep(net); /* they will ask for it again */
			net_line_up(net);
		}
}

/* To anybody, unless its address is reserved. */
static void offer(struct net *net)
{
	if (nets_reserved(net->native, net->place))
		net_free(net);
	else
		net_enter(net, NET_READY);
}

/* Whoever was called for one of these did not take it: now anybody may. */
static void on_keep(void *arg)
{
	struct native *n = arg;
	struct net *net, *next;
	usec now = clock_mono();

	list_each_safe(net, next, &n->nets.in[NET_KEPT], on) {
		if (net->kept_until > now)
			continue;
		net_line_up(net);
		offer(net);
	}
	if (n->nets.n[NET_KEPT])
		timer_set(n->nets.keep, KEEP_MS);
	line_stocked(&n->nets.line);
}

void nets_init(struct native *n)
{
	for (int i = 0; i < NET_STATE_MAX_; i++)
		list_init(&n->nets.in[i]);
	line_init(&n->nets.line, n->loop, stock, n);
	n->nets.held = map_new(NULL);
	nets_reserved_init(n);
	n->nets.keep = timer_new(n->loop, on_keep, n);
	nets_unused_init(n);
	nets_peers_init(n);
}

void nets_done(struct native *n)
{
	struct net *net, *next;

	line_done(&n->nets.line);
	timer_free(n->nets.keep);
	nets_unused_done(n);
	for (int i = 0; i < NET_STATE_MAX_; i++)
		list_each_safe(net, next, &n->nets.in[i], on)
			net_free(net);
	map_free(n->nets.held);
	nets_reserved_done(n);
	nets_peers_done(n);
}

static void ask(struct net *net)
{
	struct native *n = net->native;
	char name[16], gateway[16], gateway6[IP_TEXT_MAX];
	struct ip gw6 = instance_ip6(n->spec.instance, POOL_GATEWAY);

	ip_text(&gw6, gateway6);
	instance_ifname(n->spec.instance, net->place, name);
	instance_addr_text(n->spec.instance, 1, gateway);
	permit_take(&n->permits, &net->permit);
	launcher_ask(&n->launchers[LAUNCHER_NETS],
		     &(struct message){ .type = MESSAGE_NET,
					.net = { .name = name,
						 .addr = net->face.ip,
						 .gateway = gateway,
						 .addr6 = net->face.ip6,
						 .gateway6 = gateway6,
						 .egress = n->spec.egress } });
}

bool nets_clear(const struct native *n, unsigned place)
{
	return !n->spec.address_clear || n->spec.address_clear(n->spec.arg, place);
}

/* The next that is clear; those that are not come last. */
static bool take_place(struct native *n, unsigned *ret)
{
	bool some = false;

	for (unsigned i = 0; i < POOL_SIZE && numbers_take(n->addresses, ret); i++) {
		if (nets_clear(n, *ret))
			return true;
		numbers_put(n->addresses, *ret);
		some = true;
	}
	if (some)
		native_refill_later(n);
	return false;
}

/* What somebody wants comes before the stock, and what may be there already before what has to be
 * made. False: there is nothing to ask for. */
static bool ask_next(struct native *n)
{
	struct nets *all = &n->nets;
	unsigned place;

	if (nets_peers_next(n))
		return true;
	if (all->n[NET_QUEUED]) {
		struct net *net = list_first(&all->in[NET_QUEUED], struct net, on);

		if (abandoned(net)) {
			net_free(net);
		} else {
			net_enter(net, NET_WANTED);
			ask(net);
		}
		return true;
	}
	if (nets_check_next(n))
		return true;
	if (all->n[NET_READY] + all->n[NET_ASKED] >= n->target || !native_may_make(n))
		return false;
	if (!take_place(n, &place)) {
		native_trouble_is(n, &all->line, "all addresses of the pool are in use");
		return false;
	}
	ask(net_new(n, place, NET_ASKED));
	return true;
}

void nets_fill(struct native *n)
{
	while (!n->ending && launcher_ready(&n->launchers[LAUNCHER_NETS]) && ask_next(n))
		;
}

struct net *nets_find(struct native *n, unsigned in, unsigned place)
{
	struct net *net;

	for (int i = 0; i < NET_STATE_MAX_; i++) {
		if (!(in & B(i)))
			continue;
		list_each(net, &n->nets.in[i], on)
			if (net->place == place)
				return net;
	}
	return NULL;
}

struct net *nets_find_named(struct native *n, unsigned in, const char *name)
{
	unsigned place;

	if (!instance_owns_ifname(n->spec.instance, name, &place))
		return NULL;
	return nets_find(n, in, place);
}

static void call_waiter(struct net *net)
{
	struct native *n = net->native;
	struct runtime_wait *w;

	keep(net);
	if (!timer_armed(n->nets.keep))
		timer_set(n->nets.keep, KEEP_MS);
	if (list_empty(&net->waiters))
		return; /* it was called to tell of trouble, and will ask again */
	w = list_first(&net->waiters, struct runtime_wait, on);
	list_del(&w->on);
	w->ready(w);
}

void nets_made(struct native *n, struct message *m)
{
	struct net *net = nets_find_named(n, B(NET_WANTED) | B(NET_ASKED), m->made.name);

	if (!net)
		return;
	permit_put(&net->permit);
	net->fd = take_fd(m->fds[0]);
	net->confined = true;
	n->nets.retry_ms = 0;
	native_trouble_is(n, &n->nets.line, NULL);
	if (net->state == NET_WANTED && !abandoned(net)) {
		net_enter(net, NET_KEPT);
		call_waiter(net);
		return;
	}
	offer(net);
	line_stocked(&n->nets.line);
}

/* The address is not given to another now: most likely its old namespace is still going away. */
static void not_made(struct net *net)
{
	permit_put(&net->permit);
	if (net->state == NET_WANTED && !abandoned(net))
		net_enter(net, NET_QUEUED);
	else
		net_free(net);
}

static void back_off(struct native *n, const char *why)
{
	struct launcher_proc *p = &n->launchers[LAUNCHER_NETS];

	if (!p->retry || timer_armed(p->retry))
		return; /* it was asked before the pause began */
	n->nets.retry_ms =
		n->nets.retry_ms ? MIN(2 * n->nets.retry_ms, (unsigned)RETRY_MAX_MS) : RETRY_MS;
	launcher_pause(p, n->nets.retry_ms);
	/* The texts differ in the name of the link: one of them is enough. */
	if (n->nets.retry_ms >= TROUBLE_MS && !n->nets.line.trouble)
		native_trouble_is(n, &n->nets.line, why);
}

void nets_refused(struct native *n, const struct message_refused *r)
{
	struct net *net = nets_find_named(n, B(NET_WANTED) | B(NET_ASKED), r->name);

	if (!net)
		return;
	log_debug("network was refused", KV("address", net->face.ip), KV("err", r->text));
	not_made(net);
	back_off(n, r->text);
}

void nets_launcher_lost(struct native *n)
{
	static const enum net_state asked[] = { NET_ASKED, NET_WANTED };
	struct net *net, *next;

	for (size_t i = 0; i < ARRAY_LEN(asked); i++)
		list_each_safe(net, next, &n->nets.in[asked[i]], on)
			not_made(net);
	list_each_safe(net, next, &n->nets.in[NET_CHECKED], on)
		net_enter(net, NET_SPENT);
	nets_peers_launcher_lost(n);
	nets_batch_later(n);
}

void nets_hold(struct native *n, const char *ip)
{
	unsigned place;

	if (instance_addr_place(n->spec.instance, ip, &place) &&
	    numbers_reserve(n->addresses, place))
		map_put(n->nets.held, ip, n);
}

void nets_drop_held(struct native *n)
{
	unsigned place;

	map_each(it, n->nets.held)
		if (instance_addr_place(n->spec.instance, it.key, &place))
			numbers_put(n->addresses, place);
	map_free(n->nets.held);
	n->nets.held = map_new(NULL);
}

static void give(struct net *net)
{
	net_line_up(net);
	net->native->nets.last_taken = clock_mono();
	net->shut = nets_reserved(net->native, net->place);
	net_enter(net, NET_IN_USE);
	net_peers_taken(net);
}

/* False: this address cannot be had. *ret NULL: it is being made, and w will be called. */
static bool take_at(struct native *n, const char *ip, struct runtime_wait *w, struct net **ret)
{
	unsigned place;
	struct net *net;

	if (!instance_addr_place(n->spec.instance, ip, &place))
		return false;
	*ret = nets_find(n, B(NET_READY) | B(NET_KEPT), place);
	if (*ret) {
		line_leave(&n->nets.line, w);
		give(*ret);
		return true;
	}
	nets_vacate(n, place);
	net = nets_find(n, B(NET_QUEUED) | B(NET_WANTED) | B(NET_ASKED), place);
	if (!net && nets_reserved(n, place)) /* whoever has it is about to go */
		net = nets_find(n, B(NET_IN_USE) | B(NET_PUT), place);
	if (!net && !nets_place_take(n, place, ip))
		return false;
	if (!net)
		net = net_new(n, place, NET_QUEUED);
	else if (net->state == NET_ASKED)
		net_enter(net, NET_WANTED);
	keep(net);
	if (w && (!w->on.next || list_empty(&w->on)))
		list_add_tail(&net->waiters, &w->on);
	return true;
}

static void move_waiters(struct list *from, struct list *to)
{
	while (!list_empty(from)) {
		struct list *w = from->next;

		list_del(w);
		list_add_tail(to, w);
	}
}

void net_succeed(struct net *net)
{
	struct native *n = net->native;
	unsigned place = net->place;
	LIST_HEAD(waiters);
	struct net *next;

	move_waiters(&net->waiters, &waiters);
	net_free(net);
	if (list_empty(&waiters))
		return;
	next = net_new(n, place, NET_QUEUED);
	keep(next);
	move_waiters(&waiters, &next->waiters);
	nets_fill(n);
}

struct runtime_net *native_net_take(void *ctx, const char *want_ip, struct runtime_wait *w)
{
	struct native *n = ctx;
	struct net *net = NULL;

	if (!(want_ip && take_at(n, want_ip, w, &net)) && line_ask(&n->nets.line, w)) {
		net = list_first(&n->nets.in[NET_READY], struct net, on);
		give(net);
	}
	if (!net)
		nets_fill(n);
	native_refill(n);
	return net ? &net->face : NULL;
}

struct net *nets_find_inode(struct native *n, ino_t inode)
{
	struct net *net;

	list_each(net, &n->nets.in[NET_IN_USE], on)
		if (inode && net->inode == inode)
			return net;
	return NULL;
}

/* One that was made while the host had no IPv6, or by an earlier version, is without. */
static bool link_has_ip6(const struct native *n, unsigned place)
{
	autofree char *path = NULL, *text = NULL;
	char name[16];

	instance_ifname(n->spec.instance, place, name);
	path = xasprintf("/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
	err_free(file_read(AT_FDCWD, path, 16, &text, NULL));
	return text && *text == '0';
}

/* Its namespace is held by its processes; we need it for containers that start again. */
struct runtime_net *native_net_adopt(void *ctx, struct runtime_task *t, const char *ip)
{
	autofree char *path = xasprintf("/proc/%d/ns/net", (int)t->record.pid);
	struct native *n = ctx;
	autoclose fd = -1;
	struct net *net;
	unsigned place;
	struct stat st;
	bool ours;

	if (!instance_addr_place(n->spec.instance, ip, &place))
		return NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	ours = nets_place_take(n, place, ip);
	net = net_new(n, place, NET_IN_USE);
	if (!link_has_ip6(n, place))
		*net->face.ip6 = '\0';
	if (!ours)
		net->place = 0;
	net->fd = take_fd(fd);
	net->inode = st.st_ino;
	map_each(it, n->tasks) {
		struct runtime_task *other = it.value;

		if (!other->net && other->inode == net->inode) {
			other->net = net;
			net_join(net);
		}
	}
	net_peers_taken(net);
	return &net->face;
}

void net_join(struct net *net)
{
	net->users++;
}
