/* SPDX-License-Identifier: Apache-2.0 */
#include "node/disk/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "node/disk/disk_priv.h"
#include "node/disk/spare_priv.h"

struct diskpool {
	const struct diskpool_ops *ops;
	char *data_dir, *dir; /* the same if the pool is plain */
	char *trouble;
	bool image; /* ours to unmount */
	int64_t sandbox_limit, log_limit;
	bool allow_unenforced;
};

static const enum instance_dir dirs[] = { INSTANCE_SLOTS, INSTANCE_PODS, INSTANCE_VOLUMES };

const struct diskpool_ops *diskpool_ops_named(const char *name)
{
	static const struct diskpool_ops *const all[] = { &disk_btrfs, &disk_plain };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (str_eq(all[i]->name, name))
			return all[i];
	return NULL;
}

static struct diskpool *diskpool_new(const char *data_dir)
{
	struct diskpool *d = xnew(struct diskpool);

	d->ops = &disk_plain;
	d->data_dir = xstrdup(data_dir);
	d->dir = xstrdup(data_dir);
	return d;
}

void diskpool_free(struct diskpool *d)
{
	if (!d)
		return;
	free(d->data_dir);
	free(d->dir);
	free(d->trouble);
	free(d);
}

struct diskpool *diskpool_open_plain(const char *data_dir)
{
	return diskpool_new(data_dir);
}

static char *link_path(const char *data_dir)
{
	return xasprintf("%s/node/pool", data_dir);
}

/* Where the pool is, for diskpool_look(). */
static struct err *write_link(const struct diskpool *d)
{
	autofree char *path = link_path(d->data_dir), *new = xasprintf("%s.new", path);

	(void)unlink(new);
	if (symlink(d->dir, new) < 0 || rename(new, path) < 0)
		return err_sys(errno, "write %s", path);
	return NULL;
}

static void use(struct diskpool *d, const struct diskpool_ops *ops, char *dir)
{
	d->ops = ops;
	free(d->dir);
	d->dir = dir;
}

struct diskpool *diskpool_look(const char *data_dir)
{
	autofree char *path = link_path(data_dir), *at = pool_image_mount(data_dir);
	struct diskpool *d = diskpool_new(data_dir);
	char to[PATH_MAX];
	ssize_t n = readlink(path, to, sizeof(to) - 1);

	if (n <= 0)
		return d;
	to[n] = '\0';
	d->image = str_eq(to, at);
	if (!str_eq(to, data_dir))
		use(d, &disk_btrfs, xstrdup(to));
	return d;
}

static struct err *open_image(struct diskpool *d)
{
	autofree char *at = pool_image_mount(d->data_dir);
	struct err *e = pool_image_attach(d->data_dir);

	if (!e)
		e = btrfs_prepare(at);
	if (e)
		return e;
	d->image = true;
	use(d, &disk_btrfs, take(at));
	return NULL;
}

/* A new one that cannot be used is as good as none. */
static struct err *make_image(struct diskpool *d, int64_t size)
{
	autofree char *file = pool_image_file(d->data_dir);
	struct err *e = pool_image_create(d->data_dir, size);

	if (e)
		return e;
	e = open_image(d);
	if (!e)
		return NULL;
	pool_image_detach(d->data_dir);
	(void)unlink(file);
	return err_recode(e, ERR_UNSUPPORTED);
}

static struct err *open_default(struct diskpool *d, const struct diskpool_spec *spec)
{
	struct err *e;

	if (pool_image_exists(d->data_dir))
		return open_image(d);
	e = make_image(d, spec->size);
	if (!err_is(e, ERR_UNSUPPORTED))
		return e;
	d->trouble = xstrdup(err_text(e));
	err_free(e);
	log_warn("DISK IS NOT LIMITED: sandboxes write next to the store, and disk space limits "
		 "are refused; `cay doctor` says what to do",
		 KV("err", d->trouble));
	return NULL;
}

static struct err *open_none(struct diskpool *d)
{
	autofree char *file = pool_image_file(d->data_dir);

