/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "base/wall.h"
#include "node/launch/launch_priv.h"

/*
 * Directories and files of the host that the operator allows Pods to mount. No link is followed, in
 * the allowed directory or on the way to it: other sandboxes may write there, and a link could lead
 * to what is allowed to be read only, or not at all. Only directories and regular files are
 * mounted, and none of a file system that shows the kernel.
 *
 * The ids stay the host's: inside, everything belongs to nobody, and root of a sandbox may do what
 * any stranger on the host may do. So the way from the allowed directory is gone, and what is
 * missing made, with the rights of such a stranger, and no other file system is entered.
 */
static const struct {
	int64_t magic;
	const char *name;
} kernel_file_systems[] = {
	{ PROC_SUPER_MAGIC, "proc" },       { SYSFS_MAGIC, "sysfs" },
	{ CGROUP_SUPER_MAGIC, "cgroup" },   { CGROUP2_SUPER_MAGIC, "cgroup2" },
	{ DEBUGFS_MAGIC, "debugfs" },       { TRACEFS_MAGIC, "tracefs" },
	{ SECURITYFS_MAGIC, "securityfs" }, { BPF_FS_MAGIC, "bpf" },
	{ DEVPTS_SUPER_MAGIC, "devpts" },   { NSFS_MAGIC, "nsfs" },
	{ 0x62656570, "configfs" },         { 0x6165676c, "pstore" },
	{ 0xde5e81e4, "efivarfs" },         { 0x19800202, "mqueue" },
	{ 0x42494e4d, "binfmt_misc" },      { 0xf97cff8c, "selinuxfs" },
};

static int open_below(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = resolve | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	if (!wall_stands("host-path-links"))
		return openat(dir, path, flags | O_CLOEXEC);
	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static int open_inside(int top, const char *path, int flags)
{
	return open_below(top, path, flags, RESOLVE_BENEATH | RESOLVE_NO_XDEV);
}

/* Its parent must exist: only the last name is made, for everybody to use. What was there before,
 * or was put there meanwhile, is left as it is. */
static struct err *create(const struct slot *s, int top, const struct plan_mount *m)
{
	autofree char *parent = xstrdup(m->sub);
	char *slash = strrchr(parent, '/'), *name = slash ? slash + 1 : parent;
	bool is_dir = m->host == PLAN_HOST_DIR_MADE;
	autoclose dir = -1, made = -1;
	struct stat st;

	if (slash)
		*slash = '\0';
	dir = open_inside(top, slash ? parent : ".", O_PATH | O_DIRECTORY);
	if (dir < 0)
		return err_sys(errno, "open the parent of %s/%s", m->from, m->sub);
	if (is_dir && mkdirat(dir, name, 0700) < 0)
		return errno == EEXIST ? NULL : err_sys(errno, "create %s/%s", m->from, m->sub);
	made = is_dir ? open_inside(dir, name, O_RDONLY | O_DIRECTORY)
		      : openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
			       0600);
	if (made < 0 && errno == EEXIST)
		return NULL;
	if (made < 0 || fstat(made, &st) < 0)
		return err_sys(errno, "create %s/%s", m->from, m->sub);
	if (st.st_uid != s->spec->base)
		return err_new(ERR_CONFLICT, "somebody replaced %s/%s as it was made", m->from,
			       m->sub);
	return fchmod(made, is_dir ? 01777 : 0666) < 0
		       ? err_sys(errno, "create %s/%s", m->from, m->sub)
		       : NULL;
}

static struct err *check_kind(int fd, const struct plan_mount *m, bool *ret_file)
{
	bool any = m->host == PLAN_HOST_ANY;
	bool file = m->host == PLAN_HOST_FILE || m->host == PLAN_HOST_FILE_MADE;
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return err_sys(errno, "look at %s/%s", m->from, str_or(m->sub, ""));
	for (size_t i = 0; i < ARRAY_LEN(kernel_file_systems); i++)
		if ((uint32_t)fs.f_type == (uint32_t)kernel_file_systems[i].magic)
			return err_new(ERR_INVALID, "hostPath %s/%s is on a %s file system",
				       m->from, str_or(m->sub, ""), kernel_file_systems[i].name);
	if (!(S_ISDIR(st.st_mode) && (any || !file)) && !(S_ISREG(st.st_mode) && (any || file)))
		return err_new(ERR_INVALID, "hostPath %s/%s is not a %s", m->from,
			       str_or(m->sub, ""),
			       any    ? "directory or regular file"
			       : file ? "regular file"
				      : "directory");
	*ret_file = S_ISREG(st.st_mode);
	return NULL;
}

/* As a stranger, from the allowed directory on. */
static struct err *open_as_stranger(const struct slot *s, int top, const struct plan_mount *m,
				    int *ret)
{
	bool makes = m->host == PLAN_HOST_DIR_MADE || m->host == PLAN_HOST_FILE_MADE;
	const char *sub = str_empty(m->sub) ? "." : m->sub;
	struct err *e;

	*ret = open_inside(top, sub, O_PATH);
	if (*ret < 0 && errno == ENOENT && makes && !str_empty(m->sub)) {
		e = create(s, top, m);
		if (e)
			return e;
		*ret = open_inside(top, sub, O_PATH);
	}
	if (*ret >= 0)
		return NULL;
	if (errno == ELOOP)
		return err_new(ERR_INVALID, "hostPath %s/%s leads over a symbolic link", m->from,
			       sub);
	if (errno == EXDEV)
		return err_new(ERR_INVALID, "hostPath %s/%s leads to another file system", m->from,
			       sub);
	return err_sys(errno, "open %s/%s", m->from, sub);
}

/* Without capabilities over files, which go with the id, and without groups. */
static struct err *become_stranger(const struct slot *s)
{
	if (!wall_stands("host-path-ids"))
		return NULL;
	if (setgroups(0, NULL) < 0)
		return err_sys(errno, "leave all groups");
	(void)setfsgid(s->spec->base);
	(void)setfsuid(s->spec->base);
	return NULL;
}

struct err *host_path_open(const struct slot *s, const struct plan_mount *m, int *ret,
			   bool *ret_file)
{
	autoclose top = open_below(AT_FDCWD, m->from, O_PATH | O_DIRECTORY, 0), fd = -1;
	struct err *e, *back;

	if (top < 0)
		return err_sys(errno, "open %s", m->from);
	e = become_stranger(s);
	if (!e)
		e = open_as_stranger(s, top, m, &fd);
	back = become(0);
	if (e || back) {
		err_free(e ? back : NULL);
		return e ? e : back;
	}
	e = check_kind(fd, m, ret_file);
	if (!e)
		*ret = take_fd(fd);
	return e;
}
