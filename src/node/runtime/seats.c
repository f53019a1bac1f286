/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "base/wall.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/cgroup_wait.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"

/*
 * Seats: guests of their own within tasks, made by the launcher (launch/seat.c) when somebody first
 * needs one. All that is known of them is on the host, so that a daemon that starts anew finds it:
 *
 *   <group of the task>/a-KEY              where everything runs that was started from them
 *   <run_dir>/TASK.seats/KEY-VIEW.sock     how a seat is reached; one for each view
 *   <slots>/TASK/scratch-KEY               what a scratch has written
 *
 * A seat is in its group before it listens, so one that answers is in it. The end of a key: all in
 * its group is killed until the group is empty; then whoever counts reads it for the last time, and
 * group, sockets and scratch are removed.
 */
enum {
	PER_TASK_MAX = 64,
};
#define SCRATCH "scratch-"

enum seat_state {
	SEAT_NONE,
	SEAT_ASKED,     /* the launcher was asked for it */
	SEAT_LAUNCHING, /* there is a process, which is to become the guest */
	SEAT_READY,
	SEAT_STATE_MAX_,
};

enum group_state {
	GROUP_LIVE,
	GROUP_ENDING,   /* its processes were killed */
	GROUP_SPENT,    /* they are gone */
	GROUP_REMOVING, /* and so will be what is left */
	GROUP_STATE_MAX_,
};

struct seat {
	struct seat_group *group;
	char *id;
	enum seat_state state;
	int ctl, pidfd;
	struct watch *ctl_watch, *exit_watch;
	bool said_launched;
	struct list waiters; /* struct runtime_seat_wait */
};

struct seat_group {
	struct native *native;
	char *task, *key, *name;
	enum group_state state;
	struct seat seats[RUNTIME_VIEW_MAX_];
	struct cgroup_wait *wait;
	unsigned tries;
	bool over; /* the task has ended, which takes what is left with it */
	struct {
		bool running;
		bool empty;
	} job;
};

static const char view_letters[RUNTIME_VIEW_MAX_] = {
	[RUNTIME_VIEW_SHARED] = 's',
	[RUNTIME_VIEW_READ_ONLY] = 'r',
	[RUNTIME_VIEW_SCRATCH] = 'w',
};

char *seats_group(const char *task, const char *key)
{
	return xasprintf("%s/" SEAT_GROUP "%s", task, key);
}

char *seats_scratch(const char *task, const char *key)
{
	return xasprintf("%s/" SCRATCH "%s", task, key);
}

/* Letting go of one */

static void seat_let_go(struct seat *s)
{
	watch_free(take(s->ctl_watch));
	watch_free(take(s->exit_watch));
	if (s->ctl >= 0)
		(void)close(take_fd(s->ctl));
	if (s->pidfd >= 0)
		(void)close(take_fd(s->pidfd));
	s->state = SEAT_NONE;
	s->said_launched = false;
}

/* Whoever waits may do anything but end the group from within. */
static void tell(struct seat *s, const char *id, const struct err *e)
{
	LIST_HEAD(told);

	while (!list_empty(&s->waiters)) {
		struct list *first = s->waiters.next;

		list_del(first);
		list_add_tail(&told, first);
	}
	while (!list_empty(&told)) {
		struct runtime_seat_wait *w = list_first(&told, struct runtime_seat_wait, on);

		list_del(&w->on);
		w->done(w, id, e);
	}
}

static void seat_failed(struct seat *s, struct err *e)
{
	seat_let_go(s);
	tell(s, NULL, e);
	err_free(e);
}

static void group_free(struct seat_group *g)
{
	for (size_t i = 0; i < RUNTIME_VIEW_MAX_; i++) {
		seat_let_go(&g->seats[i]);
		free(g->seats[i].id);
	}
	cgroup_wait_free(g->wait);
	(void)map_take(g->native->seats, g->name);
	free(g->task);
	free(g->key);
	free(g->name);
	free(g);
}

