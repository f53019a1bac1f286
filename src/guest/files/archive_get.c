/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "base/tar.h"
#include "guest/files/files.h"
#include "guest/files/rest_priv.h"
#include "guest/runtime/path.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "net/http_server.h"

/*
 * GET /v1/archive/PATH: a directory as a tar, made while it is sent. Links are told and never
 * followed; what is neither a file, a directory nor a link is left out, and so is what disappears
 * before its turn. What cannot be read tears the answer: an archive that ends is complete.
 */
enum {
	DEPTH_MAX = 256,
};

struct pack {
	struct level {
		DIR *dir;
		size_t path_len; /* of the path up to it */
	} levels[DEPTH_MAX];
	size_t depth;
	struct buf path; /* of the directory that is being read, with a slash at its end */
	int fd;          /* of the file that is being read; -1: none */
	uint64_t size, left;
	struct buf ahead; /* the first piece, made before there was an answer */
	enum reply_next next;
	struct err *failed;
};

static void pack_free(void *arg)
{
	struct pack *p = arg;

	while (p->depth)
		(void)closedir(p->levels[--p->depth].dir);
	if (p->fd >= 0)
		(void)close(p->fd);
	buf_done(&p->path);
	buf_done(&p->ahead);
	err_free(p->failed);
	free(p);
}

/* Takes fd. False: it cannot be read, or is too deep. */
static bool enter(struct pack *p, int fd, size_t path_len)
{
	DIR *dir = p->depth < DEPTH_MAX ? fdopendir(fd) : NULL;

	if (!dir) {
		(void)close(fd);
		errno = p->depth < DEPTH_MAX ? EACCES : EOVERFLOW;
		return false;
	}
	p->levels[p->depth++] = (struct level){ dir, path_len };
	return true;
}

static bool gone(void)
{
	return errno == ENOENT || errno == ELOOP || errno == ENOTDIR;
}

