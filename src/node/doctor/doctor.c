/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/firewall.h"
#include "node/host/netlink.h"
#include "node/host/uplink.h"
#include "node/node.h"
#include "node/runtime/handlers.h"

/*
 * `cay doctor`: what this host has of what the node needs, and what to do about the rest. It asks
 * the host alone and works with and without a server. What it makes for trying, such as control
 * groups, a scope of systemd and a sandbox, it removes again.
 */
static const char *const verdicts[VERDICT_MAX_] = { "ok", "warn", "fail" };

void doctor_say(struct doctor *d, const char *name, enum verdict v, char *message, char *fix)
{
	autofree char *text = message, *remedy = fix;
	struct json *o = json_obj(d->out);

	json_set_str(d->out, o, "name", name);
	json_set_str(d->out, o, "status", verdicts[v]);
	json_set_str(d->out, o, "message", text);
	if (v != VERDICT_OK && remedy)
		json_set_str(d->out, o, "fix", remedy);
	json_push(d->out, d->checks, o);
	d->n_failed += v == VERDICT_FAIL;
}

int64_t doctor_number(const char *path)
{
	autofree char *text = NULL;
	int64_t n = -1;

	err_free(file_read(AT_FDCWD, path, 64, &text, NULL));
	if (text) {
		text[strcspn(text, " \n")] = '\0';
		err_free(parse_int(text, 0, INT64_MAX, &n));
	}
	return n;
}

static void check_root(struct doctor *d)
{
	bool root = geteuid() == 0;

	doctor_say(
		d, "root", root ? VERDICT_OK : VERDICT_FAIL,
		xstrdup(root ? "running as root" : "not running as root"),
		xstrdup("run `cay serve` as root: it makes namespaces, control groups and links"));
}

static void check_user_namespaces(struct doctor *d)
{
	int64_t n = doctor_number("/proc/sys/user/max_user_namespaces");

	doctor_say(d, "user-namespaces", n > 0 ? VERDICT_OK : VERDICT_FAIL,
		   xasprintf("user.max_user_namespaces is %lld", (long long)n),
		   xstrdup("sysctl user.max_user_namespaces=65536"));
}

/* One that is a module is loaded by the question. */
static void check_btrfs(struct doctor *d)
{
	autoclose fs = fsopen("btrfs", FSOPEN_CLOEXEC);
	bool btrfs = fs >= 0;

	doctor_say(d, "btrfs", btrfs ? VERDICT_OK : VERDICT_WARN,
		   btrfs ? xstrdup("btrfs is there")
			 : xasprintf("btrfs cannot be used: %s", strerror(errno)),
		   xstrdup("modprobe btrfs; without it nothing limits disk space"));
}

static void check_calls(struct doctor *d)
{
	bool seccomp = file_exists(AT_FDCWD, "/proc/sys/kernel/seccomp/actions_avail");
	autoclose nft = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	doctor_say(d, "seccomp", seccomp ? VERDICT_OK : VERDICT_FAIL,
		   xasprintf("system call filters are %s", seccomp ? "there" : "missing"),
		   xstrdup("use a kernel with CONFIG_SECCOMP_FILTER"));
	doctor_say(d, "nftables", nft >= 0 ? VERDICT_OK : VERDICT_FAIL,
		   xasprintf("the packet filter %s",
			     nft >= 0 ? "can be reached" : "cannot be reached"),
		   xstrdup("use a kernel with CONFIG_NF_TABLES, or modprobe nf_tables"));
}

/* Lists no sockets at all; where a module is missing, the answer is an error instead of an end. */
static bool knows_owners(void)
{
	const struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} q = {
		.head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.req = { .sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP },
	};
	struct {
		struct nlmsghdr head;
		int error;
	} a;
	autoclose fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	return fd >= 0 && send(fd, &q, sizeof(q), 0) == sizeof(q) &&
	       recv(fd, &a, sizeof(a), MSG_DONTWAIT) >= (ssize_t)sizeof(a) &&
	       a.head.nlmsg_type == NLMSG_DONE && !a.error;
}

/* The router lets users of this machine in by who they are, and does not start without. */
static void check_owners(struct doctor *d)
{
	bool known = knows_owners();

	doctor_say(d, "socket-owners", known ? VERDICT_OK : VERDICT_FAIL,
		   xasprintf("the kernel %s who owns a socket", known ? "tells" : "does not tell"),
		   xstrdup("use a kernel with CONFIG_INET_DIAG, or modprobe tcp_diag"));
}

