/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/native.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/features.h"
#include "node/host/inotify.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/numbers.h"
#include "node/host/scope.h"
#include "node/image/image_priv.h"
#include "node/launch/plan.h"
#include "node/runtime/native_priv.h"
#include "test.h"
#include "wire/wire.h"

/*
 * The built-in runtime against a real host, as root: sandboxes are started, looked at and ended.
 * Afterwards nothing of them may be left.
 */
struct host {
	char *dir, *layer;
	struct loop *loop;
	struct instance *inst;
	struct diskpool *disk;
	struct cgroups *cgroups;
	struct netlink *nl;
	struct inotify *inotify;
	int run_fd;
	struct features features;
	struct runtime *rt;
};

struct watcher {
	struct buf log; /* what was told, in order */
	struct runtime_wait wait;
	bool called;
};

static char *beside(const char *name)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	is_true(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	return xasprintf("%.*s/%s", (int)(slash - path), path, name);
}

static void start_runtime(struct host *h)
{
	autofree char *launcher = beside("../../../cay-launch"),
		      *init = beside("../../../cay-init");
	const struct features_spec probe = { .launcher = launcher,
					     .dir = h->dir,
					     .last_id = native_last_id() };
	struct native_spec spec = {
		.features = &h->features,
		.instance = h->inst,
		.cgroups = h->cgroups,
		.disk = h->disk,
		.inotify = h->inotify,
		.run_fd = h->run_fd,
		.launcher = launcher,
		.init = init,
		.pool = 2,
	};

	features_done(&h->features);
	works(features_probe(&probe, &h->features));
	works(native_open(h->loop, &spec, &h->rt));
}

static void stop_runtime(struct host *h)
{
	h->rt->ops->free(h->rt->ctx);
	h->rt = NULL;
}

static bool have_init(void)
{
	autofree char *init = beside("../../../cay-init");

	return !access(init, X_OK);
}

static bool open_host(struct host *h)
{
	struct err *why = NULL;
	char path[] = "/tmp/cay-native-XXXXXX";
	autofree char *run = NULL, *images = NULL, *parent = NULL;

	if (geteuid() != 0) {
		skip_because("needs root: sandboxes are made of namespaces and control groups");
		return false;
	}
	if (!have_init()) {
		skip_because("needs cay-init, which builds with sanitizers do not have");
		return false;
	}
	*h = (struct host){ .run_fd = -1 };
	is_true(mkdtemp(path));
	h->dir = xstrdup(path);
	run = xasprintf("%s/run", path);
	images = xasprintf("%s/images", path);
	works(file_mkdirs(run, 0700));
	works(file_mkdirs(images, 0700));
	works(image_make_host(path, &h->layer));
	works(loop_new(&h->loop));
	works(instance_open(path, run, true, &h->inst));
	h->disk = diskpool_open_plain(path);
	parent = scope_find(h->inst->id);
	works(cgroups_open(parent, true, &h->cgroups));
	works(netlink_open(&h->nl));
	works(instance_net_up(h->inst, h->nl));
	h->inotify = inotify_open(h->loop, &why);
	works(why);
	h->run_fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_true(h->run_fd >= 0);
	start_runtime(h);
	return true;
}

static void count_group(void *arg, unused const char *name, unused const char *path)
{
	++*(int *)arg;
}

static int count_files(const char *dir, const char *suffix)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	int n = 0;

	while (d && (de = readdir(d)))
		n += de->d_name[0] != '.' && str_ends(de->d_name, suffix);
	if (d)
		(void)closedir(d);
	return n;
}

