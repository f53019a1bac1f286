/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "api/registry.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/str.h"
#include "client/access.h"
#include "loop/loop.h"
#include "node/host/cgroup.h"
#include "node/host/firewall.h"
#include "node/host/inotify.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/numbers.h"
#include "node/image/image.h"
#include "node/pod/pod_priv.h"

/*
 * The node as a whole: its start and end, and the queue of Pods that want a pass. A change of an
 * object only queues its Pod; passes run deferred, in the same turn.
 */
enum {
	N_RANGES = 60000, /* id ranges of 65536 from 1 << 20 on */
};

static void run_dirty(void *arg)
{
	struct node *n = arg;

	while (!n->ending && !list_empty(&n->dirty)) {
		struct pod *p = list_first(&n->dirty, struct pod, on_dirty);

		list_del(&p->on_dirty);
		p->dirty = false;
		pod_pass(p);
	}
	if (n->stopping && !n->n_jobs && !map_len(n->pods) && n->stopped) {
		void (*stopped)(void *a) = take(n->stopped);

		stopped(n->stopped_arg);
	}
}

static void defer(struct node *n)
{
	if (n->started && !n->ending)
		deferred_call(&n->passes);
}

void node_wake(struct node *n, struct pod *p)
{
	if (!p->dirty) {
		p->dirty = true;
		list_add_tail(&n->dirty, &p->on_dirty);
	}
	defer(n);
}

void node_wake_waiting(struct node *n)
{
	map_each(it, n->pods) {
		struct pod *p = it.value;

		if (p->waiting)
			node_wake(n, p);
	}
}

struct node_job {
	struct node *node;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

static void job_work(void *arg)
{
	struct node_job *j = arg;

	j->work(j->arg);
}

static void job_done(void *arg)
{
	struct node_job *j = arg;

	j->node->n_jobs--;
	j->done(j->arg);
	if (j->node->stopping)
		defer(j->node);
	free(j);
}

void node_job(struct node *n, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct node_job *j = xnew(struct node_job);

	*j = (struct node_job){ n, work, done, arg };
	n->n_jobs++;
	job_run(n->loop, job_work, job_done, j);
}

static void remove_work(void *arg)
{
	struct err *e = file_remove_tree(AT_FDCWD, arg);

	if (e)
		log_warn("directory was not removed, the next start tries again", KV("err", e));
	err_free(e);
}

void node_remove_tree(struct node *n, char *path)
{
	node_job(n, remove_work, free, path);
}

struct pod *node_find_pod(struct node *n, const char *ns, const char *name)
{
	autoptr(object) o = client_get(n->client, n->kinds.pod, ns, name);

	return o ? map_get(n->pods, o->uid) : NULL;
}

static bool is_mine(const struct node *n, const struct object *o)
{
	return str_eq(json_get_str(object_spec(o), "nodeName"), n->name);
}

static void pod_changed(void *arg, struct object *was, struct object *now)
{
	struct node *n = arg;
	struct pod *p = map_get(n->pods, now ? now->uid : was->uid);

	if (!now) {
		if (!p)
			return;
		p->gone = true;
		node_wake(n, p);
		return;
	}
	if (!is_mine(n, now))
		return;
	if (!p && n->stopping)
		return; /* it runs when the node does so again */
	if (!p) {
		p = pod_new(n, now);
		map_put(n->pods, now->uid, p);
		if (n->left)
			recover_pod(p);
		node_wake(n, p);
		return;
	}
	/* A Pod's spec does not change: only the wish to end it is news, and what others say of
	 * its status. */
	if (object_deleting(now) && !object_deleting(p->obj))
		node_wake(n, p);
	pod_update(p, now);
	if (pod_report_lost(p))
		node_wake(n, p);
}

static void source_changed(void *arg, unused struct object *was, unused struct object *now)
{
	struct node *n = arg;

	map_each(it, n->pods) {
		struct pod *p = it.value;

		if (p->waiting && p->phase == POD_ACTIVE) {
			timer_clear(p->retry);
			for (size_t i = 0; i < p->n_containers; i++)
				if (str_eq(p->containers[i].reason, "CreateContainerConfigError"))
					timer_clear(p->containers[i].backoff);
			node_wake(n, p);
		}
	}
}

static void images_changed(void *arg, unused uint32_t what)
{
	struct node *n = arg;
	struct err *e = images_reload(n->images);

	if (e)
		log_warn("image names were not read, going on with the old ones", KV("err", e));
	err_free(e);
	node_wake_waiting(n);
}

static void free_pod(void *p)
{
	pod_free(p);
}

/* Passes write small files there: on a disk each could wait for a commit of the file system. */
static void mount_run_dir(struct node *n)
{
	struct statfs fs;

	if (!statfs(n->run_dir, &fs) && fs.f_type == TMPFS_MAGIC)
		return;
	if (mount("cay", n->run_dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "mode=0700,size=512m") < 0)
		log_warn("runtime directory is not in memory, starts will be slower",
			 KV("dir", n->run_dir), KV("errno", errno));
}

static void unmount_run_dir(struct node *n)
{
	struct statfs fs;
	struct stat own, up;
	autofree char *parent = xasprintf("%s/..", n->run_dir);

	err_free(file_remove_tree(AT_FDCWD, n->run_dir));
	if (!statfs(n->run_dir, &fs) && fs.f_type == TMPFS_MAGIC && !stat(n->run_dir, &own) &&
	    !stat(parent, &up) && own.st_dev != up.st_dev)
		(void)umount2(n->run_dir, MNT_DETACH);
	(void)rmdir(n->run_dir);
}

static struct err *open_dirs(struct node *n)
{
	static const char *const on_disk[] = { "pods", "volumes", "roots" };
	static const char *const in_memory[] = { "state", "volumes", "stage" };
	struct err *e = NULL;