/* Most hosts have no IPv6 to give, and nothing is wrong with that. */
static void check_way_out6(struct doctor *d, const struct uplink *first)
{
	if (!first)
		doctor_say(d, "way-out-ipv6", VERDICT_OK,
			   xstrdup("this host has no route to the Internet of IPv6, so sandboxes "
				   "have none"),
			   NULL);
	else if (!uplinks_can_forward6())
		doctor_say(d, "way-out-ipv6", VERDICT_WARN,
			   xstrdup("the kernel cannot forward IPv6 for single links, so sandboxes "
				   "have no way out over it"),
			   xstrdup("use Linux 6.17 or later; or sysctl "
				   "net.ipv6.conf.all.forwarding=1, which makes this host a router "
				   "for everybody"));
	else
		doctor_say(
			d, "way-out-ipv6", VERDICT_OK,
			xasprintf("sandboxes reach the Internet of IPv6 through %s", first->name),
			NULL);
}

/* A rule of our own cannot undo what another table drops. */
static void check_way_out(struct doctor *d)
{
	autofree char *chain = firewall_forward_policy();
	autoptr(netlink) nl = NULL;
	struct uplinks u = { 0 };
	struct err *e = netlink_open(&nl);
	const struct uplink *first;

	if (!e)
		e = uplinks_find(nl, &u);
	first = uplinks_first(&u, false);
	if (e || !first)
		doctor_say(
			d, "way-out", VERDICT_WARN,
			e ? xstrdup(err_text(e))
			  : xstrdup("this host has no route to the Internet, so sandboxes have none"),
			xstrdup("add a default route; sandboxes have a way out from that moment on"));
	else if (chain)
		doctor_say(
			d, "way-out", VERDICT_WARN,
			xasprintf("chain %s of another program drops what is forwarded", chain),
			xasprintf("nft insert rule %s iifname \"cay*\" accept; nft insert rule %s "
				  "oifname \"cay*\" ct state established,related accept",
				  chain, chain));
	else
		doctor_say(d, "way-out", VERDICT_OK,
			   xasprintf("sandboxes reach the Internet through %s", first->name), NULL);
	check_way_out6(d, uplinks_first(&u, true));
	err_free(e);
}

/* Whoever has port 53 of all addresses has that of the gateway too. The address used here is some
 * other one of the loopback. */
static bool port_is_free(int type)
{
	autoclose fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(53),
				  .sin_addr = { htonl(0x7f353535) } };

	return fd >= 0 && !bind(fd, (const struct sockaddr *)&at, sizeof(at));
}

static void check_names(struct doctor *d)
{
	bool is_free = port_is_free(SOCK_DGRAM) && port_is_free(SOCK_STREAM);

	doctor_say(
		d, "name-server", is_free ? VERDICT_OK : VERDICT_WARN,
		xasprintf("port 53 is %s for the name server of sandboxes",
			  is_free ? "free" : "not free"),
		xstrdup("bind the name server of this host to addresses of its own instead of all: "
			"sandboxes have no names otherwise"));
}

static void check_numbers(struct doctor *d)
{
	static const struct {
		const char *name, *path, *key;
		int64_t least;
	} rows[] = {
		{ "inotify-instances", "/proc/sys/fs/inotify/max_user_instances",
		  "fs.inotify.max_user_instances", 128 },
		{ "inotify-watches", "/proc/sys/fs/inotify/max_user_watches",
		  "fs.inotify.max_user_watches", 8192 },
		{ "pid-max", "/proc/sys/kernel/pid_max", "kernel.pid_max", 32768 },
	};
	struct rlimit files = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int64_t n = doctor_number(rows[i].path);

		doctor_say(d, rows[i].name, n >= rows[i].least ? VERDICT_OK : VERDICT_WARN,
			   xasprintf("%s is %lld", rows[i].key, (long long)n),
			   xasprintf("sysctl %s=%lld", rows[i].key, (long long)rows[i].least));
	}
	(void)getrlimit(RLIMIT_NOFILE, &files);
	doctor_say(
		d, "descriptors", files.rlim_max >= 65536 ? VERDICT_OK : VERDICT_WARN,
		xasprintf("a process may have %llu open files", (unsigned long long)files.rlim_max),
		xstrdup("raise the hard limit of open files (LimitNOFILE=1048576 in a unit)"));
}

