/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"

#define ROW(name, needed, what) { #name, name, needed, what }

/* Most were taken away alone, and what then failed is what it says here. For SETUID, NET_RAW,
 * SYS_CHROOT, SYS_NICE and SYS_RESOURCE it is what the code uses them for. */
static const struct {
	const char *name;
	int number;
	bool needed;
	const char *what;
} rows[] = {
	ROW(CAP_SYS_ADMIN, true, "namespaces and mounts"),
	ROW(CAP_NET_ADMIN, true, "networks and the packet filter"),
	ROW(CAP_SYS_PTRACE, true, "the namespaces of a sandbox's processes"),
	ROW(CAP_MKNOD, true, "devices of sandboxes"),
	ROW(CAP_SETUID, true, "ids of sandboxes"),
	ROW(CAP_SETGID, true, "ids of sandboxes"),
	ROW(CAP_CHOWN, true, "owners of files in images and volumes"),
	ROW(CAP_DAC_OVERRIDE, true, "files and control groups of others"),
	ROW(CAP_KILL, true, "the end of sandboxes"),
	ROW(CAP_FOWNER, false, "modes of files that another user of the sandbox owns"),
	ROW(CAP_FSETID, false, "set-group-id bits that survive a change of mode"),
	ROW(CAP_NET_BIND_SERVICE, false, "the name server and the outlet of sandboxes"),
	ROW(CAP_NET_RAW, false, "sleeping sandboxes that wake by a packet"),
	ROW(CAP_SYS_CHROOT, false, "chroot in sandboxes"),
	ROW(CAP_SYS_NICE, false, "launches before background work"),
	ROW(CAP_SYS_RESOURCE, false, "limits of open files, and protection from the OOM killer"),
};

bool rights_held(int cap)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct half[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return !syscall(SYS_capget, &h, half) && half[cap / 32].effective >> cap % 32 & 1;
}

static bool is_missing(size_t i, enum rights_ask which)
{
	return rows[i].needed == (which == RIGHTS_NEEDED) && !rights_held(rows[i].number);
}

char *rights_missing(enum rights_ask which)
{
	autobuf text = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (is_missing(i, which))
			buf_printf(&text, "%s%s (%s)", text.len ? ", " : "", rows[i].name,
				   rows[i].what);
	return text.len ? buf_steal(&text, NULL) : NULL;
}

char *rights_remedy(enum rights_ask which)
{
	autobuf flags = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (is_missing(i, which))
			buf_printf(&flags, " --cap-add %s", rows[i].name + strlen("CAP_"));
	return xasprintf("start a container with --privileged, or with%s; in a unit, leave them in "
			 "CapabilityBoundingSet=",
			 buf_str(&flags));
}

/* Only the first user namespace has this number; root of any other has rights over nothing that
 * the host owns. */
static bool is_hosts_root(void)
{
	enum {
		FIRST = 0xEFFFFFFDu
	};
	struct stat st;

	return stat("/proc/self/ns/user", &st) < 0 || st.st_ino == FIRST;
}

/* The calls of the launcher that filters of containers like to refuse. With arguments like these
 * none of them does anything, but for one that a filter stops the kernel never sees them. */
static char *filtered_calls(void)
{
	static const struct {
		const char *name;
		long number;
	} calls[] = {
		{ "unshare", SYS_unshare },       { "setns", SYS_setns },
		{ "mount", SYS_mount },           { "pivot_root", SYS_pivot_root },
		{ "open_tree", SYS_open_tree },   { "move_mount", SYS_move_mount },
		{ "fsopen", SYS_fsopen },         { "mount_setattr", SYS_mount_setattr },
		{ "pidfd_open", SYS_pidfd_open },
	};
	autobuf text = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		bool first_is_flags = calls[i].number == SYS_unshare;

		if (syscall(calls[i].number, first_is_flags ? 0L : -1L, NULL, -1L, NULL, 0L, 0L) <
			    0 &&
		    errno == EPERM)
			buf_printf(&text, "%s%s", text.len ? ", " : "", calls[i].name);
	}
	return text.len ? buf_steal(&text, NULL) : NULL;
}

static bool is_read_only(const char *path)
{
	return access(path, W_OK) < 0 && errno == EROFS;
}

/* A hybrid layout has a read-only tmpfs there, and the trees below it are what counts. */
static bool is_v2(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) && (long)fs.f_type == CGROUP2_SUPER_MAGIC;
}

struct err *rights_confined(void)
{
	autofree char *calls = NULL;

	if (!is_hosts_root())
		return err_new(ERR_FORBIDDEN,
			       "this is root of a user namespace, as in a rootless container, and "
			       "not of the host; start it, or the container, as root of the host");
	calls = filtered_calls();
	if (calls)
		return err_new(ERR_FORBIDDEN,
			       "a filter refuses the system calls %s; start the container with "
			       "--privileged or --security-opt seccomp=unconfined, and a unit "
			       "without SystemCallFilter=",
			       calls);
	if (is_v2("/sys/fs/cgroup") && is_read_only("/sys/fs/cgroup"))
		return err_new(ERR_FORBIDDEN,
			       "/sys/fs/cgroup is read-only, and every sandbox needs a control "
			       "group; start the container with --privileged, or mount it with -v "
			       "/sys/fs/cgroup:/sys/fs/cgroup:rw");
	return NULL;
}

bool rights_sysctl_read_only(void)
{
	return is_read_only("/proc/sys/net/ipv4/ip_forward");
}

struct err *rights_check(void)
{
	autofree char *missing = NULL, *remedy = NULL;

	if (geteuid() != 0)
		return err_new(
			ERR_FORBIDDEN,
			"cay serve needs root, to make namespaces, control groups and links, and "
			"runs as user %u; use sudo, or the service (systemctl start cay)",
			(unsigned)geteuid());
	missing = rights_missing(RIGHTS_NEEDED);
	if (missing) {
		remedy = rights_remedy(RIGHTS_NEEDED);
		return err_new(ERR_FORBIDDEN, "root lacks %s; %s", missing, remedy);
	}
	return rights_confined();
}
