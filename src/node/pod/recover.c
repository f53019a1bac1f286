/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/cgroup.h"
#include "node/host/instance.h"
#include "node/host/numbers.h"
#include "node/pod/pod_priv.h"

/*
 * After a start: the state files say what ran, the control groups say what still does. A process is
 * ours only if it is in the group that its state file names; a number alone proves nothing.
 *
 * What belongs to no Pod any more is removed by a job once all Pods are known.
 */
enum {
	STATE_MAX = 1 << 20,
};

struct leftovers {
	struct node *node;
	struct map *groups; /* slot names without an owner */
	struct map *trees;  /* paths without an owner */
};

static struct err *read_state(struct node *n, const char *uid, struct json_doc **ret)
{
	autofree char *path = xasprintf("state/%s.json", uid), *text = NULL;
	size_t len;
	struct err *e = file_read(n->run_fd, path, STATE_MAX, &text, &len);

	return e ? e : json_parse(text, len, NULL, ret);
}

/* The numbers that running sandboxes have must not be given to others before we know more. */
static void claim_numbers(struct node *n, const struct json *state)
{
	unsigned place;

	if (instance_addr_place(n->inst, json_get_str(state, "ip"), &place))
		(void)numbers_claim(n->addresses, place);
	json_each(c, json_get(state, "containers"))
		if (json_get_str(c.val, "slot"))
			(void)numbers_claim(n->ranges, (unsigned)json_get_int(c.val, "range", -1));
}

static void free_state(void *d)
{
	json_doc_free(d);
}

static void note_group(void *arg, const char *name, unused const char *path)
{
	struct node *n = arg;

	map_put(n->left_groups, name, n);
}

static void each_name(const char *dir, void (*fn)(struct node *n, const char *name), struct node *n)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			fn(n, de->d_name);
	if (d)
		(void)closedir(d);
}

static void note_root(struct node *n, const char *name)
{
	map_put(n->left_roots, name, n);
}

static void load_state(struct node *n, const char *name)
{
	autofree char *uid = str_ends(name, ".json") ? xstrndup(name, strlen(name) - 5) : NULL;
	struct json_doc *state = NULL;
	struct err *e = uid ? read_state(n, uid, &state) : NULL;

	if (e)
		log_warn("state of a Pod cannot be read, starting it anew", KV("uid", uid),
			 KV("err", e));
	err_free(e);
	if (!state)
		return;
	claim_numbers(n, json_root(state));
	map_put(n->left, uid, state);
}

struct err *recover_load(struct node *n)
{
	autofree char *states = xasprintf("%s/state", n->run_dir);

	n->left = map_new(free_state);
	n->left_groups = map_new(NULL);
	n->left_roots = map_new(NULL);
	each_name(states, load_state, n);
	each_name(n->roots_dir, note_root, n);
	cgroups_each(n->cgroups, note_group, n);
	return NULL;
}

static bool in_group(struct node *n, pid_t pid, const char *slot)
{
	autofree char *path = xasprintf("/proc/%d/cgroup", (int)pid), *text = NULL;
	autofree char *want = xasprintf("/cay-%s/%s\n", n->inst->id, slot);

	err_free(file_read(AT_FDCWD, path, 65536, &text, NULL));
	return text && strstr(text, want);
}

/* The process of a state file, held; -1: it is gone. */
static int hold_process(struct node *n, pid_t pid, const char *slot)
{
	autoclose fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd p = { fd, POLLIN, 0 };

	if (fd < 0 || !in_group(n, pid, slot) || poll(&p, 1, 0) != 0)
		return -1;
	return take_fd(fd);
}

static void load_ending(struct ending *e, const struct json *v)
{
	if (!v)
		return;
	e->reason = xstrdup(json_get_str(v, "reason"));
	e->message = xstrdup(json_get_str(v, "message"));
	e->code = (int)json_get_int(v, "code", 0);
	e->signal = (int)json_get_int(v, "signal", 0);
	e->started = json_get_int(v, "started", 0);
	e->finished = json_get_int(v, "finished", 0);
	e->id = xstrdup(json_get_str(v, "id"));
}