/* Only whoever may lower it can protect the daemon when memory is short. */
static void check_oom(struct doctor *d)
{
	autofree char *was = NULL;
	struct err *e = file_read(AT_FDCWD, "/proc/self/oom_score_adj", 64, &was, NULL);

	if (!e)
		e = file_write(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
	doctor_say(d, "oom-score", e ? VERDICT_WARN : VERDICT_OK,
		   xasprintf("oom_score_adj %s be lowered", e ? "cannot" : "can"),
		   xstrdup("give the daemon CAP_SYS_RESOURCE"));
	if (!e)
		e = file_write(AT_FDCWD, "/proc/self/oom_score_adj", was);
	err_free(e);
}

static void check_disk(struct doctor *d)
{
	autoptr(diskpool) disk = diskpool_look(d->data_dir);
	autofree char *obstacle = diskpool_obstacle(disk);
	autofree char *no_data = diskpool_data_obstacle(disk);
	struct diskpool_space pool, data;

	doctor_say(d, "data-dir", no_data ? VERDICT_FAIL : VERDICT_OK,
		   no_data ? xstrdup(no_data) : xasprintf("%s can be used", d->data_dir),
		   xstrdup("name another directory with --data-dir"));

	doctor_say(
		d, "disk-pool", obstacle ? VERDICT_WARN : VERDICT_OK,
		obstacle ? xasprintf("disk space limits are not enforced: %s", obstacle)
			 : xasprintf("disk space limits %s enforced by a btrfs",
				     diskpool_enforces(disk) ? "are" : "will be"),
		xstrdup("install btrfs-progs, provide /dev/loop-control and free space, or name a "
			"directory on a btrfs with --disk-pool; then restart"));
	diskpool_space(disk, &pool, &data);
	doctor_say(d, "disk-space", data.free >= INT64_C(1) << 30 ? VERDICT_OK : VERDICT_WARN,
		   xasprintf("%lld MiB are free for %s", (long long)(data.free >> 20), d->data_dir),
		   xstrdup("free at least 1 GiB, or move the data directory"));
}

/* Without it, Pods of its class wait; all others run. */
static void check_runtimes(struct doctor *d)
{
	struct handler_look l;

	for (size_t i = 0; handlers_look(d->handlers, i, &l); i++) {
		autofree char *name = xasprintf("runtime-%s", l.name), *path = l.path;

		doctor_say(d, name, path ? VERDICT_OK : VERDICT_WARN,
			   path ? xasprintf("Pods of RuntimeClass %s run by %s", l.name, path)
				: xasprintf("Pods of RuntimeClass %s wait: there is no program %s",
					    l.name, l.program),
			   xstrdup(l.install));
	}
}

struct err *node_doctor(const struct node_doctor_spec *spec, struct json_doc **ret,
			size_t *ret_failed)
{
	static void (*const checks[])(struct doctor *d) = {
		check_root,          check_user_namespaces, check_userns_limits, check_namespaces,
		check_system_calls,  check_features,        check_cgroups,       check_scope,
		check_cgroup_layout, check_cgroup_moves,    check_btrfs,         check_calls,
		check_owners,        check_network,         check_way_out,       check_names,
		check_upstream,      check_numbers,         check_capability,    check_oom,
		check_disk,          check_host_image,      check_snap,          check_networkd,
		check_sleep,         check_landlock,        check_veth,          check_outlet,
		check_kvm,           check_runtimes,        check_launch,
	};
	autoptr(json_doc) out = json_doc_new();
	autoptr(handlers) handlers = NULL;
	struct doctor d = { .spec = spec, .data_dir = spec->data_dir, .out = out };
	struct err *e = features_check_names(spec->without_features);

	if (!e)
		e = handlers_new(spec->runtimes, &handlers);
	if (e)
		return e;
	doctor_place_open(&d);
	d.handlers = handlers;
	doctor_groups_open(&d);
	json_set_root(out, json_obj(out));
	d.checks = json_need_arr(out, json_root(out), "checks");
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		checks[i](&d);
	doctor_groups_done(&d);
	doctor_place_done(&d);
	features_done(&d.features);
	*ret_failed = d.n_failed;
	*ret = take(out);
	return NULL;
}
