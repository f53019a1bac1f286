/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "guest/files/chore_priv.h"
#include "guest/files/files.h"
#include "guest/files/files_priv.h"
#include "guest/files/rest_priv.h"
#include "guest/runtime/json_text.h"
#include "guest/runtime/path.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "net/http_server.h"

/*
 * The sandboxd REST API: GET and HEAD of files and directories, DELETE, health and metadata. A
 * directory is listed by name, so its names are read first; what is behind them is looked at as the
 * answer is sent.
 */
enum {
	LIST_MAX = 1000 * 1000, /* entries */
};

void rest_absent(struct http_request *r, struct err *e)
{
	if (err_is(e, ERR_NOT_FOUND) || err_errno(e) == ENOTDIR || err_errno(e) == ENAMETOOLONG ||
	    err_errno(e) == ELOOP) {
		err_free(e);
		rest_error(r, 404, "NOT_FOUND", "path does not exist within the sandbox");
		return;
	}
	rest_refuse(r, e);
}

struct rest_listing {
	struct base base;
	char *path; /* clean */
	char *told; /* as requested */
	char **names;
	size_t n, at;
	bool begun;
};

static void listing_free(void *arg)
{
	struct rest_listing *l = arg;

	for (size_t i = 0; i < l->n; i++)
		free(l->names[i]);
	free(l->names);
	free(l->path);
	free(l->told);
	base_done(&l->base);
	free(l);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes fd. */
static struct err *names_read(struct rest_listing *l, int fd)
{
	DIR *dir = fdopendir(fd);
	struct err *e = NULL;
	struct dirent *d;
	size_t cap = 0;

	if (!dir) {
		(void)close(fd);
		return err_sys(errno, "read directory");
	}
	while (!e && (errno = 0, d = readdir(dir))) {
		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		if (l->n == LIST_MAX)
			e = err_new(ERR_TOO_LARGE, "directory has more than %d entries", LIST_MAX);
		if (l->n == cap) {
			cap = cap ? cap * 2 : 64;
			l->names = xrealloc(l->names, cap * sizeof(*l->names));
		}
		if (!e)
			l->names[l->n++] = xstrdup(d->d_name);
	}
	if (!e && errno)
		e = err_sys(errno, "read directory");
	(void)closedir(dir);
	if (l->n)
		qsort(l->names, l->n, sizeof(*l->names), by_name);
	return e;
}

/* What is behind a name; false if it is gone, dangles, or is not in the sandbox. */
static bool look_behind(struct rest_listing *l, const char *name, struct stat *st)
{
	autofree char *path = xasprintf("%s/%s", l->path, name);
	autoclose fd = -1;
	autoptr(err) e = path_open(&l->base, path, O_PATH, &fd);

	return !e && !fstat(fd, st);
}

static enum reply_next listing_more(void *arg, struct buf *out)
{
	struct rest_listing *l = arg;
	struct stat st;

	if (!l->at && !l->begun) {
		buf_add_str(out, "{\"path\":");
		json_put_string(out, l->told);
		buf_add_str(out, ",\"entries\":[");
	}
	for (; l->at < l->n && out->len < RT_PIECE; l->at++) {
		if (!look_behind(l, l->names[l->at], &st))
			continue;
		buf_add_str(out, l->begun ? ",{\"name\":" : "{\"name\":");
		l->begun = true;
		json_put_string(out, l->names[l->at]);
		buf_printf(out, ",\"size\":%llu,\"type\":\"%s\",\"modified_at\":",
			   (unsigned long long)st.st_size,
			   S_ISDIR(st.st_mode) ? "directory" : "file");
		put_time(out, st.st_mtime);
		buf_printf(out, ",\"mode\":\"%04o\"}", (unsigned)st.st_mode & 0777);
	}
	if (l->at < l->n)
		return REPLY_MORE;
	buf_add_str(out, "]}\n");
	return REPLY_END;
}

/* Takes fd and base. */
static void listing_send(struct http_request *r, struct base *b, int fd, const char *path,
			 const char *told)
{
	static const struct reply_ops ops = { listing_more, listing_free };
	struct rest_listing *l = xnew(struct rest_listing);
	struct err *e;

	l->base = *b;
	l->path = xstrdup(path);
	l->told = xasprintf("/%s", told + strspn(told, "/"));
	e = names_read(l, fd);
	if (e) {
		listing_free(l);
		rest_refuse(r, e);
		return;
	}
	reply_stream(r, NULL, &ops, l);
}

static void serve_get(struct face *f, struct http_request *r, const char *tail)
{
	autofree char *path = NULL;
	struct stat st;
	struct base b;
	int fd = -1;
	struct err *e = base_open(f->base, &b);

	if (e) {
		rest_absent(r, e);
		return;
	}
	e = path_clean(&b, tail, &path);
	if (!e)
		e = path_open(&b, path, O_RDONLY, &fd);
	if (!e && fstat(fd, &st) < 0)
		e = err_sys(errno, "look at %s", path);
	if (!e && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		e = err_new(ERR_INVALID, "path is neither a file nor a directory");
	if (!e && S_ISDIR(st.st_mode)) {
		listing_send(r, &b, fd, path, tail);
		return;
	}
	base_done(&b);
	if (!e) {
		file_send(r, &(struct file_answer){ .fd = fd, .st = &st, .conditions = true });
		return;
	}
	if (fd >= 0)
		(void)close(fd);
	rest_absent(r, e);
}

static void respond_done(struct http_request *r)
{
	http_respond(r, 204, NULL, (struct http_body){ 0 });
}

/* A removal that is under way; r is dead if the client has left. */
struct removal {
	struct http_request *r;
};

static int remove_tree(int fd, const char *name)
{
	autoptr(err) e = file_remove_tree(fd, name);

	return e ? (err_errno(e) ? err_errno(e) : EIO) : 0;
}

/* Everything in the directory, and not the directory itself. */
static int remove_contents(int fd, unused const char *name)
{
	DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	const struct dirent *d;
	int errnum = dir ? 0 : errno;

	while (!errnum && (d = readdir(dir)))
		if (!str_eq(d->d_name, ".") && !str_eq(d->d_name, ".."))
			errnum = remove_tree(fd, d->d_name);
	if (dir)
		(void)closedir(dir);
	return errnum;
}

static void on_removed(void *arg, int errnum)
{
	struct removal *d = arg;

	if (errnum)
		rest_refuse(d->r, err_sys(errnum, "remove"));
	else
		respond_done(d->r);
	http_request_unref(d->r);
	free(d);
}

static void remove_later(struct rt *rt, struct http_request *r, int dir, const char *name)
{
	struct removal *d = xnew(struct removal);
	struct chore chore = { name ? remove_tree : remove_contents, on_removed, d };

	d->r = http_request_ref(r);
	chore_run(rt, &chore, dir, name);
}

bool rest_bool(const char *text, bool *ret)
{
	static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True", NULL };
	static const char *const no[] = { "0", "f", "F", "FALSE", "false", "False", NULL };

	*ret = text && str_in(text, yes);
	return !text || *ret || str_in(text, no);
}

static void delete_entry(struct rt *rt, struct http_request *r, int dir, const char *name,
			 bool recursive)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
		if (recursive) {
			remove_later(rt, r, dir, name);
			return;
		}
		if (!unlinkat(dir, name, AT_REMOVEDIR)) {
			respond_done(r);
			return;
		}
		if (errno == ENOTEMPTY || errno == EEXIST) {
			rest_error(r, 409, "CONFLICT",
				   "directory is not empty; pass recursive=true to remove it");
			return;
		}
	} else if (!unlinkat(dir, name, 0)) {
		respond_done(r);
		return;
	}
	rest_absent(r, err_sys(errno, "remove %s", name));
}

