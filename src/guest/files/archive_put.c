/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/tar.h"
#include "guest/files/rest_priv.h"
#include "guest/runtime/path.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "net/http_server.h"

/*
 * PUT /v1/archive/PATH: the body is a tar, and its entries are made below a directory as they
 * arrive. No link is ever followed: each directory on the way to an entry is entered by itself from
 * the one above, so neither the archive nor somebody who renames things meanwhile leads outside.
 */
struct unpack {
	int root; /* the directory that everything goes to */
	struct tar_reader *tar;
	struct err *failed;
	int fd; /* of the file that is being written; -1: none */
	uint32_t mode;
	int64_t mtime;
	char *path; /* of the entry */
	unsigned n_entries;
	uint64_t bytes;
};

static void unpack_free(void *owner)
{
	struct unpack *u = owner;

	if (u->fd >= 0)
		(void)close(u->fd);
	if (u->root >= 0)
		(void)close(u->root);
	tar_reader_free(u->tar);
	err_free(u->failed);
	free(u->path);
	free(u);
}

/* What is in the way of an entry goes, unless it is a directory. */
static struct err *make_room(int dir, const char *name)
{
	if (!unlinkat(dir, name, 0) || errno == ENOENT)
		return NULL;
	if (errno == EISDIR)
		return err_new(ERR_INVALID, "a directory is in its place");
	return err_sys(errno, "replace it");
}

static struct err *make_dir(struct unpack *u, const struct tar_entry *t)
{
	autofree char *below = xasprintf("%s/.", u->path);
	autoclose dir = -1;
	const char *rest;
	struct err *e = path_descend(u->root, below, &dir, &rest);

	/* The owner must be able to put into it what follows. */
	if (!e && fchmodat(dir, ".", (t->mode & 0777) | 0700, 0) < 0)
		e = err_sys(errno, "set its mode");
	return e;
}

static struct err *make_file(struct unpack *u, int dir, const char *name)
{
	struct err *e = make_room(dir, name);

	if (e)
		return e;
	u->fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return u->fd < 0 ? err_sys(errno, "create it") : NULL;
}

static struct err *make_symlink(struct unpack *u, const struct tar_entry *t, int dir,
				const char *name)
{
	struct err *e;

	if (!tar_link_stays(u->path, t->link))
		return err_new(ERR_FORBIDDEN, "its target %s leads outside", t->link);
	e = make_room(dir, name);
	if (!e && symlinkat(t->link, dir, name) < 0)
		e = err_sys(errno, "create it");
	return e;
}

static struct err *make_hardlink(struct unpack *u, const struct tar_entry *t, int dir,
				 const char *name)
{
	autofree char *target = NULL;
	autoclose from = -1;
	const char *old;
	struct stat st;
	struct err *e = tar_path_clean(t->link, &target);

	if (!e && !*target)
		e = err_new(ERR_INVALID, "it is a link to the directory itself");
	if (!e)
		e = path_descend(u->root, target, &from, &old);
	if (e)
		return e;
	if (fstatat(from, old, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "find its target %s", t->link);
	if (!S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "its target %s is no file", t->link);
	if (str_eq(target, u->path))
		return NULL;
	e = make_room(dir, name);
	if (!e && linkat(from, old, dir, name, 0) < 0)
		e = err_sys(errno, "link it to %s", t->link);
	return e;
}

static struct err *make(struct unpack *u, const struct tar_entry *t)
{
	autoclose dir = -1;
	const char *name;
	struct err *e;

	if (!*u->path) /* "./": the directory is there */
		return t->type == TAR_DIR ? NULL : err_new(ERR_INVALID, "it has no name");
	if (t->type == TAR_OTHER)
		return err_new(ERR_INVALID, "it is neither a file, a directory nor a link");
	if (t->type == TAR_DIR)
		return make_dir(u, t);
	e = path_descend(u->root, u->path, &dir, &name);
	if (e)
		return e;
	switch (t->type) {
	case TAR_FILE:
		return make_file(u, dir, name);
	case TAR_SYMLINK:
		return make_symlink(u, t, dir, name);
	case TAR_HARDLINK:
		return make_hardlink(u, t, dir, name);
	case TAR_DIR:
	case TAR_OTHER:
	case TAR_TYPE_MAX_:
		break;
	}
	return NULL;
}

static struct err *on_entry(void *arg, const struct tar_entry *t)
{
	struct unpack *u = arg;
	struct err *e;

	free(take(u->path));
	u->n_entries++;
	u->mode = t->mode;
	u->mtime = t->mtime;
	e = tar_path_clean(t->path, &u->path);
	if (e)
		return e;
	e = make(u, t);
	/* A link on the way is not a mistake of the system but of the archive. */
	if (e && (err_errno(e) == ELOOP || err_errno(e) == ENOTDIR))
		e = err_recode(e, ERR_INVALID);
	return err_wrap(e, "entry %s", t->path);
}

static struct err *on_content(void *arg, const char *p, size_t len)
{
	struct unpack *u = arg;

	u->bytes += len;
	return err_wrap(fd_write_all(u->fd, p, len), "entry %s", u->path);
}

static struct err *on_entry_end(void *arg)
{
	struct unpack *u = arg;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = u->mtime } };
	struct err *e = NULL;

	if (u->fd < 0)
		return NULL;
	if (fchmod(u->fd, u->mode) < 0)
		e = err_sys(errno, "entry %s: set its mode", u->path);
	(void)futimens(u->fd, times); /* a time that the file system cannot keep does no harm */
	(void)close(take_fd(u->fd));
	return e;
}

