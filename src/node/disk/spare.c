/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/disk/btrfs_abi_priv.h"
#include "node/disk/spare_priv.h"

/*
 * Slots' directories that wait for another slot, in <pool>/spare: making a subvolume is cheap, but
 * since Linux 6.12 the kernel commits a transaction for each one that was destroyed, if quotas are
 * on. One is put there whole, after its subvolumes were emptied, and taken by a rename: whoever is
 * first has it. The directory is renamed, never a subvolume, because that would turn each fsync()
 * until the next commit into a commit.
 *
 * The next sandbox finds nothing of the one before. Sandboxes never see the root of a subvolume,
 * only directories in it, which are new; one whose root is not as it was made is not kept. Nor is
 * one of which anything is still open: a descriptor that was passed to another sandbox could go on
 * writing, at the cost of the next. A file that was removed and is still open has an orphan item.
 * The quota group catches up at the next commit, which the kernel makes before it refuses a write.
 */
enum {
	SPARES_MAX = 64,
	/* What is emptied here instead of by the kernel in its own time. */
	ITEMS_MAX = 128 << 10, /* bytes of metadata: about 300 files */
	ITEM_MAX = 64 << 10,   /* no item is longer */
	DATA_MAX = 1 << 20,
	ORPHAN_BUF = 64, /* bytes: one item, which has no contents */
};

/* <pool>/spare for <pool>/roots/<slot>; -1: this pool has none. */
static int open_spares(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	autofree char *slots = xstrndup(path, (size_t)(slash - path));
	autofree char *dir = NULL;

	*strrchr(slots, '/') = '\0';
	dir = xasprintf("%s/%s", slots, DISK_SPARES);
	*ret_name = slash + 1;
	return open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Calls fn for each entry until one answers false; answers whether none did. */
static bool each_entry(int dir, bool (*fn)(void *arg, int dir, const char *name), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;
	bool ok = d;

	if (!d && fd >= 0)
		(void)close(fd);
	while (ok && (de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			ok = fn(arg, fd, de->d_name);
	if (d)
		(void)closedir(d);
	return ok;
}

/* As make() left it. */
static bool root_is_new(int fd)
{
	int flags = -1;
	struct stat st;

	return !fstat(fd, &st) && st.st_ino == BTRFS_SUBVOLUME_INODE &&
	       st.st_mode == (S_IFDIR | 0700) && !st.st_uid && !st.st_gid &&
	       !flistxattr(fd, NULL, 0) && !ioctl(fd, FS_IOC_GETFLAGS, &flags) && !flags;
}

/* What a file extent holds on disk: 0 if it is a hole or in the item itself. */
static uint64_t extent_bytes(const struct btrfs_search_header *h, const char *item)
{
	struct btrfs_file_extent x;

	if (h->type != BTRFS_EXTENT_DATA || h->len < sizeof(x))
		return 0;
	memcpy(&x, item, sizeof(x));
	return x.disk_bytenr ? le64toh(x.disk_num_bytes) : 0;
}

/* The whole tree is read: the kernel stops early only where the next item would not fit. */
static bool is_small(int fd)
{
	autofree struct btrfs_search *s = xcalloc(1, sizeof(*s) + ITEMS_MAX + ITEM_MAX);
	uint64_t data = 0;
	size_t at = 0;

	*s = (struct btrfs_search){ .max_objectid = UINT64_MAX,
				    .max_offset = UINT64_MAX,
				    .max_transid = UINT64_MAX,
				    .max_type = UINT8_MAX,
				    .nr_items = UINT32_MAX,
				    .buf_size = ITEMS_MAX + ITEM_MAX };
	if (ioctl(fd, BTRFS_TREE_SEARCH_V2, s) < 0)
		return false;
	for (uint32_t i = 0; i < s->nr_items; i++) {
		struct btrfs_search_header h;

		memcpy(&h, s->buf + at, sizeof(h));
		at += sizeof(h);
		data += extent_bytes(&h, s->buf + at);
		at += h.len;
	}
	return at <= ITEMS_MAX && data <= DATA_MAX;
}

static bool is_unused(int fd)
{
	autofree struct btrfs_search *s = xcalloc(1, sizeof(*s) + ORPHAN_BUF);

	*s = (struct btrfs_search){ .min_objectid = BTRFS_ORPHAN_OBJECTID,
				    .max_objectid = BTRFS_ORPHAN_OBJECTID,
				    .max_offset = UINT64_MAX,
				    .max_transid = UINT64_MAX,
				    .min_type = BTRFS_ORPHAN_ITEM,
				    .max_type = BTRFS_ORPHAN_ITEM,
				    .nr_items = 1,
				    .buf_size = ORPHAN_BUF };
	return !ioctl(fd, BTRFS_TREE_SEARCH_V2, s) && !s->nr_items;
}

static bool remove_entry(unused void *arg, int dir, const char *name)
{
	struct err *e = file_remove_tree(dir, name);
	bool ok = !e;

	err_free(e);
	return ok;
}

static bool empty_part(unused void *arg, int dir, const char *name)
{
	autoclose fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && root_is_new(fd) && is_small(fd) && each_entry(fd, remove_entry, NULL) &&
	       is_unused(fd);
}

static bool count(void *arg, unused int dir, unused const char *name)
{
	return ++*(unsigned *)arg < SPARES_MAX;
}

bool spare_keep(const char *path)
{
	const char *name;
	autoclose spares = open_spares(path, &name);
	autoclose dir =
		spares < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	unsigned n = 0;

	return dir >= 0 && each_entry(spares, count, &n) && each_entry(dir, empty_part, NULL) &&
	       !renameat2(AT_FDCWD, path, spares, name, RENAME_NOREPLACE);
}

struct taking {
	const char *path;
	bool taken;
};

static bool try_next(void *arg, int dir, const char *name)
{
	struct taking *t = arg;

	t->taken = !renameat2(dir, name, AT_FDCWD, t->path, RENAME_NOREPLACE);
	return !t->taken;
}

bool spare_reuse(const char *path)
{
	const char *name;
	autoclose spares = open_spares(path, &name);
	struct taking t = { .path = path };

	if (spares >= 0)
		(void)each_entry(spares, try_next, &t);
	return t.taken;
}
