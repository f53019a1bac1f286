/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit_priv.h"
#include "base/buf.h"
#include "base/str.h"

/*
 * A file that is rotated: PATH becomes PATH.1, that PATH.2, and the oldest goes. Names are resolved
 * in the directory that was opened at the start. Whoever removed or moved the file finds a new one
 * with the next rotation, not before.
 */
struct audit_file {
	int dir, fd; /* dir -1: standard output */
	char *name;
	uint64_t len, max_bytes;
	unsigned keep;
};

static void numbered(const struct audit_file *f, unsigned n, char ret[NAME_MAX + 1])
{
	if (n)
		(void)snprintf(ret, NAME_MAX + 1, "%s.%u", f->name, n);
	else
		(void)snprintf(ret, NAME_MAX + 1, "%s", f->name);
}

/* A line that a loss of power cut short is ended, so that the next is whole. */
static struct err *end_line(struct audit_file *f)
{
	char last = '\n';

	if (f->len && pread(f->fd, &last, 1, (off_t)f->len - 1) < 0)
		return err_sys(errno, "read its end");
	if (last == '\n')
		return NULL;
	f->len++;
	return fd_write_all(f->fd, "\n", 1);
}

static struct err *open_file(struct audit_file *f)
{
	struct stat st;

	f->fd = openat(f->dir, f->name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return err_sys(errno, "open %s", f->name);
	if (fstat(f->fd, &st) < 0)
		return err_sys(errno, "look at %s", f->name);
	if (!S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "%s is not a regular file", f->name);
	f->len = (uint64_t)st.st_size;
	return end_line(f);
}

static struct err *open_dir(struct audit_file *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	autofree char *dir = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");

	f->name = xstrdup(slash ? slash + 1 : path);
	if (!*f->name || strlen(f->name) > NAME_MAX - 12)
		return err_new(ERR_INVALID, "its name must have 1 to %d bytes", NAME_MAX - 12);
	f->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return f->dir < 0 ? err_sys(errno, "open %s", dir) : NULL;
}

struct err *audit_file_open(const struct audit_spec *spec, struct audit_file **ret)
{
	autoptr(audit_file) f = xnew(struct audit_file);
	struct err *e = NULL;

	f->dir = f->fd = -1;
	f->max_bytes = spec->max_bytes;
	f->keep = spec->keep;
	if (str_eq(spec->path, "-")) {
		f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		e = f->fd < 0 ? err_sys(errno, "use standard output") : NULL;
	} else {
		e = open_dir(f, spec->path);
		if (!e)
			e = open_file(f);
	}
	if (e)
		return e;
	*ret = take(f);
	return NULL;
}

static struct err *rotate(struct audit_file *f)
{
	char from[NAME_MAX + 1], to[NAME_MAX + 1];

	for (unsigned n = f->keep; n > 0; n--) {
		numbered(f, n - 1, from);
		numbered(f, n, to);
		if (renameat(f->dir, from, f->dir, to) < 0 && errno != ENOENT)
			return err_sys(errno, "rename %s to %s", from, to);
	}
	if (!f->keep && unlinkat(f->dir, f->name, 0) < 0 && errno != ENOENT)
		return err_sys(errno, "remove %s", f->name);
	(void)close(f->fd);
	f->fd = -1;
	return open_file(f);
}

/* As much of b as still fits, in whole lines; all of its first line at least. */
static size_t piece(const struct audit_file *f, const struct buf *b)
{
	uint64_t room = f->max_bytes > f->len ? f->max_bytes - f->len : 0;
	const char *p = buf_head(b), *end;

	if (f->dir < 0 || b->len <= room)
		return b->len;
	end = room ? memrchr(p, '\n', room) : NULL;
	if (!end && f->len)
		return 0;
	if (!end)
		end = memchr(p, '\n', b->len);
	return (size_t)(end - p) + 1;
}

struct err *audit_file_append(struct audit_file *f, struct buf *b)
{
	struct err *e = f->fd < 0 ? open_file(f) : NULL;

	while (!e && b->len) {
		size_t len = piece(f, b);
		ssize_t n;

		if (!len) {
			e = rotate(f);
			continue;
		}
		n = write(f->fd, buf_head(b), len);
		if (n < 0 && errno != EINTR)
			return err_sys(errno, "write to %s", f->name ? f->name : "standard output");
		if (n > 0) {
			f->len += (uint64_t)n;
			buf_eat(b, (size_t)n);
		}
	}
	return e;
}

void audit_file_free(struct audit_file *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		(void)close(f->fd);
	if (f->dir >= 0)
		(void)close(f->dir);
	free(f->name);
	free(f);
}
