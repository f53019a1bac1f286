/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/disk/disk.h"
#include "node/launch/launch_priv.h"

/*
 * Mounts of a slot. Sources are opened by descriptor and cloned from there; targets are found below
 * the new root without ever leaving it, whatever links an image or a shared volume holds.
 */
static_assert(MS_NOSUID == MOUNT_ATTR_NOSUID && MS_NODEV == MOUNT_ATTR_NODEV,
	      "one function takes both kinds of flags");

unsigned mount_flags(unsigned flags)
{
	if (!wall_stands("nosuid"))
		flags &= ~(unsigned)MS_NOSUID;
	if (!wall_stands("nodev"))
		flags &= ~(unsigned)MS_NODEV;
	return flags;
}

struct err *mount_tmpfs(const char *at, const char *options, unsigned flags)
{
	if (mount("tmpfs", at, "tmpfs", mount_flags(flags), options) < 0)
		return err_sys(errno, "mount tmpfs at %s", at);
	return NULL;
}

/* Private: what the host mounts later below the place that a tree was cloned from stays there. */
uint64_t mount_propagation(void)
{
	return wall_stands("mount-propagation") ? MS_PRIVATE : 0;
}

static int set_attrs(int tree, uint64_t attrs, int userns)
{
	struct mount_attr a = { .attr_set = attrs, .propagation = mount_propagation() };

	if (userns >= 0) {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (uint64_t)userns;
	}
	return mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof(a));
}

/* Of a kind of file system that was not tried, the kernel is asked. */
static bool may_map(const struct slot *s, int from_fd, enum clone_ids ids)
{
	const struct features *fs = &s->l->features;
	struct statfs here, disk;

	if (ids == CLONE_IDS_HOST ||
	    (ids == CLONE_IDS_LAYER && !features_have(fs, FEATURE_OVERLAY_IDMAP)))
		return false;
	if (fstatfs(from_fd, &here) < 0 || statfs(s->l->slots_dir, &disk) < 0)
		return true;
	if (here.f_type == TMPFS_MAGIC)
		return features_have(fs, FEATURE_IDMAP_TMPFS);
	return here.f_type != disk.f_type || features_have(fs, FEATURE_IDMAP_DISK);
}