/* Nothing may be left: no group, no socket, no directory of a slot (but logs that were kept). */
static void close_host(struct host *h, int logs)
{
	autofree char *slots = xasprintf("%s/roots", h->dir), *run = xasprintf("%s/run", h->dir);
	int groups = 0;

	stop_runtime(h);
	cgroups_each(h->cgroups, count_group, &groups);
	eq_int(groups, 0);
	eq_int(count_files(slots, ""), logs);
	eq_int(count_files(run, ".sock"), 0);
	instance_net_down(h->inst, h->nl);
	cgroups_remove_parent(h->cgroups);
	inotify_free(h->inotify);
	netlink_free(h->nl);
	cgroups_free(h->cgroups);
	diskpool_free(h->disk);
	instance_free(h->inst);
	(void)close(h->run_fd);
	(void)loop_turn(h->loop, 0);
	loop_free(h->loop);
	works(file_remove_tree(AT_FDCWD, h->dir));
	features_done(&h->features);
	free(h->dir);
	free(h->layer);
}

static struct err *on_starting(void *arg)
{
	struct watcher *w = arg;

	buf_add_str(&w->log, "starting ");
	return NULL;
}

static void on_idle(void *arg)
{
	struct watcher *w = arg;

	buf_add_str(&w->log, "idle ");
}

static void on_started(void *arg)
{
	struct watcher *w = arg;

	buf_add_str(&w->log, "started ");
}

static void on_failed(void *arg, struct err *e, int code)
{
	struct watcher *w = arg;

	buf_printf(&w->log, "failed(%d) ", code);
	err_free(e);
}

static void on_broken(void *arg, struct err *e)
{
	struct watcher *w = arg;

	buf_add_str(&w->log, "broken ");
	err_free(e);
}

static void on_exited(void *arg, int code, int signum, unused struct span message)
{
	struct watcher *w = arg;

	buf_printf(&w->log, "exited(%d,%d) ", code, signum);
}

static void on_ended(void *arg, unused const struct runtime_end *end)
{
	struct watcher *w = arg;

	buf_add_str(&w->log, "ended ");
}

static const struct runtime_events events = {
	.starting = on_starting,
	.idle = on_idle,
	.started = on_started,
	.failed = on_failed,
	.broken = on_broken,
	.exited = on_exited,
	.ended = on_ended,
};

static void on_called(struct runtime_wait *wait)
{
	container_of(wait, struct watcher, wait)->called = true;
}

/* Turns the loop until text was told; a minute is for ever. */
static void until(struct host *h, struct watcher *w, const char *text)
{
	usec deadline = clock_mono() + 60 * 1000000LL;

	while (!strstr(buf_str(&w->log), text) && clock_mono() < deadline)
		(void)loop_turn(h->loop, 50);
	is_true(strstr(buf_str(&w->log), text));
}

static void until_called(struct host *h, struct watcher *w)
{
	usec deadline = clock_mono() + 60 * 1000000LL;

	while (!w->called && clock_mono() < deadline)
		(void)loop_turn(h->loop, 50);
	if (!w->called && h->rt->ops->trouble(h->rt->ctx))
		print_error("%s\n", h->rt->ops->trouble(h->rt->ctx));
	is_true(w->called);
	w->called = false;
}

static struct runtime_net *take_net(struct host *h, struct watcher *w, const char *ip)
{
	struct runtime_net *net;

	w->wait.ready = on_called;
	while (!(net = h->rt->ops->net_take(h->rt->ctx, ip, &w->wait)))
		until_called(h, w);
	return net;
}

static struct runtime_task *reserve(struct host *h, struct watcher *w)
{
	const char *lower[] = { h->layer, NULL };
	struct plan_image image = { lower, true };
	struct runtime_task *t;

	w->wait.ready = on_called;
	while (!h->rt->ops->has_slot(h->rt->ctx, &image, &w->wait) ||
	       !(t = h->rt->ops->reserve(h->rt->ctx, &w->wait)))
		until_called(h, w);
	h->rt->ops->watch(t, &events, w);
	return t;
}

