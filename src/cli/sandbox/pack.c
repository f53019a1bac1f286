/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A local file or directory as a tar stream. At any time there is one open file and a directory for
 * each level above it; nothing is read ahead.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/sandbox/pack_priv.h"

enum {
	DEPTH_MAX = 200,
	CHUNK = 64 * 1024,
	LINK_LEN_MAX = 4096,
};

struct level {
	DIR *dir;
	char *path; /* in the archive */
};

struct pack {
	struct level levels[DEPTH_MAX];
	size_t depth;
	int fd; /* of the file that is being read; -1: none */
	char *path;
	uint64_t left;
	uint64_t size;
	bool ended;
	struct buf head; /* of the first entry, which is sent first */
};

/* One that shrinks while it is read is filled up with zeros: its size was promised. */
static struct err *read_file(struct pack *p, struct buf *out)
{
	size_t want = (size_t)MIN(p->left, (uint64_t)CHUNK);
	char *to = buf_reserve(out, want);
	ssize_t n = want ? read(p->fd, to, want) : 0;

	if (n < 0)
		return err_sys(errno, "read %s", p->path);
	if (want && !n) {
		memset(to, 0, want);
		n = (ssize_t)want;
	}
	buf_wrote(out, (size_t)n);
	p->left -= (uint64_t)n;
	if (p->left)
		return NULL;
	tar_put_padding(out, p->size);
	(void)close(take_fd(p->fd));
	free(take(p->path));
	return NULL;
}

static struct err *enter(struct pack *p, int fd, const char *path)
{
	DIR *dir;

	if (p->depth == DEPTH_MAX) {
		(void)close(fd);
		return err_new(ERR_INVALID, "%s: directories are nested more than %d deep", path,
			       DEPTH_MAX);
	}
	dir = fdopendir(fd);
	if (!dir) {
		struct err *e = err_sys(errno, "read directory %s", path);

		(void)close(fd);
		return e;
	}
	p->levels[p->depth++] = (struct level){ dir, xstrdup(path) };
	return NULL;
}

static void leave(struct pack *p)
{
	struct level *l = &p->levels[--p->depth];

	(void)closedir(l->dir);
	free(l->path);
}

static struct err *add_symlink(int at, const char *name, const struct tar_entry *t, struct buf *out)
{
	char target[LINK_LEN_MAX + 1];
	ssize_t n = readlinkat(at, name, target, LINK_LEN_MAX);
	struct tar_entry link = *t;

	if (n < 0)
		return err_sys(errno, "read link %s", t->path);
	target[n] = 0;
	link.type = TAR_SYMLINK;
	link.link = target;
	tar_put_header(out, &link);
	return NULL;
}

/* fd is taken over. */
static struct err *add_opened(struct pack *p, int fd, struct tar_entry *t, struct buf *out)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		struct err *e = err_sys(errno, "look at %s", t->path);

		(void)close(fd);
		return e;
	}
	t->mode = st.st_mode & 0777;
	t->mtime = st.st_mtime;
	if (S_ISDIR(st.st_mode)) {
		t->type = TAR_DIR;
		tar_put_header(out, t);
		return enter(p, fd, t->path);
	}
	t->type = TAR_FILE;
	t->size = (uint64_t)st.st_size;
	tar_put_header(out, t);
	p->fd = fd;
	p->path = xstrdup(t->path);
	p->left = t->size;
	p->size = t->size;
	return NULL;
}

/* An entry of a directory; what is neither file, directory nor link is left out. */
static struct err *add(struct pack *p, int at, const char *name, const char *path, struct buf *out)
{
	struct tar_entry t = { .path = path };
	struct stat st;
	int fd;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? NULL : err_sys(errno, "look at %s", path);
	t.mode = st.st_mode & 0777;
	t.mtime = st.st_mtime;
	if (S_ISLNK(st.st_mode))
		return add_symlink(at, name, &t, out);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		(void)fprintf(stderr, "cay: cp: %s is left out: not a file, directory or link\n",
			      path);
		return NULL;
	}
	fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return err_sys(errno, "open %s", path);
	return add_opened(p, fd, &t, out);
}

static struct err *next_of_directory(struct pack *p, struct buf *out)
{
	struct level *l = &p->levels[p->depth - 1];
	autofree char *path = NULL;
	struct dirent *d;

	errno = 0;
	d = readdir(l->dir);
	if (!d && errno)
		return err_sys(errno, "read directory %s", l->path);
	if (!d) {
		leave(p);
		return NULL;
	}
	if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
		return NULL;
	path = xasprintf("%s/%s", l->path, d->d_name);
	return add(p, dirfd(l->dir), d->d_name, path, out);
}

struct err *pack_next(struct pack *p, struct buf *out, bool *ret_more)
{
	size_t begin = out->len;
	struct err *e = NULL;

	if (p->head.len)
		buf_add(out, buf_head(&p->head), p->head.len);
	buf_clear(&p->head);
	while (!e && !p->ended && out->len - begin < CHUNK) {
		if (p->fd >= 0) {
			e = read_file(p, out);
		} else if (p->depth) {
			e = next_of_directory(p, out);
		} else {
			tar_put_end(out);
			p->ended = true;
		}
	}
	*ret_more = !p->ended;
	return e;
}

struct err *pack_open(const char *path, const char *name, bool recursive, struct pack **ret)
{
	autoptr(pack) p = xnew(struct pack);
	struct tar_entry t = { .path = name };
	struct stat st;
	struct err *e;
	int fd;

	p->fd = -1;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(errno, "open %s", path);
	if (!S_ISREG(st.st_mode) && !(S_ISDIR(st.st_mode) && recursive)) {
		(void)close(fd);
		return err_new(ERR_INVALID,
			       S_ISDIR(st.st_mode) ? "%s is a directory; copy it with -r"
						   : "%s is neither a file nor a directory",
			       path);
	}
	e = add_opened(p, fd, &t, &p->head);
	if (e)
		return e;
	*ret = take(p);
	return NULL;
}

void pack_free(struct pack *p)
{
	if (!p)
		return;
	while (p->depth)
		leave(p);
	if (p->fd >= 0)
		(void)close(p->fd);
	buf_done(&p->head);
	free(p->path);
	free(p);
}