struct err *mount_clone(struct slot *s, int from_fd, bool readonly, enum clone_ids ids,
			int *ret_tree)
{
	uint64_t attrs = mount_flags(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	autoclose tree =
		open_tree(from_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (tree < 0)
		return err_sys(errno, "clone a mount");
	if (readonly && wall_stands("read-only"))
		attrs |= MOUNT_ATTR_RDONLY;
	/* A volume may be on a file system other than those that were tried: it has the last word.
	 */
	s->mapped = may_map(s, from_fd, ids) && !set_attrs(tree, attrs, s->userns);
	/* A file system whose ids cannot be mapped: writable directories must be owned by the slot.
	 */
	if (!s->mapped && set_attrs(tree, attrs, -1) < 0)
		return err_sys(errno, "set mount attributes");
	if (!s->mapped && !readonly && ids != CLONE_IDS_HOST &&
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

/* We may do more there than the sandbox: nothing is made for it. */
static bool is_hosts(const struct slot *s, int dir)
{
	struct statx st;

	if (!s->n_host_mounts)
		return false;
	if (statx(dir, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0)
		return true;
	for (size_t i = 0; i < s->n_host_mounts; i++)
		if (s->host_mounts[i] == st.stx_mnt_id)
			return true;
	return false;
}

static struct err *note_hosts(struct slot *s, int tree)
{
	struct statx st;

	if (statx(tree, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0)
		return err_sys(errno, "look at a mount");
	s->host_mounts = xrealloc(s->host_mounts, (s->n_host_mounts + 1) * sizeof(st.stx_mnt_id));
	s->host_mounts[s->n_host_mounts++] = st.stx_mnt_id;
	return NULL;
}

static struct err *make_target(const struct slot *s, int root, const char *path, bool file)
{
	autofree char *parent = xstrdup(path);
	char *slash = strrchr(parent, '/');
	autoclose dir = -1, made = -1;
	struct err *e;

	if (!slash || !slash[1])
		return err_new(ERR_INVALID, "mount target %s ends with a slash", path);
	*slash = '\0';
	e = root_open_target(s, root, *parent ? parent : "/", false, &dir);
	if (e)
		return e;
	if (is_hosts(s, dir))
		return err_new(ERR_INVALID, "%s is missing in a directory of the host", path);
	if (!file) {
		if (mkdirat(dir, slash + 1, 0755) < 0 && errno != EEXIST)
			return err_sys(errno, "create mount target %s", path);
		return NULL;
	}
	made = openat(dir, slash + 1, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (made < 0 && errno != EEXIST)
		return err_sys(errno, "create mount target %s", path);
	return NULL;
}

struct err *root_open_target(const struct slot *s, int root, const char *path, bool file, int *ret)
{
	int flags = O_PATH | (file ? 0 : O_DIRECTORY);
	struct err *e = file_open_in_root(root, path, flags, 0, ret);

	if (!err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	e = make_target(s, root, path, file);
	if (e)
		return e;
	return file_open_in_root(root, path, flags, 0, ret);
}

/* Links may lead anywhere in the root, but a volume does not hide its devices or processes: what
 * the node puts there is relied upon. */
static struct err *open_place(const struct slot *s, int root, const char *path, bool file, int *ret)
{
	static const char *const taken[] = { "/dev", "/proc" };
	struct err *e = root_open_target(s, root, path, file, ret);
	struct stat place, other;

	for (size_t i = 0; i < ARRAY_LEN(taken) && !e; i++) {
		autoclose fd = -1;

		e = file_open_in_root(root, taken[i], O_PATH, 0, &fd);
		if (!e && (fstat(*ret, &place) < 0 || fstat(fd, &other) < 0))
			e = err_sys(errno, "look at %s", path);
		if (!e && place.st_dev == other.st_dev && place.st_ino == other.st_ino)
			e = err_new(ERR_INVALID, "a volume cannot take the place of %s", taken[i]);
	}
	return e;
}

/* Never leaves the volume: its owner may have put links there. What is missing is created with the
 * owner that the sandbox's root user would have on disk. */
static struct err *open_sub_path(struct slot *s, int volume, const char *sub, bool file, int *ret)
{
	autofree char *path = xasprintf("/%s", sub);
	struct err *e = become(0);

	if (!e)
		e = root_open_target(s, volume, path, file, ret);
	if (!e)
		e = become(s->spec->base);
	return err_wrap(e, "open subPath %s", sub);
}

/* The directory of a volume on its first use; on disk it belongs to the sandbox's root user. */
static struct err *make_volume(const struct slot *s, const struct plan_mount *m)
{
	autofree char *parent = NULL;
	struct err *e;

	if (!m->make || m->memory)
		return NULL;
	if (file_exists(AT_FDCWD, m->from))
		return NULL; /* also in the place where volumes were before there was a pool */
	parent = xstrndup(m->from, (size_t)(strrchr(m->from, '/') - m->from));
	if (mkdir(parent, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "create %s", parent);
	e = s->l->disk->make(m->from, wall_stands("disk-volume") ? m->size : 0);
	if (err_is(e, ERR_EXISTS)) {
		err_free(e);
		return NULL;
	}
	if (e)
		return e;
	if (chmod(m->from, m->group ? 02777 : 0777) < 0 || chown(m->from, 0, (gid_t)m->group) < 0)
		return err_sys(errno, "open volume %s", m->from);
	return NULL;
}

/* A script from a ConfigMap may be run, though the run directory that it comes from is noexec. */
static struct err *set_exec(int tree, bool noexec)
{
	struct mount_attr a = { .attr_set = noexec ? MOUNT_ATTR_NOEXEC : 0,
				.attr_clr = noexec ? 0 : MOUNT_ATTR_NOEXEC };

	if (mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return err_sys(errno, "set mount attributes");
	return NULL;
}

static struct err *mount_bind_volume(struct slot *s, int root, const struct plan_mount *m)
{
	autoclose top = open(m->from, O_PATH | O_CLOEXEC | O_NOFOLLOW), below = -1, tree = -1;
	autoclose to = -1;
	struct err *e;

	if (top < 0)
		return err_sys(errno, "open volume %s", m->from);
	if (!str_empty(m->sub)) {
		e = open_sub_path(s, top, m->sub, m->file, &below);
		if (e)
			return e;
	}
	e = mount_clone(s, below >= 0 ? below : top, m->readonly, CLONE_IDS_SLOT, &tree);
	if (!e)
		e = set_exec(tree, m->noexec);
	if (e)
		return e;
	e = open_place(s, root, m->to, m->file, &to);
	if (e && m->spare) {
		err_free(e);
		return NULL;
	}
	return e ? e : mount_move(tree, to);
}

/* What the host's mount forbids (noexec) stays forbidden. */
static struct err *mount_host_path(struct slot *s, int root, const struct plan_mount *m)
{
	enum clone_ids ids = wall_stands("host-path-ids") ? CLONE_IDS_HOST : CLONE_IDS_SLOT;
	autoclose from = -1, tree = -1, to = -1;
	bool file = false;
	struct err *e = become(0);

	if (!e)
		e = host_path_open(s, m, &from, &file);
	if (!e)
		e = become(s->spec->base);
	if (!e)
		e = mount_clone(s, from, m->readonly, ids, &tree);
	if (!e)
		e = open_place(s, root, m->to, file, &to);
	if (!e)
		e = mount_move(tree, to);
	return e ? e : note_hosts(s, tree);
}

static struct err *mount_memory_volume(struct slot *s, int root, const struct plan_mount *m)
{
	unsigned flags = MS_NOSUID | MS_NODEV;
	autofree char *options = NULL;
	autoclose to = -1;
	char at[64];
	struct err *e = open_place(s, root, m->to, false, &to);

	if (e)
		return e;
	options = xasprintf(
		"mode=0777,uid=%u,gid=%u%s%lld", s->spec->base, s->spec->base,
		m->size ? ",size=" : ",nr_inodes=", m->size ? (long long)m->size : 1000000LL);
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", to);
	if (m->readonly && wall_stands("read-only"))
		flags |= MS_RDONLY;
	return mount_tmpfs(at, options, flags);
}

struct err *root_mount_volumes(struct slot *s, int root, const struct plan *plan)
{
	struct err *e = plan->n_mounts ? become(0) : NULL;

	for (size_t i = 0; i < plan->n_mounts && !e; i++)
		e = make_volume(s, &plan->mounts[i]);
	if (!e && plan->n_mounts)
		e = become(s->spec->base);
	for (size_t i = 0; i < plan->n_mounts && !e; i++) {
		const struct plan_mount *m = &plan->mounts[i];

		e = m->memory ? mount_memory_volume(s, root, m)
		    : m->host ? mount_host_path(s, root, m)
			      : mount_bind_volume(s, root, m);
		e = err_wrap(e, "mount %s", m->to);
	}
	return e;
}
