/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "test.h"

/* A pool of its own, in an image file. It is mounted where nobody else sees it, so that it goes
 * with the process if a test fails. */
struct bench {
	int outside; /* the mount namespace */
	char *dir;
	struct instance inst;
	struct diskpool *disk;
	const struct diskpool_ops *ops;
};

static void close_bench(struct bench *b)
{
	diskpool_unmount(b->disk);
	diskpool_free(b->disk);
	works(file_remove_tree(AT_FDCWD, b->dir));
	free(b->dir);
	is_true(!setns(b->outside, CLONE_NEWNS));
	(void)close(b->outside);
}

static bool open_bench(struct bench *b)
{
	char dir[] = "/var/tmp/cay-spare-XXXXXX";

	*b = (struct bench){ 0 };
	if (geteuid() != 0) {
		skip_because("needs root: it mounts a disk pool");
		return false;
	}
	b->outside = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	is_true(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	is_true(mkdtemp(dir));
	b->dir = xstrdup(dir);
	b->inst = (struct instance){ .id = "spare", .data_dir = b->dir };
	{
		const struct diskpool_spec spec = { .instance = &b->inst, .size = 256 << 20 };
		autofree char *node = xasprintf("%s/node", dir);

		works(file_mkdirs(node, 0700));
		works(diskpool_open(&spec, &b->disk));
	}
	b->ops = diskpool_ops(b->disk);
	if (b->ops->enforces)
		return true;
	close_bench(b);
	skip_because("needs btrfs and loop devices");
	return false;
}

static char *at(const struct bench *b, const char *rest)
{
	return xasprintf("%s/pool/fs/%s", b->dir, rest);
}

static bool exists(const struct bench *b, const char *rest)
{
	autofree char *path = at(b, rest);

	return file_exists(AT_FDCWD, path);
}

static void put(const struct bench *b, const char *rest, size_t len)
{
	autofree char *path = at(b, rest), *bytes = xcalloc(1, len + 1);
	autoclose fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	is_true(fd >= 0);
	works(fd_write_all(fd, bytes, len));
	is_true(!fsync(fd));
}

/* A slot as the launcher makes it, with something of a sandbox in it. */
static void make_slot(const struct bench *b, const char *name)
{
	static const char *const dirs[] = { "disk/upper", "disk/upper/etc", "disk/work" };
	autofree char *slots = diskpool_dir(b->disk, INSTANCE_SLOTS);
	autofree char *slot = xasprintf("%s/%s", slots, name), *disk = xasprintf("%s/disk", slot);
	autofree char *logs = xasprintf("%s/logs", slot);
	autofree char *secret = xasprintf("roots/%s/disk/upper/etc/secret", name);
	autofree char *log = xasprintf("roots/%s/logs/log", name);

	is_true(!mkdir(slot, 0700));
	works(b->ops->make(disk, 64 << 20));
	works(b->ops->make(logs, 32 << 20));
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		autofree char *dir = xasprintf("%s/%s", slot, dirs[i]);

		is_true(!mkdir(dir, 0755));
	}
	put(b, secret, 5000);
	put(b, log, 100);
}

static bool reuse(const struct bench *b, const char *name)
{
	autofree char *slots = diskpool_dir(b->disk, INSTANCE_SLOTS);
	autofree char *slot = xasprintf("%s/%s", slots, name);

	return b->ops->reuse(slot);
}

TEST(the_directory_of_a_slot_is_kept_empty_and_used_again)
{
	static const char *const parts[] = { "roots/b/disk", "roots/b/logs" };
	struct bench b;

	if (!open_bench(&b))
		return;
	make_slot(&b, "a");
	works(diskpool_remove(b.disk, INSTANCE_SLOTS, "a"));
	is_true(!exists(&b, "roots/a") && exists(&b, "spare/a"));
	is_true(reuse(&b, "b"));
	is_false(exists(&b, "spare/a"));
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		autofree char *path = at(&b, parts[i]);
		struct stat st;

		is_true(!stat(path, &st) && st.st_mode == (S_IFDIR | 0700) && !st.st_uid &&
			!st.st_size);
		is_true(!rmdir(path)); /* only an empty one can be */
	}
	is_false(reuse(&b, "c"));
	close_bench(&b);
}

