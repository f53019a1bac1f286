/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"

/*
 * Networks are made ahead, each at the next free address; one at a certain address (a Pod keeps its
 * own over a restart of the host) is made when it is wanted. A network is a descriptor of its
 * namespace: with the last process and the descriptor the namespace, its link and its route go, and
 * the address is free again.
 */
enum {
	RETRY_MS = 10, /* most likely the old link of that name is still going away */
	RETRY_WANTED_MS = 20,
	KEEP_MS = 1000, /* so long a wanted one is kept for whoever wanted it */
};

static unsigned stock(void *arg)
{
	struct native *n = arg;

	return n->nets.n_ready;
}

/* Whoever was called for a wanted one did not take it: now anybody may. */
static void on_keep(void *arg)
{
	struct native *n = arg;
	struct net *net;

	list_each(net, &n->nets.ready, on) {
		if (!net->wanted)
			continue;
		net->wanted = false;
		n->nets.n_ready++;
	}
	line_stocked(&n->nets.line);
}

void nets_init(struct native *n)
{
	list_init(&n->nets.asked);
	list_init(&n->nets.ready);
	list_init(&n->nets.in_use);
	line_init(&n->nets.line, n->loop, stock, n);
	n->nets.held = map_new(NULL);
	n->nets.keep = timer_new(n->loop, on_keep, n);
}

static void net_free(struct net *net)
{
	while (!list_empty(&net->waiters))
		list_del(net->waiters.next);
	list_del(&net->on);
	if (net->fd >= 0)
		(void)close(net->fd);
	if (net->owned)
		numbers_put(net->native->addresses, net->place);
	free(net);
}

static void free_all(struct list *l)
{
	struct net *net, *next;

	list_each_safe(net, next, l, on)
		net_free(net);
}

void nets_done(struct native *n)
{
	line_done(&n->nets.line);
	timer_free(n->nets.keep);
	free_all(&n->nets.asked);
	free_all(&n->nets.ready);
	free_all(&n->nets.in_use);
	map_free(n->nets.held);
}

static struct net *net_new(struct native *n, struct list *on, unsigned place)
{
	struct net *net = xnew(struct net);

	net->native = n;
	net->place = place;
	net->owned = true;
	net->fd = -1;
	list_init(&net->waiters);
	instance_addr_text(n->spec.instance, place, net->face.ip);
	list_add_tail(on, &net->on);
	return net;
}

static void ask(const struct net *net)
{
	struct native *n = net->native;
	char name[16], gateway[16];

	instance_ifname(n->spec.instance, net->place, name);
	instance_addr_text(n->spec.instance, 1, gateway);
	launcher_ask(&n->launchers[LAUNCHER_NETS],
		     &(struct message){
			     .type = MESSAGE_NET,
			     .net = { .name = name, .addr = net->face.ip, .gateway = gateway } });
}

void nets_fill(struct native *n)
{
	const struct launcher_proc *m = &n->launchers[LAUNCHER_NETS];
	unsigned place;

	while (!n->ending && launcher_ready(m) && n->nets.n_ready + n->nets.n_asked < n->target) {
		if (!numbers_take(n->addresses, &place)) {
			native_trouble_is(n, "all addresses of the pool are in use");
			return;
		}
		n->nets.n_asked++;
		ask(net_new(n, &n->nets.asked, place));
	}
}

void nets_retry(struct native *n)
{
	struct net *net;

	list_each(net, &n->nets.asked, on) {
		if (!net->refused || n->launchers[LAUNCHER_NETS].fd < 0)
			continue;
		net->refused = false;
		ask(net);
	}
}

static struct net *find(struct list *l, unsigned place)
{
	struct net *net;

	list_each(net, l, on)
		if (net->place == place)
			return net;
	return NULL;
}

static struct net *find_asked(struct native *n, const char *name)
{
	unsigned place;

	return instance_owns_ifname(n->spec.instance, name, &place) ? find(&n->nets.asked, place)
								    : NULL;
}

static void call_waiter(struct net *net)
{
	struct runtime_wait *w = list_first(&net->waiters, struct runtime_wait, on);

	timer_set(net->native->nets.keep, KEEP_MS);
	list_del(&w->on);
	w->ready(w);
}

