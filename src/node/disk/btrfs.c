/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/disk/btrfs_abi_priv.h"
#include "node/disk/disk_priv.h"
#include "node/disk/spare_priv.h"

/*
 * A directory with a limit is a subvolume, and the limit that of its quota group. The kernel
 * counts what is referenced there, data and metadata alike, so that a million empty files reach it
 * too. Removal unlinks the subvolume at once; the kernel frees its blocks later.
 *
 * These are quota groups that account for references. The cheaper "simple quotas" charge an extent
 * to the subvolume that wrote it first, so that a file reflinked from an emptyDir into a volume
 * would cost the volume nothing once the emptyDir is gone.
 */
static struct err *open_parent(const char *path, struct btrfs_vol_args *args, int *ret)
{
	const char *slash = strrchr(path, '/');
	autofree char *parent = xstrndup(path, (size_t)(slash - path));

	if (strlen(slash + 1) >= sizeof(args->name))
		return err_new(ERR_TOO_LARGE, "the name of %s is too long", path);
	memset(args, 0, sizeof(*args));
	memcpy(args->name, slash + 1, strlen(slash + 1));
	*ret = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_sys(errno, "open %s", parent) : NULL;
}

static struct err *set_limit(int dir_fd, int64_t limit)
{
	struct btrfs_qgroup_limit args = { .flags = BTRFS_LIMIT_MAX_RFER,
					   .max_rfer = limit ? (uint64_t)limit : UINT64_MAX };

	if (!wall_stands("disk-quota"))
		return NULL;
	if (ioctl(dir_fd, BTRFS_QGROUP_LIMIT, &args) < 0)
		return err_sys(errno, "limit a subvolume to %lld bytes", (long long)limit);
	return NULL;
}

static bool is_subvolume(int parent, const char *name)
{
	struct stat st;

	return !fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) &&
	       st.st_ino == BTRFS_SUBVOLUME_INODE;
}

static struct err *make(const char *path, int64_t limit)
{
	struct btrfs_vol_args args;
	autoclose parent = -1, dir = -1;
	struct err *e = open_parent(path, &args, &parent);

	if (e)
		return e;
	if (ioctl(parent, BTRFS_SUBVOL_CREATE, &args) < 0)
		return err_sys(errno, "create subvolume %s", path);
	dir = openat(parent, args.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0700) < 0)
		e = err_sys(errno, "open subvolume %s", path);
	else if (limit)
		e = set_limit(dir, limit);
	if (e)
		(void)ioctl(parent, BTRFS_SNAP_DESTROY, &args); /* none without its limit */
	return e;
}

static struct err *clone_of(const char *from, const char *path, int64_t limit)
{
	struct btrfs_vol_args args;
	autoclose parent = -1, source = -1, dir = -1;
	struct err *e = open_parent(path, &args, &parent);

	if (e)
		return e;
	source = open(from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (source < 0)
		return err_sys(errno, "open %s", from);
	args.fd = source;
	if (ioctl(parent, BTRFS_SNAP_CREATE, &args) < 0)
		return err_sys(errno, "clone %s", from);
	dir = openat(parent, args.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	e = dir < 0 ? err_sys(errno, "open subvolume %s", path) : set_limit(dir, limit);
	if (e)
		(void)ioctl(parent, BTRFS_SNAP_DESTROY, &args); /* none without its limit */
	return e;
}

/* Older kernels keep the quota group of a subvolume that is gone, and newer ones until it is
 * freed: either may refuse. */
static void drop_group(int parent, uint64_t id)
{
	struct btrfs_qgroup_create args = { .create = 0, .qgroupid = id };

	if (id)
		(void)ioctl(parent, BTRFS_QGROUP_CREATE, &args);
}

static uint64_t subvolume_id(int parent, const char *name)
{
	struct btrfs_ino_lookup args = { .objectid = BTRFS_SUBVOLUME_INODE };
	autoclose dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir >= 0 && !ioctl(dir, BTRFS_INO_LOOKUP, &args) ? args.treeid : 0;
}

static bool destroy(int parent, const char *name)
{
	struct btrfs_vol_args args = { 0 };
	uint64_t id = subvolume_id(parent, name);

	if (strlen(name) >= sizeof(args.name))
		return false;
	memcpy(args.name, name, strlen(name));
	if (ioctl(parent, BTRFS_SNAP_DESTROY, &args) < 0)
		return false;
	drop_group(parent, id);
	return true;
}

/* What is right below a directory of ours; what cannot be destroyed is removed as a tree. */
static void destroy_below(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d && fd >= 0)
		(void)close(fd);
	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.' && is_subvolume(dirfd(d), de->d_name))
			(void)destroy(dirfd(d), de->d_name);
	if (d)
		(void)closedir(d);
}

static struct err *remove_all(const char *path)
{
	struct btrfs_vol_args args;
	autoclose parent = -1;
	struct err *e = open_parent(path, &args, &parent);