static void on_body(void *owner, unused struct http_request *r, const char *data, size_t len)
{
	struct unpack *u = owner;

	if (!u->failed)
		u->failed = tar_feed(u->tar, data, len);
}

/* What is wrong with an archive is named, also where the path itself would be refused without. */
static void refuse(struct http_request *r, struct err *e)
{
	if (err_is(e, ERR_FORBIDDEN) && !err_errno(e))
		rest_error(r, 403, "PERMISSION_DENIED", "%s", err_text(e));
	else if (err_is(e, ERR_TOO_LARGE))
		rest_error(r, 413, "INVALID_ARGUMENT", "%s", err_text(e));
	else if (err_is(e, ERR_INVALID))
		rest_error(r, 400, "INVALID_ARGUMENT", "%s", err_text(e));
	else
		rest_refuse(r, take(e));
	err_free(e);
}

static void on_body_end(void *owner, struct http_request *r)
{
	struct unpack *u = owner;
	autobuf body = { 0 };

	if (!u->failed)
		u->failed = tar_finish(u->tar);
	if (u->failed) {
		refuse(r, take(u->failed));
		return;
	}
	buf_printf(&body, "{\"entries\":%u,\"bytes\":%llu}\n", u->n_entries,
		   (unsigned long long)u->bytes);
	reply_json(r, 200, &body);
}

/* The directory at path, which is made with those above it if it is missing. */
static struct err *open_root(struct face *f, const char *path, int *ret)
{
	autofree char *clean = NULL, *plain = NULL, *below = NULL;
	const char *rest;
	struct base b;
	struct err *e = base_open(f->base, &b);

	if (e)
		return e;
	e = path_clean(&b, path, &clean);
	if (!e)
		e = path_resolve(&b, clean, &plain);
	if (!e) {
		below = xasprintf("%s/.", plain);
		e = path_descend(b.fd, str_eq(plain, ".") ? "." : below, ret, &rest);
	}
	base_done(&b);
	return e;
}

void archive_put_serve(struct face *f, struct http_request *r, const char *tail)
{
	static const struct tar_events entries = { on_entry, on_content, on_entry_end };
	static const struct http_body_events body = { on_body, on_body_end };
	struct unpack *u = xnew(struct unpack);

	*u = (struct unpack){ .root = -1, .fd = -1 };
	u->tar = tar_reader_new(&entries, u);
	u->failed = open_root(f, tail, &u->root);
	/* As with files, most clients look for an answer only when the body is sent. */
	http_request_set_owner(r, u, unpack_free);
	http_request_stream(r, &body);
}