static struct seat_group *group_new(struct native *n, const char *task, const char *key)
{
	struct seat_group *g = xnew(struct seat_group);
	autofree char *dir = instance_seats(task);

	g->native = n;
	g->task = xstrdup(task);
	g->key = xstrdup(key);
	g->name = seats_group(task, key);
	for (size_t i = 0; i < RUNTIME_VIEW_MAX_; i++) {
		g->seats[i] = (struct seat){ .group = g, .ctl = -1, .pidfd = -1 };
		g->seats[i].id = xasprintf("%s/%s-%c", dir, key, view_letters[i]);
		list_init(&g->seats[i].waiters);
	}
	map_put(n->seats, g->name, g);
	return g;
}

/* The making of one */

static void on_exit_of(void *arg, unused unsigned ready)
{
	struct seat *s = arg;

	seat_failed(s, err_new(ERR_UNAVAILABLE, "the seat ended"));
}

/* Its end is learned from its pidfd, which is taken over. */
static void seat_ready(struct seat *s, int pidfd)
{
	seat_let_go(s);
	s->pidfd = pidfd;
	s->state = SEAT_READY;
	s->exit_watch = watch_new(s->group->native->loop, s->pidfd, on_exit_of, s);
	watch_want(s->exit_watch, WATCH_READ);
}

static bool in_group(const struct native *n, pid_t pid, const char *group)
{
	autofree char *at = cgroup_of(n->spec.cgroups, pid);

	return at && str_eq(at, group);
}

/* The process that listens there, held; -1: there is none. The kernel says who it is, and nobody
 * but the launcher's children can bind a name in there. */
static int listener(const struct native *n, const struct seat *s)
{
	autofree char *name = instance_socket(s->id);
	autoclose fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	autoclose pidfd = -1;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct ucred who;
	socklen_t len = sizeof(who);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", n->spec.run_fd, name);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.pid <= 0)
		return -1;
	pidfd = (int)syscall(SYS_pidfd_open, who.pid, 0);
	if (!in_group(n, who.pid, s->group->name) && wall_stands("seat-group"))
		return -1;
	return take_fd(pidfd);
}

static void on_last_word(struct seat *s, struct err *e)
{
	int pidfd;

	if (e) {
		seat_failed(s, e);
		return;
	}
	pidfd = listener(s->group->native, s);
	if (pidfd < 0) {
		seat_failed(s, err_new(ERR_UNAVAILABLE, "the seat ended as it began"));
		return;
	}
	seat_ready(s, pidfd);
	tell(s, s->id, NULL);
}

/* "launched" and then the end of the socket: it has become cay-init. */
static void on_ctl(void *arg, unused unsigned ready)
{
	struct seat *s = arg;

	for (;;) {
		autoptr(arena) a = arena_new();
		enum message_got got = MESSAGE_NONE;
		struct message m;
		struct err *e = message_recv(s->ctl, a, &m, &got);

		if (!e && got == MESSAGE_NONE)
			return;
		if (!e && got == MESSAGE_ONE)
			message_close(&m);
		if (!e && got == MESSAGE_ONE && m.type == MESSAGE_LAUNCHED) {
			s->said_launched = true;
			continue;
		}
		if (!e && got == MESSAGE_ONE)
			e = err_new(ERR_SYS, "%s",
				    m.type == MESSAGE_FAILED ? m.failed.text
							     : message_type_name(m.type));
		else if (!e && !s->said_launched)
			e = err_new(ERR_UNAVAILABLE, "the seat ended before it was launched");
		on_last_word(s, e);
		return;
	}
}

static struct seat *find_asked(struct native *n, const char *id)
{
	map_each(it, n->seats) {
		struct seat_group *g = it.value;

		for (size_t i = 0; i < RUNTIME_VIEW_MAX_; i++)
			if (g->seats[i].state == SEAT_ASKED && str_eq(g->seats[i].id, id))
				return &g->seats[i];
	}
	return NULL;
}

