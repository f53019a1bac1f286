/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what a sandbox sends below a directory, whatever the archive says. Directories are opened
 * from ours on without following any link, so that no link that the archive brings, or that was
 * there before, leads elsewhere. A file is written under a name of its own and then renamed: until
 * it is complete, the old one stays.
 *
 * A symbolic link may lead up and then down, but not out of what is copied. ".." after another name
 * is refused, because that name may be a link: counting names would not tell where it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/sandbox/pack_priv.h"

enum {
	SUFFIX_LEN = 12,
	SHOWN_MAX = 20, /* refusals that are reported one by one */
};

struct unpack {
	int root;
	char *from, *name;
	bool recursive, whole; /* whole: from is "." */
	size_t n_entries, n_refused;
	/* The file that is being written. */
	int fd, parent;
	char *base, *tmp;
	mode_t mode;
	int64_t mtime;
	bool skipping; /* the data of an entry that was refused */
};

static struct err *hostile(const char *path)
{
	return err_new(ERR_FORBIDDEN, "the sandbox sends \"%s\", which is not what was asked for",
		       path);
}

/*
 * The path below the root: "./from/a/b" is "name/a/b". malloc'd; "" is the root itself. NULL: it
 * leads elsewhere.
 */
static char *inside(const struct unpack *u, const char *path)
{
	struct span rest = SPAN(path);
	autobuf b = { 0 };
	bool first = true;

	if (*path == '/')
		return NULL;
	while (rest.p) {
		struct span one = span_cut(rest, '/', &rest);

		if (!one.len || span_eq(one, "."))
			continue;
		if (span_eq(one, "..") || (first && !u->whole && !span_eq(one, u->from)))
			return NULL;
		if (b.len)
			buf_add_char(&b, '/');
		if (first && !u->whole)
			buf_add_str(&b, u->name);
		else
			buf_add(&b, one.p, one.len);
		first = false;
	}
	return buf_steal(&b, NULL);
}

static int open_dir(const struct unpack *u, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, u->root, *path ? path : ".", &how, sizeof(how));
}