static bool put_dir(struct pack *p, struct buf *out, const char *name, struct tar_entry *t)
{
	int fd = openat(dirfd(p->levels[p->depth - 1].dir), name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = p->path.len;

	if (fd < 0)
		return gone();
	buf_printf(&p->path, "%s/", name);
	t->path = buf_str(&p->path);
	tar_put_header(out, t);
	return enter(p, fd, len);
}

static bool put_file(struct pack *p, struct buf *out, const char *name, struct tar_entry *t)
{
	struct stat st;

	p->fd = openat(dirfd(p->levels[p->depth - 1].dir), name,
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (p->fd < 0)
		return gone();
	if (fstat(p->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		(void)close(take_fd(p->fd));
		return true; /* it was another a moment ago */
	}
	t->size = p->size = p->left = (uint64_t)st.st_size;
	tar_put_header(out, t);
	return true;
}

static bool put_link(struct pack *p, struct buf *out, const char *name, const struct tar_entry *t)
{
	struct tar_entry link = *t;
	char target[PATH_MAX];
	ssize_t n =
		readlinkat(dirfd(p->levels[p->depth - 1].dir), name, target, sizeof(target) - 1);

	if (n < 0)
		return gone() || errno == EINVAL;
	target[n] = '\0';
	link.link = target;
	tar_put_header(out, &link);
	return true;
}

static bool put_entry(struct pack *p, struct buf *out, const char *name)
{
	autofree char *path = xasprintf("%s%s", buf_str(&p->path), name);
	struct tar_entry t = { .path = path, .link = "" };
	struct stat st;

	if (fstatat(dirfd(p->levels[p->depth - 1].dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return gone();
	t.mode = st.st_mode & 0777;
	t.mtime = st.st_mtime;
	if (S_ISDIR(st.st_mode)) {
		t.type = TAR_DIR;
		return put_dir(p, out, name, &t);
	}
	if (S_ISLNK(st.st_mode)) {
		t.type = TAR_SYMLINK;
		return put_link(p, out, name, &t);
	}
	t.type = TAR_FILE;
	return !S_ISREG(st.st_mode) || put_file(p, out, name, &t);
}

static bool put_content(struct pack *p, struct buf *out)
{
	size_t want = (size_t)MIN(p->left, (uint64_t)RT_PIECE);
	ssize_t n = want ? read(p->fd, buf_reserve(out, want), want) : 0;

	if (want && n <= 0)
		return false; /* it has shrunk, or cannot be read */
	buf_wrote(out, (size_t)n);
	p->left -= (uint64_t)n;
	if (!p->left) {
		tar_put_padding(out, p->size);
		(void)close(take_fd(p->fd));
	}
	return true;
}

/* The next name of the directory that is being read. False: it cannot be read. */
static bool put_next(struct pack *p, struct buf *out)
{
	struct level *l = &p->levels[p->depth - 1];
	const struct dirent *d;

	errno = 0;
	d = readdir(l->dir);
	if (d) {
		if (str_eq(d->d_name, ".") || str_eq(d->d_name, "..") ||
		    put_entry(p, out, d->d_name))
			return true;
		p->failed = err_sys(errno, "read %s%s", buf_str(&p->path), d->d_name);
		return false;
	}
	if (errno) {
		p->failed = err_sys(errno, "read %s", buf_str(&p->path));
		return false;
	}
	p->path.len = l->path_len;
	(void)closedir(l->dir);
	p->depth--;
	return true;
}

static enum reply_next on_more(void *arg, struct buf *out)
{
	struct pack *p = arg;

	if (p->ahead.len) {
		buf_add(out, buf_head(&p->ahead), p->ahead.len);
		buf_done(&p->ahead);
		return p->next;
	}
	while (out->len < RT_PIECE) {
		if (p->fd < 0 && !p->depth) {
			tar_put_end(out);
			return REPLY_END;
		}
		if (!(p->fd >= 0 ? put_content(p, out) : put_next(p, out)))
			return REPLY_TORN;
	}
	return REPLY_MORE;
}

static struct err *open_dir(struct face *f, const char *path, int *ret)
{
	autofree char *clean = NULL;
	struct base b;
	struct err *e = base_open(f->base, &b);

	if (e)
		return e;
	e = path_clean(&b, path, &clean);
	if (!e)
		e = path_open(&b, clean, O_RDONLY | O_DIRECTORY, ret);
	base_done(&b);
	return e;
}

static void refuse(struct http_request *r, struct err *e)
{
	if (e)
		rest_refuse(r, e);
	else
		rest_error(r, 500, "INTERNAL", "a file changed while it was read");
}

static void archive_get_serve(struct face *f, struct http_request *r, const char *tail)
{
	static const struct reply_ops ops = { on_more, pack_free };
	struct http_headers h = { 0 };
	struct buf first = { 0 };
	struct pack *p;
	int fd;
	struct err *e = open_dir(f, tail, &fd);

	if (e && err_errno(e) == ENOTDIR) {
		err_free(e);
		rest_error(r, 400, "INVALID_ARGUMENT",
			   "it is not a directory; GET /v1/files has single files");
		return;
	}
	if (e) {
		rest_absent(r, e);
		return;
	}
	p = xnew(struct pack);
	p->fd = -1;
	if (!enter(p, fd, 0))
		p->failed = err_sys(errno, "read the directory");
	p->next = p->failed ? REPLY_TORN : on_more(p, &first);
	if (p->next == REPLY_TORN) { /* as long as nothing is sent, the reason can be */
		refuse(r, take(p->failed));
		buf_done(&first);
		pack_free(p);
		return;
	}
	p->ahead = first;
	http_headers_add(&h, "Content-Type", "application/x-tar");
	reply_stream(r, &(struct reply_head){ 200, &h, -1 }, &ops, p);
	http_headers_done(&h);
}

void archive_serve(struct face *f, struct http_request *r, const char *tail)
{
	if (str_eq(http_request_method(r), "GET"))
		archive_get_serve(f, r, tail);
	else if (str_eq(http_request_method(r), "PUT"))
		archive_put_serve(f, r, tail);
	else
		rest_no_route(r, "GET, PUT");
}
