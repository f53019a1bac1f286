/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/cgroup.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/launch/launch.h"
#include "node/node_priv.h"

/*
 * Two launcher processes, one for slots and one for networks, so that neither waits for the other.
 * Each answers requests in order. We keep `target` of either parked; what a Pod takes is asked for
 * anew at once.
 */
enum {
	MAKER_SLOTS,
	MAKER_NETS,
	N_MAKERS,
	RETRY_MS = 1000,
	ASKED_MAX =
		4, /* requests under way to one launcher: more would only steal from each other */
	REFILL_MS = 20, /* what was taken is replaced once its taker has had the processors */
};

struct wanted_net {
	struct list on;
	unsigned place;
	void (*made)(void *arg, struct net *net);
	void *arg;
};

struct maker {
	struct nursery *nursery;
	struct child *child;
	int fd; /* -1: it is not there */
	struct watch *watch;
	struct timer *retry;
	unsigned n_asked; /* unanswered */
};

struct nursery {
	struct node *node;
	char *launcher, *init, *stage;
	unsigned target;
	struct maker makers[N_MAKERS];
	struct list berths, nets; /* ready */
	struct list parking;      /* struct berth: born, not ready yet */
	struct list wanted;       /* struct wanted_net */
	unsigned n_berths, n_parking, n_nets;
	struct json_doc *expected; /* the image that was asked for last */
	char *trouble;
	bool ending;
	struct timer *refill;
};

static void maker_start(struct maker *m);
static void fill(struct nursery *y);

uint32_t range_base(unsigned range)
{
	return (uint32_t)(range + 16) * ID_RANGE; /* the host's own ids end long before 1 << 20 */
}

void nursery_expect(struct nursery *y, const struct json *image)
{
	autofree char *text = NULL;

	if (json_equal(json_root(y->expected), image))
		return;
	text = json_to_text(image);
	if (strlen(text) > LAUNCH_MSG_MAX / 2)
		return; /* so many layers do not fit into a request */
	json_doc_free(y->expected);
	y->expected = json_doc_new();
	json_set_root(y->expected, json_copy(y->expected, image));
}

const char *nursery_trouble(const struct nursery *y)
{
	return y->trouble;
}

static void set_trouble(struct nursery *y, const char *text)
{
	if (text && !str_eq(y->trouble, text))
		log_warn("cannot prepare sandboxes, trying again", KV("err", text));
	free(y->trouble);
	y->trouble = xstrdup(text);
	if (text)
		node_wake_waiting(y->node);
}

static struct err *ask(struct maker *m, const char *op, const char *name, unsigned number)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	const struct instance *inst = m->nursery->node->inst;
	char ip[16];

	json_set_root(d, o);
	json_set_str(d, o, "op", op);
	json_set_str(d, o, "name", name);
	if (m == &m->nursery->makers[MAKER_SLOTS]) {
		json_set_int(d, o, "base", range_base(number));
		json_set(d, o, "image", json_copy(d, json_root(m->nursery->expected)));
	} else {
		instance_addr_text(inst, number, ip);
		json_set_str(d, o, "addr", ip);
		instance_addr_text(inst, 1, ip);
		json_set_str(d, o, "gw", ip);
	}
	m->n_asked++;
	return launch_send_json(m->fd, o, NULL, 0);
}

/* A name that no control group, socket or state file had before. */
static void new_slot_name(char ret[16])
{
	ret[0] = 's';
	random_hex(ret + 1, 12);
}

static void maker_failed(struct maker *m, struct err *e)
{
	log_warn("launcher failed, starting another", KV("err", e));
	err_free(e);
	if (m->fd >= 0)
		(void)shutdown(m->fd, SHUT_RDWR); /* it ends; its end starts the next */
}

static void ask_berth(struct nursery *y)
{
	struct berth *b = xnew(struct berth);
	char name[16];
	struct err *e;

	b->pidfd = b->ctl = -1;
	b->nursery = y;
	if (!numbers_take(y->node->ranges, &b->range)) {
		free(b);
		set_trouble(y, "all id ranges are in use");
		return;
	}
	new_slot_name(name);
	b->name = xstrdup(name);
	list_add_tail(&y->parking, &b->on);
	y->n_parking++;
	e = ask(&y->makers[MAKER_SLOTS], "slot", name, b->range);
	if (e)
		maker_failed(&y->makers[MAKER_SLOTS], e);
}

