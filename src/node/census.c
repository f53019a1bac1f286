/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <unistd.h>

#include "api/storage.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/firewall.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/scope.h"
#include "node/host/uplink.h"
#include "node/node.h"
#include "node/pod/state.h"

/*
 * What is on the host on behalf of a data directory, found by name alone, so that it also shows
 * what a crashed instance left. An item's owner is a Pod or volume that exists, or the instance
 * itself while it runs or still has Pods; anything else is an orphan.
 */
struct census {
	struct instance *inst;
	struct diskpool *disk;
	struct json_doc *out;
	struct json *items;
	struct map *alive;     /* uid → "namespace/name" */
	struct map *slots;     /* slot → uid of its Pod */
	struct map *addresses; /* address → uid of its Pod */
	struct map *volumes;   /* handle of a PersistentVolume → uid of a Pod that mounts it */
	struct map *counted;   /* slots whose processes were counted */
	size_t orphans, dying;
	unsigned bell; /* the index of the link that held addresses lead to; 0: there is none */
	bool running, any_pods;
};

static const char instance_owner[] = "instance";

static void add(struct census *c, const char *type, const char *name, const char *owner)
{
	struct json *o = json_obj(c->out);

	json_set_str(c->out, o, "type", type);
	json_set_str(c->out, o, "name", name);
	json_set(c->out, o, "owner", owner ? json_new_str(c->out, owner) : json_new_null(c->out));
	json_push(c->out, c->items, o);
	if (!owner)
		c->orphans++;
}

static const char *owner_of(const struct census *c, const char *uid)
{
	return uid ? map_get(c->alive, uid) : NULL;
}

/* What the instance keeps for itself: the pool of slots, its table, its own address. */
static const char *own(const struct census *c)
{
	return c->running || c->any_pods ? instance_owner : NULL;
}

static const char *slot_owner(const struct census *c, const char *slot)
{
	const char *uid = map_get(c->slots, slot);

	if (uid)
		return owner_of(c, uid);
	return c->running ? instance_owner : NULL; /* parked */
}

static void note_alive(struct census *c, const struct json *v)
{
	const struct json *meta = json_get(v, "metadata");
	const char *uid = json_str(v) ? json_str(v) : json_get_str(meta ? meta : v, "uid");
	const char *ns = json_get_str(meta ? meta : v, "namespace");
	const char *name = json_get_str(meta ? meta : v, "name");

	if (str_empty(uid))
		return;
	map_put(c->alive, uid,
		name ? xasprintf("%s/%s", str_or(ns, "default"), name) : xstrdup(uid));
}

/* The directory of a persistent volume is its claim's, or belongs to the volume alone. */
static void note_volume(struct census *c, const struct json *v)
{
	const struct json *ref = json_at_path(v, "spec.claimRef");
	const char *handle = storage_handle(v), *ns = json_get_str(ref, "namespace");

	if (handle && !map_has(c->alive, handle))
		map_put(c->alive, handle,
			xasprintf("%s/%s", ref ? str_or(ns, "") : "persistentvolume",
				  str_or(json_get_str(ref ? ref : json_get(v, "metadata"), "name"),
					 "")));
}

static void note_slot(struct census *c, const char *slot, const char *uid)
{
	if (slot)
		map_put(c->slots, slot, xstrdup(uid));
}

static void note_state(struct census *c, const char *uid)
{
	autoptr(arena) a = arena_new();
	autoclose run = open(c->inst->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pod_record r = { 0 };
	struct err *e = pod_record_load(run, uid, a, &r);

	err_free(e); /* the node would start such a Pod anew: it owns nothing */
	if (r.ip)
		map_put(c->addresses, r.ip, xstrdup(uid));
	for (size_t i = 0; i < r.n_containers; i++) {
		note_slot(c, r.containers[i].task.id, uid);
		note_slot(c, r.containers[i].log, uid);
		note_slot(c, r.containers[i].prev_log, uid);
	}
	for (const char **pvc = r.pvcs; pvc && *pvc; pvc++)
		map_put(c->volumes, *pvc, xstrdup(uid));
}

static void each_name(const char *dir,
		      void (*fn)(struct census *c, const char *dir, const char *name),
		      struct census *c)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			fn(c, dir, de->d_name);
	if (d)
		(void)closedir(d);
}

static void on_state(struct census *c, const char *dir, const char *name)
{
	autofree char *path = xasprintf("%s/%s", dir, name);
	autofree char *uid = str_ends(name, ".json") ? xstrndup(name, strlen(name) - 5) : NULL;

	if (!uid)
		return;
	note_state(c, uid);
	if (owner_of(c, uid))
		c->any_pods = true;
	add(c, "file", path, owner_of(c, uid));
}

static void on_objects_dir(struct census *c, const char *dir, const char *uid)
{
	autofree char *path = xasprintf("%s/%s", dir, uid);

	add(c, "directory", path, owner_of(c, uid));
}