/* It ended while nobody looked; cay-init would have stayed to tell how, so it was killed. */
static void lost(struct container *c, const char *slot)
{
	struct node *n = c->pod->node;
	autofree char *sock = xasprintf("%s.sock", slot);
	bool oom = cgroup_oom_kills(n->cgroups, slot) > 0;

	c->end.reason = xstrdup(oom ? "OOMKilled" : "Error");
	c->end.message = xstrdup("it ended while the node was away");
	c->end.code = 137;
	c->end.signal = 9;
	c->end.started = c->started;
	c->end.finished = clock_wall();
	c->end.id = xasprintf("cay://%s", slot);
	c->state = CONTAINER_ENDED;
	(void)unlinkat(n->run_fd, sock, 0);
	cgroup_kill(n->cgroups, slot);
	slot_release(n, slot, c->range, true);
}

/* The state file was written before the start: when that was, the object's status knows. */
static usec told_start(const struct container *c)
{
	const char *member = c->init ? "initContainerStatuses" : "containerStatuses";
	usec t = 0;

	json_each(s, json_get(object_status(c->pod->obj), member)) {
		const char *text = json_str(json_at_path(s.val, "state.running.startedAt"));

		if (text && str_eq(json_get_str(s.val, "name"), c->name))
			err_free(clock_parse(text, &t));
	}
	return t;
}

static void load_container(struct container *c, const struct json *v)
{
	struct node *n = c->pod->node;
	const char *slot = json_get_str(v, "slot");

	c->root = xstrdup(json_get_str(v, "root"));
	c->prev = xstrdup(json_get_str(v, "prev"));
	c->restarts = (unsigned)json_get_int(v, "restarts", 0);
	c->started = json_get_int(v, "started", 0);
	if (!c->started)
		c->started = told_start(c);
	c->range = (unsigned)json_get_int(v, "range", 0);
	load_ending(&c->end, json_get(v, "end"));
	load_ending(&c->last, json_get(v, "last"));
	if (!slot) {
		if (c->end.reason)
			c->state = CONTAINER_ENDED;
		return;
	}
	(void)map_del(n->left_groups, slot);
	c->pid = (pid_t)json_get_int(v, "pid", 0);
	c->pidfd = hold_process(n, c->pid, slot);
	if (c->pidfd < 0) {
		lost(c, slot);
		return;
	}
	if (!c->root)
		c->root = xstrdup(slot);
	err_free(images_find(n->images, str_or(json_get_str(c->spec, "image"), ""), &c->image));
	if (!c->image)
		c->image = xnew(struct image); /* its name was taken away meanwhile; it runs on */
	c->slot = xstrdup(slot);
}

