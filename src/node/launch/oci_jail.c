/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/launch/oci_priv.h"

/*
 * The jail: the root in which an OCI runtime runs. It is root of the host and works on what a
 * sandbox has made, so it sees no more of the host than programs and libraries, read-only:
 *
 *   /usr /etc/ld.so.cache   the host's; /bin, /lib and their like as they are there
 *   /proc                   of the slot's process namespace
 *   /sys/fs/cgroup          the slot's own group of the second version, read-only and empty of
 *                           controllers: for runtimes that insist on one
 *   /dev                    the sandbox's
 *   /run                    the container's root and what oci_priv.h names
 *
 * A runtime that a container tricks into opening a file of "the host" opens one of these.
 */
static const char *const dirs[] = {
	"usr", "proc", "sys",      "sys/fs",     "sys/fs/cgroup", "dev",     "etc",
	"tmp", "run",  "run/root", "run/bundle", "run/volumes",   "run/kit", "run/state",
};
static const char *const top_dirs[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

static struct err *bind_read_only(const char *from, const char *to)
{
	struct mount_attr ro = { .attr_set =
					 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
				 .propagation = mount_propagation() };
	autoclose tree =
		open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (tree < 0 ||
	    mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &ro, sizeof(ro)) < 0 ||
	    move_mount(tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(errno, "show %s to the runtime", from);
	return NULL;
}

struct err *oci_put(const char *path, const void *data, size_t len, mode_t mode)
{
	autoclose fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	return fd < 0 ? err_sys(errno, "create %s", path) : fd_write_all(fd, data, len);
}

static struct err *make_empty(const char *path)
{
	return oci_put(path, "", 0, 0600);
}

/* Below the jail, which is the working directory. */
static struct err *make_dirs(const char *path)
{
	autofree char *p = xstrdup(path);

	for (char *slash = strchr(p, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST)
			return err_sys(errno, "create %s", p);
		*slash = '/';
	}
	if (mkdir(p, 0755) < 0 && errno != EEXIST)
		return err_sys(errno, "create %s", p);
	return NULL;
}

/* On most systems a link into /usr. */
static struct err *show_top(const char *name)
{
	autofree char *from = xasprintf("/%s", name);
	char to[64];
	ssize_t n = readlink(from, to, sizeof(to) - 1);

	if (n < 0 && errno == ENOENT)
		return NULL;
	if (n < 0) {
		struct err *e = make_dirs(name);

		return e ? e : bind_read_only(from, name);
	}
	to[n] = '\0';
	return symlink(to, name) < 0 ? err_sys(errno, "link %s", name) : NULL;
}

/* A program that was installed somewhere else, with the files beside it. */
static struct err *show_program(const char *program)
{
	autofree char *dir = xstrndup(program, (size_t)(strrchr(program, '/') - program));
	struct err *e;

	if (str_starts(program, "/usr/"))
		return NULL;
	if (!*dir)
		return err_new(ERR_INVALID, "runtime %s is in the root directory", program);
	e = make_dirs(dir + 1);
	return e ? e : bind_read_only(dir, dir + 1);
}

/* Of /etc, what finds libraries. */
static struct err *show_etc(void)
{
	struct err *e;

	if (!wall_stands("runtime-jail"))
		return bind_read_only("/etc", "etc");
	if (!file_exists(AT_FDCWD, "/etc/ld.so.cache"))
		return NULL;
	e = make_empty("etc/ld.so.cache");
	return e ? e : bind_read_only("/etc/ld.so.cache", "etc/ld.so.cache");
}

static struct err *show_host(const char *program)
{
	struct err *e = bind_read_only("/usr", "usr");

	for (size_t i = 0; i < ARRAY_LEN(top_dirs) && !e; i++)
		e = show_top(top_dirs[i]);
	if (!e)
		e = show_etc();
	return e ? e : show_program(program);
}

static struct err *show_kernel(void)
{
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_sys(errno, "mount proc");
	/* Where there is none, a runtime that insists on it says so. */
	(void)mount("cgroup2", "sys/fs/cgroup", "cgroup2",
		    MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL);
	return NULL;
}

/* The root moves with all that is mounted in it, but proc is made anew, for another namespace, and
 * /dev is mounted by the runtime. keep_dev: it covers /dev with its own, but makes what it mounts
 * there below the root first, which may be read-only. */
static struct err *show_container(struct slot *s, bool keep_dev)
{
	unsigned flags = keep_dev ? OPEN_TREE_CLONE | AT_RECURSIVE : 0;
	autoclose dev = open_tree(s->root_fd, "dev", OPEN_TREE_CLOEXEC | flags);
	char ns[64];

	if (dev < 0 || move_mount(dev, "", AT_FDCWD, "dev", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(errno, "move /dev out of the root");
	if (umount2("../root/proc", MNT_DETACH) < 0)
		return err_sys(errno, "unmount /proc of the root");
	if (move_mount(s->stage_fd, "root", AT_FDCWD, "run/root", 0) < 0)
		return err_sys(errno, "move the root");
	(void)snprintf(ns, sizeof(ns), "/proc/self/fd/%d", s->userns);
	if (mount(ns, "run/userns", NULL, MS_BIND, NULL) < 0)
		return err_sys(errno, "show the user namespace to the runtime");
	return NULL;
}

/* The volumes once more, each by itself. They are found below the root as they were when they were
 * mounted there; the runtime would follow links of the image. */
static struct err *show_volumes(const struct slot *s, const struct plan *plan)
{
	for (size_t i = 0; i < plan->n_mounts; i++) {
		const struct plan_mount *m = &plan->mounts[i];
		autofree char *to = xasprintf(OCI_VOLUME, i);
		autoclose from = -1, tree = -1;
		struct err *e = file_open_in_root(s->root_fd, m->to, O_PATH, 0, &from);
		struct stat st;

		if (!e && fstat(from, &st) < 0)
			e = err_sys(errno, "look at %s", m->to);
		else if (!e && S_ISREG(st.st_mode))
			e = make_empty(to + 1);
		else if (!e && mkdir(to + 1, 0755) < 0)
			e = err_sys(errno, "create %s", to);
		if (e)
			return e;
		tree = open_tree(from, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
		if (tree < 0 || move_mount(tree, "", AT_FDCWD, to + 1, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return err_sys(errno, "show %s to the runtime", m->to);
	}
	return NULL;
}

static struct err *copy_init(const struct slot *s)
{
	autoclose to = open("run/kit/init", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	off_t at = 0;
	ssize_t n;

	if (to < 0)
		return err_sys(errno, "create cay-init for the runtime");
	do
		n = sendfile(to, s->l->init_fd, &at, 1 << 20);
	while (n > 0);
	return n < 0 ? err_sys(errno, "copy cay-init for the runtime") : NULL;
}

/* The filter is the very same program that a slot installs for itself: cay-init installs it. */
static struct err *make_kit(const struct slot *s)
{
	const struct sock_fprog *f = &s->l->filter;
	struct err *e = copy_init(s);

	return e ? e : oci_put("run/kit/filter", f->filter, f->len * sizeof(*f->filter), 0644);
}

static struct err *make_tree(struct slot *s)
{
	struct err *e;

	if (mkdirat(s->stage_fd, "jail", 0755) < 0)
		return err_sys(errno, "create the jail");
	if (fchdir(s->stage_fd) < 0)
		return err_sys(errno, "enter the stage");
	e = mount_tmpfs("jail", "mode=0755,size=16m", MS_NOSUID | MS_NODEV);
	if (e)
		return e;
	if (chdir("jail") < 0)
		return err_sys(errno, "enter the jail");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_sys(errno, "create %s in the jail", dirs[i]);
	return make_empty("run/userns");
}

struct err *oci_jail_enter(struct slot *s, const struct plan *plan, const struct oci_style *style)
{
	struct err *e = become(0);
	autoclose jail = -1;

	if (!e)
		e = make_tree(s);
	if (!e)
		e = show_host(plan->oci.program);
	if (!e)
		e = show_kernel();
	if (!e)
		e = make_kit(s);
	if (!e)
		e = style->own_kernel ? show_volumes(s, plan) : NULL;
	if (!e)
		e = show_container(s, style->own_kernel);
	if (e)
		return e;
	/* The runtime mounts the kit there; a sandbox cannot make anything in /dev. */
	if (mkdir("dev/cay", 0755) < 0)
		return err_sys(errno, "create /dev/cay");
	jail = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (jail < 0)
		return err_sys(errno, "open the jail");
	return root_pivot(jail);
}
