/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/file.h"

/*
 * Removes a tree that an attacker may have built. Every directory is opened by descriptor, without
 * following links and without crossing mounts. A tree may be far deeper than our stack or our
 * descriptors allow, so the walk goes MAX_DEPTH levels down and no further: a directory found there
 * is moved to the top under a new name, and is removed in the next pass over the top.
 */
enum {
	MAX_DEPTH = 32,
};

struct removal {
	int top;
	unsigned n_moved;
	bool again; /* something was moved to the top */
};

static struct err *remove_below(struct removal *r, int fd, unsigned depth);

/* The same where the kernel lacks the call, as gVisor's does: another device is another mount. */
static int open_dir_plain(int dirfd, const char *name)
{
	autoclose fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat above, st;

	if (fd < 0)
		return -1;
	if (fstat(dirfd, &above) < 0 || fstat(fd, &st) < 0)
		return -1;
	if (above.st_dev != st.st_dev) {
		errno = EXDEV;
		return -1;
	}
	return take_fd(fd);
}

static int open_dir(int dirfd, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
	};

	int fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));

	return fd < 0 && errno == ENOSYS ? open_dir_plain(dirfd, name) : fd;
}

static struct err *move_to_top(struct removal *r, int dirfd, const char *name)
{
	char to[32];

	do
		(void)snprintf(to, sizeof(to), ".removing.%u", r->n_moved++);
	while (file_exists(r->top, to));
	if (renameat(dirfd, name, r->top, to) < 0)
		return err_sys(errno, "move %s to the top", name);
	r->again = true;
	return NULL;
}

static struct err *remove_dir(struct removal *r, int dirfd, const char *name, unsigned depth)
{
	struct err *e;
	int fd;

	if (!unlinkat(dirfd, name, AT_REMOVEDIR) || errno == ENOENT)
		return NULL;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return err_sys(errno, "remove directory %s", name);
	if (depth >= MAX_DEPTH)
		return move_to_top(r, dirfd, name);
	fd = open_dir(dirfd, name);
	if (fd < 0)
		return err_sys(errno, "open directory %s", name);
	e = remove_below(r, fd, depth + 1); /* closes fd */
	if (e)
		return err_wrap(e, "empty %s", name);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(errno, "remove directory %s", name);
	return NULL;
}

static struct err *remove_entry(struct removal *r, int dirfd, const struct dirent *d,
				unsigned depth)
{
	if (d->d_type == DT_DIR)
		return remove_dir(r, dirfd, d->d_name, depth);
	if (!unlinkat(dirfd, d->d_name, 0) || errno == ENOENT)
		return NULL;
	if (errno == EISDIR || errno == EPERM) /* DT_UNKNOWN, or it was replaced by a directory */
		return remove_dir(r, dirfd, d->d_name, depth);
	return err_sys(errno, "remove %s", d->d_name);
}

/* Empties the directory fd and closes it. */
static struct err *remove_below(struct removal *r, int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *d;
	struct err *e = NULL;

	if (!dir) {
		e = err_sys(errno, "read directory");
		close(fd);
		return e;
	}
	while (!e && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			e = remove_entry(r, fd, d, depth);
	closedir(dir);
	return e;
}

static struct err *empty_top(struct removal *r)
{
	struct err *e;
	int fd;

	do {
		r->again = false;
		fd = openat(r->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(errno, "open directory");
		e = remove_below(r, fd, 1);
	} while (!e && r->again);
	return e;
}

struct err *file_remove_tree(int dirfd, const char *path)
{
	struct removal r = { 0 };
	autoclose top = -1;
	struct err *e;

	if (!unlinkat(dirfd, path, 0) || errno == ENOENT)
		return NULL;
	if (errno != EISDIR && errno != EPERM)
		return err_sys(errno, "remove %s", path);
	top = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return err_sys(errno, "open %s", path);
	r.top = top;
	e = empty_top(&r);
	if (!e && unlinkat(dirfd, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		e = err_sys(errno, "remove directory");
	return err_wrap(e, "remove %s", path);
}
