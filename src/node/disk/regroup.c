/* SPDX-License-Identifier: Apache-2.0 */
#include "node/disk/regroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/wall.h"

/*
 * One component at a time, from the descriptor of its directory, and children before their
 * directory: where the directory at the top is right, everything below it is.
 */
enum {
	FILE_RW = 0660,
	FILE_RO = 0440,
	DIR_MORE = S_ISGID | 0110,
	BITS = 07777,
};

static struct err *walk(int fd, struct regroup *r, unsigned depth);

static int open_one(int dir, const char *name, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
	};

	if (!wall_stands("group-walk"))
		return openat(dir, name, flags | O_CLOEXEC);
	return (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
}

static mode_t wanted(const struct regroup *r, const struct stat *st)
{
	mode_t more = r->readonly ? FILE_RO : FILE_RW;

	if (S_ISDIR(st->st_mode))
		return (st->st_mode & BITS) | more | DIR_MORE;
	return (st->st_mode & 0777) | more;
}

bool regroup_done(int dir_fd, const struct regroup *r)
{
	struct stat st;

	return !fstat(dir_fd, &st) && st.st_gid == r->gid && (st.st_mode & BITS) == wanted(r, &st);
}

/* The modes of links mean nothing. A descriptor of O_PATH has its mode changed by its name. */
static struct err *give(int fd, const struct regroup *r)
{
	char self[40];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(errno, "look at a file");
	if (st.st_gid != r->gid &&
	    fchownat(fd, "", (uid_t)-1, r->gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "change the group of a file");
	if (S_ISLNK(st.st_mode) || (st.st_mode & BITS) == wanted(r, &st))
		return NULL;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (chmod(self, wanted(r, &st)) < 0)
		return err_sys(errno, "change the mode of a file");
	return NULL;
}

static struct err *walk_dir(int dir, const char *name, struct regroup *r, unsigned depth)
{
	int fd = open_one(dir, name, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV
			       ? NULL /* it has just become something else */
			       : err_sys(errno, "open a directory");
	if (depth >= REGROUP_DEPTH) {
		close(fd);
		return err_new(ERR_TOO_LARGE, "directories are more than %d levels deep",
			       REGROUP_DEPTH);
	}
	return walk(fd, r, depth + 1); /* closes fd */
}

static struct err *walk_entry(int dir, const struct dirent *d, struct regroup *r, unsigned depth)
{
	autoclose fd = -1;
	struct stat st;

	if (atomic_load(&r->stop))
		return err_new(ERR_CANCELED, "nobody waits for it any more");
	if (atomic_fetch_add(&r->n, 1) >= REGROUP_ENTRIES)
		return err_new(ERR_TOO_LARGE, "there are more than %d files", REGROUP_ENTRIES);
	if (d->d_type == DT_DIR)
		return walk_dir(dir, d->d_name, r, depth);
	fd = open_one(dir, d->d_name, O_PATH);
	if (fd < 0)
		return errno == ENOENT || errno == EXDEV ? NULL : err_sys(errno, "open a file");
	if (fstat(fd, &st) < 0)
		return err_sys(errno, "look at a file");
	return S_ISDIR(st.st_mode) ? walk_dir(dir, d->d_name, r, depth) : give(fd, r);
}

/* Closes fd. */
static struct err *walk(int fd, struct regroup *r, unsigned depth)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *d;
	struct err *e = NULL;

	if (!dir) {
		e = err_sys(errno, "read a directory");
		close(fd);
		return e;
	}
	while (!e && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			e = walk_entry(fd, d, r, depth);
	if (!e)
		e = give(fd, r);
	closedir(dir);
	return e;
}

struct err *regroup(int dir_fd, struct regroup *r)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(errno, "open a directory");
	return walk(fd, r, 1);
}
