/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "guest/runtime/plain.h"

/*
 * A path is first walked by name: each link is replaced by its target, each ".." removes a name,
 * and a path that leaves the base that way is rejected. An absolute link is inside if it begins
 * with the base's own path. The kernel then opens the result beneath the base, so that a link which
 * appears in between can make the call fail, but nothing more.
 */
enum {
	LINKS_MAX = 40,
	LENGTH_MAX = 16 * PATH_MAX,
};

struct err *base_open(const char *path, struct base *ret)
{
	autofree char *real = realpath(path, NULL);
	autoclose fd = -1;

	if (!real)
		return err_sys(errno, "find %s", path);
	fd = open(real, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(errno, "open %s", path);
	*ret = (struct base){ take_fd(fd), take(real), xstrdup(path) };
	return NULL;
}

void base_done(struct base *b)
{
	if (b->fd > 2)
		(void)close(b->fd);
	free(b->real);
	free(b->given);
	*b = (struct base){ -1, NULL, NULL };
}

struct walk {
	const struct base *base;
	struct buf done; /* names so far, without links */
	char *rest;      /* still to be walked */
	unsigned n_links;
};

static struct err *escapes(void)
{
	return err_new(ERR_FORBIDDEN, "the path leaves the base directory");
}

static struct err *step_up(struct walk *w)
{
	char *slash;

	if (!w->done.len)
		return escapes();
	slash = memrchr(buf_head(&w->done), '/', w->done.len);
	w->done.len = slash ? (size_t)(slash - buf_head(&w->done)) : 0;
	return NULL;
}

/* The part of an absolute path that follows dir; NULL if the path is not below dir. */
static const char *behind(const char *dir, const char *path)
{
	size_t len = strlen(dir);

	while (len && dir[len - 1] == '/')
		len--;
	if (strncmp(dir, path, len) != 0 || (path[len] && path[len] != '/'))
		return NULL;
	return path + len;
}

/* The rest of the walk goes through target; a relative target starts where its link was. */
static struct err *follow(struct walk *w, const char *target, const char *rest)
{
	const char *inside = target;
	char *joined;

	if (++w->n_links > LINKS_MAX)
		return err_sys(ELOOP, "follow links");
	if (*target == '/') {
		inside = behind(w->base->real, target);
		if (!inside)
			inside = behind(w->base->given, target);
		if (!inside)
			return escapes();
		w->done.len = 0;
	}
	if (strlen(inside) + strlen(rest) > LENGTH_MAX)
		return err_sys(ENAMETOOLONG, "follow links");
	joined = xasprintf("%s/%s", inside, rest);
	free(w->rest);
	w->rest = joined;
	return NULL;
}

static struct err *step_into(struct walk *w, struct span name, const char *rest)
{
	size_t before = w->done.len;
	char target[PATH_MAX];
	ssize_t n;

	if (before)
		buf_add_char(&w->done, '/');
	buf_add(&w->done, name.p, name.len);
	n = readlinkat(w->base->fd, buf_str(&w->done), target, sizeof(target) - 1);
	if (n >= 0) {
		target[n] = '\0';
		w->done.len = before;
		return follow(w, target, rest);
	}
	memmove(w->rest, rest, strlen(rest) + 1);
	return NULL;
}

static struct err *walk(struct walk *w)
{
	struct err *e = NULL;

	while (!e && *w->rest) {
		struct span left, name = span_cut(SPAN(w->rest), '/', &left);
		const char *rest = left.p ? left.p : "";

		if (name.len && !span_eq(name, ".") && !span_eq(name, "..")) {
			e = step_into(w, name, rest);
			continue;
		}
		if (span_eq(name, ".."))
			e = step_up(w);
		memmove(w->rest, rest, strlen(rest) + 1);
	}
	return e;
}

struct err *path_resolve(const struct base *b, const char *path, char **ret)
{
	struct walk w = { .base = b };
	struct err *e;

	if (strlen(path) > LENGTH_MAX)
		return err_sys(ENAMETOOLONG, "resolve a path");
	w.rest = xstrdup(path);
	e = walk(&w);
	if (!e)
		*ret = w.done.len ? buf_steal(&w.done, NULL) : xstrdup(".");
	buf_done(&w.done);
	free(w.rest);
	return e;
}

struct err *path_open(const struct base *b, const char *path, int flags, int *ret)
{
	autofree char *plain = NULL;
	struct err *e = path_resolve(b, path, &plain);

