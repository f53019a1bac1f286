/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/runtime/native_priv.h"

/*
 * After a start: records say what ran, the control groups say what still does. A process is ours
 * only if it is in the group of its record; a number alone proves nothing. What is there before the
 * first new slot is made and is not attached to until the sweep belongs to nobody.
 */
struct native_left {
	bool group;
	int range; /* reserved by hold(); or NO_RANGE */
};

static struct native_left *left_of(struct native *n, const char *id)
{
	struct native_left *l = map_get(n->left, id);

	if (l)
		return l;
	l = xnew(struct native_left);
	l->range = NO_RANGE;
	map_put(n->left, id, l);
	return l;
}

void left_free(void *left)
{
	free(left);
}

static void note_group(void *arg, const char *name, unused const char *path)
{
	left_of(arg, name)->group = true;
}

static void note_root(void *arg, const char *name)
{
	(void)left_of(arg, name);
}

static void note_sock(struct native *n, const char *name)
{
	autofree char *id = instance_socket_slot(name);

	if (!id)
		id = instance_seats_slot(name);
	if (id)
		(void)left_of(n, id);
}

static void each_name(const char *dir, void (*fn)(struct native *n, const char *name),
		      struct native *n)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			fn(n, de->d_name);
	if (d)
		(void)closedir(d);
}

void left_note(struct native *n)
{
	cgroups_each(n->spec.cgroups, note_group, n);
	diskpool_each(n->spec.disk, INSTANCE_SLOTS, note_root, n);
	each_name(n->spec.instance->run_dir, note_sock, n);
}

void native_hold(void *ctx, const struct runtime_record *r, const char *ip)
{
	struct native *n = ctx;
	struct native_left *l;

	if (ip)
		nets_hold(n, ip);
	if (!r || !r->id || !n->left)
		return;
	l = left_of(n, r->id);
	if (l->range == NO_RANGE && numbers_reserve(n->ranges, r->range))
		l->range = (int)r->range;
}

static bool in_group(struct native *n, pid_t pid, const char *id)
{
	autofree char *at = cgroup_of(n->spec.cgroups, pid);

	return at && str_eq(at, id);
}

/* The process of a record, held; -1: it is gone. */
static int hold_process(struct native *n, pid_t pid, const char *id)
{
	autoclose fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd p = { fd, POLLIN, 0 };

	if (fd < 0 || !in_group(n, pid, id) || poll(&p, 1, 0) != 0)
		return -1;
	return take_fd(fd);
}

/* It ended while nobody looked; cay-init would have stayed to tell how, so it was killed. */
static void lost(struct native *n, const char *id, int range, struct runtime_end *ret)
{
	ret->oom = cgroup_oom_kills(n->spec.cgroups, id) > 0;
	ret->usage = usage_of_ended(n, id);
	usage_of_parts(n, id, ret);
	leave(n, &(struct leave_spec){
			 .id = id, .pidfd = -1, .range = range, .keep_log = true, .kill = true });
}

static void find_net(struct runtime_task *t)
{
	autofree char *path = xasprintf("/proc/%d/ns/net", (int)t->record.pid);
	struct stat st;

	if (stat(path, &st) < 0)
		return;
	t->inode = st.st_ino;
	t->net = nets_find_inode(t->native, t->inode);
	if (t->net)
		net_join(t->net);
}

struct runtime_task *native_attach(void *ctx, const struct runtime_record *r,
				   struct runtime_end *ret_end)
{
	struct native *n = ctx;
	struct runtime_task *t;
	struct native_left *l;
	int pidfd;

	native_hold(n, r, NULL);
	l = n->left ? map_get(n->left, r->id) : NULL;
	pidfd = hold_process(n, (pid_t)r->pid, r->id);
	if (pidfd < 0) {
		*ret_end = (struct runtime_end){ 0 };
		lost(n, r->id, l ? l->range : NO_RANGE, ret_end);
		t = NULL;
	} else {
		t = task_new(n, r, pidfd, TASK_ATTACHED);
		t->frozen = cgroup_frozen(n->spec.cgroups, r->id);
		t->owns_range = l && l->range != NO_RANGE;
		find_net(t);
		seats_found(t);
	}
	if (n->left)
		(void)map_del(n->left, r->id);
	return t;
}

void native_swept_one(struct native *n)
{
	n->n_sweeping--;
	if (!n->n_sweeping)
		nets_drop_held(n);
}

void native_sweep(void *ctx, bool (*keep)(void *arg, const char *id), void *arg)
{
	struct native *n = ctx;
	autoptr(map) left = take(n->left);

	if (map_len(left))
		log_info("removing what an earlier run left behind",
			 KV("slots", (uint64_t)map_len(left)));
	n->n_sweeping = 1; /* ourselves, until all are counted */
	map_each(it, left) {
		const struct native_left *l = it.value;

		n->n_sweeping++;
		leave(n, &(struct leave_spec){ .id = it.key,
					       .pidfd = -1,
					       .range = l->range,
					       .keep_log = keep(arg, it.key),
					       .kill = l->group,
					       .swept = true });
	}
	native_swept_one(n);
}
