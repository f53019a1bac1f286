/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "guest/files/chore_priv.h"
#include "guest/files/multipart_priv.h"
#include "guest/files/rest_priv.h"
#include "guest/runtime/path.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "net/http_server.h"

/*
 * PUT /v1/files/PATH: the body goes to a file without a name, which is synced and then takes its
 * place. Until that moment nobody sees it, and it is gone with us however we end. A file can take
 * the place of another only by a name, so in that case (and where files need names from the
 * beginning) there is one for a moment; one that was left behind by a runtime that was killed is
 * removed by the next who puts something into that directory, and from the root when we begin.
 */
#define TEMPORARY ".sandboxd-tmp-"

struct put {
	struct rt *rt;
	struct http_request *r;
	bool ended;   /* the client has left, or the answer was sent */
	bool syncing; /* the answer comes after that */
	int dir, fd;
	char *name;         /* in dir */
	char temporary[48]; /* in dir; "": it has no name */
	mode_t mode;
	struct multipart *form; /* NULL: the body is the file */
	bool found, inside;     /* the part of the form that is the file; we are in it */
	struct err *bad_form, *failed;
};

static unsigned n_temporary; /* of this process */

static void put_drop(struct put *p)
{
	if (!p->ended || p->syncing)
		return;
	if (*p->temporary)
		(void)unlinkat(p->dir, p->temporary, 0); /* it did not take its place */
	multipart_free(p->form);
	err_free(p->bad_form);
	err_free(p->failed);
	free(p->name);
	if (p->fd >= 0)
		(void)close(p->fd);
	if (p->dir >= 0)
		(void)close(p->dir);
	http_request_unref(p->r);
	free(p);
}

static void on_ended(void *owner)
{
	struct put *p = owner;

	p->ended = true;
	put_drop(p);
}

/* Names of temporary files that no living runtime has made. */
static void sweep(int dir)
{
	autofree char *ours = xasprintf(TEMPORARY "%d-", getpid());
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (str_starts(entry->d_name, TEMPORARY) && !str_starts(entry->d_name, ours))
			(void)unlinkat(dir, entry->d_name, 0);
	if (d)
		(void)closedir(d);
}

static void name_temporary(struct put *p)
{
	sweep(p->dir);
	(void)snprintf(p->temporary, sizeof(p->temporary), TEMPORARY "%d-%u", getpid(),
		       ++n_temporary);
}

static struct err *temporary_open(struct put *p)
{
	p->fd = openat(p->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (p->fd >= 0)
		return NULL;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
		return err_sys(errno, "create a file");
	name_temporary(p);
	p->fd = openat(p->dir, p->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (p->fd >= 0)
		return NULL;
	*p->temporary = '\0';
	return err_sys(errno, "create a file");
}

/* Without privileges, a file that has no name gets one only by the name of its descriptor. */
static int give_name(struct put *p, const char *name)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fd);
	return linkat(AT_FDCWD, path, p->dir, name, AT_SYMLINK_FOLLOW);
}

static struct err *take_place(struct put *p)
{
	if (!*p->temporary) {
		if (!give_name(p, p->name))
			return NULL;
		if (errno != EEXIST)
			return err_sys(errno, "name %s", p->name);
		name_temporary(p);
		if (give_name(p, p->temporary) < 0) {
			*p->temporary = '\0';
			return err_sys(errno, "name a file");
		}
	}
	if (renameat(p->dir, p->temporary, p->dir, p->name) < 0)
		return errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST
			       ? err_new(ERR_INVALID, "target path is a directory")
			       : err_sys(errno, "name %s", p->name);
	*p->temporary = '\0';
	return NULL;
}

static int sync_file(int fd, unused const char *name)
{
	return fsync(fd) < 0 ? errno : 0;
}

static void on_synced(void *arg, int errnum)
{
	struct put *p = arg;
	struct err *e = errnum ? err_sys(errnum, "sync a file") : NULL;

	p->syncing = false;
	if (p->ended) { /* the client has left: as if it had never asked */
		err_free(e);
		put_drop(p);
		return;
	}
	if (!e)
		e = take_place(p);
	if (e)
		rest_refuse(p->r, e);
	else
		http_respond(p->r, 204, NULL, (struct http_body){ 0 });
}

