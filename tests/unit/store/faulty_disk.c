/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "test.h"

struct image { /* the bytes of a file as of its last sync */
	char *data;
	size_t len;
};

static struct {
	char dir[PATH_MAX];
	struct map *synced; /* path → struct image */
	struct map *listed; /* path of a file whose entry in the directory is durable → itself */
	bool full, broken;
	const char *reserve;
	uint64_t room, taken;
} disk;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the store's writer is another thread */

static ssize_t (*real_pwrite)(int fd, const void *p, size_t len, off_t at);
static const char *pwrite_name;

static void image_free(void *arg)
{
	struct image *im = arg;

	free(im->data);
	free(im);
}

static bool watched_path(int fd, char ret[PATH_MAX])
{
	char link[64];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, PATH_MAX - 1);
	if (n < 0)
		return false;
	ret[n] = '\0';
	return *disk.dir && str_starts(ret, disk.dir) && strchr("/", ret[strlen(disk.dir)]);
}

static void note_file(const char *path, int fd)
{
	struct image *im = xnew(struct image);
	struct stat st;

	eq_int(fstat(fd, &st), 0);
	im->len = (size_t)st.st_size;
	im->data = xmalloc(im->len + 1);
	eq_int(pread(fd, im->data, im->len, 0), (ssize_t)im->len);
	map_put(disk.synced, path, im);
}

static void note_directory(void)
{
	DIR *d = opendir(disk.dir);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		autofree char *path = xasprintf("%s/%s", disk.dir, de->d_name);

		map_put(disk.listed, path, xstrdup(path));
	}
	(void)closedir(d);
}

static int sync_with(int fd, long call)
{
	char path[PATH_MAX];
	struct stat st;

	(void)pthread_mutex_lock(&lock);
	if (watched_path(fd, path) && !fstat(fd, &st)) {
		if (S_ISDIR(st.st_mode))
			note_directory();
		else
			note_file(path, fd);
	}
	(void)pthread_mutex_unlock(&lock);
	return (int)syscall(call, fd);
}

int fsync(int fd)
{
	return sync_with(fd, SYS_fsync);
}

int fdatasync(int fd)
{
	return sync_with(fd, SYS_fdatasync);
}

int statvfs(const char *path, struct statvfs *ret)
{
	(void)path;
	(void)pthread_mutex_lock(&lock);
	*ret = (struct statvfs){ .f_frsize = 4096, .f_bavail = disk.full ? 0 : 1 << 20 };
	(void)pthread_mutex_unlock(&lock);
	return 0;
}

/* Bytes that the file needs and does not have yet. */
static uint64_t growth(int fd, size_t len, off_t at)
{
	uint64_t end = (uint64_t)at + len, have;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	have = (uint64_t)st.st_blocks * 512;
	return end > have ? end - have : 0;
}

/* 0, or why a write fails. */
static int fault_of(int fd, size_t len, off_t at)
{
	char path[PATH_MAX];
	uint64_t more, room;

	if (!watched_path(fd, path))
		return 0;
	if (disk.broken)
		return EIO;
	more = disk.full ? growth(fd, len, at) : 0;
	if (!more)
		return 0;
	room = access(disk.reserve, F_OK) < 0 ? disk.room : 0;
	if (disk.taken + more > room)
		return ENOSPC;
	disk.taken += more;
	return 0;
}

static ssize_t faulty_pwrite(int fd, const void *p, size_t len, off_t at)
{
	int fault;

	(void)pthread_mutex_lock(&lock);
	fault = fault_of(fd, len, at);
	(void)pthread_mutex_unlock(&lock);
	errno = fault;
	return fault ? -1 : real_pwrite(fd, p, len, at);
}

static void hook_writes(void)
{
	static const char *const names[] = { "pwrite64", "pwrite" };
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	for (size_t i = 0; i < ARRAY_LEN(names) && !real_pwrite; i++) {
		real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))vfs->xGetSystemCall(
			vfs, names[i]);
		pwrite_name = names[i];
	}
	is_true(real_pwrite != NULL);
	eq_int(vfs->xSetSystemCall(vfs, pwrite_name, (sqlite3_syscall_ptr)faulty_pwrite),
	       SQLITE_OK);
}

void faulty_disk_watch(const char *dir)
{
	if (!real_pwrite)
		hook_writes();
	(void)pthread_mutex_lock(&lock);
	map_free(disk.synced);
	map_free(disk.listed);
	disk.synced = dir ? map_new(image_free) : NULL;
	disk.listed = dir ? map_new(free) : NULL;
	(void)snprintf(disk.dir, sizeof(disk.dir), "%s", dir ? dir : "");
	disk.full = disk.broken = false;
	(void)pthread_mutex_unlock(&lock);
}

void faulty_disk_cut(const char *to)
{
	eq_int(mkdir(to, 0700), 0);
	(void)pthread_mutex_lock(&lock);
	map_each(it, disk.synced) {
		const struct image *im = it.value;
		autofree char *path = xasprintf("%s%s", to, it.key + strlen(disk.dir));
		autoclose fd = -1;

		if (!map_has(disk.listed, it.key) || access(it.key, F_OK) < 0)
			continue;
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		is_true(fd >= 0);
		works(fd_write_all(fd, im->data, im->len));
	}
	(void)pthread_mutex_unlock(&lock);
}

void faulty_disk_fill(const char *reserve, uint64_t room)
{
	(void)pthread_mutex_lock(&lock);
	disk.full = true;
	disk.reserve = reserve;
	disk.room = room;
	disk.taken = 0;
	(void)pthread_mutex_unlock(&lock);
}

void faulty_disk_empty(void)
{
	(void)pthread_mutex_lock(&lock);
	disk.full = false;
	(void)pthread_mutex_unlock(&lock);
}

void faulty_disk_break(bool on)
{
	(void)pthread_mutex_lock(&lock);
	disk.broken = on;
	(void)pthread_mutex_unlock(&lock);
}