	if (e)
		return e;
	if (!(flags & O_PATH))
		/* Neither wait for what is there nor make it our controlling terminal. */
		flags |= O_NOCTTY | O_NONBLOCK;
	e = file_open_beneath(b->fd, plain, flags, 0, ret);
	if (e && err_errno(e) == ENOSYS) {
		err_free(e);
		*ret = plain_open(b->fd, plain, flags, 0);
		e = *ret < 0 ? err_sys(errno, "open %s", plain) : NULL;
	}
	return e && err_errno(e) == EXDEV ? err_recode(e, ERR_FORBIDDEN) : e;
}

/* Enters the directory name, creating it if necessary, never through a link. Replaces *dir. */
static struct err *enter(int *dir, struct span name)
{
	char one[NAME_MAX + 1];
	int next;

	if (name.len > NAME_MAX)
		return err_sys(ENAMETOOLONG, "create a directory");
	memcpy(one, name.p, name.len);
	one[name.len] = '\0';
	if (mkdirat(*dir, one, 0777) < 0 && errno != EEXIST)
		return err_sys(errno, "create directory %s", one);
	next = openat(*dir, one, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (next < 0)
		return err_sys(errno, "open directory %s", one);
	(void)close(*dir);
	*dir = next;
	return NULL;
}

struct err *path_descend(int from, const char *plain, int *ret_dir, const char **ret_name)
{
	autoclose dir = fcntl(from, F_DUPFD_CLOEXEC, 3);
	struct span left, name;

	if (dir < 0)
		return err_sys(errno, "duplicate a descriptor");
	for (name = span_cut(SPAN(plain), '/', &left); left.p; name = span_cut(left, '/', &left)) {
		struct err *e = enter(&dir, name);

		if (e)
			return e;
	}
	*ret_dir = take_fd(dir);
	*ret_name = name.p; /* the last name ends with the string */
	return NULL;
}

struct err *path_create(const struct base *b, const char *path, int *ret)
{
	autofree char *plain = NULL;
	autoclose dir = -1, fd = -1;
	const char *name;
	struct stat st;
	struct err *e = path_resolve(b, path, &plain);

	if (!e)
		e = path_descend(b->fd, plain, &dir, &name);
	if (e)
		return e;
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC,
		    0666);
	if (fd < 0)
		return err_sys(errno, "open %s", name);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "%s is not a regular file", name);
	if (ftruncate(fd, 0) < 0)
		return err_sys(errno, "empty %s", name);
	*ret = take_fd(fd);
	return NULL;
}

struct err *path_place(const struct base *b, const char *path, int *ret_dir, char **ret_name)
{
	autofree char *plain = NULL;
	const char *name;
	struct err *e = path_resolve(b, path, &plain);

	if (!e && str_eq(plain, "."))
		e = err_new(ERR_INVALID, "target path is a directory");
	if (!e)
		e = path_descend(b->fd, plain, ret_dir, &name);
	if (!e)
		*ret_name = xstrdup(name);
	return e;
}

struct err *path_entry(const struct base *b, const char *path, int *ret_dir, char **ret_name)
{
	const char *slash = strrchr(path, '/');
	autofree char *parent = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	struct err *e = path_open(b, parent, O_PATH | O_DIRECTORY, ret_dir);

	if (!e)
		*ret_name = xstrdup(slash ? slash + 1 : path);
	return e;
}

/* Adds the names of path to out; each ".." removes one. False: there was none to remove. */
static bool clean_into(struct buf *out, const char *path)
{
	struct span left = SPAN(path);

	while (left.p) {
		struct span name = span_cut(left, '/', &left);

		if (!name.len || span_eq(name, "."))
			continue;
		if (span_eq(name, "..")) {
			char *slash = out->len ? memrchr(buf_head(out), '/', out->len) : NULL;

			if (!out->len && *path != '/')
				return false;
			out->len = slash ? (size_t)(slash - buf_head(out)) : 0;
			continue;
		}
		if (out->len)
			buf_add_char(out, '/');
		buf_add(out, name.p, name.len);
	}
	return true;
}

struct err *path_clean(const struct base *b, const char *path, char **ret)
{
	autobuf out = { 0 };
	autofree char *absolute = NULL;
	const char *inside;

	if (strlen(path) > LENGTH_MAX)
		return err_sys(ENAMETOOLONG, "read a path");
	if (!clean_into(&out, path))
		return escapes();
	absolute = xasprintf("/%s", buf_str(&out));
	inside = *path == '/' ? behind(b->real, absolute) : NULL;
	if (!inside && *path == '/')
		inside = behind(b->given, absolute);
	inside = inside ? inside : absolute;
	*ret = xstrdup(inside + strspn(inside, "/"));
	return NULL;
}