static struct err *launch_image(struct host *h, struct runtime_task *t, struct runtime_net *net,
				const char **lower, const char *command)
{
	const char *argv[] = { "/bin/sh", "-c", command, NULL };
	const char *env[] = { "PATH=/usr/bin:/bin", NULL };
	struct plan plan = { .image = { lower, true },
			     .hostname = "box",
			     .etc_hosts = "127.0.0.1 localhost\n",
			     .limits = { .pids = 64 } };
	struct wire_start start = {
		.argv = argv, .env = env, .cwd = "/", .flags = WIRE_LOG_STDOUT
	};
	struct runtime_launch l = { .plan = &plan, .start = &start, .net = net };

	if (str_eq(command, "no such program"))
		argv[0] = "/nope";
	return h->rt->ops->launch(t, &l);
}

static struct err *launch(struct host *h, struct runtime_task *t, struct runtime_net *net,
			  const char *command)
{
	const char *lower[] = { h->layer, NULL };

	return launch_image(h, t, net, lower, command);
}

static char *log_of(struct host *h, const char *id)
{
	autofree char *path = xasprintf("%s/roots/%s/logs/log", h->dir, id);
	char *text = NULL;

	err_free(file_read(AT_FDCWD, path, 65536, &text, NULL));
	return text;
}

TEST(a_command_starts_exits_and_leaves_only_its_log)
{
	struct watcher w = { 0 };
	autofree char *id = NULL, *text = NULL;
	struct runtime_net *net;
	struct runtime_task *t;
	struct host h;

	if (!open_host(&h))
		return;
	net = take_net(&h, &w, NULL);
	t = reserve(&h, &w);
	id = xstrdup(h.rt->ops->record(t)->id);
	works(launch(&h, t, net, "echo from $(hostname); exit 3"));
	until(&h, &w, "ended ");
	eq_str(buf_str(&w.log), "starting started exited(3,0) ended ");
	h.rt->ops->release(t, true);
	h.rt->ops->net_put(h.rt->ctx, net);
	stop_runtime(&h);
	text = log_of(&h, id);
	is_true(text && strstr(text, "from box"));
	start_runtime(&h);
	h.rt->ops->drop_log(h.rt->ctx, id);
	close_host(&h, 0);
	buf_done(&w.log);
}

TEST(a_command_that_is_not_there_fails_as_in_a_shell)
{
	struct watcher w = { 0 };
	autofree char *id = NULL;
	struct runtime_net *net;
	struct runtime_task *t;
	struct host h;

	if (!open_host(&h))
		return;
	net = take_net(&h, &w, NULL);
	t = reserve(&h, &w);
	works(launch(&h, t, net, "no such program"));
	until(&h, &w, "ended ");
	eq_str(buf_str(&w.log), "starting failed(127) ended ");
	id = xstrdup(h.rt->ops->record(t)->id);
	h.rt->ops->release(t, true);
	h.rt->ops->drop_log(h.rt->ctx, id); /* while the rest is on its way out */
	h.rt->ops->net_put(h.rt->ctx, net);
	close_host(&h, 0);
	buf_done(&w.log);
}

TEST(a_slot_that_cannot_build_its_root_says_why)
{
	struct watcher w = { 0 };
	struct plan_mount mount = { .to = "/data", .from = "/nowhere/at/all" };
	const char *none[] = { NULL };
	struct wire_start start = { .argv = none, .env = none, .cwd = "" };
	struct plan plan = { .mounts = &mount, .n_mounts = 1 };
	struct runtime_launch l = { .plan = &plan, .start = &start };
	struct runtime_task *t;
	struct host h;

	if (!open_host(&h))
		return;
	l.net = take_net(&h, &w, NULL);
	t = reserve(&h, &w);
	works(h.rt->ops->launch(t, &l));
	until(&h, &w, "ended ");
	eq_str(buf_str(&w.log), "failed(128) ended ");
	h.rt->ops->release(t, false);
	h.rt->ops->net_put(h.rt->ctx, l.net);
	close_host(&h, 0);
	buf_done(&w.log);
}

