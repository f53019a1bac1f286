/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/disk/disk_priv.h"

/*
 * A pool in a file. It is made under another name and renamed when it is complete, so that a crash
 * leaves either a whole one or nothing of worth. The loop device frees itself with its last user:
 * the mount of the daemon, or the mounts of sandboxes that outlive it.
 */
#define MIB INT64_C(1048576)

enum {
	SIZE_MAX_MIB = 64 * 1024, /* of one whose size nobody chose */
	SIZE_MIN_MIB = 256,
	RESERVE_MIB = 1024, /* stays free for the store, or a tenth where that is less */
	LOOP_TRIES = 64,
	LOOP_BLOCK = 4096,
	DETACH_MS = 2000,
	DETACH_STEP_MS = 10,
};

char *pool_image_file(const char *data_dir)
{
	return xasprintf("%s/pool.img", data_dir);
}

char *pool_image_outer(const char *data_dir)
{
	return xasprintf("%s/pool", data_dir);
}

char *pool_image_mount(const char *data_dir)
{
	return xasprintf("%s/pool/fs", data_dir);
}

bool pool_image_exists(const char *data_dir)
{
	autofree char *file = pool_image_file(data_dir);

	return file_exists(AT_FDCWD, file);
}

bool pool_is_mount(const char *path)
{
	struct statx st;

	return !statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) &&
	       st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

bool pool_image_mounted(const char *data_dir)
{
	autofree char *at = pool_image_mount(data_dir);

	return pool_is_mount(at);
}

char *pool_find_program(const char *name)
{
	static const char *const places[] = { "/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		autofree char *path = xasprintf("%s/%s", places[i], name);

		if (!access(path, X_OK))
			return take(path);
	}
	return NULL;
}

struct err *program_run(const char *program, char *const *argv)
{
	char *const env[] = { NULL };
	posix_spawn_file_actions_t fds;
	int status = 0, r;
	pid_t pid;

	(void)posix_spawn_file_actions_init(&fds);
	for (int fd = 0; fd < 3; fd++)
		(void)posix_spawn_file_actions_addopen(&fds, fd, "/dev/null", O_RDWR, 0);
	r = posix_spawn(&pid, program, &fds, NULL, argv, env);
	(void)posix_spawn_file_actions_destroy(&fds);
	if (r)
		return err_sys(r, "run %s", program);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(errno, "wait for %s", program);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return err_new(ERR_UNSUPPORTED, "%s ended with status %d", program,
			       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return NULL;
}

/* Metadata is there once: the file system that holds the image is responsible for the media. */
static struct err *format(const char *file)
{
	autofree char *mkfs = pool_find_program("mkfs.btrfs");
	char *const argv[] = { (char[]){ "mkfs.btrfs" },
			       (char[]){ "-q" },
			       (char[]){ "-K" },
			       (char[]){ "-m" },
			       (char[]){ "single" },
			       (char[]){ "-d" },
			       (char[]){ "single" },
			       (char[]){ "-L" },
			       (char[]){ "cay" },
			       (char *)(uintptr_t)file,
			       NULL };

	if (!mkfs)
		return err_new(ERR_UNSUPPORTED, "mkfs.btrfs is missing; install btrfs-progs");
	return program_run(mkfs, argv);
}

/* What is written to the pool must leave room for the store, which may be next to it. */
static struct err *choose_size(const char *data_dir, int64_t *size)
{
	struct statvfs fs;
	int64_t free_bytes, reserve;

	if (statvfs(data_dir, &fs) < 0)
		return err_sys(errno, "look for space in %s", data_dir);
	free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
	reserve = MIN(RESERVE_MIB * MIB, free_bytes / 10);
	if (*size && *size < SIZE_MIN_MIB * MIB)
		return err_new(ERR_INVALID,
			       "disk pool is too small; --disk-pool-size is at least %d MiB",
			       SIZE_MIN_MIB);
	if (*size && *size > free_bytes - reserve)
		return err_new(ERR_INVALID,
			       "disk pool of %lld MiB would not leave %lld MiB of the %lld MiB "
			       "free in %s; choose a smaller --disk-pool-size",
			       (long long)(*size / MIB), (long long)(reserve / MIB),
			       (long long)(free_bytes / MIB), data_dir);
	if (!*size)
		*size = MIN(SIZE_MAX_MIB * MIB, free_bytes / 2);
	*size &= ~(MIB - 1);
	if (*size < SIZE_MIN_MIB * MIB)
		return err_new(
			ERR_UNSUPPORTED,
			"%s has %lld MiB free; a disk pool takes half of it, and at least %d "
			"MiB",
			data_dir, (long long)(free_bytes / MIB), SIZE_MIN_MIB);
	return NULL;
}

static struct err *make_file(const char *path, int64_t size)
{
	autoclose fd = -1;
	int flags = FS_NOCOW_FL;

	(void)unlink(path); /* of a start that was interrupted */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(errno, "create %s", path);
	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags); /* only where the data directory is on a btrfs */
	return ftruncate(fd, size) < 0 ? err_sys(errno, "size %s", path) : NULL;
}

/* Volumes go into it from now on: neither the file nor its name may be lost. */
static struct err *finish_file(const char *data_dir, const char *from, const char *to)
{
	autoclose dir = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose fd = open(from, O_RDWR | O_CLOEXEC);

	if (dir < 0 || fd < 0 || fsync(fd) < 0 || rename(from, to) < 0 || fsync(dir) < 0)
		return err_sys(errno, "finish %s", to);
	return NULL;
}