	if (pool_image_exists(d->data_dir))
		return err_new(ERR_CONFLICT,
			       "--disk-pool none was given, but there are volumes in %s; start "
			       "without it, or remove the file and with it all that is in it",
			       file);
	d->trouble = xstrdup("--disk-pool none was given");
	log_warn("DISK IS NOT LIMITED: --disk-pool none was given, sandboxes write next to the "
		 "store");
	return NULL;
}

/* Several instances may share it. */
static struct err *open_dir(struct diskpool *d, const struct diskpool_spec *spec)
{
	autofree char *dir = xasprintf("%s/cay-%s", spec->where, spec->instance->id);
	bool is_new = !file_exists(AT_FDCWD, dir);
	struct err *e;

	if (*spec->where != '/')
		return err_new(ERR_INVALID, "--disk-pool %s is not an absolute path", spec->where);
	if (pool_image_exists(d->data_dir))
		return err_new(ERR_CONFLICT,
			       "--disk-pool %s was given, but there are volumes in %s/pool.img; "
			       "move them, and then remove that file",
			       spec->where, d->data_dir);
	if (!file_exists(AT_FDCWD, spec->where))
		return err_new(ERR_INVALID, "--disk-pool %s does not exist", spec->where);
	e = file_mkdirs(dir, 0700);
	if (!e)
		e = btrfs_prepare(dir);
	if (e && is_new)
		(void)rmdir(dir); /* nothing of a start that failed stays */
	if (e)
		return err_wrap(e, "use --disk-pool %s", spec->where);
	use(d, &disk_btrfs, take(dir));
	return NULL;
}

static struct err *make_dirs(struct diskpool *d)
{
	struct err *e = NULL;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && !e; i++) {
		autofree char *dir = diskpool_dir(d, dirs[i]);

		e = file_mkdirs(dir, 0700);
	}
	if (!e && d->ops->enforces) {
		autofree char *spares = xasprintf("%s/" DISK_SPARES, d->dir);

		e = file_mkdirs(spares, 0700);
	}
	return e;
}

/* The root of a container usually is one, and the kernel takes none as the upper layer of another.
 * What is not there yet will be on the file system of its parent. */
static struct err *check_overlay(const struct diskpool *d)
{
	autofree char *there = diskpool_existing(d->data_dir);
	struct statfs fs;

	if (statfs(there, &fs) < 0 || (long)fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return NULL;
	return err_new(ERR_UNSUPPORTED,
		       "%s is on an overlay file system, where sandboxes cannot write without a "
		       "disk pool; give the container loop devices (--privileged), or a volume for "
		       "that directory (-v cay:%s)",
		       d->data_dir, d->data_dir);
}

struct err *diskpool_open(const struct diskpool_spec *spec, struct diskpool **ret)
{
	autoptr(diskpool) d = diskpool_new(spec->instance->data_dir);
	struct err *e;