static void write_piece(struct put *p, const char *data, size_t len)
{
	if (!p->failed)
		p->failed = fd_write_all(p->fd, data, len);
}

static void on_part(void *arg, const char *name, unused const char *filename)
{
	struct put *p = arg;

	p->inside = str_eq(name, "file") && !p->found;
	p->found = p->found || p->inside;
}

static void on_part_data(void *arg, const char *data, size_t len)
{
	struct put *p = arg;

	if (p->inside)
		write_piece(p, data, len);
}

static void on_part_end(void *arg)
{
	struct put *p = arg;

	p->inside = false;
}

static void on_body(void *owner, unused struct http_request *r, const char *data, size_t len)
{
	struct put *p = owner;

	if (!p->form)
		write_piece(p, data, len);
	else if (!p->bad_form)
		p->bad_form = multipart_feed(p->form, data, len);
}

static void on_body_end(void *owner, struct http_request *r)
{
	struct put *p = owner;
	struct chore sync = { sync_file, on_synced, p };

	if (p->form && !p->bad_form)
		p->bad_form = multipart_end(p->form);
	if (p->failed) {
		rest_refuse(r, take(p->failed));
	} else if (p->bad_form) {
		rest_error(r, 400, "INVALID_ARGUMENT", "%s", err_text(p->bad_form));
	} else if (p->form && !p->found) {
		rest_error(r, 400, "INVALID_ARGUMENT", "the form has no part named file");
	} else if (fchmod(p->fd, p->mode) < 0) {
		rest_refuse(r, err_sys(errno, "set the mode"));
	} else {
		p->syncing = true;
		chore_run(p->rt, &sync, p->fd, NULL);
	}
}

/* "0644". False: it is not of that form. */
static bool mode_read(struct http_request *r, mode_t *ret)
{
	autofree char *text = http_query_get(http_request_query(r), "mode");
	mode_t mode = 0;

	if (!text) {
		*ret = 0644;
		return true;
	}
	if (strlen(text) != 4 || *text != '0')
		return false;
	for (const char *c = text; *c; c++) {
		if (*c < '0' || *c > '7')
			return false;
		mode = mode << 3 | (mode_t)(*c - '0');
	}
	*ret = mode;
	return true;
}

static struct err *place_open(struct face *f, const char *tail, struct put *p)
{
	static bool swept;
	autofree char *path = NULL;
	struct stat st;
	struct base b;
	struct err *e = base_open(f->base, &b);

	if (e)
		return e;
	if (!swept)
		sweep(b.fd);
	swept = true;
	e = path_clean(&b, tail, &path);
	if (!e)
		e = path_place(&b, path, &p->dir, &p->name);
	base_done(&b);
	if (!e && !fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode))
		e = err_new(ERR_INVALID, "target path is a directory");
	return e ? e : temporary_open(p);
}

void rest_put_serve(struct face *f, struct http_request *r, const char *tail)
{
	static const struct multipart_events parts = { on_part, on_part_data, on_part_end };
	static const struct http_body_events body = { on_body, on_body_end };
	const char *type = http_request_header(r, "Content-Type");
	struct put *p = xnew(struct put);

	*p = (struct put){ .rt = f->rt, .dir = -1, .fd = -1 };
	p->r = http_request_ref(r);
	if (!mode_read(r, &p->mode))
		p->failed = err_new(ERR_INVALID, "mode must match ^0[0-7]{3}$");
	if (!p->failed && type &&
	    !strncasecmp(type, "multipart/form-data", strlen("multipart/form-data")))
		p->failed = err_recode(multipart_new(type, &parts, p, &p->form), ERR_INVALID);
	if (!p->failed)
		p->failed = place_open(f, tail, p);
	/* Whatever is wrong, most clients look for an answer only when the body is sent. */
	http_request_set_owner(r, p, on_ended);
	http_request_stream(r, &body);
}