	for (size_t i = 0; i < ARRAY_LEN(on_disk) && !e; i++) {
		autofree char *path = xasprintf("%s/%s", n->data_dir, on_disk[i]);

		e = file_mkdirs(path, 0700);
	}
	if (!e)
		e = file_mkdirs(n->run_dir, 0700);
	if (e)
		return e;
	mount_run_dir(n);
	n->run_fd = open(n->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	n->roots_fd = open(n->roots_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (n->run_fd < 0 || n->roots_fd < 0)
		return err_sys(errno, "open %s and %s", n->run_dir, n->roots_dir);
	if (fchmod(n->run_fd, 0700) < 0)
		return err_sys(errno, "close %s to others", n->run_dir);
	for (size_t i = 0; i < ARRAY_LEN(in_memory); i++)
		if (mkdirat(n->run_fd, in_memory[i], 0700) < 0 && errno != EEXIST)
			return err_sys(errno, "make %s/%s", n->run_dir, in_memory[i]);
	return NULL;
}

static struct err *open_host(struct node *n)
{
	autofree char *parent = instance_cgroup(n->inst);
	struct err *e = cgroups_open(parent, true, &n->cgroups);

	if (e)
		return e;
	if (~cgroups_have(n->cgroups) & (CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS))
		log_warn("some control group controllers are missing, limits will not hold",
			 KV("have", cgroups_have(n->cgroups)));
	e = netlink_open(&n->nl);
	if (!e)
		e = instance_net_up(n->inst, n->nl);
	if (!e)
		e = firewall_load(n->inst);
	return e;
}

static struct err *open_parts(struct node *n, const struct node_spec *spec)
{
	autofree char *images = images_dir(n->data_dir);
	struct err *e = instance_open(spec->data_dir, spec->run_dir, true, &n->inst);

	if (e)
		return e;
	n->run_dir = xstrdup(n->inst->run_dir);
	n->addresses = numbers_new(POOL_FIRST, POOL_SIZE - POOL_FIRST - 1);
	n->ranges = numbers_new(0, N_RANGES);
	/* Not where the last life began: its addresses may still be on the way out. */
	numbers_start_at(n->addresses, (unsigned)random_u64());
	numbers_start_at(n->ranges, (unsigned)random_u64());
	e = open_dirs(n);
	if (!e)
		e = open_host(n);
	if (!e)
		e = images_open(n->data_dir, &n->images);
	if (!e)
		e = inotify_open(n->loop, &n->inotify);
	if (!e && !inotify_add(n->inotify, images, IN_MOVED_TO, images_changed, n))
		log_warn("image names cannot be followed, changes show at the next try");
	return e;
}

static void on_pods_known(void *arg)
{
	struct node *n = arg;

	if (n->started)
		return;
	n->started = true;
	recover_sweep(n);
	map_each(it, n->pods)
		node_wake(n, it.value);
	defer(n);
}

static void watch_objects(struct node *n)
{
	static const struct client_watch_events pods = { .changed = pod_changed,
							 .synced = on_pods_known };
	static const struct client_watch_events sources = { .changed = source_changed };
	struct client_watch_spec spec = { .kind = n->kinds.secret };

	n->watch_secrets = client_watch(n->client, &spec, &sources, n);
	spec.kind = n->kinds.config_map;
	n->watch_maps = client_watch(n->client, &spec, &sources, n);
	claims_start(n);
	spec.kind = n->kinds.pod;
	n->watch_pods = client_watch(n->client, &spec, &pods, n);
}

static void find_kinds(struct node *n)
{
	const struct kinds *ks = client_kinds(n->client);

	n->kinds = (struct node_kinds){
		.pod = kinds_need(ks, "v1", "Pod"),
		.node = kinds_need(ks, "v1", "Node"),
		.secret = kinds_need(ks, "v1", "Secret"),
		.config_map = kinds_need(ks, "v1", "ConfigMap"),
		.pvc = kinds_need(ks, "v1", "PersistentVolumeClaim"),
		.event = kinds_need(ks, "v1", "Event"),
	};
}

struct err *node_start(struct loop *l, struct client *c, const struct node_spec *spec,
		       struct node **ret)
{
	autoptr(node) n = xnew(struct node);
	struct err *e;

	n->loop = l;
	n->client = c;
	find_kinds(n);
	n->data_dir = xstrdup(spec->data_dir);
	n->name = xstrdup(str_or(spec->node_name, "cay"));
	n->roots_dir = xasprintf("%s/roots", n->data_dir);
	n->run_fd = n->roots_fd = -1;
	n->pods = map_new(free_pod);
	list_init(&n->dirty);
	deferred_init(&n->passes, l, run_dirty, n);
	n->events = events_new(n);
	n->access = node_access_new(n);
	e = open_parts(n, spec);
	if (!e)
		e = recover_load(n);
	if (!e)
		e = nursery_start(n, spec, &n->nursery);
	if (e)
		return err_wrap(e, "start node");
	watch_objects(n);
	node_register(n);
	log_info("node started", KV("node", n->name), KV("instance", n->inst->id),
		 KV("pods", (uint64_t)map_len(n->pods)));
	*ret = take(n);
	return NULL;
}

struct access *node_access(struct node *n)
{
	return n->access;
}

/* What only the walls of running sandboxes need goes when there are none. */
static void leave_host(struct node *n)
{
	autofree char *states = NULL;
	DIR *d;
	bool any = false;

	if (!n->inst || !n->cgroups)
		return;
	states = xasprintf("%s/state", n->run_dir);
	d = opendir(states);
	for (struct dirent *de = d ? readdir(d) : NULL; de; de = readdir(d))
		any = any || de->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	if (any || !n->started)
		return;
	err_free(firewall_remove(n->inst));
	if (n->nl)
		instance_net_down(n->inst, n->nl);
	cgroups_remove_parent(n->cgroups);
	unmount_run_dir(n);
}

/* Until nothing that is under way knows us. */
static void settle(struct node *n)
{
	while (n->n_jobs)
		(void)loop_turn(n->loop, 20);
}

void node_free(struct node *n)
{
	if (!n)
		return;
	client_watch_free(n->watch_pods);
	client_watch_free(n->watch_secrets);
	client_watch_free(n->watch_maps);
	client_watch_free(n->watch_node);
	claims_stop(n);
	timer_free(n->heartbeat);
	client_cancel(&n->object_write);
	n->ending = true;
	deferred_cancel(&n->passes);
	settle(n);
	map_free(take(n->pods));
	n->pods = map_new(NULL);
	nursery_free(take(n->nursery));
	settle(n);
	leave_host(n);
	access_free(n->access);
	events_free(n->events);
	inotify_free(n->inotify);
	images_free(n->images);
	numbers_free(n->addresses);
	numbers_free(n->ranges);
	netlink_free(n->nl);
	cgroups_free(n->cgroups);
	instance_free(n->inst);
	if (n->run_fd >= 0)
		(void)close(n->run_fd);
	if (n->roots_fd >= 0)
		(void)close(n->roots_fd);
	map_free(n->pods);
	map_free(n->claims);
	map_free(n->left);
	map_free(n->left_groups);
	map_free(n->left_roots);
	free(n->data_dir);
	free(n->run_dir);
	free(n->roots_dir);
	free(n->name);
	free(n);
}

/* The objects stay: their Pods run again when the node does. */
void node_stop_sandboxes(struct node *n, void (*done)(void *arg), void *arg)
{
	n->stopped = done;
	n->stopped_arg = arg;
	n->stopping = true;
	map_each(it, n->pods) {
		struct pod *p = it.value;

		p->gone = true;
		node_wake(n, p);
	}
	defer(n);
}
