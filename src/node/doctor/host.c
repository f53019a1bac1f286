/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/load.h"
#include "node/host/rights.h"

/*
 * What makes hosts differ: the age of the kernel, how it was built, what the machine's own image
 * brings along. Every question is asked in a way that changes nothing.
 */

/* Older headers do not know all of them. */
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

static bool has_call(long number)
{
	/* No call does anything with arguments like these. */
	return syscall(number, -1L, NULL, 0L, 0L, 0L, 0L) >= 0 || errno != ENOSYS;
}

static void add_name(struct buf *out, const char *name)
{
	buf_printf(out, "%s%s", out->len ? ", " : "", name);
}

void check_system_calls(struct doctor *d)
{
	static const struct {
		const char *name;
		long number;
	} rows[] = {
		{ "open_tree", SYS_open_tree },
		{ "mount_setattr", SYS_mount_setattr },
		{ "move_mount", SYS_move_mount },
		{ "fsopen", SYS_fsopen },
		{ "pidfd_open", SYS_pidfd_open },
		{ "openat2", SYS_openat2 },
		{ "pidfd_send_signal", SYS_pidfd_send_signal },
		{ "memfd_create", SYS_memfd_create },
	};
	autobuf missing = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!has_call(rows[i].number))
			add_name(&missing, rows[i].name);
	doctor_say(d, "system-calls", missing.len ? VERDICT_FAIL : VERDICT_OK,
		   missing.len ? xasprintf("the kernel lacks, or a filter forbids: %s",
					   buf_str(&missing))
			       : xstrdup("the kernel has all that the launcher calls"),
		   xstrdup("use Linux 5.15 or later, and a service manager or container that does "
			   "not filter these calls"));
}

void check_namespaces(struct doctor *d)
{
	static const char *const names[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup" };
	autobuf missing = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		autofree char *path = xasprintf("/proc/self/ns/%s", names[i]);

		if (!file_exists(AT_FDCWD, path))
			add_name(&missing, names[i]);
	}
	doctor_say(d, "namespaces", missing.len ? VERDICT_FAIL : VERDICT_OK,
		   missing.len ? xasprintf("the kernel has no namespaces of the kind %s",
					   buf_str(&missing))
			       : xstrdup("the kernel has namespaces of all kinds"),
		   xstrdup("use a kernel with CONFIG_NAMESPACES and all of its kinds"));
}

static bool is_on(const char *path, long magic)
{
	struct statfs fs;

	return !statfs(path, &fs) && (long)fs.f_type == magic;
}

/* The node works with each. Other runtimes may not, and freezing needs one of v2. */
void check_cgroup_layout(struct doctor *d)
{
	bool v2 = is_on("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC);
	bool hybrid = is_on("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC);

	doctor_say(d, "cgroup-layout", v2 ? VERDICT_OK : VERDICT_WARN,
		   xasprintf("control groups are laid out as %s", v2       ? "v2"
								  : hybrid ? "v1 and v2 (hybrid)"
									   : "v1"),
		   xstrdup("starts are slower, and crun refuses a hybrid layout; boot with "
			   "systemd.unified_cgroup_hierarchy=1"));
}

/* What `cay serve` asks before it starts, and what it goes on without. */
void check_capability(struct doctor *d)
{
	autofree char *needed = rights_missing(RIGHTS_NEEDED);
	autofree char *wanted = rights_missing(RIGHTS_WANTED);
	autoptr(err) confined = rights_confined();

	doctor_say(d, "capabilities",
		   needed   ? VERDICT_FAIL
		   : wanted ? VERDICT_WARN
			    : VERDICT_OK,
		   needed   ? xasprintf("this process lacks %s", needed)
		   : wanted ? xasprintf("this process lacks %s", wanted)
			    : xstrdup("this process has the capabilities it needs"),
		   rights_remedy(needed ? RIGHTS_NEEDED : RIGHTS_WANTED));
	if (geteuid() != 0 || needed)
		return; /* these must be there before anything can keep us from using them */
	doctor_say(d, "confinement",
		   confined                    ? VERDICT_FAIL
		   : rights_sysctl_read_only() ? VERDICT_WARN
					       : VERDICT_OK,
		   xstrdup(confined ? err_text(confined)
			   : rights_sysctl_read_only()
				   ? "/proc/sys is read-only, so sandboxes have no way out"
				   : "nothing keeps this process from using them"),
		   confined ? NULL : xstrdup("start the container with --privileged"));
}

/* The image `host` is this machine's /usr with a few files of /etc. */
void check_host_image(struct doctor *d)
{
	static const struct {
		const char *path, *fix;
	} rows[] = {
		{ "/etc/ld.so.cache", "run ldconfig" },
		{ "/etc/alternatives", "reinstall dpkg, or use an image of your own" },
		{ "/etc/ssl/certs/ca-certificates.crt", "install ca-certificates" },
	};
	autobuf missing = { 0 }, fix = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!file_exists(AT_FDCWD, rows[i].path)) {
			add_name(&missing, rows[i].path);
			add_name(&fix, rows[i].fix);
		}
	doctor_say(d, "host-image", missing.len ? VERDICT_WARN : VERDICT_OK,
		   missing.len ? xasprintf("the image host lacks %s", buf_str(&missing))
			       : xstrdup("the image host is complete"),
		   xstrdup(buf_str(&fix)));
}

/* What the daemon sets in every network, as the sandbox's root cannot. */
void check_network(struct doctor *d)
{
	bool ports = file_exists(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start") &&
		     file_exists(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range");
	bool v6 = file_exists(AT_FDCWD, "/proc/sys/net/ipv6");

	doctor_say(d, "low-ports", ports ? VERDICT_OK : VERDICT_WARN,
		   xasprintf("sandboxes %s ports below 1024 and ping",
			     ports ? "can use" : "cannot use"),
		   xstrdup("use Linux 4.11 or later, with /proc/sys writable for the daemon"));
	doctor_say(d, "ipv6", v6 ? VERDICT_OK : VERDICT_WARN,
		   xasprintf("the kernel %s IPv6", v6 ? "has" : "lacks"),
		   xstrdup("boot without ipv6.disable=1, or modprobe ipv6"));
}

/* Idle sandboxes can be pushed out of memory if there is a place for them. */
void check_sleep(struct doctor *d)
{
	bool call = has_call(SYS_process_madvise), swap = host_has_swap();

	doctor_say(
		d, "swap", swap && call ? VERDICT_OK : VERDICT_WARN,
		xstrdup(!call  ? "the kernel lacks process_madvise"
			: swap ? "there is swap space for idle sandboxes"
			       : "there is no swap space, so that idle sandboxes stay in memory"),
		xstrdup(call ? "add compressed swap: modprobe zram, then zramctl, mkswap and "
			       "swapon"
			     : "use Linux 5.10 or later"));
}
