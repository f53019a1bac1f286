/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/str.h"
#include "guest/files/files_priv.h"
#include "guest/runtime/json_text.h"
#include "guest/runtime/path.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "net/http_server.h"

/* GET /download, /list and /exists. */

#define HTTP_DATE "%a, %d %b %Y %H:%M:%S GMT"

static struct err *open_in_base(struct face *f, const char *path, int flags, int *ret)
{
	struct base b;
	struct err *e = base_open(f->base, &b);

	if (e)
		return e;
	e = path_open(&b, path, flags, ret);
	base_done(&b);
	return e;
}

struct download {
	int fd;
	off_t at;
	uint64_t left;
};

static enum reply_next download_more(void *arg, struct buf *out)
{
	struct download *d = arg;
	size_t want = (size_t)MIN(d->left, (uint64_t)RT_PIECE);
	ssize_t n;

	if (!d->left)
		return REPLY_END;
	n = pread(d->fd, buf_reserve(out, want), want, d->at);
	if (n <= 0)
		return REPLY_TORN; /* it has shrunk in the meantime */
	buf_wrote(out, (size_t)n);
	d->at += n;
	d->left -= (uint64_t)n;
	return d->left ? REPLY_MORE : REPLY_END;
}

static void download_done(void *arg)
{
	struct download *d = arg;

	(void)close(d->fd);
	free(d);
}

enum range_kind {
	RANGE_WHOLE,
	RANGE_PART,
	RANGE_OUTSIDE,
	RANGE_KIND_MAX_,
};

/* A number of a range; if it is empty, it is absent. */
static bool range_number(struct span s, bool *there, uint64_t *ret)
{
	char text[24];
	autoptr(err) e = NULL;

	*there = s.len > 0;
	if (!s.len)
		return true;
	if (s.len >= sizeof(text))
		return false;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	e = parse_uint(text, UINT64_MAX, ret);
	return !e;
}

/* "bytes=2-5", "bytes=2-", "bytes=-5". Anything else, several ranges too, means the whole file. */
static enum range_kind range_read(const char *text, uint64_t size, uint64_t *from, uint64_t *len)
{
	struct span first, last;
	uint64_t a = 0, z = 0;
	bool has_a, has_z;

	if (!text || !str_starts(text, "bytes=") || strchr(text, ','))
		return RANGE_WHOLE;
	first = span_cut(span_trim(SPAN(text + strlen("bytes="))), '-', &last);
	if (!last.p || !range_number(first, &has_a, &a) || !range_number(last, &has_z, &z))
		return RANGE_WHOLE;
	if ((!has_a && !has_z) || (has_a && has_z && a > z))
		return RANGE_WHOLE;
	if (!has_a) { /* the last z bytes */
		a = size - MIN(z, size);
		has_z = false;
		if (!z)
			return RANGE_OUTSIDE;
	}
	if (a >= size)
		return RANGE_OUTSIDE;
	*from = a;
	*len = (has_z ? MIN(z, size - 1) : size - 1) - a + 1;
	return RANGE_PART;
}

static void put_disposition(struct http_headers *h, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	autofree char *encoded = url_encode(name), *value = NULL;

	if (str_eq(encoded, name))
		value = xasprintf("attachment; filename=\"%s\"", name);
	else
		value = xasprintf("attachment; filename*=utf-8''%s", encoded);
	http_headers_add(h, "Content-Disposition", value);
}

static void put_file_headers(struct http_headers *h, const struct stat *st, char etag[64])
{
	char date[64];
	struct tm tm;

	(void)gmtime_r(&st->st_mtime, &tm);
	(void)strftime(date, sizeof(date), HTTP_DATE, &tm);
	(void)snprintf(etag, 64, "\"%llx.%lx-%llx\"", (unsigned long long)st->st_mtim.tv_sec,
		       (unsigned long)st->st_mtim.tv_nsec, (unsigned long long)st->st_size);
	http_headers_add(h, "Content-Type", "application/octet-stream");
	http_headers_add(h, "Accept-Ranges", "bytes");
	http_headers_add(h, "Last-Modified", date);
	http_headers_add(h, "ETag", etag);
}

/*
 * A range applies to the file that the client knows; if it has changed, the client gets all of it.
 */
static const char *range_wanted(struct http_request *r, const struct http_headers *h,
				const char *etag)
{
	const char *if_range = http_request_header(r, "If-Range");

	if (if_range && !str_eq(if_range, etag) &&
	    !str_eq(if_range, http_headers_get(h, "Last-Modified")))
		return NULL;
	return http_request_header(r, "Range");
}

/* True if a list of tags has this one; a weak tag ("W/") counts as the same file. */
static bool tags_have(const char *list, const char *etag)
{
	struct span left = SPAN(list);

	while (left.p) {
		struct span tag = span_trim(span_cut(left, ',', &left));

		if (tag.len > 2 && !memcmp(tag.p, "W/", 2))
			tag = (struct span){ tag.p + 2, tag.len - 2 };
		if (span_eq(tag, etag) || span_eq(tag, "*"))
			return true;
	}
	return false;
}

/* -1: there is no such header, or it is no date. */
static time_t date_of(struct http_request *r, const char *name)
{
	const char *text = http_request_header(r, name);
	struct tm tm = { 0 };
	const char *end = text ? strptime(text, HTTP_DATE, &tm) : NULL;

	return end && !*end ? timegm(&tm) : -1;
}

