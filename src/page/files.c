/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "net/http_server.h"
#include "page/page_priv.h"

/*
 * The files. Those under assets/ have a hash in their names and are kept by browsers forever; the
 * rest is asked for again each time, and answered by 304 if it has not changed. Every other path
 * is one of the page's own, and gets index.html.
 *
 * They are kept compressed, and sent so to all who take that.
 */
static const struct {
	const char *name, *value;
} guards[] = {
	/* Styles may be inline because terminals make them; scripts may not. */
	{ "Content-Security-Policy",
	  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
	  "data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
	  "frame-ancestors 'none'" },
	{ "X-Frame-Options", "DENY" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Permissions-Policy",
	  "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), "
	  "fullscreen=(), geolocation=(), gyroscope=(), hid=(), identity-credentials-get=(), "
	  "idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), payment=(), "
	  "picture-in-picture=(), publickey-credentials-create=(), publickey-credentials-get=(), "
	  "screen-wake-lock=(), serial=(), storage-access=(), usb=(), web-share=(), "
	  "window-management=(), xr-spatial-tracking=(), clipboard-read=(self), "
	  "clipboard-write=(self)" },
};

#define ASSETS "assets/"

static const struct page_file *find(const struct page_files *files, const char *path)
{
	for (size_t i = 0; i < files->n; i++)
		if (str_eq(files->list[i].path, path))
			return &files->list[i];
	return NULL;
}

/* Whether the page's own router may know it: names of objects have dots, but not at the top. */
static bool is_view(const char *path)
{
	return !str_starts(path, ASSETS) && (strchr(path, '/') || !strchr(path, '.'));
}

struct file_answer files_find(const struct page_files *files, const char *method, const char *path)
{
	struct file_answer a = { .status = 200 };

	assert(method && path);
	if (!str_eq(method, "GET") && !str_eq(method, "HEAD"))
		return (struct file_answer){ .status = 405 };
	if (str_eq(path, PAGE_ROOT))
		return (struct file_answer){ .status = 308 };
	if (!str_starts(path, PAGE_PATH))
		return (struct file_answer){ .status = 404 };
	path += strlen(PAGE_PATH);
	a.file = *path ? find(files, path) : NULL;
	a.immutable = a.file && str_starts(path, ASSETS);
	if (!a.file && is_view(path))
		a.file = find(files, "index.html");
	if (!a.file)
		a.status = 404;
	return a;
}

/* "q=0", "q=0.000": not wanted. */
static bool weighs_nothing(struct span params)
{
	struct span value, name;

	while (params.p) {
		struct span one = span_trim(span_cut(params, ';', &params));

		name = span_trim(span_cut(one, '=', &value));
		value = value.p ? span_trim(value) : (struct span){ "", 0 };
		if (span_eq_nocase(name, "q") && value.len && value.p[0] == '0' &&
		    strspn(value.p, "0.") >= value.len)
			return true;
	}
	return false;
}

bool accepts_gzip(const char *header)
{
	struct span rest = SPAN(header ? header : ""), params, name;
	bool any = false;

	while (rest.p) {
		struct span one = span_cut(rest, ',', &rest);

		name = span_trim(span_cut(one, ';', &params));
		if (span_eq_nocase(name, "gzip"))
			return !weighs_nothing(params);
		if (span_eq(name, "*"))
			any = !weighs_nothing(params);
	}
	return any;
}

bool etag_known(const char *if_none_match, const char *etag)
{
	struct span rest = SPAN(if_none_match ? if_none_match : "");

	while (rest.p) {
		struct span one = span_trim(span_cut(rest, ',', &rest));

		if (one.len > 2 && !strncmp(one.p, "W/", 2)) {
			one.p += 2;
			one.len -= 2;
		}
		if (span_eq(one, etag) || span_eq(one, "*"))
			return true;
	}
	return false;
}

static char *inflated(const struct page_file *f)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)f->gzip, .avail_in = (uInt)f->gzip_len };
	char *text = xmalloc(f->len + 1);
	int r;

	z.next_out = (Bytef *)text;
	z.avail_out = (uInt)f->len;
	r = inflateInit2(&z, 16 + MAX_WBITS);
	if (r == Z_OK) {
		r = inflate(&z, Z_FINISH);
		(void)inflateEnd(&z);
	}
	if (r != Z_STREAM_END || z.total_out != f->len) {
		free(text);
		return NULL;
	}
	text[f->len] = '\0';
	return text;
}

/* Unpacked once for all, so that nobody can make us do it again and again. */
static const char *plain(struct page *p, const struct page_file *f)
{
	char **slot = &p->plain[f - p->spec.files->list];

	if (!*slot)
		*slot = inflated(f);
	return *slot;
}

static void send_file(struct page *p, struct http_request *req, const struct file_answer *a,
		      struct http_headers *h)
{
	bool packed = accepts_gzip(http_request_header(req, "Accept-Encoding"));
	struct http_body body = { a->file->type, a->file->gzip, a->file->gzip_len };
	autofree char *etag = xasprintf("W/%s", a->file->etag); /* the same in either coding */

	http_headers_add(h, "ETag", etag);
	http_headers_add(h, "Vary", "Accept-Encoding");
	http_headers_add(h, "Cache-Control",
			 a->immutable ? "public, max-age=31536000, immutable" : "no-cache");
	if (etag_known(http_request_header(req, "If-None-Match"), a->file->etag)) {
		http_respond(req, 304, h, (struct http_body){ NULL, "", 0 });
		return;
	}
	if (packed) {
		http_headers_add(h, "Content-Encoding", "gzip");
	} else {
		body.data = plain(p, a->file);
		body.len = a->file->len;
	}
	if (body.data)
		http_respond(req, 200, h, body);
	else
		http_respond_text(req, 500, "this file of the page is damaged");
}

static void send_text(struct http_request *req, int status, struct http_headers *h,
		      const char *text)
{
	http_respond(req, status, h,
		     (struct http_body){ "text/plain; charset=utf-8", text, strlen(text) });
}

void page_visit_files(struct page *p, struct http_request *req)
{
	struct file_answer a =
		files_find(p->spec.files, http_request_method(req), http_request_path(req));
	struct http_headers h = { 0 };

	http_request_set_owner(req, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(guards); i++)
		http_headers_add(&h, guards[i].name, guards[i].value);
	if (a.file) {
		send_file(p, req, &a, &h);
	} else if (a.status == 308) {
		http_headers_add(&h, "Location", PAGE_PATH);
		http_respond(req, 308, &h, (struct http_body){ NULL, "", 0 });
	} else if (a.status == 405) {
		http_headers_add(&h, "Allow", "GET, HEAD");
		send_text(req, 405, &h, "use GET\n");
	} else if (!p->spec.files->n) {
		send_text(req, 404, &h,
			  "This cay was built without its page: build it again where Node.js and "
			  "npm are installed.\n");
	} else {
		send_text(req, 404, &h, "the page has no such file\n");
	}
	http_headers_done(&h);
}
