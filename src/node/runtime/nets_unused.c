/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/runtime/native_priv.h"

/*
 * What becomes of a network that nobody uses any more. Making one and taking it away again costs
 * the kernel ten to twenty times what it costs to look whether anything went through it
 * (launch/netns_check.c), and most often nothing did. So it rests for a moment, after which
 * everything that its sandbox had under way has ended or has been counted, and if it is as new
 * then, the next sandbox gets it, with its address.
 *
 * Not one through whose sandbox a descriptor may have left: a file of /proc/net that was opened
 * inside shows the network for as long as somebody holds it. And not one from before the daemon's
 * start, because we do not know that. Nor one in whose filter policies opened something, or for
 * whose address the host's filter still says what the last sandbox may do.
 *
 * All others are closed in batches: the kernel takes namespaces away in rounds, and a round costs
 * about the same for one as for many.
 */
enum {
	BATCH_MS = 500,  /* how long the first of a batch waits for others */
	BATCH_MAX = 128, /* a batch of this size is closed at once */
	REST_MS = 500,   /* how long a network rests before it is looked at */
	SPARE_MAX = 128, /* how many may be kept beyond the stock */
	LULL_MS = 10000, /* without a taker for this long, those beyond the stock are closed */
};

static void close_spent(struct native *n)
{
	struct net *net, *next;

	list_each_safe(net, next, &n->nets.in[NET_SPENT], on)
		net_free(net);
}

/* What was kept for the next burst goes when it did not come. */
static void on_lull(void *arg)
{
	struct native *n = arg;
	usec quiet = clock_mono() - n->nets.last_taken;

	if (quiet < LULL_MS * 1000LL) {
		timer_set(n->nets.lull, LULL_MS - (unsigned)(quiet / 1000));
		return;
	}
	while (n->nets.n[NET_READY] > n->target)
		net_free(list_first(&n->nets.in[NET_READY], struct net, on));
}

void nets_batch_later(struct native *n)
{
	const unsigned *have = n->nets.n;

	if (have[NET_SPENT] >= BATCH_MAX)
		close_spent(n);
	if ((have[NET_SPENT] || have[NET_UNUSED]) && !timer_armed(n->nets.batch))
		timer_set(n->nets.batch, BATCH_MS);
}

static void on_batch(void *arg)
{
	struct native *n = arg;

	close_spent(n);
	nets_fill(n); /* those that have rested are looked at */
	nets_batch_later(n);
}

void nets_unused_init(struct native *n)
{
	n->nets.batch = timer_new(n->loop, on_batch, n);
	n->nets.lull = timer_new(n->loop, on_lull, n);
}

void nets_unused_done(struct native *n)
{
	timer_free(n->nets.batch);
	timer_free(n->nets.lull);
}

bool nets_check_next(struct native *n)
{
	struct net *net;
	char name[16];

	if (!n->nets.n[NET_UNUSED])
		return false;
	net = list_first(&n->nets.in[NET_UNUSED], struct net, on);
	if (clock_mono() - net->unused_since < REST_MS * 1000LL)
		return false; /* nor have the others, which came later */
	net_enter(net, NET_CHECKED);
	instance_ifname(n->spec.instance, net->place, name);
	launcher_ask(&n->launchers[LAUNCHER_NETS], &(struct message){ .type = MESSAGE_NET_CHECK,
								      .check = { name },
								      .fds = { net->fd },
								      .n_fds = 1 });
	return true;
}

void nets_as_new(struct native *n, const char *name)
{
	struct net *net = nets_find_named(n, B(NET_CHECKED), name);

	if (!net)
		return;
	if (!nets_clear(n, net->place)) {
		net_enter(net, NET_SPENT);
		nets_batch_later(n);
		return;
	}
	n->nets.as_new++;
	net_enter(net, NET_READY);
	if (n->nets.n[NET_READY] > n->target && !timer_armed(n->nets.lull))
		timer_set(n->nets.lull, LULL_MS);
	line_stocked(&n->nets.line);
}

void nets_worn(struct native *n, const struct message_refused *r)
{
	struct net *net = nets_find_named(n, B(NET_CHECKED), r->name);

	if (!net)
		return;
	log_debug("network is not used again", KV("address", net->face.ip), KV("err", r->text));
	n->nets.worn++;
	net_enter(net, NET_SPENT);
	nets_batch_later(n);
}

void nets_vacate(struct native *n, unsigned place)
{
	struct net *net = nets_find(n, B(NET_UNUSED) | B(NET_CHECKED) | B(NET_SPENT), place);

	if (!net)
		return;
	net_free(net); /* an answer about it will name nothing */
	close_spent(n);
}

static bool worth_a_look(const struct net *net)
{
	const struct native *n = net->native;
	const unsigned *have = n->nets.n;

	return net->confined && !net->opened && !n->ending &&
	       have[NET_READY] + have[NET_UNUSED] + have[NET_CHECKED] < n->target + SPARE_MAX;
}

static void retire_if_unused(struct net *net)
{
	if (net->state != NET_PUT || net->users)
		return;
	if (nets_reserved(net->native, net->place)) {
		net_succeed(net); /* its route is in the way of another */
		return;
	}
	net->unused_since = clock_mono();
	net_enter(net, worth_a_look(net) ? NET_UNUSED : NET_SPENT);
	nets_batch_later(net->native);
}

void net_leave(struct net *net)
{
	if (!net)
		return;
	net->users--;
	retire_if_unused(net);
}

void native_net_put(unused void *ctx, struct runtime_net *face)
{
	struct net *net = container_of(face, struct net, face);

	net_enter(net, NET_PUT);
	list_del(&net->peers_on);
	retire_if_unused(net);
}