/* 0, or the status that the client's conditions ask for. */
static int condition_of(struct http_request *r, const struct stat *st, const char *etag)
{
	const char *match = http_request_header(r, "If-Match");
	const char *none = http_request_header(r, "If-None-Match");
	time_t before = date_of(r, "If-Unmodified-Since"), after = date_of(r, "If-Modified-Since");

	if (match ? !tags_have(match, etag) : before != -1 && st->st_mtime > before)
		return 412;
	if (none ? tags_have(none, etag) : after != -1 && st->st_mtime <= after)
		return 304;
	return 0;
}

/* Adds what the answer's status needs. */
static int range_answer(enum range_kind kind, struct http_headers *h, uint64_t size, uint64_t from,
			uint64_t len)
{
	char text[96];

	if (kind == RANGE_WHOLE)
		return 200;
	if (kind == RANGE_PART)
		(void)snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)from,
			       (unsigned long long)(from + len - 1), (unsigned long long)size);
	else
		(void)snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)size);
	http_headers_add(h, "Content-Range", text);
	return kind == RANGE_PART ? 206 : 416;
}

void file_send(struct http_request *r, const struct file_answer *a)
{
	static const struct reply_ops ops = { download_more, download_done };
	uint64_t size = (uint64_t)a->st->st_size, from = 0, len = size;
	struct http_headers h = { 0 };
	autoclose fd = a->fd;
	struct download *d;
	char etag[64];
	int status;

	put_file_headers(&h, a->st, etag);
	if (a->name)
		put_disposition(&h, a->name);
	status = a->conditions ? condition_of(r, a->st, etag) : 0;
	if (!status) {
		enum range_kind kind = range_read(range_wanted(r, &h, etag), size, &from, &len);

		status = range_answer(kind, &h, size, from, len);
	}
	if (status >= 300) {
		http_respond(r, status, &h, (struct http_body){ 0 });
	} else if (str_eq(http_request_method(r), "HEAD")) {
		http_respond_start(r, status, &h, (int64_t)len);
		http_respond_end(r);
	} else {
		d = xnew(struct download);
		*d = (struct download){ take_fd(fd), (off_t)from, len };
		reply_stream(r, &(struct reply_head){ status, &h, (int64_t)len }, &ops, d);
	}
	http_headers_done(&h);
}

void download_serve(struct face *f, struct http_request *r, const char *tail)
{
	struct stat st;
	int fd;
	struct err *e = open_in_base(f, tail, O_RDONLY, &fd);

	if (e && err_errno(e) == ENXIO) { /* a socket or a pipe */
		err_free(e);
		e = err_sys(ENOENT, "open %s", tail);
	}
	if (e) {
		reply_error(r, e, "File not found", "File download failed");
		return;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		(void)close(fd);
		reply_message(r, 404, "File not found");
		return;
	}
	file_send(r, &(struct file_answer){ .fd = fd, .st = &st, .name = tail });
}

struct listing {
	DIR *dir;
	bool begun;
};

static void put_entry(struct listing *l, struct buf *out, const char *name)
{
	struct stat st;

	/* A dangling link is listed as itself; an entry that has disappeared is not listed. */
	if (fstatat(dirfd(l->dir), name, &st, 0) < 0 &&
	    fstatat(dirfd(l->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	buf_add_str(out, l->begun ? ",{\"name\":" : "[{\"name\":");
	l->begun = true;
	json_put_string(out, name);
	buf_printf(out, ",\"size\":%llu,\"type\":\"%s\",\"mod_time\":%lld.%06ld}",
		   (unsigned long long)st.st_size, S_ISDIR(st.st_mode) ? "directory" : "file",
		   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec / 1000);
}

static enum reply_next list_more(void *arg, struct buf *out)
{
	struct listing *l = arg;
	struct dirent *entry;

	while (out->len < RT_PIECE) {
		errno = 0;
		entry = readdir(l->dir);
		if (!entry && errno)
			return REPLY_TORN;
		if (!entry) {
			buf_add_str(out, l->begun ? "]" : "[]");
			return REPLY_END;
		}
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			put_entry(l, out, entry->d_name);
	}
	return REPLY_MORE;
}

static void list_done(void *arg)
{
	struct listing *l = arg;

	(void)closedir(l->dir);
	free(l);
}

void list_serve(struct face *f, struct http_request *r, const char *tail)
{
	static const struct reply_ops ops = { list_more, list_done };
	struct listing *l;
	DIR *dir;
	int fd;
	struct err *e = open_in_base(f, tail, O_RDONLY | O_DIRECTORY, &fd);

	if (e) {
		reply_error(r, e, "Path is not a directory", "List files failed");
		return;
	}
	dir = fdopendir(fd);
	if (!dir) {
		reply_message(r, 500, "List files failed: %s", strerror(errno));
		(void)close(fd);
		return;
	}
	l = xnew(struct listing);
	l->dir = dir;
	reply_stream(r, NULL, &ops, l);
}

void exists_serve(struct face *f, struct http_request *r, const char *tail)
{
	autobuf body = { 0 };
	autoclose fd = -1;
	autoptr(err) e = open_in_base(f, tail, O_PATH, &fd);

	if (err_is(e, ERR_FORBIDDEN)) {
		reply_error(r, take(e), NULL, "");
		return;
	}
	buf_add_str(&body, "{\"path\":");
	json_put_string(&body, tail);
	buf_printf(&body, ",\"exists\":%s}", e ? "false" : "true");
	reply_json(r, 200, &body);
}