static void ask_net(struct nursery *y, unsigned place)
{
	char name[16];
	struct err *e;

	instance_ifname(y->node->inst, place, name);
	e = ask(&y->makers[MAKER_NETS], "net", name, place);
	if (e)
		maker_failed(&y->makers[MAKER_NETS], e);
}

static bool maker_ready(const struct maker *m)
{
	return m->fd >= 0 && m->n_asked < ASKED_MAX && !timer_armed(m->retry);
}

static void fill(struct nursery *y)
{
	struct maker *slots = &y->makers[MAKER_SLOTS], *nets = &y->makers[MAKER_NETS];
	unsigned place;

	if (y->ending)
		return;
	while (maker_ready(slots) && y->n_parking < ASKED_MAX &&
	       y->n_berths + y->n_parking < y->target) {
		unsigned before = y->n_parking;

		ask_berth(y);
		if (y->n_parking == before)
			break;
	}
	while (maker_ready(nets) && y->n_nets + nets->n_asked < y->target) {
		if (!numbers_take(y->node->addresses, &place)) {
			set_trouble(y, "all addresses of the pool are in use");
			break;
		}
		ask_net(y, place);
	}
}

static void berth_done(struct berth *b)
{
	watch_free(take(b->watch));
	if (b->ctl >= 0)
		(void)close(b->ctl);
	if (b->pidfd >= 0)
		(void)close(b->pidfd);
	free(b->name);
	free(b);
}

struct unpark {
	struct cgroups *cgroups;
	char *name, *root;
	int pidfd; /* of a process that was just killed and may still make files; -1: none */
	bool keep_log;
};

static void remove_root(const struct unpark *u)
{
	static const char *const parts[] = { "upper", "work", "work2", "local" };

	if (u->pidfd >= 0)
		(void)poll(&(struct pollfd){ .fd = u->pidfd, .events = POLLIN }, 1, 5000);
	if (!u->keep_log) {
		err_free(file_remove_tree(AT_FDCWD, u->root)); /* or else the next start does */
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		autofree char *path = xasprintf("%s/%s", u->root, parts[i]);

		err_free(file_remove_tree(AT_FDCWD, path));
	}
}