	d->sandbox_limit = spec->sandbox_limit;
	d->log_limit = spec->log_limit;
	d->allow_unenforced = spec->allow_unenforced;
	if (!spec->where)
		e = open_default(d, spec);
	else if (str_eq(spec->where, "none"))
		e = open_none(d);
	else
		e = open_dir(d, spec);
	if (!e && d->ops == &disk_plain)
		e = check_overlay(d);
	if (!e)
		e = make_dirs(d);
	if (!e)
		e = write_link(d);
	if (e)
		return err_wrap(e, "open the disk pool");
	*ret = take(d);
	return NULL;
}

void diskpool_unmount(struct diskpool *d)
{
	if (d->image)
		pool_image_detach(d->data_dir);
}

const struct diskpool_ops *diskpool_ops(const struct diskpool *d)
{
	return d->ops;
}

bool diskpool_enforces(const struct diskpool *d)
{
	return d->ops->enforces;
}

const char *diskpool_trouble(const struct diskpool *d)
{
	return d->trouble;
}

int64_t diskpool_sandbox_limit(const struct diskpool *d)
{
	return d->sandbox_limit;
}

int64_t diskpool_log_limit(const struct diskpool *d)
{
	return d->log_limit;
}

bool diskpool_refuses_limits(const struct diskpool *d)
{
	return d->trouble && !d->allow_unenforced;
}

char *diskpool_dir(const struct diskpool *d, enum instance_dir dir)
{
	return xasprintf("%s/%s", d->dir, instance_dir_name(dir));
}

char *diskpool_old_dir(const struct diskpool *d, enum instance_dir dir)
{
	autofree char *path = NULL;

	if (str_eq(d->dir, d->data_dir))
		return NULL;
	path = xasprintf("%s/%s", d->data_dir, instance_dir_name(dir));
	return file_exists(AT_FDCWD, path) ? take(path) : NULL;
}

char *diskpool_path(const struct diskpool *d, enum instance_dir dir, const char *name)
{
	autofree char *old = diskpool_old_dir(d, dir), *path = NULL;

	if (old) {
		path = xasprintf("%s/%s", old, name);
		if (file_exists(AT_FDCWD, path))
			return take(path);
	}
	return xasprintf("%s/%s/%s", d->dir, instance_dir_name(dir), name);
}

struct err *diskpool_remove(const struct diskpool *d, enum instance_dir dir, const char *name)
{
	autofree char *old = diskpool_old_dir(d, dir);
	autofree char *path = xasprintf("%s/%s/%s", d->dir, instance_dir_name(dir), name);
	struct err *e = NULL, *e2 = NULL;