/* One name after the other, each of them a directory and no link. dir is cut up. */
static int make_dirs(const struct unpack *u, char *dir)
{
	int at = fcntl(u->root, F_DUPFD_CLOEXEC, 0);

	for (char *p = dir, *next; at >= 0 && p && *p; p = next) {
		int above = at;

		next = strchr(p, '/');
		if (next)
			*next++ = 0;
		(void)mkdirat(above, p, 0777); /* openat() tells */
		at = openat(above, p, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(above);
	}
	return at;
}

/* The directory that path is in, made if need be. *ret_base points into path. */
static struct err *open_parent(const struct unpack *u, const char *path, int *ret,
			       const char **ret_base)
{
	const char *slash = strrchr(path, '/');
	autofree char *dir = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	int fd = open_dir(u, dir);

	if (fd < 0 && errno == ENOENT)
		fd = make_dirs(u, dir);
	if (fd < 0)
		return err_sys(errno, "open the directory of %s below the destination", path);
	*ret = fd;
	*ret_base = slash ? slash + 1 : path;
	return NULL;
}

static void refuse(struct unpack *u, const struct tar_entry *t, const char *why)
{
	if (u->n_refused++ < SHOWN_MAX) {
		autofree char *text = xstrdup(t->path);

		cli_disarm(text, '\0');
		(void)fprintf(stderr, "cay: cp: %s is left out: %s\n", text, why);
	}
	u->skipping = true;
}

static struct err *make_dir(struct unpack *u, const struct tar_entry *t, const char *path)
{
	autoclose parent = -1;
	const char *base;
	struct err *e;

	if (!u->recursive)
		return err_new(ERR_INVALID, "%s is a directory; copy it with -r", u->from);
	if (!*path)
		return NULL;
	e = open_parent(u, path, &parent, &base);
	if (e)
		return e;
	/* We have to be able to write into it. */
	if (mkdirat(parent, base, (t->mode & 0777) | 0700) < 0) {
		autoclose there = errno == EEXIST ? open_dir(u, path) : -1;

		if (there < 0)
			return err_sys(errno == EEXIST ? ENOTDIR : errno, "make directory %s",
				       path);
	}
	return NULL;
}

static struct err *make_file(struct unpack *u, const struct tar_entry *t, const char *path)
{
	char suffix[SUFFIX_LEN + 1];
	const char *base;
	struct err *e;

	if (!*path)
		return hostile(t->path);
	e = open_parent(u, path, &u->parent, &base);
	if (e)
		return e;
	random_suffix(suffix, SUFFIX_LEN);
	u->base = xstrdup(base);
	u->tmp = xasprintf(".cay-cp-%s", suffix);
	u->mode = t->mode & 0777;
	u->mtime = t->mtime;
	u->fd = openat(u->parent, u->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (u->fd < 0)
		return err_sys(errno, "create %s", path);
	return NULL;
}

/* Up at most to the top of what is copied, and only down from there. */
static bool link_stays(const struct unpack *u, const char *path, const char *target)
{
	struct span rest = SPAN(target);
	bool down = false;
	size_t depth = 0;

	for (const char *p = path; *p; p++)
		depth += *p == '/';
	if (!u->whole && !depth)
		return false; /* the top itself is a link: it would lead out at once */
	if (!u->whole)
		depth--;
	if (!*target || *target == '/')
		return false;
	while (rest.p) {
		struct span one = span_cut(rest, '/', &rest);

		if (!one.len || span_eq(one, "."))
			continue;
		if (!span_eq(one, "..")) {
			down = true;
			continue;
		}
		if (down || !depth)
			return false;
		depth--;
	}
	return true;
}

/* Whatever has the name makes room, unless it is a directory. */
static struct err *make_symlink(struct unpack *u, const struct tar_entry *t, const char *path)
{
	autoclose parent = -1;
	const char *base;
	struct err *e;

	if (!*path || !link_stays(u, path, t->link)) {
		refuse(u, t, "a link that leads out of what is copied");
		return NULL;
	}
	e = open_parent(u, path, &parent, &base);
	if (e)
		return e;
	(void)unlinkat(parent, base, 0); /* symlinkat() tells what is wrong */
	if (symlinkat(t->link, parent, base) < 0)
		return err_sys(errno, "make link %s", path);
	return NULL;
}

static struct err *make_hardlink(struct unpack *u, const struct tar_entry *t, const char *path)
{
	autofree char *target = inside(u, t->link);
	autoclose from = -1, to = -1;
	const char *from_base, *to_base;
	struct err *e;

	if (!target || !*target || !*path) {
		refuse(u, t, "a link that leads out of what is copied");
		return NULL;
	}
	e = open_parent(u, target, &from, &from_base);
	if (!e)
		e = open_parent(u, path, &to, &to_base);
	if (e)
		return e;
	(void)unlinkat(to, to_base, 0);
	if (linkat(from, from_base, to, to_base, 0) < 0)
		return err_sys(errno, "make link %s", path);
	return NULL;
}

static struct err *on_entry(void *arg, const struct tar_entry *t)
{
	struct unpack *u = arg;
	autofree char *path = inside(u, t->path);

	if (!path || (!u->recursive && strchr(path, '/')))
		return hostile(t->path);
	u->n_entries++;
	u->skipping = false;
	switch (t->type) {
	case TAR_FILE:
		return make_file(u, t, path);
	case TAR_DIR:
		return make_dir(u, t, path);
	case TAR_SYMLINK:
		return make_symlink(u, t, path);
	case TAR_HARDLINK:
		return make_hardlink(u, t, path);
	case TAR_OTHER:
	case TAR_TYPE_MAX_:
		break;
	}
	refuse(u, t, "a device, a fifo or something unknown");
	return NULL;
}

static struct err *on_data(void *arg, const char *p, size_t len)
{
	struct unpack *u = arg;

	return u->skipping || u->fd < 0 ? NULL : fd_write_all(u->fd, p, len);
}

static void drop_file(struct unpack *u)
{
	if (u->fd >= 0)
		(void)close(take_fd(u->fd));
	if (u->parent >= 0)
		(void)close(take_fd(u->parent));
	free(take(u->base));
	free(take(u->tmp));
}

static struct err *on_end(void *arg)
{
	struct unpack *u = arg;
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = u->mtime } };
	struct err *e = NULL;
	mode_t mask;

	if (u->fd < 0)
		return NULL;
	mask = umask(0);
	(void)umask(mask);
	if (fchmod(u->fd, u->mode & ~mask) < 0 || futimens(u->fd, times) < 0 ||
	    renameat(u->parent, u->tmp, u->parent, u->base) < 0) {
		e = err_sys(errno, "finish %s", u->base);
		(void)unlinkat(u->parent, u->tmp, 0);
	}
	drop_file(u);
	return e;
}

const struct tar_events unpack_events = { on_entry, on_data, on_end };

struct err *unpack_open(const struct unpack_spec *spec, struct unpack **ret)
{
	autoptr(unpack) u = xnew(struct unpack);

	u->fd = u->parent = -1;
	u->from = xstrdup(spec->from);
	u->name = xstrdup(spec->name);
	u->recursive = spec->recursive;
	u->whole = str_eq(spec->from, ".");
	u->root = open(spec->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (u->root < 0)
		return err_sys(errno, "open directory %s", spec->dir);
	*ret = take(u);
	return NULL;
}

void unpack_free(struct unpack *u)
{
	if (!u)
		return;
	if (u->fd >= 0)
		(void)unlinkat(u->parent, u->tmp, 0);
	drop_file(u);
	if (u->root >= 0)
		(void)close(u->root);
	free(u->from);
	free(u->name);
	free(u);
}

size_t unpack_n_refused(const struct unpack *u)
{
	return u->n_refused;
}

size_t unpack_n_entries(const struct unpack *u)
{
	return u->n_entries;
}