	if (e)
		return e;
	if (is_subvolume(parent, args.name)) {
		if (destroy(parent, args.name))
			return NULL;
	} else {
		destroy_below(parent, args.name);
	}
	return file_remove_tree(parent, args.name);
}

/* What files had is free with the commit; what a subvolume had, only with one after that: so its
 * files go first. The request also wakes the kernel thread that lets go of empty block groups,
 * which else looks twice a minute. */
static struct err *give_back(const char *path)
{
	struct btrfs_vol_args args;
	autoclose parent = -1;
	struct err *e = open_parent(path, &args, &parent);

	if (e)
		return e;
	err_free(file_remove_tree(parent, args.name)); /* what is left is destroyed */
	e = remove_all(path);
	if (ioctl(parent, BTRFS_SYNC) < 0 && !e)
		e = err_sys(errno, "commit %s", path);
	return e;
}

/* After the commit, the kernel goes on with the subvolumes that were deleted. */
static void sync_pool(const char *path)
{
	autoclose dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0)
		(void)ioctl(dir, BTRFS_SYNC); /* or the next commit does it */
}

/* What its quota group has counted: one item of the quota tree. */
static int64_t used(const char *path)
{
	enum {
		BUF = 128,
	};
	autofree struct btrfs_search *s = xcalloc(1, sizeof(*s) + BUF);
	struct btrfs_ino_lookup at = { .objectid = BTRFS_SUBVOLUME_INODE };
	autoclose dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct btrfs_qgroup_info info;

	if (dir < 0 || ioctl(dir, BTRFS_INO_LOOKUP, &at) < 0)
		return 0;
	*s = (struct btrfs_search){ .tree_id = BTRFS_QUOTA_TREE,
				    .min_type = BTRFS_QGROUP_INFO,
				    .max_type = BTRFS_QGROUP_INFO,
				    .min_offset = at.treeid,
				    .max_offset = at.treeid,
				    .max_transid = UINT64_MAX,
				    .nr_items = 1,
				    .buf_size = BUF };
	if (ioctl(dir, BTRFS_TREE_SEARCH_V2, s) < 0 || s->nr_items != 1)
		return 0;
	memcpy(&info, s->buf + sizeof(struct btrfs_search_header), sizeof(info));
	return (int64_t)le64toh(info.referenced);
}

const struct diskpool_ops disk_btrfs = {
	.name = "btrfs",
	.enforces = true,
	.make = make,
	.limit = set_limit,
	.clone = clone_of,
	.remove = remove_all,
	.give_back = give_back,
	.used = used,
	.sync = sync_pool,
	.keep = spare_keep,
	.reuse = spare_reuse,
};

/* The first time, the kernel counts what is there already. */
static struct err *turn_on_quotas(int fd)
{
	struct btrfs_quota_ctl args = { .cmd = BTRFS_QUOTA_ENABLE };

	if (ioctl(fd, BTRFS_QUOTA_CTL, &args) < 0)
		return err_sys(errno, "turn on quotas");
	(void)ioctl(fd, BTRFS_QUOTA_RESCAN_WAIT, NULL); /* there may be none under way */
	return NULL;
}

/* The tree of quotas is there, and has its first item, from when they are turned on. */
static bool has_quotas(int fd)
{
	enum {
		BUF = 128,
	};
	autofree struct btrfs_search *s = xcalloc(1, sizeof(*s) + BUF);

	*s = (struct btrfs_search){ .tree_id = BTRFS_QUOTA_TREE,
				    .max_type = UINT32_MAX,
				    .max_objectid = UINT64_MAX,
				    .max_offset = UINT64_MAX,
				    .max_transid = UINT64_MAX,
				    .nr_items = 1,
				    .buf_size = BUF };
	return !ioctl(fd, BTRFS_TREE_SEARCH_V2, s) && s->nr_items;
}

/* A full pool must not keep those from starting who make room in it. */
static bool is_only_full(int fd, const struct err *e)
{
	return (err_errno(e) == ENOSPC || err_errno(e) == EDQUOT) && has_quotas(fd);
}

struct err *btrfs_prepare(const char *dir)
{
	autofree char *probe = xasprintf("%s/.probe", dir);
	autoclose fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;
	struct err *e;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return err_sys(errno, "open %s", dir);
	if ((uint32_t)fs.f_type != BTRFS_SUPER_MAGIC)
		return err_new(ERR_UNSUPPORTED, "%s is not on a btrfs", dir);
	e = remove_all(probe);
	if (!e)
		e = make(probe, 1 << 20);
	if (err_errno(e) == ENOTCONN) {
		err_free(e);
		e = turn_on_quotas(fd);
		if (!e)
			e = make(probe, 1 << 20);
	}
	if (!e)
		e = remove_all(probe);
	if (e && is_only_full(fd, e)) {
		err_free(remove_all(probe));
		err_free(take(e));
	}
	return err_wrap(e, "try quotas in %s", dir);
}