TEST(a_task_is_signalled_and_killed_and_one_never_launched_ends_too)
{
	struct watcher w[3] = { 0 };
	struct runtime_task *t[3];
	struct runtime_net *net;
	struct host h;

	if (!open_host(&h))
		return;
	net = take_net(&h, &w[0], NULL);
	for (int i = 0; i < 3; i++)
		t[i] = reserve(&h, &w[i]); /* more than the pool holds */
	works(launch(&h, t[0], net, "exec sleep 1000"));
	works(launch(&h, t[1], net, "sleep 1000 & sleep 1000"));
	until(&h, &w[0], "started ");
	until(&h, &w[1], "started ");
	h.rt->ops->signal(t[0], SIGTERM);
	until(&h, &w[0], "ended ");
	eq_str(buf_str(&w[0].log), "starting started exited(143,15) ended ");
	h.rt->ops->kill(t[1]);
	h.rt->ops->kill(t[2]);
	until(&h, &w[1], "ended ");
	until(&h, &w[2], "ended ");
	eq_str(buf_str(&w[1].log), "starting started ended ");
	eq_str(buf_str(&w[2].log), "ended ");
	for (int i = 0; i < 3; i++) {
		h.rt->ops->release(t[i], false);
		buf_done(&w[i].log);
	}
	h.rt->ops->net_put(h.rt->ctx, net);
	close_host(&h, 0);
}

static bool keep_none(unused void *arg, unused const char *id)
{
	return false;
}

TEST(a_second_life_attaches_to_what_runs_and_sweeps_the_rest)
{
	struct watcher w = { 0 }, stray = { 0 }, again = { 0 };
	autofree char *id = NULL, *ip = NULL;
	struct runtime_record r;
	struct runtime_net *net;
	struct runtime_task *t, *lost;
	struct runtime_end end;
	struct host h;

	if (!open_host(&h))
		return;
	net = take_net(&h, &w, NULL);
	ip = xstrdup(net->ip);
	t = reserve(&h, &w);
	lost = reserve(&h, &stray);
	works(launch(&h, t, net, "while :; do sleep 0.1; done"));
	works(launch(&h, lost, net, "sleep 1000"));
	until(&h, &w, "started ");
	until(&h, &stray, "started ");
	r = *h.rt->ops->record(t);
	id = xstrdup(r.id);
	r.id = id;
	h.rt->ops->forget(t);
	h.rt->ops->forget(lost);
	h.rt->ops->net_put(h.rt->ctx, net);
	stop_runtime(&h);

	start_runtime(&h);
	h.rt->ops->hold(h.rt->ctx, &r, ip);
	t = h.rt->ops->attach(h.rt->ctx, &r, &end);
	is_true(t);
	net = h.rt->ops->net_adopt(h.rt->ctx, t, ip);
	is_true(net);
	eq_str(net->ip, ip);
	h.rt->ops->watch(t, &events, &again);
	h.rt->ops->sweep(h.rt->ctx, keep_none, NULL);
	until(&h, &again, "started ");
	h.rt->ops->kill(t);
	h.rt->ops->net_put(h.rt->ctx, net);
	until(&h, &again, "ended ");
	eq_str(buf_str(&again.log), "started ended ");
	h.rt->ops->release(t, false);
	is_true(!h.rt->ops->attach(h.rt->ctx, &r, &end));
	r.pid = getpid(); /* somebody else has the number now */
	is_true(!h.rt->ops->attach(h.rt->ctx, &r, &end));
	h.rt->ops->drop_log(h.rt->ctx, id);
	close_host(&h, 0);
	buf_done(&w.log);
	buf_done(&stray.log);
	buf_done(&again.log);
}

