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

#include "api/object.h"
#include "api/view.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/access.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "node/access/ways.h"
#include "node/disk/disk.h"
#include "node/filter_priv.h"
#include "node/hold/hold.h"
#include "node/host/cgroup.h"
#include "node/host/features.h"
#include "node/host/firewall.h"
#include "node/host/inotify.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/oom.h"
#include "node/host/owner.h"
#include "node/host/route.h"
#include "node/host/scope.h"
#include "node/host/uplink.h"
#include "node/image/image.h"
#include "node/inside/inside.h"
#include "node/network/egress.h"
#include "node/network/policies.h"
#include "node/network/reach.h"
#include "node/network/resolver.h"
#include "node/network/service.h"
#include "node/network/services.h"
#include "node/node_object_priv.h"
#include "node/pod/pod.h"
#include "node/pod/state.h"
#include "node/pressure_priv.h"
#include "node/runtime/handlers.h"
#include "node/runtime/native.h"
#include "node/runtime/runtime.h"
#include "node/volume/host_path.h"

/*
 * The node puts the rooms together: the host, the runtime, the Pods and the ways into them. They
 * start in this order and stop in reverse.
 */
enum {
	STOP_MS = 10 * 1000,     /* for the removals under way */
	OBJECTS_MAX = 256 << 20, /* bytes of volumes that are made from objects: half of run_dir */
};

struct node {
	struct loop *loop;
	struct client *client;
	char *data_dir, *name;
	struct diskpool *disk;
	struct handlers *handlers;
	struct host_paths *host_paths;
	int run_fd;
	struct instance *inst;
	struct host_budget budget;
	struct scope *scope;
	struct watch *scope_end; /* NULL: the groups are in none */
	void (*groups_lost)(void *arg);
	void *groups_lost_arg;
	struct features features;
	struct cgroups *cgroups;
	struct netlink *nl;
	struct firewall_rules rules;
	struct filter *filter;
	struct egress *egress; /* NULL: it is off */
	struct policies *policies;
	struct reach *reach;
	struct services *services;
	struct resolver *resolver;
	char *domain;
	struct inotify *inotify;
	struct images *images;
	struct image_pulls *pulls; /* NULL: images are local */
	struct runtime *runtime;
	struct holds *holds;
	struct inside *inside;
	void (*visit)(void *arg, struct http_request *req, const struct node_caller *who);
	void *visit_arg;
	struct pods *pods;
	struct ways *ways;
	struct node_object *object;
	struct pressure *pressure;
	struct pods_grace grace; /* when sandboxes end with the node */
	struct timer *stop_late;
	void (*stopped)(void *arg); /* node_stop(); NULL: it was called */
	void *stopped_arg;
};

static void images_changed(void *arg, unused uint32_t what)
{
	struct node *n = arg;
	struct err *e = images_reload(n->images);

	if (e)
		log_warn("image names could not be read, going on with the old ones", KV("err", e));
	err_free(e);
	pods_images_changed(n->pods);
}

/* Small files are written there all the time: on a disk each could wait for a commit of the file
 * system. */