static void on_identity_dir(struct census *c, const char *dir, const char *uid)
{
	autofree char *path = xasprintf("%s/%s", dir, uid);
	autofree char *sock = xasprintf("%s/identity.sock", path);

	add(c, "directory", path, owner_of(c, uid));
	if (file_exists(AT_FDCWD, sock))
		add(c, "socket", sock, owner_of(c, uid));
}

static void on_pod_dir(void *arg, const char *uid)
{
	struct census *c = arg;
	autofree char *path = diskpool_path(c->disk, INSTANCE_PODS, uid);

	add(c, "directory", path, owner_of(c, uid));
}

static void on_slot_dir(void *arg, const char *slot)
{
	struct census *c = arg;
	autofree char *path = diskpool_path(c->disk, INSTANCE_SLOTS, slot);

	add(c, "directory", path, slot_owner(c, slot));
}

/* A volume that was deleted while a Pod used it is that Pod's until it ends. */
static void on_volume_dir(void *arg, const char *uid)
{
	struct census *c = arg;
	autofree char *path = diskpool_path(c->disk, INSTANCE_VOLUMES, uid);
	const char *owner = owner_of(c, uid), *pod = map_get(c->volumes, uid);

	add(c, "volume", path, owner || !pod ? owner : owner_of(c, pod));
}

static void on_socket(struct census *c, const char *dir, const char *name)
{
	autofree char *path = xasprintf("%s/%s", dir, name);
	autofree char *slot = instance_socket_slot(name), *seats = instance_seats_slot(name);

	if (slot)
		add(c, "socket", path, slot_owner(c, slot));
	else if (seats)
		add(c, "directory", path, slot_owner(c, seats));
	else if (str_eq(name, instance_dir_name(INSTANCE_STAGE)))
		add(c, "directory", path, own(c));
}

struct one_group {
	struct census *c;
	const char *slot;
};

static void on_pid(void *arg, pid_t pid)
{
	struct one_group *g = arg;
	autofree char *name = xasprintf("%d", (int)pid);

	add(g->c, "process", name, slot_owner(g->c, g->slot));
}

static void on_group(void *arg, const char *name, const char *path)
{
	struct census *c = arg;
	struct one_group g = { c, name };

	add(c, "cgroup", path, slot_owner(c, name));
	/* A process is in a group of every hierarchy: count it in the first that is met. */
	if (map_has(c->counted, name))
		return;
	map_put(c->counted, name, c);
	cgroup_each_pid(path, on_pid, &g);
}

static const char *address_owner(const struct census *c, unsigned place)
{
	const char *uid;
	char ip[16];

	instance_addr_text(c->inst, place, ip);
	uid = map_get(c->addresses, ip);
	return uid ? owner_of(c, uid) : c->running ? instance_owner : NULL;
}

static void each_link(struct census *c, void (*fn)(struct census *c, const char *name, unsigned n))
{
	struct if_nameindex *list = if_nameindex();
	unsigned n;

	for (struct if_nameindex *i = list; i && i->if_index; i++)
		if (instance_owns_ifname(c->inst, i->if_name, &n))
			fn(c, i->if_name, n);
	if (list)
		if_freenameindex(list);
}

static void count_dying(struct census *c, unused const char *name, unsigned n)
{
	c->dying += !address_owner(c, n);
}

/* The kernel takes the links of a closed namespace away a moment later: give it that moment. */
static void await_links(struct census *c)
{
	for (int i = 0; i < 40; i++) {
		c->dying = 0;
		each_link(c, count_dying);
		if (!c->dying)
			return;
		(void)nanosleep(&(struct timespec){ .tv_nsec = 25000000 }, NULL);
	}
}

static void on_link(struct census *c, const char *name, unsigned n)
{
	char ip[16];

	instance_addr_text(c->inst, n, ip);
	add(c, "link", name, address_owner(c, n));
	add(c, "address", ip, address_owner(c, n));
}

static void on_route(void *arg, const struct netlink_route *r)
{
	struct census *c = arg;
	char ip[IP_TEXT_MAX], text[IP_TEXT_MAX + 4];
	unsigned place;

	if (!instance_ip_place(c->inst, &r->dst, &place) ||
	    (place > 1 && (!c->bell || r->ifindex != c->bell)))
		return;
	ip_text(&r->dst, ip);
	(void)snprintf(text, sizeof(text), "%s/%d", ip, r->prefix);
	if (place > 1 && place != POOL_BELL)
		add(c, "route", text, own(c)); /* of an address that is held */
	if (place == 0 && r->unreachable)
		add(c, "route", text, own(c));
	if (place == 1)
		add(c, "address", ip, own(c));
}

/* The kernel frees the loop device a moment after the mounts of the last sandbox are gone. It tells
 * that to nobody who could wait for it, hence the looking; a census is a command that may block. */
static char *await_loop(struct census *c)
{
	char *loop = diskpool_loop(c->disk);

	for (int i = 0; i < 40 && loop && !own(c); i++) {
		free(loop);
		(void)nanosleep(&(struct timespec){ .tv_nsec = 25000000 }, NULL);
		loop = diskpool_loop(c->disk);
	}
	return loop;
}