static void unpark_work(void *arg)
{
	struct unpark *u = arg;

	/* The process has just been told to end; its groups are free within a moment. */
	for (int i = 0; i < 1000; i++) {
		struct err *e = cgroup_remove(u->cgroups, u->name);
		bool busy = err_is(e, ERR_UNAVAILABLE);

		err_free(e);
		if (!busy)
			break;
		(void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
	remove_root(u);
}

static void unpark_done(void *arg)
{
	struct unpark *u = arg;

	if (u->pidfd >= 0)
		(void)close(u->pidfd);
	free(u->root);
	free(u->name);
	free(u);
}

static void release(struct node *n, const char *name, unsigned range, bool keep_log, int pidfd)
{
	struct unpark *u = xnew(struct unpark);

	u->pidfd = pidfd;
	u->cgroups = n->cgroups;
	u->name = xstrdup(name);
	u->root = xasprintf("%s/%s", n->roots_dir, name);
	u->keep_log = keep_log;
	numbers_put(n->ranges, range);
	node_job(n, unpark_work, unpark_done, u);
}

/* The process was killed or has ended: its control groups and its id range are free soon. */
void slot_release(struct node *n, const char *name, unsigned range, bool keep_log)
{
	release(n, name, range, keep_log, -1);
}

/* Not launched: its end is ours to clean up after. */
void berth_free(struct berth *b)
{
	if (!b)
		return;
	if (b->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, b->pidfd, SIGKILL, NULL, 0);
	release(b->nursery->node, b->name, b->range, false, take_fd(b->pidfd));
	berth_done(b);
}

static void berth_lost(struct berth *b, const char *why)
{
	struct nursery *y = b->nursery;

	list_del(&b->on);
	y->n_parking--;
	berth_free(b);
	set_trouble(y, why);
	timer_set(y->makers[MAKER_SLOTS].retry, RETRY_MS);
}

/* The first word of a slot: it is parked, or why not. */
static void on_berth(void *arg, unused unsigned ready)
{
	static struct launch_msg m; /* one thread */
	struct berth *b = arg;
	struct nursery *y = b->nursery;
	autoptr(json_doc) d = NULL;
	bool again;
	struct err *e = launch_recv(b->ctl, &m, &again);

	if (!e && again)
		return;
	if (!e && m.len)
		e = json_parse(m.text, m.len, NULL, &d);
	if (e || !json_get_bool(json_root(d), "parked", false)) {
		berth_lost(b, e       ? err_text(e)
			      : m.len ? str_or(json_get_str(json_root(d), "error"), "slot failed")
				      : "slot ended while parking");
		err_free(e);
		return;
	}
	watch_free(take(b->watch));
	list_del(&b->on);
	y->n_parking--;
	list_add_tail(&y->berths, &b->on);
	y->n_berths++;
	set_trouble(y, NULL);
	fill(y);
	node_wake_waiting(y->node);
}

static struct berth *find_parking(struct nursery *y, const char *name)
{
	struct berth *b;

	list_each(b, &y->parking, on)
		if (str_eq(b->name, name))
			return b;
	return NULL;
}

static void slot_answer(struct nursery *y, const struct json *v, struct launch_msg *m)
{
	struct berth *b = find_parking(y, json_get_str(v, "name"));

	if (!b)
		return;
	if (m->n_fds < 2) {
		berth_lost(b, str_or(json_get_str(v, "error"), "slot failed"));
		return;
	}
	b->ctl = take_fd(m->fds[0]);
	b->pidfd = take_fd(m->fds[1]);
	b->pid = (pid_t)json_get_int(v, "pid", 0);
	err_free(fd_set_nonblock(b->ctl));
	b->watch = watch_new(y->node->loop, b->ctl, on_berth, b);
	watch_want(b->watch, WATCH_READ);
}

static struct wanted_net *find_wanted(struct nursery *y, unsigned place)
{
	struct wanted_net *w;

	list_each(w, &y->wanted, on)
		if (w->place == place)
			return w;
	return NULL;
}

/* The address is kept from reuse: most likely its old namespace is still going away. */
static void net_refused(struct nursery *y, struct wanted_net *w, const char *why)
{
	log_debug("network was refused", KV("err", why));
	if (w)
		return; /* asked again by the timer */
	timer_set(y->makers[MAKER_NETS].retry, 10);
}

static void net_answer(struct nursery *y, const struct json *v, struct launch_msg *m)
{
	struct wanted_net *w;
	struct net *net;
	unsigned place;

	if (!instance_owns_ifname(y->node->inst, str_or(json_get_str(v, "name"), ""), &place))
		return;
	w = find_wanted(y, place);
	if (!m->n_fds) {
		if (!w)
			numbers_put(y->node->addresses, place);
		net_refused(y, w, str_or(json_get_str(v, "error"), ""));
		if (w)
			timer_set(y->makers[MAKER_NETS].retry, 20);
		return;
	}
	net = xnew(struct net);
	net->fd = take_fd(m->fds[0]);
	net->place = place;
	instance_addr_text(y->node->inst, place, net->ip);
	if (w) {
		list_del(&w->on);
		w->made(w->arg, net);
		free(w);
		return;
	}
	list_add_tail(&y->nets, &net->on);
	y->n_nets++;
	node_wake_waiting(y->node);
}

static void on_answer(struct maker *m, struct launch_msg *msg)
{
	struct nursery *y = m->nursery;
	autoptr(json_doc) d = NULL;
	struct err *e = json_parse(msg->text, msg->len, NULL, &d);
	const char *op, *error;

	if (e) {
		maker_failed(m, e);
		return;
	}
	m->n_asked -= MIN(m->n_asked, 1u);
	op = json_get_str(json_root(d), "op");
	error = json_get_str(json_root(d), "error");
	if (str_eq(op, "setup") && error) {
		set_trouble(y, error);
		maker_failed(m, err_new(ERR_UNAVAILABLE, "set up the launcher: %s", error));
	} else if (str_eq(op, "slot")) {
		slot_answer(y, json_root(d), msg);
	} else if (str_eq(op, "net")) {
		net_answer(y, json_root(d), msg);
	}
	fill(y);
}

static void on_maker(void *arg, unused unsigned ready)
{
	static struct launch_msg msg;
	struct maker *m = arg;
	bool again;

	for (int i = 0; i < 16; i++) {
		struct err *e = launch_recv(m->fd, &msg, &again);

		if (e || again || !msg.len) {
			if (e || !again)
				watch_want(m->watch, 0); /* its exit is the event */
			err_free(e);
			return;
		}
		on_answer(m, &msg);
		launch_msg_close(&msg);
	}
}

static void on_maker_exit(void *arg, int status, int term_signal)
{
	struct maker *m = arg;
	struct nursery *y = m->nursery;
	struct berth *b, *next;

	m->child = NULL;
	watch_free(take(m->watch));
	if (m->fd >= 0)
		(void)close(take_fd(m->fd));
	m->n_asked = 0;
	if (y->ending)
		return;
	log_warn("launcher ended, starting another", KV("status", status),
		 KV("signal", term_signal));
	if (m == &y->makers[MAKER_SLOTS])
		list_each_safe(b, next, &y->parking, on)
			if (b->ctl < 0)
				berth_lost(b, "the launcher ended");
	timer_set(m->retry, RETRY_MS);
}

static struct err *maker_setup(struct maker *m)
{
	struct nursery *y = m->nursery;
	autofree char *cgroup = instance_cgroup(y->node->inst);
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "op", "setup");
	json_set_str(d, o, "stage", y->stage);
	json_set_str(d, o, "run", y->node->run_dir);
	json_set_str(d, o, "roots", y->node->roots_dir);
	json_set_str(d, o, "init", y->init);
	json_set_str(d, o, "cgroup", cgroup);
	m->n_asked++;
	return launch_send_json(m->fd, o, NULL, 0);
}

static struct err *maker_spawn(struct maker *m)
{
	struct nursery *y = m->nursery;
	const char *argv[] = { y->launcher, "launch", NULL };
	int pair[2], fds[4] = { -1, -1, 2, -1 };
	struct child_spec spec = { .argv = argv, .fds = fds, .n_fds = 4 };
	struct err *e;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(errno, "make a socket pair");
	fds[LAUNCH_FD] = pair[1];
	e = child_spawn(y->node->loop, &spec, on_maker_exit, m, &m->child);
	(void)close(pair[1]);
	m->fd = pair[0];
	if (!e)
		e = fd_set_nonblock(m->fd);
	if (e) {
		(void)close(take_fd(m->fd));
		return err_wrap(e, "start %s launch", y->launcher);
	}
	m->watch = watch_new(y->node->loop, m->fd, on_maker, m);
	watch_want(m->watch, WATCH_READ);
	return maker_setup(m);
}

static void maker_start(struct maker *m)
{
	struct err *e = maker_spawn(m);

	if (!e)
		return;
	set_trouble(m->nursery, err_text(e));
	err_free(e);
	timer_set(m->retry, RETRY_MS);
}

static void on_retry(void *arg)
{
	struct maker *m = arg;
	struct wanted_net *w;

	if (m->nursery->ending)
		return;
	if (!m->child)
		maker_start(m);
	if (m == &m->nursery->makers[MAKER_NETS] && m->fd >= 0)
		list_each(w, &m->nursery->wanted, on)
			ask_net(m->nursery, w->place);
	fill(m->nursery);
}

static void on_refill(void *arg)
{
	fill(arg);
}

struct err *nursery_start(struct node *n, const struct node_spec *spec, struct nursery **ret)
{
	struct nursery *y = xnew(struct nursery);
	struct err *e;

	y->node = n;
	y->launcher = xstrdup(spec->launcher);
	y->init = xstrdup(spec->init);
	y->stage = xasprintf("%s/stage", n->run_dir);
	y->refill = timer_new(n->loop, on_refill, y);
	y->target = spec->netns_pool ? spec->netns_pool : 16;
	y->expected = json_doc_new();
	list_init(&y->berths);
	list_init(&y->nets);
	list_init(&y->parking);
	list_init(&y->wanted);
	for (int i = 0; i < N_MAKERS; i++) {
		y->makers[i].nursery = y;
		y->makers[i].fd = -1;
		y->makers[i].retry = timer_new(n->loop, on_retry, &y->makers[i]);
	}
	e = file_mkdirs(y->stage, 0700);
	*ret = y;
	if (e)
		return e;
	for (int i = 0; i < N_MAKERS; i++)
		maker_start(&y->makers[i]);
	return NULL;
}

/* The launchers end by themselves when their socket closes; their ends are callbacks of the loop.
 */
static void await_makers(struct nursery *y)
{
	for (int i = 0; i < N_MAKERS; i++) {
		struct maker *m = &y->makers[i];

		for (int turns = 0; m->child; turns++) {
			if (turns == 100)
				child_kill(m->child, SIGKILL);
			(void)loop_turn(y->node->loop, 20);
		}
	}
}

/* What is being born is let be born: only then is it known what there is to remove. */
static void await_births(struct nursery *y)
{
	for (int turns = 0; turns < 500; turns++) {
		if (!y->n_parking && !y->makers[MAKER_NETS].n_asked)
			return;
		(void)loop_turn(y->node->loop, 20);
	}
}

void nursery_free(struct nursery *y)
{
	struct wanted_net *w, *next_w;
	struct berth *b, *next_b;
	struct net *net, *next_n;

	if (!y)
		return;
	y->ending = true;
	await_births(y);
	for (int i = 0; i < N_MAKERS; i++) {
		watch_free(take(y->makers[i].watch));
		timer_free(take(y->makers[i].retry));
		if (y->makers[i].fd >= 0)
			(void)close(take_fd(y->makers[i].fd));
	}
	timer_free(y->refill);
	list_each_safe(b, next_b, &y->berths, on)
		berth_free(b);
	list_each_safe(b, next_b, &y->parking, on)
		berth_free(b);
	list_each_safe(net, next_n, &y->nets, on)
		net_free(y->node, net);
	list_each_safe(w, next_w, &y->wanted, on)
		free(w);
	await_makers(y);
	free(y->launcher);
	free(y->init);
	free(y->stage);
	free(y->trouble);
	json_doc_free(y->expected);
	free(y);
}

/* In a lull later, or at once when there is little left. */
static void refill(struct nursery *y)
{
	if (y->n_berths < y->target / 2 || y->n_nets < y->target / 2)
		fill(y);
	else if (!timer_armed(y->refill))
		timer_set(y->refill, REFILL_MS);
}

struct berth *nursery_take_berth(struct nursery *y)
{
	struct berth *b = NULL;

	if (y->n_berths) {
		b = list_first(&y->berths, struct berth, on);
		list_del(&b->on);
		y->n_berths--;
	}
	refill(y);
	return b;
}

struct net *nursery_take_net(struct nursery *y)
{
	struct net *net = NULL;

	if (y->n_nets) {
		net = list_first(&y->nets, struct net, on);
		list_del(&net->on);
		y->n_nets--;
	}
	refill(y);
	return net;
}

bool nursery_want_net(struct nursery *y, unsigned place, void (*made)(void *arg, struct net *net),
		      void *arg)
{
	struct wanted_net *w;

	if (!numbers_claim(y->node->addresses, place))
		return false;
	w = xnew(struct wanted_net);
	w->place = place;
	w->made = made;
	w->arg = arg;
	list_add_tail(&y->wanted, &w->on);
	if (y->makers[MAKER_NETS].fd >= 0)
		ask_net(y, place);
	return true;
}

/* If it is made all the same, it becomes one of the pool. */
void nursery_forget(struct nursery *y, const void *arg)
{
	struct wanted_net *w, *next;

	list_each_safe(w, next, &y->wanted, on) {
		if (w->arg != arg)
			continue;
		list_del(&w->on);
		free(w);
	}
}

void net_free(struct node *n, struct net *net)
{
	if (!net)
		return;
	if (net->fd >= 0)
		(void)close(
			net->fd); /* with the last process the namespace, link and route go too */
	numbers_put(n->addresses, net->place);
	free(net);
}