/* Its group ended meanwhile: then it is in there, or will be, and is killed with the rest. */
void seats_made(struct native *n, struct message *m)
{
	struct seat *s = find_asked(n, m->made.name);

	if (!s)
		return;
	s->state = SEAT_LAUNCHING;
	s->ctl = take_fd(m->fds[0]);
	err_free(fd_set_nonblock(s->ctl));
	s->ctl_watch = watch_new(n->loop, s->ctl, on_ctl, s);
	watch_want(s->ctl_watch, WATCH_READ);
}

void seats_refused(struct native *n, const struct message_refused *r)
{
	struct seat *s = find_asked(n, r->name);

	if (s)
		seat_failed(s, err_new(ERR_SYS, "%s", r->text));
}

void seats_launcher_lost(struct native *n)
{
	map_each(it, n->seats) {
		struct seat_group *g = it.value;

		for (size_t i = 0; i < RUNTIME_VIEW_MAX_; i++)
			if (g->seats[i].state == SEAT_ASKED)
				seat_failed(&g->seats[i],
					    err_new(ERR_UNAVAILABLE, "the launcher ended"));
	}
}

static struct err *ask(struct runtime_task *t, struct seat *s, const struct runtime_seat *spec)
{
	static const enum seat_view views[RUNTIME_VIEW_MAX_] = {
		[RUNTIME_VIEW_SHARED] = SEAT_SHARED,
		[RUNTIME_VIEW_READ_ONLY] = SEAT_READ_ONLY,
		[RUNTIME_VIEW_SCRATCH] = SEAT_SCRATCH,
	};
	struct native *n = t->native;
	struct launcher_proc *p = &n->launchers[LAUNCHER_SLOTS];
	autofree char *below = seats_scratch(t->id, spec->key);
	autofree char *scratch = xasprintf("%s/%s", n->slots_dir, below);

	if (p->fd < 0)
		return err_new(ERR_UNAVAILABLE, "there is no launcher at the moment");
	s->state = SEAT_ASKED;
	launcher_ask(p, &(struct message){ .type = MESSAGE_SEAT,
					   .seat = { .name = s->id,
						     .group = s->group->name,
						     .scratch = scratch,
						     .view = (int)views[spec->view],
						     .pid = (int)t->record.pid,
						     .base = slots_base(t->record.range),
						     .disk = spec->disk },
					   .fds = { t->pidfd },
					   .n_fds = 1 });
	return NULL;
}