/* Its namespace is held by its processes; we need it for containers that start again. */
static void load_net(struct pod *p, const char *ip)
{
	autofree char *path = NULL;
	struct net *net;
	unsigned place;
	int fd = -1;

	if (!instance_addr_place(p->node->inst, ip, &place))
		return;
	for (size_t i = 0; i < p->n_containers && fd < 0; i++) {
		if (!container_live(&p->containers[i]))
			continue;
		free(path);
		path = xasprintf("/proc/%d/ns/net", (int)p->containers[i].pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0) {
		numbers_put(p->node->addresses, place); /* it is claimed again when it is made */
		p->want_ip = xstrdup(ip);
		return;
	}
	net = xnew(struct net);
	net->fd = fd;
	net->place = place;
	(void)snprintf(net->ip, sizeof(net->ip), "%s", ip);
	p->net = net;
}

void recover_pod(struct pod *p)
{
	autoptr(json_doc) d = map_take(p->node->left, p->uid);
	const struct json *state = d ? json_root(d) : NULL;
	int64_t started = json_get_int(state, "started", 0);

	if (!state)
		return;
	p->recovered = json_len(json_get(state, "containers")) > 0;
	p->admitted = p->recovered;
	p->started = started ? started : p->started;
	json_each(v, json_get(state, "containers")) {
		struct container *c = pod_container(p, json_get_str(v.val, "name"));

		if (c)
			load_container(c, v.val);
	}
	load_net(p, json_get_str(state, "ip"));
	for (size_t i = 0; i < p->n_containers; i++)
		if (container_live(&p->containers[i]))
			container_attach(&p->containers[i]);
}

static void sweep_group(struct leftovers *l, const char *slot)
{
	for (int i = 0; i < 400; i++) {
		struct err *e;
		bool busy;

		cgroup_kill(l->node->cgroups, slot);
		e = cgroup_remove(l->node->cgroups, slot);
		busy = err_is(e, ERR_UNAVAILABLE);
		if (e && !busy)
			log_warn("control group was not removed", KV("err", e));
		err_free(e);
		if (!busy)
			return;
		(void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
}

static void sweep_work(void *arg)
{
	struct leftovers *l = arg;

	map_each(it, l->groups)
		sweep_group(l, it.key);
	map_each(it, l->trees) {
		struct err *e = file_remove_tree(AT_FDCWD, it.key);

		if (e)
			log_warn("directory was not removed", KV("err", e));
		err_free(e);
	}
}

static void sweep_done(void *arg)
{
	struct leftovers *l = arg;

	map_free(l->groups);
	map_free(l->trees);
	free(l);
}

static bool slot_known(struct node *n, const char *slot)
{
	map_each(it, n->pods) {
		struct pod *p = it.value;

		for (size_t i = 0; i < p->n_containers; i++) {
			struct container *c = &p->containers[i];

			if (str_eq(c->slot, slot) || str_eq(c->root, slot) || str_eq(c->prev, slot))
				return true;
		}
	}
	return false;
}

static bool pod_known(struct node *n, const char *uid)
{
	return map_has(n->pods, uid);
}

/* The names in a directory, less a suffix, that nobody knows. */
static void find_unknown(struct leftovers *l, const char *base, const char *sub, const char *suffix,
			 bool (*known)(struct node *n, const char *name))
{
	autofree char *dir = xasprintf("%s%s", base, sub);
	DIR *d = opendir(dir);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		autofree char *name = NULL, *path = NULL;

		if (de->d_name[0] == '.' || !str_ends(de->d_name, suffix))
			continue;
		name = xstrndup(de->d_name, strlen(de->d_name) - strlen(suffix));
		path = xasprintf("%s/%s", dir, de->d_name);
		if (!known(l->node, name))
			map_put(l->trees, path, l);
	}
	if (d)
		(void)closedir(d);
}

/* The numbers of what goes are free again only with the next start: their processes may linger. */
void recover_sweep(struct node *n)
{
	struct leftovers *l = xnew(struct leftovers);

	l->node = n;
	l->groups = take(n->left_groups);
	l->trees = map_new(NULL);
	find_unknown(l, n->run_dir, "", ".sock", slot_known);
	find_unknown(l, n->run_dir, "/state", ".json", pod_known);
	find_unknown(l, n->run_dir, "/volumes", "", pod_known);
	find_unknown(l, n->data_dir, "/pods", "", pod_known);
	map_each(it, n->left_roots) {
		autofree char *path = root_path(n, it.key);

		if (!slot_known(n, it.key))
			map_put(l->trees, path, l);
	}
	map_free(take(n->left));
	map_free(take(n->left_roots));
	if (map_len(l->groups) || map_len(l->trees))
		log_info("removing what an earlier life left behind",
			 KV("groups", (uint64_t)map_len(l->groups)),
			 KV("files", (uint64_t)map_len(l->trees)));
	node_job(n, sweep_work, sweep_done, l);
}
