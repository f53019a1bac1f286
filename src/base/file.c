/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/random.h"
#include "base/str.h"

struct err *file_read(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len)
{
	autoclose fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	autobuf b = { 0 };

	if (fd < 0)
		return err_sys(errno, "open %s", path);
	for (;;) {
		/*
		 * Read one byte more than is allowed, to tell a file of exactly max bytes from a
		 * longer one.
		 */
		size_t space = MIN(max + 1 - b.len, (size_t)64 * 1024);
		ssize_t n = read(fd, buf_reserve(&b, space), space);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(errno, "read %s", path);
		if (n == 0)
			break;
		buf_wrote(&b, (size_t)n);
		if (b.len > max)
			return err_new(ERR_TOO_LARGE, "%s is longer than %zu bytes", path, max);
	}
	*ret = buf_steal(&b, ret_len);
	return NULL;
}

struct err *fd_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(errno, "write %zu bytes", len);
		at += n;
		len -= (size_t)n;
	}
	return NULL;
}

struct err *fd_set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(errno, "make descriptor %d non-blocking", fd);
	return NULL;
}

static struct err *write_synced(int fd, const void *data, size_t len, mode_t mode)
{
	struct err *e = fd_write_all(fd, data, len);

	if (e)
		return e;
	if (fchmod(fd, mode) < 0) /* regardless of the umask */
		return err_sys(errno, "set mode");
	if (fsync(fd) < 0)
		return err_sys(errno, "sync");
	return NULL;
}

/* A rename is durable only after its directory has been synced. */
static struct err *sync_parent(int dirfd, const char *path)
{
	autofree char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	autoclose fd = -1;

	if (slash)
		slash[slash == dir] = '\0';
	fd = openat(dirfd, slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return err_sys(errno, "sync directory of %s", path);
	return NULL;
}

struct err *file_write_atomic(int dirfd, const char *path, const void *data, size_t len,
			      mode_t mode)
{
	autofree char *beside = NULL;
	autoclose fd = -1;
	char tag[13];
	struct err *e;

	random_hex(tag, sizeof(tag) - 1);
	beside = xasprintf("%s.%s.tmp", path, tag);
	fd = openat(dirfd, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(errno, "create %s", beside);
	e = write_synced(fd, data, len, mode);
	if (!e && renameat(dirfd, beside, dirfd, path) < 0)
		e = err_sys(errno, "rename");
	if (e) {
		(void)unlinkat(dirfd, beside, 0);
		return err_wrap(e, "write %s", path);
	}
	return sync_parent(dirfd, path);
}

struct err *file_replace(int dirfd, const char *path, const void *data, size_t len)
{
	autofree char *beside = xasprintf("%s.new", path);
	autoclose fd =
		openat(dirfd, beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create %s", beside);
	e = fd_write_all(fd, data, len);
	if (!e && renameat(dirfd, beside, dirfd, path) < 0)
		e = err_sys(errno, "rename %s", beside);
	return e;
}

struct err *file_write(int dirfd, const char *path, const char *text)
{
	autoclose fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return err_sys(errno, "open %s", path);
	do
		n = write(fd, text, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(errno, "write %s", path);
	if ((size_t)n != len)
		return err_new(ERR_SYS, "write %s: only %zd of %zu bytes were written", path, n,
			       len);
	return NULL;
}

static struct err *make_dir(const char *path, mode_t mode)
{
	struct stat st;
	int errnum;

	if (!mkdir(path, mode))
		return NULL;
	errnum = errno;
	/* Also on EROFS and EACCES: a directory that exists need not be created. */
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return NULL;
	return err_sys(errnum, "create directory %s", path);
}

struct err *file_mkdirs(const char *path, mode_t mode)
{
	autofree char *part = xstrdup(path);
	struct err *e;

	for (char *p = part + 1; *part && *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		e = make_dir(part, mode);
		if (e)
			return e;
		*p = '/';
	}
	return make_dir(path, mode);
}

static int open_how(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
		.mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? mode : 0,
		.resolve = resolve,
	};
	long fd;

	/*
	 * EAGAIN: something was renamed in the meantime and the kernel could not rule out an
	 * escape.
	 */
	for (unsigned tries = 0; tries < 64; tries++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return (int)fd;
}

struct err *file_open_in_root(int root, const char *path, int flags, mode_t mode, int *ret)
{
	int fd = open_how(root, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

	if (fd < 0)
		return err_sys(errno, "open %s", path);
	*ret = fd;
	return NULL;
}

struct err *file_open_beneath(int root, const char *path, int flags, mode_t mode, int *ret)
{
	int fd = open_how(root, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);

	if (fd < 0)
		return err_sys(errno, "open %s", path);
	*ret = fd;
	return NULL;
}

bool file_exists(int dirfd, const char *path)
{
	struct stat st;

	return !fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW);
}

static char *make_absolute(const char *path)
{
	autofree char *here = *path == '/' ? NULL : getcwd(NULL, 0);

	return here ? xasprintf("%s/%s", here, path) : xstrdup(path);
}

char *file_resolve(const char *path)
{
	autofree char *whole = make_absolute(path), *head = xstrdup(whole), *real = NULL;
	const char *rest;
	char *slash;

	while (!(real = realpath(head, NULL)) && errno == ENOENT &&
	       (slash = strrchr(head, '/')) > head)
		*slash = '\0';
	if (!real)
		return take(whole);
	rest = whole + strlen(head);
	return xasprintf("%s%s", str_eq(real, "/") && *rest ? "" : real, rest);
}
