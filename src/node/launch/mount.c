/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/launch/launch.h"

/*
 * Mounts of a slot. Sources are opened by descriptor and cloned from there; targets are found below
 * the new root without ever leaving it, whatever links an image or a shared volume holds.
 */
struct err *mount_tmpfs(const char *at, const char *options, unsigned long flags)
{
	if (mount("tmpfs", at, "tmpfs", flags, options) < 0)
		return err_sys(errno, "mount tmpfs at %s", at);
	return NULL;
}

static int set_attrs(int tree, uint64_t attrs, int userns)
{
	struct mount_attr a = { .attr_set = attrs };

	if (userns >= 0) {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (uint64_t)userns;
	}
	return mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof(a));
}

struct err *mount_clone(struct slot *s, int from_fd, bool readonly, int *ret_tree)
{
	uint64_t attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (readonly ? MOUNT_ATTR_RDONLY : 0);
	autoclose tree =
		open_tree(from_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (tree < 0)
		return err_sys(errno, "clone a mount");
	s->mapped = !set_attrs(tree, attrs, s->userns);
	/* A file system that cannot be mapped: what is written to must be owned by the slot. */
	if (!s->mapped && set_attrs(tree, attrs, -1) < 0)
		return err_sys(errno, "set mount attributes");
	if (!s->mapped && !readonly &&
	    fchownat(from_fd, "", s->spec->base, s->spec->base,
		     AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "change owner of a volume");
	*ret_tree = take_fd(tree);
	return NULL;
}

struct err *mount_move(int tree, int to_fd)
{
	if (move_mount(tree, "", to_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(errno, "attach a mount");
	return NULL;
}

static struct err *make_target(int root, const char *path, bool file)
{
	autofree char *parent = xstrdup(path);
	char *slash = strrchr(parent, '/');
	autoclose dir = -1, made = -1;
	struct err *e;

	if (!slash || !slash[1])
		return err_new(ERR_INVALID, "make mount target %s", path);
	*slash = '\0';
	e = root_open_target(root, *parent ? parent : "/", false, &dir);
	if (e)
		return e;
	if (!file) {
		if (mkdirat(dir, slash + 1, 0755) < 0 && errno != EEXIST)
			return err_sys(errno, "make mount target %s", path);
		return NULL;
	}
	made = openat(dir, slash + 1, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (made < 0 && errno != EEXIST)
		return err_sys(errno, "make mount target %s", path);
	return NULL;
}

struct err *root_open_target(int root, const char *path, bool file, int *ret)
{
	int flags = O_PATH | (file ? 0 : O_DIRECTORY);
	struct err *e = file_open_in_root(root, path, flags, 0, ret);

	if (!err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	e = make_target(root, path, file);
	if (e)
		return e;
	return file_open_in_root(root, path, flags, 0, ret);
}

/* Inside the volume only: its owner may have put links there. What is missing is made as on disk
 * the sandbox's root would have made it. */
static struct err *open_sub_path(struct slot *s, int volume, const char *sub, bool file, int *ret)
{
	autofree char *path = xasprintf("/%s", sub);
	struct err *e = become(0);

	if (!e)
		e = root_open_target(volume, path, file, ret);
	if (!e)
		e = become(s->spec->base);
	return err_wrap(e, "open subPath %s", sub);
}

/* The directory of a volume that nobody has used yet; on disk it is the sandbox's root's. */
static struct err *make_volume(const struct json *m)
{
	const char *from = json_get_str(m, "from");
	gid_t group = (gid_t)json_get_int(m, "group", 0);
	autofree char *parent = NULL;

	if (!json_get_bool(m, "make", false))
		return NULL;
	parent = xstrndup(from, (size_t)(strrchr(from, '/') - from));
	if (mkdir(parent, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "make %s", parent);
	if (mkdir(from, 0777) < 0)
		return errno == EEXIST ? NULL : err_sys(errno, "make volume %s", from);
	if (chmod(from, group ? 02777 : 0777) < 0 || chown(from, 0, group) < 0)
		return err_sys(errno, "open volume %s", from);
	return NULL;
}

static struct err *mount_bind_volume(struct slot *s, int root, const struct json *m)
{
	const char *from = json_get_str(m, "from"), *sub = json_get_str(m, "sub");
	bool file = json_get_bool(m, "file", false);
	autoclose top = open(from, O_PATH | O_CLOEXEC | O_NOFOLLOW), below = -1, tree = -1, to = -1;
	struct err *e;

	if (top < 0)
		return err_sys(errno, "open volume %s", from);
	if (!str_empty(sub)) {
		e = open_sub_path(s, top, sub, file, &below);
		if (e)
			return e;
	}
	e = mount_clone(s, below >= 0 ? below : top, json_get_bool(m, "readonly", false), &tree);
	if (!e)
		e = root_open_target(root, json_get_str(m, "to"), file, &to);
	return e ? e : mount_move(tree, to);
}

static struct err *mount_memory_volume(struct slot *s, int root, const struct json *m)
{
	autofree char *options = NULL;
	autoclose to = -1;
	char at[64];
	struct err *e = root_open_target(root, json_get_str(m, "to"), false, &to);

	if (e)
		return e;
	options = xasprintf("mode=0777,uid=%u,gid=%u%s%lld", s->spec->base, s->spec->base,
			    json_get_int(m, "size", 0) ? ",size=" : ",nr_inodes=",
			    json_get_int(m, "size", 0) ? (long long)json_get_int(m, "size", 0)
						       : 1000000LL);
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", to);
	return mount_tmpfs(at, options, MS_NOSUID | MS_NODEV);
}

struct err *root_mount_volumes(struct slot *s, int root, const struct json *mounts)
{
	struct err *e = json_len(mounts) ? become(0) : NULL;

	json_each(m, mounts)
		if (!e)
			e = make_volume(m.val);
	if (!e && json_len(mounts))
		e = become(s->spec->base);
	if (e)
		return e;
	json_each(m, mounts) {
		const char *to = json_get_str(m.val, "to");

		e = json_get_bool(m.val, "memory", false) ? mount_memory_volume(s, root, m.val)
							  : mount_bind_volume(s, root, m.val);

		if (e)
			return err_wrap(e, "mount %s", to);
	}
	return NULL;
}