/* The limit is the new one at once, whatever was there a moment before. */
TEST(what_was_in_a_slot_does_not_count_for_the_next)
{
	struct bench b;

	if (!open_bench(&b))
		return;
	make_slot(&b, "a");
	put(&b, "roots/a/disk/upper/most", 900 << 10);
	works(diskpool_remove(b.disk, INSTANCE_SLOTS, "a"));
	is_true(reuse(&b, "b"));
	works(diskpool_limit(b.disk, INSTANCE_SLOTS, "b/disk", 1 << 20));
	put(&b, "roots/b/disk/fits", 800 << 10);
	{
		autofree char *path = at(&b, "roots/b/disk/too-much");
		autofree char *bytes = xcalloc(1, 400 << 10);
		autoclose fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		is_true(fd < 0 || write(fd, bytes, 400 << 10) < 400 << 10 || fsync(fd) < 0);
	}
	close_bench(&b);
}

static void open_file(struct bench *b, int *fd)
{
	autofree char *path = at(b, "roots/a/disk/upper/etc/secret");

	*fd = open(path, O_RDWR | O_CLOEXEC);
	is_true(*fd >= 0);
}

static void open_dir(struct bench *b, int *fd)
{
	autofree char *path = at(b, "roots/a/disk/upper/etc");

	*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_true(*fd >= 0);
}

static void big(struct bench *b, unused int *fd)
{
	put(b, "roots/a/disk/upper/big", 2 << 20);
}

static void many(struct bench *b, unused int *fd)
{
	for (int i = 0; i < 2000; i++) {
		autofree char *rest = xasprintf("roots/a/disk/upper/f%d", i);
		autofree char *path = at(b, rest);
		autoclose file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		is_true(file >= 0);
	}
}

static void attributes(struct bench *b, unused int *fd)
{
	autofree char *path = at(b, "roots/a/disk/upper/etc/secret");
	static const char text[3000];

	for (int i = 0; i < 64; i++) {
		autofree char *name = xasprintf("user.a%d", i);

		is_true(!setxattr(path, name, text, sizeof(text), 0));
	}
}

static void set_flags(const struct bench *b, const char *rest, int flags)
{
	autofree char *path = at(b, rest);
	autoclose dir = open(path, O_RDONLY | O_CLOEXEC);

	is_true(dir >= 0 && !ioctl(dir, FS_IOC_SETFLAGS, &flags));
}

static void immutable(struct bench *b, unused int *fd)
{
	set_flags(b, "roots/a/disk/upper/etc/secret", FS_IMMUTABLE_FL);
}

static void root_flags(struct bench *b, unused int *fd)
{
	set_flags(b, "roots/a/disk", FS_NOCOW_FL);
}

static void root_mode(struct bench *b, unused int *fd)
{
	autofree char *path = at(b, "roots/a/logs");

	is_true(!chmod(path, 0755));
}

static void root_owner(struct bench *b, unused int *fd)
{
	autofree char *path = at(b, "roots/a/logs");

	is_true(!chown(path, 1000, 0));
}

static void root_attribute(struct bench *b, unused int *fd)
{
	autofree char *path = at(b, "roots/a/disk");

	is_true(!setxattr(path, "user.note", "x", 1, 0));
}

static void plain_part(struct bench *b, unused int *fd)
{
	autofree char *path = at(b, "roots/a/upper");

	is_true(!mkdir(path, 0755));
}

static void full(struct bench *b, unused int *fd)
{
	for (int i = 0; i < 64; i++) {
		autofree char *rest = xasprintf("spare/s%d", i);
		autofree char *path = at(b, rest);

		is_true(!mkdir(path, 0700));
	}
}

/* What a slot may leave that is not worth the work, or must not come near the next. */
TEST(only_what_is_small_clean_and_unused_is_kept)
{
	static void (*const odd[])(struct bench *, int *) = {
		open_file, open_dir,   big,        many,           attributes, immutable,
		root_mode, root_owner, root_flags, root_attribute, plain_part, full,
	};
	struct bench b;

	if (!open_bench(&b))
		return;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		autoclose fd = -1;

		make_slot(&b, "a");
		odd[i](&b, &fd);
		works(diskpool_remove(b.disk, INSTANCE_SLOTS, "a"));
		if (exists(&b, "spare/a") || exists(&b, "roots/a"))
			fail_msg("row %zu", i);
	}
	close_bench(&b);
}

TEST(two_slots_never_take_the_same_directory)
{
	struct bench b;

	if (!open_bench(&b))
		return;
	make_slot(&b, "a");
	make_slot(&b, "b");
	works(diskpool_remove(b.disk, INSTANCE_SLOTS, "a"));
	works(diskpool_remove(b.disk, INSTANCE_SLOTS, "b"));
	is_true(reuse(&b, "c"));
	is_false(reuse(&b, "c")); /* nor one that is there */
	is_true(reuse(&b, "d"));
	is_false(reuse(&b, "e"));
	close_bench(&b);
}