void nets_made(struct native *n, struct message *m)
{
	struct net *net = find_asked(n, m->made.name);

	if (!net)
		return;
	if (!net->wanted)
		n->nets.n_asked--;
	net->fd = take_fd(m->fds[0]);
	list_del(&net->on);
	list_add_tail(&n->nets.ready, &net->on);
	net->wanted = net->wanted && !list_empty(&net->waiters);
	if (net->wanted) {
		call_waiter(net);
		return;
	}
	n->nets.n_ready++;
	line_stocked(&n->nets.line);
}

/* The address is not given to another now: most likely its old namespace is still going away. */
static void refused(struct net *net, const char *why)
{
	struct native *n = net->native;

	log_debug("network was refused", KV("address", net->face.ip), KV("err", why));
	if (net->wanted && !list_empty(&net->waiters)) {
		net->refused = true;
		launcher_pause(&n->launchers[LAUNCHER_NETS], RETRY_WANTED_MS);
		return;
	}
	if (!net->wanted)
		n->nets.n_asked--;
	net_free(net);
	launcher_pause(&n->launchers[LAUNCHER_NETS], RETRY_MS);
}

void nets_refused(struct native *n, const struct message_refused *r)
{
	struct net *net = find_asked(n, r->name);

	if (net)
		refused(net, r->text);
}

void nets_launcher_lost(struct native *n)
{
	struct net *net, *next;

	list_each_safe(net, next, &n->nets.asked, on)
		refused(net, "the launcher ended");
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

/* The place becomes the caller's. */
static bool claim(struct native *n, unsigned place, const char *ip)
{
	return map_take(n->nets.held, ip) || numbers_reserve(n->addresses, place);
}

static void give(struct net *net)
{
	if (!net->wanted)
		net->native->nets.n_ready--;
	net->wanted = false;
	list_del(&net->on);
	list_add_tail(&net->native->nets.in_use, &net->on);
}

/* False: this address cannot be had. *ret NULL: it is being made, and w will be called. */
static bool take_at(struct native *n, const char *ip, struct runtime_wait *w, struct net **ret)
{
	unsigned place;
	struct net *net;

	if (!instance_addr_place(n->spec.instance, ip, &place))
		return false;
	*ret = find(&n->nets.ready, place);
	if (*ret) {
		give(*ret);
		return true;
	}
	net = find(&n->nets.asked, place);
	if (!net && !claim(n, place, ip))
		return false;
	if (!net) {
		net = net_new(n, &n->nets.asked, place);
		net->wanted = true;
		ask(net);
		net->refused = n->launchers[LAUNCHER_NETS].fd < 0; /* then it is asked for later */
	} else if (!net->wanted) {
		net->wanted = true;
		n->nets.n_asked--;
	}
	if (w && (!w->on.next || list_empty(&w->on)))
		list_add_tail(&net->waiters, &w->on);
	return true;
}

static struct net *first_ready(struct native *n)
{
	struct net *net;

	list_each(net, &n->nets.ready, on)
		if (!net->wanted)
			return net;
	return NULL;
}

struct runtime_net *native_net_take(void *ctx, const char *want_ip, struct runtime_wait *w)
{
	struct native *n = ctx;
	struct net *net = NULL;

	if (want_ip && take_at(n, want_ip, w, &net))
		return net ? &net->face : NULL;
	if (line_ask(&n->nets.line, w))
		net = first_ready(n);
	if (net)
		give(net);
	native_refill(n);
	return net ? &net->face : NULL;
}

struct net *nets_find_inode(struct native *n, ino_t inode)
{
	struct net *net;

	list_each(net, &n->nets.in_use, on)
		if (inode && net->inode == inode)
			return net;
	return NULL;
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

	if (!instance_addr_place(n->spec.instance, ip, &place))
		return NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	net = net_new(n, &n->nets.in_use, place);
	net->owned = claim(n, place, ip);
	net->fd = take_fd(fd);
	net->inode = st.st_ino;
	map_each(it, n->tasks) {
		struct runtime_task *other = it.value;

		if (!other->net && other->inode == net->inode) {
			other->net = net;
			net_enter(net);
		}
	}
	return &net->face;
}

void net_enter(struct net *net)
{
	net->users++;
}

static void free_if_unused(struct net *net)
{
	if (net->put && !net->users)
		net_free(net);
}

void net_leave(struct net *net)
{
	if (!net)
		return;
	net->users--;
	free_if_unused(net);
}

void native_net_put(unused void *ctx, struct runtime_net *face)
{
	struct net *net = container_of(face, struct net, face);

	if (net->fd >= 0)
		(void)close(take_fd(net->fd));
	net->put = true;
	free_if_unused(net);
}
