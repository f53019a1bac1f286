/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/wall.h"
#include "node/launch/launch_priv.h"

/* The stage of a slot, and on it /dev and /proc, which are the same in every root. */
#define PTY_MAX ",max=64" /* the machine has some thousands for all sandboxes */

static const struct {
	const char *name;
	unsigned major, minor;
} devices[] = {
	{ "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
	{ "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};
static const struct {
	const char *name, *to;
} dev_links[] = {
	{ "ptmx", "pts/ptmx" },          { "fd", "/proc/self/fd" },
	{ "stdin", "/proc/self/fd/0" },  { "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};
/* What tells about the machine, or its other tenants, and is no use inside. A kernel may lack some;
 * it may also come to have them later, with a module. */
static const char *const masked_files[] = {
	"buddyinfo",   "cmdline",     "config.gz",   "consoles",   "diskstats",    "dma",
	"interrupts",  "iomem",       "ioports",     "kallsyms",   "kcore",        "key-users",
	"keys",        "kmsg",        "kpagecgroup", "kpagecount", "kpageflags",   "latency_stats",
	"locks",       "mdstat",      "modules",     "mtrr",       "pagetypeinfo", "partitions",
	"sched_debug", "schedstat",   "slabinfo",    "softirqs",   "swaps",        "sysrq-trigger",
	"timer_list",  "vmallocinfo", "vmcore",      "zoneinfo",
};
static const char *const masked_dirs[] = {
	"acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi", "tty/driver",
};
static const char *const read_only[] = { "sys" };
static_assert(ARRAY_LEN(masked_files) <= 64 && ARRAY_LEN(masked_dirs) <= 64, "a bit for each");

static struct err *make_devices(int dev)
{
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		dev_t d = makedev(devices[i].major, devices[i].minor);

		if (mknodat(dev, devices[i].name, S_IFCHR | 0666, d) < 0)
			return err_sys(errno, "create device %s", devices[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(dev_links); i++)
		if (symlinkat(dev_links[i].to, dev, dev_links[i].name) < 0)
			return err_sys(errno, "link device %s", dev_links[i].name);
	if (mkdirat(dev, "shm", 01777) < 0 || mkdirat(dev, "pts", 0755) < 0)
		return err_sys(errno, "create device directories");
	/* Where a container leaves its last words by default: everybody inside may write there. */
	if (mknodat(dev, "termination-log", S_IFREG | 0666, 0) < 0)
		return err_sys(errno, "create the termination log");
	return NULL;
}

/* A part of the stage's own tmpfs: one more file system would cost every control group of the
 * machine memory for its shrinker. Only shm and termination-log can be written to by the sandbox.
 */
static struct err *mount_dev(void)
{
	unsigned flags = mount_flags(MS_NOSUID | MS_NOEXEC);

	if (mount("dev", "dev", NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, "dev", NULL, MS_BIND | MS_REMOUNT | flags, NULL) < 0)
		return err_sys(errno, "mount the device directory");
	return NULL;
}

static struct err *prepare_dev(struct slot *s)
{
	autofree char *pts = xasprintf("newinstance,ptmxmode=0666,mode=0620,gid=%u%s",
				       s->spec->base + 5, wall_stands("pty-max") ? PTY_MAX : "");
	autoclose dev = -1;
	struct err *e;
	mode_t old;

	e = mount_dev();
	if (e)
		return e;
	dev = openat(s->stage_fd, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dev < 0)
		return err_sys(errno, "open the device directory");
	old = umask(0);
	e = make_devices(dev);
	(void)umask(old);
	if (e)
		return e;
	s->null = openat(dev, "null", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (s->null < 0)
		return err_sys(errno, "open the device null");
	if (mount("devpts", "dev/pts", "devpts", mount_flags(MS_NOSUID | MS_NOEXEC), pts) < 0)
		return err_sys(errno, "mount devpts");
	return NULL;
}

static struct err *bind_over(const char *from, const char *to, bool readonly)
{
	if (mount(from, to, NULL, MS_BIND, NULL) < 0)
		return errno == ENOENT ? NULL : err_sys(errno, "mask %s", to);
	if (readonly &&
	    mount(NULL, to, NULL,
		  mount_flags(MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC),
		  NULL) < 0)
		return err_sys(errno, "make %s read-only", to);
	return NULL;
}

/* from: NULL, bound to itself and made read-only. except: bits of names that need no mask. */
static struct err *mask_each(const char *const names[], size_t n, const char *from, uint64_t except)
{
	struct err *e = NULL;
	char to[64];

	for (size_t i = 0; i < n && !e; i++) {
		if (except >> i & 1)
			continue;
		(void)snprintf(to, sizeof(to), "proc/%s", names[i]);
		e = bind_over(from ? from : to, to, !from);
	}
	return e;
}

/* Root of the host owns it and nobody else may do anything with it: no user of a sandbox is that
 * root, and no capability counts for files whose owner the sandbox does not have. */
static bool closed(int proc, const char *name)
{
	struct stat st;

	return !fstatat(proc, name, &st, AT_SYMLINK_NOFOLLOW) && !st.st_uid && !st.st_gid &&
	       !(st.st_mode & S_IRWXO) && wall_stands("user-namespace");
}

static uint64_t closed_among(int proc, const char *const names[], size_t n)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++)
		if (closed(proc, names[i]))
			bits |= UINT64_C(1) << i;
	return bits;
}

struct err *root_look_at_proc(struct launcher *l)
{
	autoclose proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc < 0)
		return err_sys(errno, "open /proc");
	l->closed_files = closed_among(proc, masked_files, ARRAY_LEN(masked_files));
	l->closed_dirs = closed_among(proc, masked_dirs, ARRAY_LEN(masked_dirs));
	return NULL;
}

const char *root_masked(size_t i)
{
	size_t n_files = wall_stands("proc-files") ? ARRAY_LEN(masked_files) : 0;
	size_t n_dirs = wall_stands("proc-dirs") ? ARRAY_LEN(masked_dirs) : 0;

	if (i < n_files)
		return masked_files[i];
	return i - n_files < n_dirs ? masked_dirs[i - n_files] : NULL;
}

/* What is bound has the flags of what it is bound from: "empty" is made read-only once. */
struct err *root_mask_proc(const struct launcher *l)
{
	struct err *e = bind_over("empty", "empty", true);

	if (!e && wall_stands("proc-files"))
		e = mask_each(masked_files, ARRAY_LEN(masked_files), "dev/null", l->closed_files);
	if (!e && wall_stands("proc-dirs"))
		e = mask_each(masked_dirs, ARRAY_LEN(masked_dirs), "empty", l->closed_dirs);
	if (!e && wall_stands("proc-read-only"))
		e = mask_each(read_only, ARRAY_LEN(read_only), NULL, 0);
	return e;
}

static struct err *prepare_stage(struct slot *s)
{
	static const char *const dirs[] = { "root", "dev", "proc", "empty", "u" };
	struct err *e;

	if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
		return err_sys(errno, "make the mount namespace private");
	e = mount_tmpfs(s->l->stage, "mode=0700,size=64m,nr_inodes=16k", MS_NOSUID | MS_NODEV);
	if (e)
		return e;
	s->stage_fd = open(s->l->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->stage_fd < 0 || fchdir(s->stage_fd) < 0)
		return err_sys(errno, "enter the stage");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_sys(errno, "create %s below the stage", dirs[i]);
	return NULL;
}

struct err *root_prepare(struct slot *s)
{
	struct err *e = prepare_stage(s);

	if (!e)
		e = prepare_dev(s);
	if (e)
		return e;
	if (mount("proc", "proc", "proc", mount_flags(MS_NOSUID | MS_NODEV | MS_NOEXEC), NULL) < 0)
		return err_sys(errno, "mount proc");
	return NULL;
}