	if (dir != INSTANCE_SLOTS || !d->ops->keep(path))
		e = d->ops->remove(path);
	if (old) {
		autofree char *before = xasprintf("%s/%s", old, name);

		e2 = disk_plain.remove(before);
		(void)rmdir(old); /* if that was the last */
	}
	if (e)
		err_free(e2);
	return e ? e : e2;
}

struct err *path_limit(const struct diskpool_ops *ops, const char *path, int64_t limit)
{
	autoclose fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? NULL : err_sys(errno, "open %s", path);
	return ops->limit(fd, limit);
}

struct err *diskpool_limit(const struct diskpool *d, enum instance_dir dir, const char *name,
			   int64_t limit)
{
	autofree char *path = xasprintf("%s/%s/%s", d->dir, instance_dir_name(dir), name);

	return path_limit(d->ops, path, limit);
}

/* The name of a clone until it has its limit: what a crash leaves, the next start removes. */
#define CLONE_STEP ".clone-"

void diskpool_drop_steps(const struct diskpool *d)
{
	autofree char *dir = diskpool_dir(d, INSTANCE_VOLUMES);
	DIR *list = opendir(dir);
	const struct dirent *de;

	while (list && (de = readdir(list))) {
		autofree char *path = xasprintf("%s/%s", dir, de->d_name);

		if (str_starts(de->d_name, CLONE_STEP))
			err_free(d->ops->remove(path)); /* the next start tries again */
	}
	if (list)
		(void)closedir(list);
}

struct err *diskpool_clone(const struct diskpool *d, const char *from, const char *name,
			   int64_t limit)
{
	const char *dir = instance_dir_name(INSTANCE_VOLUMES);
	autofree char *source = diskpool_path(d, INSTANCE_VOLUMES, from);
	autofree char *path = xasprintf("%s/%s/%s", d->dir, dir, name);
	autofree char *next = xasprintf("%s/%s/" CLONE_STEP "%s", d->dir, dir, name);
	struct err *e;

	if (!d->ops->clone)
		return err_new(ERR_UNSUPPORTED, "volumes are cloned in a disk pool on btrfs only");
	if (!file_exists(AT_FDCWD, source) || file_exists(AT_FDCWD, path))
		return NULL;
	if (!str_starts(source, d->dir))
		return err_new(ERR_UNSUPPORTED, "its source is not in the disk pool yet");
	e = d->ops->remove(next);
	if (!e)
		e = d->ops->clone(source, next, limit);
	if (!e && rename(next, path) < 0) {
		e = err_sys(errno, "rename %s", next);
		err_free(d->ops->remove(next));
	}
	return e;
}

static void each_in(const char *path, void (*fn)(void *arg, const char *name), void *arg)
{
	DIR *d = opendir(path);
	const struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			fn(arg, de->d_name);
	if (d)
		(void)closedir(d);
}

void diskpool_each(const struct diskpool *d, enum instance_dir dir,
		   void (*fn)(void *arg, const char *name), void *arg)
{
	autofree char *now = diskpool_dir(d, dir), *old = diskpool_old_dir(d, dir);

	each_in(now, fn, arg);
	if (old)
		each_in(old, fn, arg);
}

char *diskpool_slot_log(const struct diskpool *d, const char *slot)
{
	autofree char *dir = diskpool_path(d, INSTANCE_SLOTS, slot);
	autofree char *now = xasprintf("%s/%s", dir, DISK_SLOT_LOG);

	if (file_exists(AT_FDCWD, now))
		return take(now);
	return xasprintf("%s/log", dir); /* of a slot that was made before there was a pool */
}

char *diskpool_obstacle(const struct diskpool *d)
{
	autofree char *link = link_path(d->data_dir);
	struct err *e;
	char *text;

	if (d->ops->enforces || pool_image_exists(d->data_dir))
		return NULL;
	e = pool_image_possible(d->data_dir);
	if (!e && file_exists(AT_FDCWD, link))
		e = err_new(ERR_UNSUPPORTED, "the last start was told so by --disk-pool none, or "
					     "could not make a pool");
	text = e ? xstrdup(err_text(e)) : NULL;
	err_free(e);
	return text;
}

char *diskpool_data_obstacle(const struct diskpool *d)
{
	autofree char *there = diskpool_existing(d->data_dir), *no_pool = NULL;
	autoptr(err) e = NULL;
	struct statvfs fs;
	struct stat st;

	if (stat(there, &st) < 0 || statvfs(there, &fs) < 0)
		return xasprintf("%s cannot be looked at", there);
	if (!S_ISDIR(st.st_mode))
		return xasprintf("%s is not a directory", there);
	if (!fs.f_blocks)
		return xasprintf("the file system of %s keeps no files", there);
	if (fs.f_flag & ST_RDONLY || access(there, W_OK | X_OK) < 0)
		return xasprintf("nothing can be written to %s", there);
	no_pool = diskpool_obstacle(d);
	e = no_pool ? check_overlay(d) : NULL;
	return e ? xstrdup(err_text(e)) : NULL;
}

bool diskpool_is_mount(const struct diskpool *d, const char *path)
{
	autofree char *outer = pool_image_outer(d->data_dir);
	autofree char *inner = pool_image_mount(d->data_dir);

	return str_eq(path, outer) || str_eq(path, inner);
}

char *diskpool_loop(const struct diskpool *d)
{
	return pool_image_loop(d->data_dir);
}

static struct diskpool_space space_of(const char *dir)
{
	autofree char *there = diskpool_existing(dir);
	struct statvfs fs;

	if (statvfs(there, &fs) < 0)
		return (struct diskpool_space){ 0 };
	return (struct diskpool_space){ (int64_t)(fs.f_blocks * fs.f_frsize),
					(int64_t)(fs.f_bavail * fs.f_frsize) };
}

void diskpool_space(const struct diskpool *d, struct diskpool_space *ret_pool,
		    struct diskpool_space *ret_data)
{
	*ret_pool = space_of(d->dir);
	*ret_data = space_of(d->data_dir);
}

void diskpool_sync(const struct diskpool *d)
{
	d->ops->sync(d->dir);
}

void diskpool_trim(const struct diskpool *d)
{
	struct fstrim_range all = { .len = UINT64_MAX };
	autoclose fd = d->image ? open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		(void)ioctl(fd, FITRIM, &all); /* the file below may not know holes */
}