static void mount_run_dir(const struct node *n)
{
	const char *dir = n->inst->run_dir;
	struct statfs fs;

	if (!statfs(dir, &fs) && fs.f_type == TMPFS_MAGIC)
		return;
	if (mount("cay", dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=512m") < 0)
		log_warn(
			"cannot mount a tmpfs for the runtime directory, going on with slower starts",
			KV("dir", dir), KV("errno", errno));
}

static void unmount_run_dir(const struct node *n)
{
	const char *dir = n->inst->run_dir;
	struct statfs fs;
	struct stat own, up;
	autofree char *parent = xasprintf("%s/..", dir);
	autofree char *objects = instance_dir(n->inst, INSTANCE_OBJECTS);

	memory_disk_unmount(objects);
	err_free(file_remove_tree(AT_FDCWD, dir));
	if (!statfs(dir, &fs) && fs.f_type == TMPFS_MAGIC && !stat(dir, &own) &&
	    !stat(parent, &up) && own.st_dev != up.st_dev)
		(void)umount2(dir, MNT_DETACH);
	(void)rmdir(dir);
}

static struct err *open_dirs(struct node *n)
{
	const char *dir = n->inst->run_dir;
	struct err *e;

	e = file_mkdirs(dir, 0700);
	if (e)
		return e;
	mount_run_dir(n);
	n->run_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (n->run_fd < 0)
		return err_sys(errno, "open %s", dir);
	if (fchmod(n->run_fd, 0700) < 0)
		return err_sys(errno, "set the mode of %s to 0700", dir);
	return NULL;
}

static struct err *open_disk(struct node *n, const struct node_spec *spec)
{
	const struct diskpool_spec disk = {
		.instance = n->inst,
		.where = spec->disk_pool,
		.size = spec->disk_pool_size,
		.sandbox_limit = spec->sandbox_disk,
		.log_limit = spec->log_max,
		.allow_unenforced = spec->allow_unenforced_disk,
	};

	return diskpool_open(&disk, &n->disk);
}

static void log_lack(const struct features *fs, enum feature f, const char *without)
{
	const struct feature_info *i = feature_info(f);

	log_warn("the kernel lacks a feature, going on without it", KV("feature", i->name),
		 KV("err", fs->why[f]), KV("without", without), KV("fix", i->fix));
}

/* mount_objects() tells of the tmpfs, for it knows whether the stand-in works. */
static void log_features(const struct features *fs)
{
	autofree char *have = features_names(fs);

	log_info("kernel features", KV("have", have));
	for (enum feature f = 0; f < FEATURE_MAX_; f++)
		if (features_lack(fs, f) && !feature_info(f)->needed && f != FEATURE_IDMAP_TMPFS)
			log_lack(fs, f, feature_info(f)->without);
}

/* The owners of what is made from Secrets and ConfigMaps are those that the sandbox sees: a tmpfs
 * that cannot map them needs something in between. */
static void mount_objects(const struct node *n)
{
	autofree char *at = instance_dir(n->inst, INSTANCE_OBJECTS);
	struct err *e;

	if (features_have(&n->features, FEATURE_IDMAP_TMPFS))
		return;
	e = memory_disk_mount(n->inst->run_dir, at, OBJECTS_MAX);
	if (e)
		log_warn("there is no ext4 in memory in place of a tmpfs that maps ids, going on "
			 "with the tmpfs",
			 KV("err", e));
	log_lack(&n->features, FEATURE_IDMAP_TMPFS,
		 e ? "files of Secrets and ConfigMaps belong to nobody inside"
		   : feature_info(FEATURE_IDMAP_TMPFS)->without);
	err_free(e);
}

/* Before anything depends on them; the disk is there already. */
static struct err *find_features(struct node *n, const struct node_spec *spec)
{
	autofree char *dir = diskpool_dir(n->disk, INSTANCE_SLOTS);
	autofree char *group = cgroups_v2_dir(n->cgroups);
	const struct features_spec probe = {
		.launcher = spec->launcher, .dir = dir, .group = group, .last_id = native_last_id()
	};
	struct err *e = file_mkdirs(dir, 0700);

	if (!e)
		e = features_probe(&probe, &n->features);
	if (!e)
		e = features_drop(&n->features, spec->without_features);
	if (e)
		return e;
	log_features(&n->features);
	cgroups_use_kill(n->cgroups, features_have(&n->features, FEATURE_CGROUP_KILL));
	mount_objects(n);
	return features_enough(&n->features);
}

static struct err *read_host_paths(struct node *n, const struct node_spec *spec)
{
	const bool named = spec->disk_pool && *spec->disk_pool == '/';
	const char *const ours[] = { spec->data_dir, n->inst->run_dir,
				     named ? spec->disk_pool : NULL, NULL };

	return host_paths_read(spec->host_paths, ours, &n->host_paths);
}

/* The daemon, and what it starts from now on: sandboxes set a score of their own. */
static void protect_daemon(void)
{
	struct err *e = oom_score(OOM_DAEMON);

	if (e)
		log_warn("the daemon cannot be protected from the OOM killer, going on; sandboxes "
			 "are still killed before it",
			 KV("err", e));
	err_free(e);
}

/* A sandbox that takes all it can get must leave something for the host. */
static void limit_sandboxes(struct node *n, const struct budget_spec *spec)
{
	struct budget_machine m = budget_machine();
	struct cgroup_limits caps = { 0 };
	struct err *e;

	n->budget = budget_of(&m, spec);
	if (wall_stands("instance-memory"))
		caps.memory = n->budget.memory;
	if (wall_stands("instance-pids"))
		caps.pids = n->budget.pids;
	e = cgroups_limit(n->cgroups, &caps);
	if (e)
		log_warn("sandboxes are not limited together, going on with the limits of each",
			 KV("err", e));
	err_free(e);
	if (spec->memory_reserve > m.memory - n->budget.memory ||
	    spec->pids_reserve > m.pids - n->budget.pids)
		log_warn("the host's reserve would leave sandboxes less than a quarter of the "
			 "machine, going on with that quarter for them",
			 KV("memory", n->budget.memory), KV("pids", n->budget.pids));
	if (spec->max_pods > n->budget.pods)
		log_warn("descriptors or addresses do not suffice for --max-pods, going on with "
			 "fewer",
			 KV("pods", n->budget.pods), KV("descriptors", m.descriptors));
}

/* At the end the filter is loaded for nobody any more: to wait for jobs is to turn the loop. */
static void uplinks_loaded(void *arg)
{
	struct node *n = arg;

	if (n->egress)
		egress_ready(n->egress);
}

static void load_uplinks(void *arg, const struct uplinks *claimed)
{
	struct node *n = arg;

	n->rules.uplinks = *claimed;
	filter_change(n->filter, &n->rules, uplinks_loaded, n);
}

static void load_policies(void *arg, struct bytes *rules, unsigned number)
{
	struct node *n = arg;

	bytes_unref(n->rules.policies);
	n->rules.policies = bytes_ref(rules);
	n->rules.policies_number = number;
	filter_change(n->filter, &n->rules, NULL, NULL);
}

static void load_limits(void *arg, struct bytes *rules, unsigned number)
{
	struct node *n = arg;

	bytes_unref(n->rules.limits);
	n->rules.limits = bytes_ref(rules);
	n->rules.limits_number = number;
	filter_change(n->filter, &n->rules, NULL, NULL);
}

static void rules_in_force(void *arg)
{
	struct node *n = arg;

	if (n->reach)
		reach_in_force(n->reach, filter_limits(n->filter));
}

static unsigned policies_in_force(void *arg)
{
	const struct node *n = arg;

	return filter_policies(n->filter);
}

static bool address_clear(void *arg, unsigned place)
{
	const struct node *n = arg;

	return !n->policies || policies_clear(n->policies, place); /* none: it ends */
}

static void set_peers(void *arg, const char *ip, const char *out, const char *in)
{
	struct node *n = arg;

	if (n->runtime)
		native_set_peers(n->runtime, ip, out, in);
}

/* After a start that failed there may be no runtime yet: to wait for jobs is to turn the loop. */
static void peers_known(void *arg)
{
	struct node *n = arg;

	if (n->runtime)
		native_peers_known(n->runtime);
}

static void each_held(void *arg, void (*fn)(void *fn_arg, struct object *pod), void *fn_arg)
{
	struct node *n = arg;

	if (n->holds)
		holds_each(n->holds, fn, fn_arg);
}

static void holds_changed(void *arg)
{
	struct node *n = arg;

	if (n->policies)
		policies_held_changed(n->policies);
}

static void on_knocked(void *arg, const char *ns, const char *sandbox)
{
	struct node *n = arg;

	if (n->ways)
		access_tell_knocked(ways_access(n->ways), ns, sandbox);
}

static void open_holds(struct node *n)
{
	const struct holds_spec holds = { .loop = n->loop,
					  .client = n->client,
					  .runtime = n->runtime,
					  .instance = n->inst,
					  .node_name = n->name,
					  .changed = holds_changed,
					  .knocked = on_knocked,
					  .arg = n };

	n->holds = holds_open(&holds);
}

static bool same_bytes(const struct bytes *a, const struct bytes *b)
{
	return a && b ? a->len == b->len && !memcmp(a->data, b->data, a->len) : a == b;
}

static void load_services(void *arg, struct bytes *rules, const struct service_plan *plan)
{
	struct node *n = arg;
	struct bytes *ways = service_ways(plan);

	bytes_unref(n->rules.services);
	n->rules.services = bytes_ref(rules);
	if (same_bytes(ways, n->rules.ways)) { /* or flows would be looked at for nothing */
		bytes_unref(ways);
	} else {
		bytes_unref(n->rules.ways);
		n->rules.ways = ways;
	}
	policies_set_services(n->policies, plan);
	filter_change(n->filter, &n->rules, NULL, NULL);
}

static void open_services(struct node *n)
{
	const struct services_spec services = { .loop = n->loop,
						.client = n->client,
						.instance = n->inst,
						.host = n->rules.open,
						.load = load_services,
						.arg = n };

	n->services = services_new(&services);
}

/* Before the first load of the packet filter, so that there is no moment without them. */
static struct err *open_policies(struct node *n, const struct node_spec *spec)
{
	struct policies_spec policies = { .loop = n->loop,
					  .client = n->client,
					  .instance = n->inst,
					  .node_name = n->name,
					  .load = load_policies,
					  .in_force = policies_in_force,
					  .peers = set_peers,
					  .peers_known = peers_known,
					  .held = each_held,
					  .arg = n };

	struct err *e = policy_may_open_read(spec->policy_may_open, &policies.may_open);

	if (e)
		return e;
	n->policies = policies_new(&policies);
	n->rules.policies = bytes_ref(policies_rules(n->policies));
	n->rules.policies_number = policies_number(n->policies);
	return NULL;
}

/* Likewise. */
static void open_reach(struct node *n, const struct node_spec *spec)
{
	const struct reach_spec reach = { .loop = n->loop,
					  .client = n->client,
					  .instance = n->inst,
					  .run_fd = n->run_fd,
					  .judge = spec->reach,
					  .load = load_limits,
					  .arg = n };

	n->reach = reach_new(&reach);
	n->rules.limits = bytes_ref(reach_rules(n->reach));
	n->rules.limits_number = reach_number(n->reach);
}

/* An uplink is noted, then its strangers are shut out, then it is switched on. */
static struct err *open_network(struct node *n, const struct node_spec *spec)
{
	const struct egress_spec egress = {
		.loop = n->loop, .instance = n->inst, .nl = n->nl, .load = load_uplinks, .arg = n
	};
	struct filter_spec filter = {
		.loop = n->loop,
		.client = n->client,
		.instance = n->inst,
		.node_name = n->name,
		.in_force = rules_in_force,
		.arg = n,
	};
	struct err *e = instance_net_up(n->inst, n->nl);

	n->rules.open = spec->open_to_local_users;
	n->rules.egress = !spec->no_egress || !wall_stands("egress-none");
	n->rules.outlet = spec->outlet;
	if (!e && n->rules.egress)
		e = egress_open(&egress, &n->egress);
	else if (!e)
		e = egress_set_links(n->inst, n->nl, false);
	if (e)
		return e;
	if (n->egress)
		n->rules.uplinks = *egress_uplinks(n->egress);
	else
		uplinks_release(n->inst); /* what an earlier run may have left on */
	e = open_policies(n, spec);
	if (e)
		return e;
	open_reach(n, spec);
	filter.rules = n->rules;
	e = filter_open(&filter, &n->filter);
	if (!e)
		open_services(n);
	if (!e && n->egress)
		egress_ready(n->egress);
	return e;
}

static struct err *open_names(struct node *n, const struct node_spec *spec)
{
	const struct resolver_spec resolver = {
		.loop = n->loop,
		.client = n->client,
		.instance = n->inst,
		.domain = n->domain,
		.resolv_conf = str_or(spec->resolv_conf, "/etc/resolv.conf"),
		.forward = n->rules.egress,
		.reach = n->reach,
		.outlet = spec->outlet,
		.held = each_held,
		.arg = n,
	};

	return resolver_new(&resolver, &n->resolver);
}

static void on_scope_end(void *arg, unsigned ready unused)
{
	struct node *n = arg;

	watch_want(n->scope_end, 0);
	log_error("the scope of the sandboxes was stopped, and they with it",
		  KV("scope", scope_path(n->scope)));
	if (n->groups_lost)
		n->groups_lost(n->groups_lost_arg);
}

static struct err *open_groups(struct node *n, const struct node_spec *spec)
{
	struct err *e = scope_open(n->inst->id, n->inst->data_dir, spec->give_up_fd, &n->scope);

	if (!e && scope_end_fd(n->scope) >= 0) {
		n->groups_lost = spec->groups_lost;
		n->groups_lost_arg = spec->groups_lost_arg;
		n->scope_end = watch_new(n->loop, scope_end_fd(n->scope), on_scope_end, n);
		watch_want(n->scope_end, WATCH_READ);
	}
	if (!e)
		e = cgroups_open(scope_path(n->scope), true, &n->cgroups);
	if (!e && ~cgroups_have(n->cgroups) & CGROUP_LIMITING)
		log_warn("control group controllers are missing, going on without their limits",
			 KV("have", cgroups_have(n->cgroups)),
			 KV("why", str_or(cgroups_obstacle(n->cgroups), "the kernel or whoever set "
									"up the groups has none")));
	return e;
}

static struct err *open_host(struct node *n, const struct node_spec *spec)
{
	struct err *e;

	protect_daemon();
	limit_sandboxes(n, &spec->budget);
	e = netlink_open(&n->nl);
	return e ? e : open_network(n, spec);
}

static const struct image_users image_users = { node_images_used };

static void image_made(void *arg)
{
	struct node *n = arg;

	if (n->pods)
		pods_images_changed(n->pods);
}

static struct err *open_images(struct node *n)
{
	autofree char *dir = images_dir(n->data_dir);
	struct err *e = images_open(n->data_dir, &n->images), *why;

	if (e)
		return e;
	n->inotify = inotify_open(n->loop, &why);
	if (why)
		log_warn("the kernel reports no changes of files, going on by polling; raise "
			 "fs.inotify.max_user_instances",
			 KV("err", why));
	err_free(why);
	(void)inotify_add(n->inotify, dir, IN_MOVED_TO, images_changed, n);
	images_make_on(n->images, &(struct images_maker){ .loop = n->loop,
							  .users = &image_users,
							  .changed = image_made,
							  .arg = n });
	return NULL;
}

static struct err *open_runtime(struct node *n, const struct node_spec *spec)
{
	const struct native_spec native = {
		.instance = n->inst,
		.cgroups = n->cgroups,
		.disk = n->disk,
		.features = &n->features,
		.inotify = n->inotify,
		.run_fd = n->run_fd,
		.launcher = spec->launcher,
		.init = spec->init,
		.pool = spec->netns_pool,
		.egress = n->rules.egress,
		.address_clear = address_clear,
		.arg = n,
	};

	return native_open(n->loop, &native, &n->runtime);
}

static struct err *find_image(void *images, const char *name, struct image **ret)
{
	return images_find(images, name, ret);
}

static void pull_image(void *pulls, const char *name, const char *auth, struct image_pull_wait *w)
{
	image_pulls_ask(pulls, name, auth, w);
}

/* Without waiting to be told that names.json has changed: who asked looks at once. */
static void image_pulled(void *arg)
{
	images_changed(arg, 0);
}

static void open_pulls(struct node *n, const struct node_spec *spec)
{
	const struct image_pulls_spec pulls = {
		.loop = n->loop,
		.data_dir = n->data_dir,
		.run_dir = n->inst->run_dir,
		.pulled = image_pulled,
		.arg = n,
	};

	if (spec->pull_images)
		n->pulls = image_pulls_new(&pulls);
}

static void on_inside(void *arg, struct http_request *req, const struct inside_caller *who)
{
	struct node *n = arg;
	const struct object *pod;

	if (!n->visit) { /* also while the node ends */
		http_respond_text(req, 503, "nobody answers here now");
		return;
	}
	pod = pods_of_task(n->pods, who->pod, who->task);
	if (!pod)
		http_respond_text(req, 403, "the process that connected is in another sandbox");
	else
		n->visit(n->visit_arg, req,
			 &(struct node_caller){ .ns = pod->ns,
						.pod = pod->name,
						.pod_uid = pod->uid,
						.attachment = who->seat });
}

void node_set_inside(struct node *n,
		     void (*visit)(void *arg, struct http_request *req,
				   const struct node_caller *who),
		     void *arg)
{
	n->visit = visit;
	n->visit_arg = arg;
}

static struct err *open_inside(struct node *n)
{
	const struct inside_spec inside = { .loop = n->loop,
					    .instance = n->inst,
					    .cgroups = n->cgroups,
					    .features = &n->features,
					    .visit = on_inside,
					    .arg = n };

	return inside_open(&inside, &n->inside);
}

static struct err *open_pods(struct node *n, const struct node_spec *spec)
{
	char gateway[16];
	const struct pods_spec pods = {
		.loop = n->loop,
		.client = n->client,
		.runtime = n->runtime,
		.find_image = find_image,
		.images = n->images,
		.pull_image = n->pulls ? pull_image : NULL,
		.pulls = n->pulls,
		.node_name = n->name,
		.disk = n->disk,
		.handlers = n->handlers,
		.host_paths = n->host_paths,
		.tokens = spec->tokens,
		.run_dir = n->inst->run_dir,
		.data_dir = n->data_dir,
		.usage_interval_ms = (uint64_t)spec->usage_interval_s * 1000,
		.mark = instance_mark(n->inst),
		.resolver = n->resolver,
		.name_server = gateway,
		.domain = n->domain,
		.budget = n->budget,
		.holds = n->holds,
		.inside = n->inside,
	};
	struct ways_spec ways = {
		.loop = n->loop,
		.inotify = n->inotify,
		.run_fd = n->run_fd,
		.disk = n->disk,
	};
	struct err *e;

	instance_addr_text(n->inst, 1, gateway);
	e = pods_open(&pods, &n->pods);
	if (e)
		return e;
	ways.pods = n->pods;
	n->ways = ways_new(&ways);
	pods_set_access(n->pods, ways_access(n->ways));
	return NULL;
}

static struct err *open_parts(struct node *n, const struct node_spec *spec)
{
	struct err *e = features_check_names(spec->without_features);

	if (!e)
		e = owner_check(spec->data_dir, spec->store_id, spec->store_is_new);
	if (!e)
		e = handlers_new(spec->runtimes, &n->handlers);
	if (!e)
		e = instance_open(spec->data_dir, spec->run_dir, true, &n->inst);
	if (!e)
		e = read_host_paths(n, spec);
	if (!e)
		e = open_disk(n, spec);
	if (!e)
		e = open_dirs(n);
	if (!e)
		e = open_groups(n, spec);
	if (!e)
		e = find_features(n, spec);
	if (!e)
		e = open_host(n, spec);
	if (!e)
		e = open_images(n);
	if (!e)
		e = open_names(n, spec);
	if (!e)
		e = open_runtime(n, spec);
	if (!e)
		open_holds(n);
	if (!e)
		open_pulls(n, spec);
	if (!e)
		e = open_inside(n);
	if (!e)
		e = open_pods(n, spec);
	return e;
}

struct err *node_start(struct loop *l, struct client *c, const struct node_spec *spec,
		       struct node **ret)
{
	autoptr(node) n = xnew(struct node);
	struct err *e;

	n->loop = l;
	n->client = c;
	n->data_dir = xstrdup(spec->data_dir);
	n->name = xstrdup(str_or(spec->node_name, "cay"));
	n->domain = xstrdup(str_or(spec->domain, "cluster.local"));
	n->run_fd = -1;
	n->grace.critical_ms = spec->shutdown_critical_ms;
	n->grace.ordinary_ms = spec->shutdown_ms - spec->shutdown_critical_ms;
	e = open_parts(n, spec);
	if (e)
		return e;
	holds_start(n->holds); /* before any Pod */
	pods_start(n->pods);
	n->object = node_object_new(l, c, n->name, &n->budget);
	n->pressure = pressure_new(&(struct pressure_spec){
		.loop = l,
		.disk = n->disk,
		.object = n->object,
		.pods = n->pods,
		.memory = n->budget.memory,
		.interval_ms = (uint64_t)spec->pressure_interval_s * 1000 });
	filter_set_object(n->filter, n->object);
	log_info("node started", KV("node", n->name), KV("instance", n->inst->id));
	*ret = take(n);
	return NULL;
}

struct err *node_runtime_names(const char *runtimes, char ***ret)
{
	autoptr(handlers) h = NULL;
	struct err *e = handlers_new(runtimes, &h);
	const char *const *names = e ? NULL : handlers_names(h);
	size_t n = 0;

	if (e)
		return e;
	while (names[n])
		n++;
	*ret = xcalloc(n + 1, sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = xstrdup(names[i]);
	return NULL;
}

bool node_sandbox_at(const struct node *n, const char *ip, struct node_sandbox *ret)
{
	const struct object *pod = pods_at(n->pods, ip);
	struct owner_view owner;

	if (!pod || !instance_addr_place(n->inst, ip, &ret->place))
		return false;
	owner = owner_view_of(pod);
	ret->ns = pod->ns;
	ret->name = owner.name;
	ret->uid = owner.uid;
	ret->pod = pod->name;
	return owner.type == OWNER_SANDBOX;
}

struct lookup *node_lookup(struct node *n, unsigned place, const char *name,
			   void (*done)(void *arg, const struct ip *addrs, size_t n_addrs),
			   void *arg)
{
	return resolver_lookup(n->resolver, &(struct lookup_spec){ name, place, done, arg });
}

void node_lookup_cancel(struct lookup *l)
{
	lookup_cancel(l);
}

bool node_may_reach(const struct node *n, unsigned place, const struct ip *to, uint16_t port)
{
	if (!wall_stands("outlet-address"))
		return true;
	return n->rules.egress && policies_let_out(n->policies, place, to, port) &&
	       route_leads_away(to);
}

struct access *node_access(struct node *n)
{
	return ways_access(n->ways);
}

void node_metrics(const struct node *n, struct buf *b)
{
	filter_metrics(n->filter, b);
	native_metrics(n->runtime, b);
	resolver_metrics(n->resolver, b);
	reach_metrics(n->reach, b);
	pods_metrics(n->pods, b);
	access_metrics(ways_access(n->ways), b);
}

void node_set_pace(struct node *n, bool yield)
{
	native_set_pace(n->runtime, yield);
}

void node_reach_changed(struct node *n)
{
	reach_changed(n->reach);
}

void node_forget_judge(struct node *n)
{
	reach_forget_judge(n->reach);
}

void node_gateway(const struct node *n, char ret[16])
{
	instance_addr_text(n->inst, 1, ret);
}

uint32_t node_mark(const struct node *n)
{
	return instance_mark(n->inst);
}

static void note_any(void *arg, unused const char *uid)
{
	*(bool *)arg = true;
}

/* Removes what only running sandboxes need, when there are none. Without a runtime directory of
 * ours only the disk was made. */
static void leave_host(struct node *n)
{
	bool any = false;

	pod_records_each(n->inst->run_dir, note_any, &any);
	if (any)
		return;
	if (n->run_fd >= 0) {
		uplinks_release(n->inst);
		err_free(firewall_remove(n->inst));
		if (n->nl)
			instance_net_down(n->inst, n->nl);
		if (n->cgroups)
			cgroups_remove_parent(n->cgroups);
		unmount_run_dir(n);
	}
	if (n->disk)
		diskpool_unmount(n->disk);
}

void node_free(struct node *n)
{
	if (!n)
		return;
	pressure_free(n->pressure);
	egress_free(take(n->egress));
	services_free(n->services);
	policies_free(take(n->policies));
	if (n->reach)
		reach_forget_judge(n->reach); /* nothing is loaded any more */
	filter_free(n->filter);
	timer_free(n->stop_late);
	node_object_free(n->object);
	if (n->ways)
		ways_settle(n->ways);
	pods_free(n->pods);
	inside_free(n->inside);
	holds_free(take(n->holds));
	image_pulls_free(n->pulls);
	if (n->runtime)
		n->runtime->ops->free(n->runtime->ctx);
	resolver_free(n->resolver);
	reach_free(n->reach);
	if (n->inst)
		leave_host(n);
	ways_free(n->ways);
	inotify_free(n->inotify);
	images_free(n->images);
	netlink_free(n->nl);
	cgroups_free(n->cgroups);
	watch_free(n->scope_end);
	scope_free(n->scope);
	instance_free(n->inst);
	if (n->run_fd >= 0)
		(void)close(n->run_fd);
	free(n->data_dir);
	diskpool_free(n->disk);
	handlers_free(n->handlers);
	features_done(&n->features);
	host_paths_free(n->host_paths);
	bytes_unref(n->rules.services);
	bytes_unref(n->rules.ways);
	bytes_unref(n->rules.policies);
	bytes_unref(n->rules.limits);
	free(n->name);
	free(n->domain);
	free(n);
}

static void on_stopped(void *arg)
{
	struct node *n = arg;
	void (*stopped)(void *arg_) = take(n->stopped);

	if (stopped)
		stopped(n->stopped_arg);
}

static void on_stop_late(void *arg)
{
	log_warn("Pods do not end in time, the next start removes what is left");
	on_stopped(arg);
}

void node_stop(struct node *n, bool sandboxes, void (*done)(void *arg), void *arg)
{
	n->stopped = done;
	n->stopped_arg = arg;
	n->stop_late = timer_new(n->loop, on_stop_late, n);
	if (!sandboxes) {
		timer_set(n->stop_late, STOP_MS);
		pods_settle(n->pods, on_stopped, n);
		return;
	}
	timer_set(n->stop_late, STOP_MS + n->grace.ordinary_ms + n->grace.critical_ms);
	node_object_shut_down(n->object);
	pods_stop_all(n->pods, &n->grace, on_stopped, n);
}
