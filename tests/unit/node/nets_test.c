/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"
#include "test.h"

/*
 * The networks of a runtime whose launcher is this test: it reads the requests from the other end
 * of the socket and answers them by hand.
 */
enum {
	N_PODS = 400, /* more than a socket has room for requests */
};

struct host {
	struct instance inst;
	struct native n;
	int launcher; /* its end of the socket */
	bool used;    /* what it says of networks that it is to look at */
	unsigned n_checks;
	unsigned n_peers;
	char peers_out[64], peers_in[64]; /* as it was told last */
};

struct pod {
	struct runtime_wait wait;
	unsigned called;
};

static void fill(void *arg)
{
	nets_fill(arg);
}

static void open_host(struct host *h, unsigned target, unsigned addresses)
{
	struct launcher_proc *p = &h->n.launchers[LAUNCHER_NETS];
	int pair[2];

	*h = (struct host){ .inst = { .id = "abcde", .pool = 0x64400000 } };
	is_true(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	works(fd_set_nonblock(pair[0]));
	works(fd_set_nonblock(pair[1]));
	works(loop_new(&h->n.loop));
	h->n.spec.instance = &h->inst;
	h->n.target = target;
	h->n.addresses = numbers_new(POOL_FIRST, addresses);
	h->n.refill = timer_new(h->n.loop, fill, &h->n);
	h->n.launchers[LAUNCHER_SLOTS].fd = -1;
	*p = (struct launcher_proc){ .native = &h->n, .kind = LAUNCHER_NETS, .fd = pair[0] };
	p->retry = timer_new(h->n.loop, fill, &h->n);
	h->launcher = pair[1];
	list_init(&h->n.ends);
	permits_init(&h->n.permits, h->n.loop, fill, &h->n);
	h->n.permits.full = N_PODS;
	slots_init(&h->n);
	nets_init(&h->n);
}

static void close_host(struct host *h)
{
	struct launcher_proc *p = &h->n.launchers[LAUNCHER_NETS];

	h->n.ending = true;
	slots_done(&h->n);
	nets_done(&h->n);
	permits_done(&h->n.permits);
	timer_free(p->retry);
	timer_free(h->n.refill);
	numbers_free(h->n.addresses);
	(void)close(p->fd);
	(void)close(h->launcher);
	(void)loop_turn(h->n.loop, 0);
	loop_free(h->n.loop);
}

static void answer_check(struct host *h, const char *name)
{
	h->n_checks++;
	if (h->used)
		nets_worn(&h->n, &(struct message_refused){ "net_check", name, "a packet" });
	else
		nets_as_new(&h->n, name);
}

/* The next request, or false. It is answered as the daemon's end of the socket would see it. */
static bool answer(struct host *h, const char *refusal)
{
	autoptr(arena) a = arena_new();
	enum message_got got = MESSAGE_NONE;
	struct message m;

	works(message_recv(h->launcher, a, &m, &got));
	if (got != MESSAGE_ONE)
		return false;
	h->n.launchers[LAUNCHER_NETS].n_asked--;
	if (m.type == MESSAGE_NET_PEERS) {
		h->n_peers++;
		(void)snprintf(h->peers_out, sizeof(h->peers_out), "%s", m.peers.out);
		(void)snprintf(h->peers_in, sizeof(h->peers_in), "%s", m.peers.in);
		nets_peered(&h->n, m.peers.name);
		message_close(&m);
	} else if (m.type == MESSAGE_NET_CHECK) {
		answer_check(h, m.check.name);
		message_close(&m);
	} else if (refusal) {
		nets_refused(&h->n, &(struct message_refused){
					    .what = "net", .name = m.net.name, .text = refusal });
	} else {
		struct message made = { .type = MESSAGE_NET_MADE, .made = { m.net.name, 0 } };

		made.fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		made.n_fds = 1;
		nets_made(&h->n, &made);
		message_close(&made);
	}
	nets_fill(&h->n);
	return true;
}

static void on_called(struct runtime_wait *w)
{
	container_of(w, struct pod, wait)->called++;
}

static struct runtime_net *take_net(struct host *h, struct pod *p, unsigned place)
{
	char ip[16];

	instance_addr_text(&h->inst, place, ip);
	p->wait.ready = on_called;
	return native_net_take(&h->n, place ? ip : NULL, &p->wait);
}

/* Requests are answered meanwhile. */
static void until_called(struct host *h, const struct pod *p, const char *refusal)
{
	usec deadline = clock_mono() + 10 * 1000000LL;

	while (!p->called && clock_mono() < deadline)
		if (!answer(h, refusal))
			(void)loop_turn(h->n.loop, 50);
	eq_int(p->called, 1);
}

TEST(a_launcher_is_asked_for_a_few_networks_at_a_time)
{
	struct pod *pods = xnew_n(struct pod, N_PODS);
	const struct launcher_proc *p;
	struct host h;
	unsigned n = 0;

	open_host(&h, 2, 1000);
	p = &h.n.launchers[LAUNCHER_NETS];
	for (unsigned i = 0; i < N_PODS; i++) {
		is_true(!take_net(&h, &pods[i], POOL_FIRST + i));
		is_true(p->n_asked <= ASKED_MAX);
	}
	while (answer(&h, NULL))
		is_true(p->n_asked <= ASKED_MAX);
	for (unsigned i = 0; i < N_PODS; i++)
		n += pods[i].called && take_net(&h, &pods[i], POOL_FIRST + i);
	eq_int(n, N_PODS);
	close_host(&h);
	free(pods);
}

TEST(while_launches_yield_one_network_is_made_ahead_at_a_time)
{
	struct pod pod = { 0 };
	struct host h;

	open_host(&h, 3, 1000);
	h.n.permits.yield = 1;
	permits_yield(&h.n.permits, true);
	nets_fill(&h.n);
	eq_int(h.n.launchers[LAUNCHER_NETS].n_asked, 1);
	is_true(!take_net(&h, &pod, POOL_FIRST + 7)); /* somebody wants this one now */
	eq_int(h.n.launchers[LAUNCHER_NETS].n_asked, 2);
	while (answer(&h, NULL))
		;
	eq_int(h.n.nets.n[NET_READY], 3);
	eq_int(h.n.permits.n, 0);
	close_host(&h);
}

TEST(a_network_that_is_refused_for_long_is_trouble_that_all_are_told_of)
{
	struct pod wanting = { 0 }, any = { 0 };
	usec deadline = clock_mono() + 10 * 1000000LL;
	struct runtime_net *net;
	struct host h;
	int tries = 0;

	open_host(&h, 1, 100);
	is_true(!take_net(&h, &wanting, 7));
	is_true(!take_net(&h, &any, 0));
	while (!h.n.nets.line.trouble && clock_mono() < deadline) {
		while (answer(&h, "no more links"))
			tries++;
		(void)loop_turn(h.n.loop, 50);
	}
	eq_str(h.n.nets.line.trouble, "no more links");
	is_true(tries < 20); /* the pauses grow */
	until_called(&h, &wanting, "no more links");
	until_called(&h, &any, "no more links");
	/* Both ask again; what was wanted is still wanted. */
	is_true(!take_net(&h, &wanting, 7));
	is_true(!take_net(&h, &any, 0));
	native_trouble_is(&h.n, &h.n.slots.line, NULL);
	is_true(h.n.nets.line.trouble); /* slots know nothing of networks */
	wanting.called = any.called = 0;
	until_called(&h, &wanting, NULL);
	until_called(&h, &any, NULL);
	net = take_net(&h, &wanting, 7);
	is_true(net);
	eq_str(net->ip, "100.64.0.7");
	is_true(take_net(&h, &any, 0));
	is_true(!h.n.nets.line.trouble);
	eq_int(h.n.nets.retry_ms, 0);
	close_host(&h);
}

TEST(all_who_want_the_same_address_get_a_network)
{
	struct pod pods[3] = { 0 };
	struct runtime_net *net;
	struct host h;

	open_host(&h, 1, 100);
	for (int i = 0; i < 3; i++)
		is_true(!take_net(&h, &pods[i], 7));
	for (int i = 0; i < 3; i++) {
		until_called(&h, &pods[i], NULL);
		net = take_net(&h, &pods[i], 7);
		is_true(net);
		eq_int(str_eq(net->ip, "100.64.0.7"), !i);
	}
	close_host(&h);
}

TEST(an_address_that_nobody_came_for_goes_to_whoever_waits)
{
	struct pod gone = { 0 }, waiting = { 0 };
	struct host h;

	open_host(&h, 0, 100); /* nothing is made ahead */
	is_true(!take_net(&h, &gone, 7));
	is_true(!take_net(&h, &waiting, 0));
	until_called(&h, &gone, NULL);
	eq_int(waiting.called, 0);
	until_called(&h, &waiting, NULL);
	is_true(take_net(&h, &waiting, 0));
	close_host(&h);
}

TEST(a_launcher_that_ended_is_asked_again_for_what_is_wanted)
{
	struct pod p = { 0 };
	struct host h;

	open_host(&h, 1, 100);
	is_true(!take_net(&h, &p, 7));
	h.n.launchers[LAUNCHER_NETS].n_asked = 0;
	nets_launcher_lost(&h.n);
	nets_fill(&h.n);
	while (answer(&h, NULL)) /* to both launchers; the first one's answers name nothing */
		;
	eq_int(p.called, 1);
	is_true(take_net(&h, &p, 7));
	close_host(&h);
}

static struct net *taken(struct host *h, unsigned place)
{
	struct pod p = { 0 };

	is_true(!take_net(h, &p, place));
	until_called(h, &p, NULL);
	return container_of(take_net(h, &p, place), struct net, face);
}

/* Requests are answered meanwhile. */
static void until_closed(struct host *h, int fd)
{
	usec deadline = clock_mono() + 10 * 1000000LL;

	while (fcntl(fd, F_GETFD) >= 0 && clock_mono() < deadline)
		if (!answer(h, NULL))
			(void)loop_turn(h->n.loop, 50);
	is_true(fcntl(fd, F_GETFD) < 0);
}

static void until_in(struct host *h, const struct net *net, enum net_state state)
{
	usec deadline = clock_mono() + 10 * 1000000LL;

	while (net->state != state && clock_mono() < deadline)
		if (!answer(h, NULL))
			(void)loop_turn(h->n.loop, 50);
	eq_int(net->state, state);
}

TEST(networks_that_were_used_are_closed_together)
{
	struct net *a, *b;
	struct host h;
	int fds[2];

	open_host(&h, 0, 100);
	h.used = true;
	a = taken(&h, 7);
	b = taken(&h, 8);
	fds[0] = a->fd;
	fds[1] = b->fd;
	net_join(a); /* a task still runs in it */
	native_net_put(&h.n, &a->face);
	native_net_put(&h.n, &b->face);
	until_in(&h, b, NET_SPENT);
	eq_int(a->state, NET_PUT);
	net_leave(a);
	until_in(&h, a, NET_SPENT);
	is_true(!numbers_reserve(h.n.addresses, 7)); /* nobody gets the address before that */
	until_closed(&h, fds[0]);
	is_true(fcntl(fds[1], F_GETFD) < 0);
	is_true(numbers_reserve(h.n.addresses, 7));
	eq_int(h.n_checks, 2);
	close_host(&h);
}

TEST(a_network_that_is_as_new_is_given_away_again)
{
	struct pod pod = { 0 };
	struct net *net;
	struct host h;
	int fd;

	open_host(&h, 0, 100);
	net = taken(&h, 7);
	fd = net->fd;
	native_net_put(&h.n, &net->face);
	nets_fill(&h.n);
	eq_int(h.n.launchers[LAUNCHER_NETS].n_asked, 0); /* it rests first */
	is_true(!take_net(&h, &pod, 0));
	until_called(&h, &pod, NULL);
	is_true(take_net(&h, &pod, 0) == &net->face);
	eq_int(net->fd, fd);
	eq_int(h.n_checks, 1);
	close_host(&h);
}

/* arg: the place of an address of which the packet filter says something. */
static bool is_clear(void *arg, unsigned place)
{
	return place != *(const unsigned *)arg;
}

TEST(an_address_that_the_packet_filter_knows_goes_to_nobody_else)
{
	unsigned known = POOL_FIRST;
	struct pod pods[2] = { 0 };
	struct runtime_net *net;
	struct net *used;
	struct host h;
	int fd;

	open_host(&h, 0, 2);
	h.n.spec.address_clear = is_clear;
	h.n.spec.arg = &known;
	used = taken(&h, POOL_FIRST); /* its own, from before */
	fd = used->fd;
	native_net_put(&h.n, &used->face);
	until_closed(&h, fd);
	eq_int(h.n_checks, 1);
	eq_int(h.n.nets.as_new, 0);
	h.n.target = 1;
	nets_fill(&h.n);
	while (answer(&h, NULL))
		;
	net = take_net(&h, &pods[0], 0);
	is_true(net);
	eq_str(net->ip, "100.64.0.3");
	is_true(!take_net(&h, &pods[1], 0));
	is_true(!answer(&h, NULL)); /* only the other address is left */
	known = 0;
	nets_fill(&h.n);
	while (answer(&h, NULL))
		;
	net = take_net(&h, &pods[1], 0);
	is_true(net);
	eq_str(net->ip, "100.64.0.2");
	close_host(&h);
}

TEST(a_network_whose_descriptors_may_be_elsewhere_is_not_even_looked_at)
{
	struct net *net;
	struct host h;
	int fd;

	open_host(&h, 0, 100);
	net = taken(&h, 7);
	fd = net->fd;
	net->confined = false;
	native_net_put(&h.n, &net->face);
	eq_int(net->state, NET_SPENT);
	until_closed(&h, fd);
	eq_int(h.n_checks, 0);
	close_host(&h);
}

TEST(what_policies_open_is_told_to_networks_in_use_and_they_are_not_used_again)
{
	struct net *net;
	struct host h;

	open_host(&h, 0, 100);
	h.n.face = (struct runtime){ .ctx = &h.n };
	native_set_peers(&h.n.face, "100.64.0.7", "100.64.0.8", "");
	is_true(!answer(&h, NULL)); /* nobody is there yet */
	net = taken(&h, 7);
	while (answer(&h, NULL))
		;
	eq_int(h.n_peers, 1);
	eq_str(h.peers_out, "100.64.0.8");
	native_set_peers(&h.n.face, "100.64.0.7", "100.64.0.8,100.64.0.9", "");
	nets_launcher_lost(&h.n); /* what it was told may be lost with it */
	nets_fill(&h.n);
	while (answer(&h, NULL))
		;
	eq_int(h.n_peers, 3);
	native_set_peers(&h.n.face, "100.64.0.7", "", "");
	while (answer(&h, NULL))
		;
	eq_int(h.n_peers, 4);
	eq_str(h.peers_out, "");
	native_net_put(&h.n, &net->face);
	eq_int(net->state, NET_SPENT);
	(void)taken(&h, 8); /* nothing is told to one that is as it was made */
	native_peers_known(&h.n.face);
	while (answer(&h, NULL))
		;
	eq_int(h.n_peers, 4);
	close_host(&h);
}

/* It may have anything in its filter, but its connections must not end at a start. */
TEST(a_network_from_before_the_start_keeps_its_peers_until_policies_are_known)
{
	struct runtime_task t = { .record = { .pid = getpid() } };
	struct host h;

	open_host(&h, 0, 100);
	h.n.face = (struct runtime){ .ctx = &h.n };
	h.n.tasks = map_new(NULL);
	is_true(native_net_adopt(&h.n, &t, "100.64.0.7"));
	is_true(native_net_adopt(&h.n, &t, "100.64.0.8"));
	nets_fill(&h.n);
	is_true(!answer(&h, NULL));
	native_set_peers(&h.n.face, "100.64.0.7", "100.64.0.9", "");
	while (answer(&h, NULL))
		;
	eq_int(h.n_peers, 1);
	native_peers_known(&h.n.face);
	while (answer(&h, NULL))
		;
	eq_int(h.n_peers, 3); /* those without any are told so */
	map_free(h.n.tasks);
	close_host(&h);
}

TEST(networks_beyond_a_limit_are_not_kept_and_many_do_not_wait_for_their_end)
{
	enum {
		MANY = 2 * 128
	};
	struct net *nets[MANY];
	struct host h;

	open_host(&h, 0, 1000);
	for (unsigned i = 0; i < MANY; i++)
		nets[i] = taken(&h, POOL_FIRST + i);
	for (unsigned i = 0; i < MANY; i++)
		native_net_put(&h.n, &nets[i]->face);
	eq_int(h.n.nets.n[NET_UNUSED], MANY / 2);
	eq_int(h.n.nets.n[NET_SPENT], 0);
	is_true(!numbers_reserve(h.n.addresses, POOL_FIRST));
	is_true(numbers_reserve(h.n.addresses, POOL_FIRST + MANY / 2));
	close_host(&h);
}

TEST(whoever_wants_an_address_does_not_wait_for_a_network_that_rests)
{
	struct net *net;
	struct host h;
	int fd;

	open_host(&h, 0, 100);
	net = taken(&h, 7);
	fd = dup(net->fd);
	native_net_put(&h.n, &net->face);
	eq_str(taken(&h, 7)->face.ip, "100.64.0.7");
	eq_int(h.n_checks, 0);
	(void)close(fd);
	close_host(&h);
}

TEST(a_network_that_a_lost_launcher_was_asked_about_is_closed)
{
	usec deadline = clock_mono() + 10 * 1000000LL;
	struct net *net;
	struct host h;
	int fd;

	open_host(&h, 0, 100);
	net = taken(&h, 7);
	fd = net->fd;
	native_net_put(&h.n, &net->face);
	while (net->state != NET_CHECKED && clock_mono() < deadline)
		(void)loop_turn(h.n.loop, 50);
	h.n.launchers[LAUNCHER_NETS].n_asked = 0;
	nets_launcher_lost(&h.n);
	eq_int(net->state, NET_SPENT);
	until_closed(&h, fd); /* the answer of the first launcher names nothing */
	close_host(&h);
}

static bool reserve(struct host *h, unsigned place, bool on)
{
	char ip[16];

	instance_addr_text(&h->inst, place, ip);
	return native_net_reserve(&h->n, ip, on);
}

/* All that can be made is made. */
static void answer_all(struct host *h)
{
	nets_fill(&h->n);
	while (answer(h, NULL))
		;
}

/* Asks as often as it is called, also when that is to tell of trouble. */
static const char *gets_any(struct host *h, struct pod *p)
{
	usec deadline = clock_mono() + 10 * 1000000LL;
	struct runtime_net *net = NULL;

	while (!(net = take_net(h, p, 0)) && clock_mono() < deadline) {
		p->called = 0;
		until_called(h, p, NULL);
	}
	return net ? net->ip : NULL;
}

TEST(a_reserved_address_goes_to_whoever_asks_for_it_and_to_nobody_else)
{
	struct pod any = { 0 }, none = { 0 };
	struct net *net;
	struct host h;
	int fd;

	open_host(&h, 2, 2); /* there are two addresses */
	net = taken(&h, POOL_FIRST);
	fd = net->fd;
	is_true(reserve(&h, POOL_FIRST, true));
	native_net_put(&h.n, &net->face);
	is_true(fcntl(fd, F_GETFD) < 0); /* at once, and nobody looked at it */
	eq_int(h.n_checks, 0);
	answer_all(&h);
	eq_str(take_net(&h, &any, 0)->ip, "100.64.0.3");
	is_true(!take_net(&h, &none, 0));
	answer_all(&h);
	is_true(!take_net(&h, &none, 0));
	is_true(!reserve(&h, POOL_SIZE - 2, true)); /* none of these addresses */
	net = taken(&h, POOL_FIRST);
	eq_str(net->face.ip, "100.64.0.2");
	is_true(reserve(&h, POOL_FIRST, false));
	native_net_put(&h.n, &net->face);
	eq_str(gets_any(&h, &none), "100.64.0.2"); /* now it is anybody's */
	close_host(&h);
}

TEST(an_address_can_be_reserved_before_there_is_a_network_and_let_go_again)
{
	struct pod any = { 0 };
	struct host h;

	open_host(&h, 1, 1);
	is_true(reserve(&h, POOL_FIRST, true));
	is_true(reserve(&h, POOL_FIRST, true)); /* as it is */
	answer_all(&h);
	is_true(!take_net(&h, &any, 0));
	is_true(reserve(&h, POOL_FIRST, false));
	eq_str(gets_any(&h, &any), "100.64.0.2");
	close_host(&h);
}

TEST(what_is_in_stock_cannot_be_reserved)
{
	struct host h;

	open_host(&h, 1, 1);
	answer_all(&h);
	eq_int(h.n.nets.n[NET_READY], 1);
	is_true(!reserve(&h, POOL_FIRST, true));
	close_host(&h);
}

TEST(whoever_comes_after_waits_until_the_one_before_has_gone)
{
	struct pod next = { 0 };
	struct net *net;
	struct host h;

	open_host(&h, 0, 100);
	net = taken(&h, 7);
	net_join(net);
	is_true(reserve(&h, 7, true));
	is_true(!take_net(&h, &next, 7));
	native_net_put(&h.n, &net->face); /* its processes still run */
	answer_all(&h);
	eq_int(next.called, 0);
	net_leave(net);
	until_called(&h, &next, NULL);
	eq_str(take_net(&h, &next, 7)->ip, "100.64.0.7");
	close_host(&h);
}

TEST(whoever_waits_for_an_address_that_is_let_go_takes_any)
{
	struct pod next = { 0 };
	struct net *net;
	struct host h;

	open_host(&h, 1, 100);
	net = taken(&h, 7);
	net_join(net);
	is_true(reserve(&h, 7, true));
	is_true(!take_net(&h, &next, 7));
	is_true(reserve(&h, 7, false));
	until_called(&h, &next, NULL);
	is_true(take_net(&h, &next, 0));
	net_leave(net);
	close_host(&h);
}

TEST(a_reserved_address_that_nobody_came_for_goes_to_nobody)
{
	struct pod gone = { 0 }, waiting = { 0 };
	struct host h;

	open_host(&h, 1, 1);
	is_true(reserve(&h, POOL_FIRST, true));
	is_true(!take_net(&h, &gone, POOL_FIRST));
	is_true(!take_net(&h, &waiting, 0));
	until_called(&h, &gone, NULL);
	eq_int(h.n.nets.n[NET_KEPT], 1);
	for (usec end = clock_mono() + 10 * 1000000LL; h.n.nets.n[NET_KEPT] && clock_mono() < end;)
		(void)loop_turn(h.n.loop, 50);
	eq_int(h.n.nets.n[NET_KEPT] + h.n.nets.n[NET_READY], 0);
	answer_all(&h);
	is_true(!take_net(&h, &waiting, 0));
	close_host(&h);
}

TEST(others_reach_a_network_at_a_reserved_address_when_that_has_ended)
{
	struct runtime face = { .ctx = NULL };
	struct net *net;
	struct host h;

	open_host(&h, 0, 100);
	face.ctx = &h.n;
	is_true(reserve(&h, 7, true));
	native_set_peers(&face, "100.64.0.7", "100.64.0.8", "100.64.0.9");
	net = taken(&h, 7);
	answer_all(&h);
	eq_str(h.peers_out, "100.64.0.8");
	eq_str(h.peers_in, "");
	is_true(reserve(&h, 7, false));
	answer_all(&h);
	eq_str(h.peers_in, "100.64.0.9");
	native_net_put(&h.n, &net->face);
	close_host(&h);
}