/* The image itself is a file of the data directory, as the store is. */
static void scan_pool(struct census *c)
{
	autofree char *loop = await_loop(c);

	if (loop)
		add(c, "loop", loop, own(c));
}

/* The fifth word of a line of mountinfo. */
static char *mount_point(const char *line)
{
	for (int i = 0; i < 4; i++) {
		line += strcspn(line, " ");
		line += strspn(line, " ");
	}
	return xstrndup(line, strcspn(line, " "));
}

static void scan_mounts(struct census *c)
{
	autofree char *objects = instance_dir(c->inst, INSTANCE_OBJECTS), *text = NULL;
	char *save = NULL;

	err_free(file_read(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &text, NULL));
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		autofree char *below = xasprintf(" %s/", c->inst->run_dir);
		autofree char *slots = xasprintf(" %s/", c->inst->data_dir);
		autofree char *at = mount_point(line);

		/* The mounts of sandboxes are in their own namespaces: none belongs here. */
		if (str_eq(at, c->inst->run_dir) || str_eq(at, objects) ||
		    diskpool_is_mount(c->disk, at))
			add(c, "mount", at, own(c));
		else if (strstr(line, below) || strstr(line, slots))
			add(c, "mount", line, NULL);
	}
}

static void scan_forwarding(struct census *c)
{
	struct uplinks noted;

	uplinks_noted(c->inst, &noted);
	for (unsigned n = 0; n < noted.n; n++) {
		char name[LINK_NAME + 8];

		(void)snprintf(name, sizeof(name), "%s%s", noted.at[n].name,
			       noted.at[n].ip6 ? " IPv6" : "");
		add(c, "forwarding", name, own(c));
	}
}

static struct err *scan_host(struct census *c)
{
	autofree char *parent = scope_find(c->inst->id);
	autoptr(cgroups) groups = NULL;
	autoptr(netlink) nl = NULL;
	struct err *e = cgroups_open(parent, false, &groups);
	char bell[16];

	if (e)
		return e;
	cgroups_each(groups, on_group, c);
	await_links(c);
	each_link(c, on_link);
	instance_ifname(c->inst, POOL_BELL, bell);
	c->bell = if_nametoindex(bell);
	e = netlink_open(&nl);
	if (!e)
		e = netlink_each_route(nl, on_route, c);
	if (e)
		return e;
	if (firewall_present(c->inst)) {
		autofree char *table = instance_table(c->inst);

		add(c, "table", table, own(c));
	}
	scan_forwarding(c);
	scan_mounts(c);
	scan_pool(c);
	return NULL;
}

static struct err *scan(struct census *c, const struct json *pods)
{
	static const struct {
		enum instance_dir dir;
		void (*fn)(struct census *c, const char *dir, const char *name);
	} rows[] = {
		{ INSTANCE_STATE, on_state },
		{ INSTANCE_OBJECTS, on_objects_dir },
		{ INSTANCE_IDENTITY, on_identity_dir },
	};
	const struct json *list = json_get(pods, "items");

	json_each(p, list ? list : pods)
		note_alive(c, p.val);
	json_each(p, list ? list : pods)
		note_volume(c, p.val);
	c->running = instance_running(c->inst);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) { /* states first: they name what is a Pod's */
		autofree char *dir = instance_dir(c->inst, rows[i].dir);

		each_name(dir, rows[i].fn, c);
	}
	diskpool_each(c->disk, INSTANCE_PODS, on_pod_dir, c);
	diskpool_each(c->disk, INSTANCE_SLOTS, on_slot_dir, c);
	diskpool_each(c->disk, INSTANCE_VOLUMES, on_volume_dir, c);
	each_name(c->inst->run_dir, on_socket, c);
	return scan_host(c);
}

struct err *node_census(const char *data_dir, const struct json *pods, struct json_doc **ret,
			size_t *ret_orphans)
{
	autoptr(instance) inst = NULL;
	autoptr(diskpool) disk = diskpool_look(data_dir);
	autoptr(json_doc) out = json_doc_new();
	autoptr(map) alive = map_new(free);
	autoptr(map) slots = map_new(free);
	autoptr(map) addresses = map_new(free);
	autoptr(map) volumes = map_new(free);
	autoptr(map) counted = map_new(NULL);
	struct census c = { .out = out,
			    .disk = disk,
			    .alive = alive,
			    .slots = slots,
			    .addresses = addresses,
			    .volumes = volumes,
			    .counted = counted };
	struct err *e = instance_open(data_dir, NULL, false, &inst);
	bool never = err_is(e, ERR_NOT_FOUND);

	json_set_root(out, json_obj(out));
	c.items = json_need_arr(out, json_root(out), "items");
	if (never) {
		err_free(e);
		e = NULL; /* no node ever ran here: there is nothing */
	} else if (!e) {
		c.inst = inst;
		json_set_str(out, json_root(out), "instance", inst->id);
		e = scan(&c, pods);
	}
	if (e)
		return err_wrap(e, "take the census of %s", data_dir);
	*ret_orphans = c.orphans;
	*ret = take(out);
	return NULL;
}