TEST(a_pod_gets_its_address_again)
{
	struct watcher w = { 0 };
	autofree char *ip = NULL;
	struct runtime_net *net;
	struct host h;

	if (!open_host(&h))
		return;
	net = take_net(&h, &w, NULL);
	ip = xstrdup(net->ip);
	h.rt->ops->net_put(h.rt->ctx, net);
	net = take_net(&h, &w, ip);
	eq_str(net->ip, ip);
	h.rt->ops->net_put(h.rt->ctx, net);
	close_host(&h, 0);
}

/* Whether a number is in its pool; it stays there. */
static bool is_free(struct numbers *pool, unsigned v)
{
	if (!numbers_reserve(pool, v))
		return false;
	numbers_put(pool, v);
	return true;
}

/* The first two were parked before anything was expected, the third for the image of the others. */
TEST(a_slot_that_was_parked_for_another_image_has_a_whole_root)
{
	struct watcher w[3] = { 0 };
	autofree char *other = NULL;
	struct runtime_task *t[3];
	struct runtime_net *net;
	const char *lower[3] = { 0 };
	struct host h;

	if (!open_host(&h))
		return;
	other = xasprintf("%s/other", h.dir);
	works(file_mkdirs(other, 0755));
	lower[0] = other;
	lower[1] = h.layer;
	net = take_net(&h, &w[2], NULL);
	for (int i = 0; i < 3; i++)
		t[i] = reserve(&h, &w[i]);
	works(launch_image(&h, t[2], net, lower,
			   "test -c /dev/null && test -d /dev/pts && test -r /proc/self/stat && "
			   "grep -q localhost /etc/hosts && exit 7"));
	until(&h, &w[2], "ended ");
	eq_str(buf_str(&w[2].log), "starting started exited(7,0) ended ");
	for (int i = 0; i < 2; i++) {
		h.rt->ops->kill(t[i]);
		until(&h, &w[i], "ended ");
	}
	for (int i = 0; i < 3; i++) {
		h.rt->ops->release(t[i], false);
		buf_done(&w[i].log);
	}
	h.rt->ops->net_put(h.rt->ctx, net);
	close_host(&h, 0);
}

/* As a layer does that is removed and imported again: the same path, another directory. */
static void replace_dir(const char *path)
{
	autofree char *gone = xasprintf("%s.gone", path);
	struct dirent *de;
	DIR *d;

	eq_int(rename(path, gone), 0);
	works(file_mkdirs(path, 0755));
	d = opendir(gone);
	is_true(d != NULL);
	while ((de = readdir(d))) {
		autofree char *to = xasprintf("%s/%s", path, de->d_name);

		if (de->d_name[0] != '.')
			eq_int(renameat(dirfd(d), de->d_name, AT_FDCWD, to), 0);
	}
	(void)closedir(d);
}

/* The third one was parked with the layer as it was before. */
TEST(a_slot_does_not_use_a_layer_that_went_away_and_came_back)
{
	struct watcher w[3] = { 0 };
	struct runtime_task *t[3];
	struct runtime_net *net;
	const char *lower[2] = { 0 };
	struct host h;

	if (!open_host(&h))
		return;
	lower[0] = h.layer;
	net = take_net(&h, &w[2], NULL);
	for (int i = 0; i < 3; i++)
		t[i] = reserve(&h, &w[i]);
	replace_dir(h.layer);
	works(launch_image(&h, t[2], net, lower, "exit 7"));
	until(&h, &w[2], "ended ");
	eq_str(buf_str(&w[2].log), "starting started exited(7,0) ended ");
	for (int i = 0; i < 2; i++) {
		h.rt->ops->kill(t[i]);
		until(&h, &w[i], "ended ");
	}
	for (int i = 0; i < 3; i++) {
		h.rt->ops->release(t[i], false);
		buf_done(&w[i].log);
	}
	h.rt->ops->net_put(h.rt->ctx, net);
	close_host(&h, 0);
}

static bool is_ready(const struct native *n, const char *id)
{
	const struct native_slot *s;

	list_each(s, &n->slots.ready, on)
		if (str_eq(s->id, id))
			return true;
	return false;
}