/* The directory and the name of what is to be deleted; *ret_name is NULL for the root itself. */
static struct err *find_entry(struct face *f, const char *tail, int *ret_dir, char **ret_name)
{
	autofree char *path = NULL;
	struct stat st;
	struct base b;
	struct err *e = base_open(f->base, &b);

	if (e)
		return e;
	e = path_clean(&b, tail, &path);
	if (!e && *path)
		e = path_entry(&b, path, ret_dir, ret_name);
	else if (!e)
		e = path_open(&b, ".", O_RDONLY | O_DIRECTORY, ret_dir);
	base_done(&b);
	if (!e && *ret_name && fstatat(*ret_dir, *ret_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		e = err_sys(errno, "look at %s", *ret_name);
	return e;
}

static void serve_delete(struct face *f, struct http_request *r, const char *tail)
{
	autofree char *text = http_query_get(http_request_query(r), "recursive"), *name = NULL;
	autoclose dir = -1;
	bool recursive;
	struct err *e = find_entry(f, tail, &dir, &name);

	if (e)
		rest_absent(r, e);
	else if (!rest_bool(text, &recursive))
		rest_error(r, 400, "INVALID_ARGUMENT", "recursive must be true or false");
	else if (name)
		delete_entry(f->rt, r, dir, name, recursive);
	else if (recursive)
		remove_later(f->rt, r, dir, NULL);
	else
		rest_error(r, 409, "CONFLICT",
			   "this is the root directory; pass recursive=true to empty it");
}

void rest_files_serve(struct face *f, struct http_request *r, const char *tail)
{
	const char *method = http_request_method(r);

	if (str_eq(method, "GET") || str_eq(method, "HEAD"))
		serve_get(f, r, tail);
	else if (str_eq(method, "PUT"))
		rest_put_serve(f, r, tail);
	else if (str_eq(method, "DELETE"))
		serve_delete(f, r, tail);
	else
		rest_no_route(r, "GET, HEAD, PUT, DELETE");
}

void rest_health_serve(struct face *f, struct http_request *r, unused const char *tail)
{
	autobuf body = { 0 };

	buf_printf(&body, "{\"status\":\"ok\",\"uptime_seconds\":%lld}\n",
		   (long long)((clock_mono() - f->rt->since) / 1000000));
	reply_json(r, 200, &body);
}

/* The name of a variable that may be told to whoever reaches this port. */
static bool may_be_told(const char *name, size_t len)
{
	static const char *const withheld[] = { "TOKEN", "SECRET", "PASSWORD", "PASSWD",  "CRED",
						"KEY",   "AUTH",   "BEARER",   "PRIVATE", "CERT" };
	autofree char *upper = xstrndup(name, len);

	if (!len || !str_starts(name, "SANDBOX_"))
		return false;
	for (size_t i = 0; i < len; i++)
		if (upper[i] >= 'a' && upper[i] <= 'z')
			upper[i] = (char)(upper[i] - 'a' + 'A');
	for (size_t i = 0; i < ARRAY_LEN(withheld); i++)
		if (strstr(upper, withheld[i]))
			return false;
	return true;
}

void rest_metadata_serve(struct face *f, struct http_request *r, unused const char *tail)
{
	autobuf body = { 0 };
	bool begun = false;

	buf_add_str(&body, "{\"env\":{");
	for (const char *const *v = f->rt->env; v && *v; v++) {
		size_t len = strcspn(*v, "=");
		autofree char *name = xstrndup(*v, len);

		if (!(*v)[len] || !may_be_told(*v, len))
			continue;
		if (begun)
			buf_add_char(&body, ',');
		begun = true;
		json_put_string(&body, name);
		buf_add_char(&body, ':');
		json_put_string(&body, *v + len + 1);
	}
	buf_add_str(&body, "}}\n");
	reply_json(r, 200, &body);
}