static bool key_is_plain(const char *key)
{
	return !str_empty(key) && strlen(key) <= RUNTIME_KEY_MAX &&
	       key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static size_t n_of(const struct native *n, const char *task)
{
	size_t count = 0;

	map_each(it, n->seats)
		count += str_eq(((struct seat_group *)it.value)->task, task);
	return count;
}

static struct err *group_of(struct runtime_task *t, const char *key, struct seat_group **ret)
{
	autofree char *name = NULL;
	struct seat_group *g;

	if (!key_is_plain(key))
		return err_new(ERR_INVALID, "\"%s\" names no seat", str_or(key, ""));
	name = seats_group(t->id, key);
	g = map_get(t->native->seats, name);
	if (g && (g->state != GROUP_LIVE || g->over))
		return err_new(ERR_UNAVAILABLE, "what was started by it is being ended");
	if (!g && n_of(t->native, t->id) >= PER_TASK_MAX)
		return err_new(ERR_EXHAUSTED, "the sandbox has %d seats already", PER_TASK_MAX);
	if (!g) {
		g = group_new(t->native, t->id, key);
		if (t->native->seats_ev)
			t->native->seats_ev->began(t->native->seats_arg, t->id, key);
	}
	*ret = g;
	return NULL;
}

struct err *native_seat(struct runtime_task *t, const struct runtime_seat *spec,
			struct runtime_seat_wait *w, const char **ret_id)
{
	struct seat_group *g;
	struct seat *s;
	struct err *e;
	int pidfd;

	if (t->state != TASK_RUNNING)
		return err_new(ERR_UNAVAILABLE, "the sandbox does not run");
	e = group_of(t, spec->key, &g);
	if (e)
		return e;
	t->had_seats = true;
	s = &g->seats[spec->view];
	if (s->state == SEAT_NONE) {
		pidfd = listener(t->native, s); /* of an earlier run of the daemon */
		if (pidfd >= 0)
			seat_ready(s, pidfd);
		else
			e = ask(t, s, spec);
	}
	if (e)
		return e;
	*ret_id = s->state == SEAT_READY ? s->id : NULL;
	if (!*ret_id)
		list_add_tail(&s->waiters, &w->on);
	return NULL;
}

/* The end of a group */

static void remove_sockets(const struct seat_group *g)
{
	autofree char *dir = instance_seats(g->task);

	for (size_t i = 0; i < RUNTIME_VIEW_MAX_; i++) {
		autofree char *name = instance_socket(g->seats[i].id);

		(void)unlinkat(g->native->spec.run_fd, name, 0);
	}
	(void)unlinkat(g->native->spec.run_fd, dir, AT_REMOVEDIR); /* if it was the last */
}

static void work_remove(void *arg)
{
	struct seat_group *g = arg;
	const struct native *n = g->native;
	autofree char *below = seats_scratch(g->task, g->key);
	autofree char *scratch = diskpool_path(n->spec.disk, INSTANCE_SLOTS, below);

	/* What cannot be removed now goes with the task. */
	err_free(cgroup_remove(n->spec.cgroups, g->name));
	remove_sockets(g);
	if (file_exists(AT_FDCWD, scratch))
		err_free(diskpool_ops(n->spec.disk)->remove(scratch));
}

static void removed(void *arg)
{
	group_free(arg);
}

static void group_remove(struct seat_group *g)
{
	g->state = GROUP_REMOVING;
	g->job.running = true;
	jobs_run(&g->native->jobs, work_remove, removed, g);
}

static void try_end(struct seat_group *g);

static void on_again(void *arg)
{
	struct seat_group *g = arg;

	cgroup_wait_free(take(g->wait));
	try_end(g);
}

static void wait_until_empty(struct seat_group *g)
{
	struct native *n = g->native;
	struct cgroup_wait_spec spec = {
		.loop = n->loop,
		.inotify = n->spec.inotify,
		.cgroups = n->spec.cgroups,
		.again = on_again,
		.arg = g,
	};

	g->wait = cgroup_wait_new(&spec, g->name, g->tries++);
}

static void work_kill(void *arg)
{
	struct seat_group *g = arg;

	cgroup_kill(g->native->spec.cgroups, g->name);
	g->job.empty = cgroup_empty(g->native->spec.cgroups, g->name);
}

static void killed(void *arg)
{
	struct seat_group *g = arg;
	struct native *n = g->native;

	g->job.running = false;
	if (g->over) {
		group_free(g);
		return;
	}
	if (!g->job.empty) {
		wait_until_empty(g);
		return;
	}
	g->state = GROUP_SPENT;
	if (n->seats_ev && !n->ending)
		n->seats_ev->spent(n->seats_arg, g->task, g->key);
	else
		group_remove(g);
}

static void try_end(struct seat_group *g)
{
	g->job.running = true;
	jobs_run(&g->native->jobs, work_kill, killed, g);
}

static void seats_leave(struct seat_group *g, const char *why)
{
	for (size_t i = 0; i < RUNTIME_VIEW_MAX_; i++)
		seat_failed(&g->seats[i], err_new(ERR_UNAVAILABLE, "%s", why));
}

static void group_end(struct seat_group *g)
{
	if (g->state != GROUP_LIVE || g->over)
		return;
	log_info("seats end", KV("id", g->task), KV("attachment", g->key));
	g->state = GROUP_ENDING;
	seats_leave(g, "what was started by it is being ended");
	try_end(g);
}

static bool is_not(void *arg, const char *key)
{
	return !str_eq(arg, key);
}

void native_seats_end(void *ctx, const char *key)
{
	native_seats_keep(ctx, is_not, (void *)(uintptr_t)key);
}

void native_seats_keep(void *ctx, bool (*keep)(void *arg, const char *key), void *arg)
{
	struct native *n = ctx;

	map_each(it, n->seats) {
		struct seat_group *g = it.value;

		if (!keep(arg, g->key))
			group_end(g);
	}
}

void native_seats_each(void *ctx, void (*fn)(void *arg, const char *task, const char *key),
		       void *arg)
{
	struct native *n = ctx;

	map_each(it, n->seats) {
		const struct seat_group *g = it.value;

		if (!g->over && g->state != GROUP_REMOVING)
			fn(arg, g->task, g->key);
	}
}

void native_seats_watch(void *ctx, const struct runtime_seats_events *ev, void *arg)
{
	struct native *n = ctx;

	n->seats_ev = ev;
	n->seats_arg = arg;
}

void native_seats_remove(void *ctx, const char *task, const char *key)
{
	struct native *n = ctx;
	autofree char *name = seats_group(task, key);
	struct seat_group *g = map_get(n->seats, name);

	if (g && g->state == GROUP_SPENT && !g->over)
		group_remove(g);
}

/* With tasks */

static void found(void *arg, const char *name, unused const char *path)
{
	struct runtime_task *t = arg;
	const char *key = name + strlen(SEAT_GROUP);

	if (!str_starts(name, SEAT_GROUP) || !key_is_plain(key))
		return;
	t->had_seats = true;
	(void)group_new(t->native, t->id, key);
}

void seats_found(struct runtime_task *t)
{
	cgroup_each_below(t->native->spec.cgroups, t->id, found, t);
}

static struct seat_group *one_of(struct native *n, const char *task, bool over)
{
	map_each(it, n->seats) {
		struct seat_group *g = it.value;

		if (g->over == over && str_eq(g->task, task))
			return g;
	}
	return NULL;
}

void seats_task_over(struct runtime_task *t)
{
	struct seat_group *g;

	while ((g = t->had_seats ? one_of(t->native, t->id, false) : NULL)) {
		g->over = true;
		cgroup_wait_free(take(g->wait));
		seats_leave(g, "the sandbox has ended");
	}
}

/* A daemon that goes leaves them as they are; the job of one that is under way frees it. */
void seats_forget(struct runtime_task *t)
{
	struct seat_group *g;

	seats_task_over(t);
	while ((g = t->had_seats ? one_of(t->native, t->id, true) : NULL)) {
		if (!g->job.running) {
			group_free(g);
			continue;
		}
		(void)map_take(t->native->seats, g->name);
	}
}

static void remove_scratches(const struct native *n, const char *task)
{
	autofree char *root = diskpool_path(n->spec.disk, INSTANCE_SLOTS, task);
	DIR *d = opendir(root);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		autofree char *path = NULL;

		if (!str_starts(de->d_name, SCRATCH))
			continue;
		path = xasprintf("%s/%s", root, de->d_name);
		err_free(diskpool_ops(n->spec.disk)->remove(path)); /* or the next start does */
	}
	if (d)
		(void)closedir(d);
}

void seats_remove_files(const struct native *n, const char *task)
{
	autofree char *dir = instance_seats(task);

	if (!file_exists(n->spec.run_fd, dir))
		return;
	remove_scratches(n, task);
	err_free(file_remove_tree(n->spec.run_fd, dir)); /* or the next start does */
}

void seats_init(struct native *n)
{
	n->seats = map_new(NULL);
}

void seats_done(struct native *n)
{
	map_each(it, n->seats) {
		struct seat_group *g = it.value;

		assert(!g->job.running);
	}
	map_free(n->seats);
}