TEST(a_parked_slot_that_dies_is_replaced)
{
	const struct native_slot *s;
	struct watcher w = { 0 };
	autofree char *id = NULL;
	struct runtime_task *t;
	struct native *n;
	struct host h;

	if (!open_host(&h))
		return;
	n = h.rt->ctx;
	while (!n->slots.n_ready)
		(void)loop_turn(h.loop, 50);
	s = list_first(&n->slots.ready, struct native_slot, on);
	id = xstrdup(s->id);
	eq_int(kill(s->pid, SIGKILL), 0);
	for (int i = 0; i < 200 && is_ready(n, id); i++)
		(void)loop_turn(h.loop, 50);
	is_false(is_ready(n, id));
	while (n->slots.n_ready < 2)
		(void)loop_turn(h.loop, 50);
	t = reserve(&h, &w);
	is_false(str_eq(h.rt->ops->record(t)->id, id));
	h.rt->ops->kill(t);
	until(&h, &w, "ended ");
	h.rt->ops->release(t, false);
	close_host(&h, 0);
	buf_done(&w.log);
}

TEST(ids_and_addresses_return_only_after_the_last_process)
{
	struct watcher w = { 0 };
	struct runtime_net *net;
	struct runtime_task *t;
	struct native *n;
	unsigned place, range;
	struct host h;

	if (!open_host(&h))
		return;
	n = h.rt->ctx;
	net = take_net(&h, &w, NULL);
	is_true(instance_addr_place(h.inst, net->ip, &place));
	t = reserve(&h, &w);
	range = h.rt->ops->record(t)->range;
	works(launch(&h, t, net, "exec sleep 1000"));
	until(&h, &w, "started ");
	container_of(net, struct net, face)->confined = false; /* it is not kept */
	h.rt->ops->net_put(h.rt->ctx, net);
	is_false(is_free(n->addresses, place));
	h.rt->ops->kill(t);
	until(&h, &w, "ended ");
	is_false(is_free(n->ranges, range));
	while (n->nets.n[NET_SPENT])
		(void)loop_turn(h.loop, 50);
	is_true(is_free(n->addresses, place));
	is_false(is_free(n->ranges, range));
	h.rt->ops->release(t, false);
	is_false(is_free(n->ranges, range)); /* its control groups are still there */
	while (map_len(n->leaving))
		(void)loop_turn(h.loop, 50);
	is_true(is_free(n->ranges, range));
	close_host(&h, 0);
	buf_done(&w.log);
}

/* What becomes of the network of a sandbox that ran this command to its end. */
static enum net_state net_after(struct host *h, const char *command)
{
	struct native *n = h->rt->ctx;
	struct watcher w = { 0 };
	struct runtime_net *face = take_net(h, &w, NULL);
	struct net *net = container_of(face, struct net, face);
	struct runtime_task *t = reserve(h, &w);

	works(launch(h, t, face, command));
	until(h, &w, "ended ");
	is_true(strstr(buf_str(&w.log), "exited(0,0)"));
	h->rt->ops->release(t, false);
	h->rt->ops->net_put(h->rt->ctx, face);
	eq_int(net->state, NET_UNUSED);
	while (n->nets.n[NET_UNUSED] || n->nets.n[NET_CHECKED])
		(void)loop_turn(h->loop, 50);
	buf_done(&w.log);
	return n->nets.n[NET_SPENT] ? NET_SPENT : net->state;
}

TEST(only_a_network_that_nothing_went_through_is_given_to_another)
{
	struct host h;

	if (access("/bin/bash", X_OK) < 0) {
		skip_because("needs bash, which sends a packet");
		return;
	}
	if (!open_host(&h))
		return;
	eq_int(net_after(&h, "true"), NET_READY);
	eq_int(net_after(&h, "exec /bin/bash -c 'echo > /dev/udp/127.0.0.1/9; exit 0'"), NET_SPENT);
	close_host(&h, 0);
}
