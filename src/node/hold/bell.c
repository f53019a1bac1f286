/* SPDX-License-Identifier: Apache-2.0 */
#include "node/hold/bell.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/packet_wait.h"
#include "node/runtime/runtime.h"

/*
 * What is wanted is a set of places, and what is led here is another; a job makes them equal, one
 * at a time. When nothing is wanted any more the network is put, and takes the link and all routes
 * with it.
 */
enum {
	METRIC = 4096,   /* more than a route of a sandbox has: 0, and 1024 of IPv6 */
	RETRY_MS = 1000, /* after trouble with the link */
};

struct change {
	unsigned place;
	bool on;
};

struct bell {
	struct bell_spec spec;
	bool wanted[POOL_SIZE], led[POOL_SIZE]; /* by place */
	unsigned n_wanted;
	struct runtime_net *net; /* NULL: there is none */
	struct runtime_wait wait;
	char link[16];
	struct packet_wait *packets;
	struct deferred look;
	struct timer *retry;
	struct jobs jobs;

	/* The job's own, while it runs. */
	struct {
		bool runs;
		struct change *list;
		unsigned n;
		struct err *e;
	} job;
};

/* Routes */

static void change_route(const struct bell *b, struct netlink *nl, const struct change *c,
			 unsigned ifindex)
{
	const struct instance *i = b->spec.instance;
	const struct netlink_route to[] = {
		{ .dst = instance_ip4(i, c->place),
		  .prefix = 32,
		  .src = instance_ip4(i, POOL_GATEWAY),
		  .ifindex = ifindex,
		  .metric = METRIC },
		{ .dst = instance_ip6(i, c->place),
		  .prefix = 128,
		  .src = instance_ip6(i, POOL_GATEWAY),
		  .ifindex = ifindex,
		  .metric = METRIC },
	};

	for (unsigned n = 0; n < (i->ip6 ? 2U : 1U); n++) {
		if (c->on)
			netlink_add_route(nl, &to[n]);
		else
			netlink_del_route(nl, &to[n]);
	}
}

static void work(void *arg)
{
	struct bell *b = arg;
	autoptr(netlink) nl = NULL;
	struct err *e = netlink_open(&nl);
	unsigned ifindex = e ? 0 : netlink_index(nl, b->link);

	for (unsigned n = 0; ifindex && n < b->job.n; n++)
		change_route(b, nl, &b->job.list[n], ifindex);
	if (!e && ifindex)
		e = netlink_commit(nl);
	b->job.e = e;
}

static void done(void *arg)
{
	struct bell *b = arg;

	if (b->job.e)
		log_warn("cannot change the routes of addresses that are held, going on; packets "
			 "may not wake every sandbox that sleeps",
			 KV("link", b->link), KV("err", b->job.e));
	err_free(take(b->job.e));
	free(take(b->job.list));
	b->job.runs = false;
	deferred_call(&b->look);
}

static void change_routes(struct bell *b)
{
	unsigned n = 0;

	b->job.list = xnew_n(struct change, POOL_SIZE);
	for (unsigned i = POOL_FIRST; i < POOL_SIZE; i++) {
		if (b->wanted[i] == b->led[i])
			continue;
		b->job.list[n++] = (struct change){ i, b->wanted[i] };
		b->led[i] = b->wanted[i];
	}
	b->job.n = n;
	if (!n) {
		free(take(b->job.list));
		return;
	}
	b->job.runs = true;
	jobs_run(&b->jobs, work, done, b);
}

/* The link */

static void on_packet(void *arg, const struct ip *to)
{
	struct bell *b = arg;
	unsigned place;

	if (instance_ip_place(b->spec.instance, to, &place) && b->wanted[place])
		b->spec.rang(b->spec.arg, place);
}

static void close_link(struct bell *b)
{
	const struct runtime *rt = b->spec.runtime;

	list_del(&b->wait.on);
	timer_clear(b->retry);
	if (b->packets)
		packet_wait_free(take(b->packets), &b->jobs);
	if (b->net)
		rt->ops->net_put(rt->ctx, take(b->net));
	memset(b->led, 0, sizeof(b->led));
}

/* Its own address, or none: another belongs to a sandbox. */
static struct err *listen_there(struct bell *b, const char *ip)
{
	const struct runtime *rt = b->spec.runtime;

	if (!str_eq(b->net->ip, ip) || !rt->ops->net_link ||
	    !rt->ops->net_link(rt->ctx, b->net, b->link))
		return err_new(ERR_UNAVAILABLE, "the network at %s cannot be had", ip);
	return packet_wait_each(b->spec.loop, b->link, on_packet, b, &b->packets);
}

static bool open_link(struct bell *b)
{
	const struct runtime *rt = b->spec.runtime;
	struct err *e;
	char ip[16];

	instance_addr_text(b->spec.instance, POOL_BELL, ip);
	b->net = rt->ops->net_take(rt->ctx, ip, &b->wait);
	if (!b->net)
		return false; /* on_ready() */
	e = listen_there(b, ip);
	if (!e)
		return true;
	log_warn("packets do not wake sandboxes that sleep, trying again; requests through the "
		 "router do",
		 KV("err", e));
	err_free(e);
	close_link(b);
	timer_set(b->retry, RETRY_MS);
	return false;
}

static void look(void *arg)
{
	struct bell *b = arg;

	if (b->job.runs)
		return; /* its end looks again */
	if (!b->n_wanted)
		close_link(b);
	else if ((b->net || open_link(b)) && !timer_armed(b->retry))
		change_routes(b);
}

static void on_ready(struct runtime_wait *w)
{
	deferred_call(&container_of(w, struct bell, wait)->look);
}

static void on_retry(void *arg)
{
	deferred_call(&((struct bell *)arg)->look);
}

struct bell *bell_new(const struct bell_spec *spec)
{
	struct bell *b = xnew(struct bell);

	b->spec = *spec;
	b->wait.ready = on_ready;
	list_init(&b->wait.on);
	deferred_init(&b->look, spec->loop, look, b);
	b->retry = timer_new(spec->loop, on_retry, b);
	jobs_init(&b->jobs, spec->loop, NULL, NULL);
	return b;
}

void bell_set(struct bell *b, unsigned place, bool on)
{
	if (b->wanted[place] == on)
		return;
	b->wanted[place] = on;
	b->n_wanted += on ? 1 : -1;
	deferred_call(&b->look);
}

void bell_free(struct bell *b)
{
	if (!b)
		return;
	jobs_wait(&b->jobs);
	deferred_cancel(&b->look);
	close_link(b);
	jobs_wait(&b->jobs);
	deferred_cancel(&b->look);
	timer_free(b->retry);
	free(b);
}