char *diskpool_existing(const char *path)
{
	char *there = xstrdup(path), *slash;

	while (!file_exists(AT_FDCWD, there) && (slash = strrchr(there, '/')) && slash > there)
		*slash = '\0';
	if (file_exists(AT_FDCWD, there))
		return there;
	free(there);
	return xstrdup(*path == '/' ? "/" : ".");
}

struct err *pool_image_possible(const char *data_dir)
{
	autofree char *parent = diskpool_existing(data_dir),
		      *mkfs = pool_find_program("mkfs.btrfs");
	int64_t size = 0;

	if (!mkfs)
		return err_new(ERR_UNSUPPORTED, "mkfs.btrfs is missing");
	if (access("/dev/loop-control", R_OK | W_OK) < 0)
		return err_sys(errno, "open /dev/loop-control");
	return choose_size(parent, &size);
}

struct err *pool_image_create(const char *data_dir, int64_t size)
{
	autofree char *file = pool_image_file(data_dir), *new = xasprintf("%s.new", file);
	struct err *e = choose_size(data_dir, &size);

	if (!e)
		e = make_file(new, size);
	if (!e)
		e = format(new);
	if (!e)
		e = finish_file(data_dir, new, file);
	if (e)
		(void)unlink(new);
	return err_wrap(e, "make a disk pool");
}

char *pool_image_loop(const char *data_dir)
{
	autofree char *file = pool_image_file(data_dir), *real = realpath(file, NULL);
	DIR *d = opendir("/sys/block");
	const struct dirent *de;
	char *found = NULL;

	while (d && real && !found && (de = readdir(d))) {
		autofree char *path = xasprintf("/sys/block/%s/loop/backing_file", de->d_name);
		autofree char *text = NULL;

		if (!str_starts(de->d_name, "loop"))
			continue;
		err_free(file_read(AT_FDCWD, path, PATH_MAX, &text, NULL));
		if (text && strlen(text) == strlen(real) + 1 && str_starts(text, real))
			found = xasprintf("/dev/%s", de->d_name);
	}
	if (d)
		(void)closedir(d);
	return found;
}

/* Another program may take a free device before we do. */
struct err *pool_attach_loop(const char *file, char **ret_name, int *ret_fd)
{
	autoclose control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	autoclose image = open(file, O_RDWR | O_CLOEXEC);

	if (control < 0 || image < 0)
		return err_sys(errno, "open %s", control < 0 ? "/dev/loop-control" : file);
	for (int i = 0; i < LOOP_TRIES; i++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE);
		autofree char *name = xasprintf("/dev/loop%d", n);
		autoclose fd = n < 0 ? -1 : open(name, O_RDWR | O_CLOEXEC);
		struct loop_config config = {
			.fd = (uint32_t)image,
			.block_size = LOOP_BLOCK,
			.info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO },
		};

		if (fd < 0)
			return err_sys(errno, "open a loop device");
		(void)snprintf((char *)config.info.lo_file_name, LO_NAME_SIZE, "%s", file);
		if (ioctl(fd, LOOP_CONFIGURE, &config) < 0) {
			if (errno == EBUSY)
				continue;
			return err_sys(errno, "set up %s", name);
		}
		*ret_name = take(name);
		*ret_fd = take_fd(fd);
		return NULL;
	}
	return err_new(ERR_EXHAUSTED, "no loop device stays free");
}

static struct err *make_mount_points(const char *outer, const char *at)
{
	struct err *e = file_mkdirs(outer, 0700);

	if (e)
		return e;
	if (!pool_is_mount(outer) && (mount(outer, outer, NULL, MS_BIND, NULL) < 0 ||
				      mount(NULL, outer, NULL, MS_PRIVATE, NULL) < 0 ||
				      mount(NULL, outer, NULL, MS_SHARED, NULL) < 0))
		return err_sys(errno, "prepare %s for mounts", outer);
	return file_mkdirs(at, 0700);
}

/* noatime: reading must not cost a sandbox any of its limit. */
static struct err *mount_pool(const char *device, const char *at)
{
	if (mount(device, at, "btrfs", MS_NOSUID | MS_NODEV | MS_NOATIME, "nodiscard") < 0)
		return err_sys(errno, "mount %s at %s", device, at);
	return NULL;
}

struct err *pool_image_attach(const char *data_dir)
{
	autofree char *file = pool_image_file(data_dir), *outer = pool_image_outer(data_dir);
	autofree char *at = pool_image_mount(data_dir), *device = pool_image_loop(data_dir);
	autoclose loop = -1;
	struct err *e;

	if (pool_is_mount(at))
		return NULL;
	e = make_mount_points(outer, at);
	if (!e && !device) /* sandboxes that run keep theirs */
		e = pool_attach_loop(file, &device, &loop);
	if (!e)
		e = mount_pool(device, at);
	return err_wrap(e, "open the disk pool %s", file);
}

/* The mounts of processes that have just ended go a moment after them. */
static void await_loop_gone(const char *data_dir)
{
	for (int i = 0; i < DETACH_MS / DETACH_STEP_MS; i++) {
		autofree char *device = pool_image_loop(data_dir);

		if (!device)
			return;
		(void)poll(NULL, 0, DETACH_STEP_MS);
	}
}

void pool_image_detach(const char *data_dir)
{
	autofree char *outer = pool_image_outer(data_dir), *at = pool_image_mount(data_dir);

	if (pool_is_mount(at) && umount2(at, 0) < 0)
		(void)umount2(at, MNT_DETACH); /* somebody looks into it */
	(void)rmdir(at);
	if (pool_is_mount(outer))
		(void)umount2(outer, MNT_DETACH);
	(void)rmdir(outer);
	await_loop_gone(data_dir);
}
