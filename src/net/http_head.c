/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "base/parse.h"
#include "net/http_head_priv.h"

/*
 * llhttp does the parsing, with a check on either side. Before it, a scan of our own finds the end
 * of the head and rejects bytes that parsers disagree on; llhttp must then find the same end. After
 * it, heads are rejected that are well-formed but could be framed in two ways, which is how
 * requests are smuggled past a proxy.
 */
enum {
	EXTRA_MAX = 16 * 1024
};

static bool is_ctl(unsigned char c)
{
	return (c < 0x20 && c != '\t') || c == 0x7f;
}

/* Checks the line that ends at p[i] == LF: 0 if bad, 1 if good, 2 if empty. */
static int scan_line_end(const char *p, size_t i)
{
	if (i == 0 || p[i - 1] != '\r')
		return 0;
	return i >= 3 && p[i - 2] == '\n' ? 2 : 1;
}

enum http_scan http_head_scan(const char *p, size_t len, size_t *pos, size_t *ret_len)
{
	for (size_t i = *pos; i < len; i++) {
		unsigned char c = (unsigned char)p[i];

		if (i > 0 && p[i - 1] == '\r' && c != '\n')
			return HTTP_SCAN_BAD;
		if ((i == 0 || p[i - 1] == '\n') && (c == ' ' || c == '\t'))
			return HTTP_SCAN_BAD;
		if (c == '\n') {
			int line = scan_line_end(p, i);

			if (!line)
				return HTTP_SCAN_BAD;
			if (line == 2) {
				*ret_len = i + 1;
				return HTTP_SCAN_DONE;
			}
		} else if (c != '\r' && is_ctl(c)) {
			return HTTP_SCAN_BAD;
		}
	}
	*pos = len;
	return HTTP_SCAN_MORE;
}

static int stop(struct http_head *h, int status)
{
	h->status = status;
	return HPE_USER;
}

/* Trailers are kept and chunk extensions skipped, up to a limit for both together. */
static int count_extra(struct http_head *h, size_t len)
{
	h->extra += len;
	return h->extra > EXTRA_MAX ? stop(h, 400) : 0;
}

static int on_target(llhttp_t *p, const char *at, size_t len)
{
	struct http_head *h = p->data;

	buf_add(&h->value, at, len);
	return 0;
}

static int on_target_complete(llhttp_t *p)
{
	struct http_head *h = p->data;

	h->target = buf_steal(&h->value, NULL);
	return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
	struct http_head *h = p->data;

	buf_add(&h->name, at, len);
	return h->complete ? count_extra(h, len) : 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	struct http_head *h = p->data;

	buf_add(&h->value, at, len);
	return h->complete ? count_extra(h, len) : 0;
}

static int on_value_complete(llhttp_t *p)
{
	struct http_head *h = p->data;
	struct http_headers *to = h->complete ? &h->trailers : &h->headers;

	if (to->n >= h->max_headers)
		return stop(h, h->complete ? 400 : 431);
	http_headers_add(to, buf_str(&h->name), buf_str(&h->value));
	buf_clear(&h->name);
	buf_clear(&h->value);
	return 0;
}

static int on_extension(llhttp_t *p, unused const char *at, size_t len)
{
	return count_extra(p->data, len + 1);
}

static int on_headers_complete(llhttp_t *p)
{
	struct http_head *h = p->data;

	h->complete = true;
	h->upgrade = p->upgrade;
	/* The handler decides about the upgrade; until then this is an ordinary request. */
	p->upgrade = 0;
	return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
	struct http_head *h = p->data;

	return h->sink(h->sink_arg, at, len) ? 0 : HPE_PAUSED;
}

static int on_message_complete(llhttp_t *p)
{
	struct http_head *h = p->data;

	h->body_done = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_url = on_target,
	.on_url_complete = on_target_complete,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_chunk_extension_name = on_extension,
	.on_chunk_extension_value = on_extension,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

static size_t count_headers(const struct http_headers *h, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += str_eq_nocase(h->list[i].name, name);
	return n;
}

static bool host_valid(const char *s)
{
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr(".-_~:[]%!$&'()*+,;=", *s))
			return false;
	return true;
}

/*
 * "http://host/path?query" becomes "/path?query", and Host becomes host. The protocol requires this
 * of a server, and later readers see only one form.
 */
static bool target_to_origin_form(struct http_head *h)
{
	const char *rest = strstr(h->target, "://");
	autofree char *host = NULL;
	char *path;
	size_t len;

	if (!rest || (strncasecmp(h->target, "http:", 5) && strncasecmp(h->target, "https:", 6)))
		return false;
	rest += 3;
	len = strcspn(rest, "/?");
	host = xstrndup(rest, len);
	if (!len || !host_valid(host))
		return false;
	http_headers_set(&h->headers, "Host", host);
	path = xasprintf("%s%s", rest[len] == '/' ? "" : "/", rest + len);
	free(h->target);
	h->target = path;
	return true;
}

static bool target_valid(struct http_head *h)
{
	if (!h->target || strchr(h->target, '#'))
		return false;
	if (h->target[0] == '/')
		return true;
	if (str_eq(h->target, "*"))
		return str_eq(h->method, "OPTIONS");
	return target_to_origin_form(h);
}

static int check_host(const struct http_head *h)
{
	const char *host = http_headers_get(&h->headers, "Host");
	size_t n = count_headers(&h->headers, "Host");

	if (n > 1 || (n == 0 && !h->http10))
		return 400;
	return host && !host_valid(host) ? 400 : 0;
}

static int check_framing(struct http_head *h)
{
	const char *coding = http_headers_get(&h->headers, "Transfer-Encoding");
	const char *length = http_headers_get(&h->headers, "Content-Length");
	struct err *e;

	if (count_headers(&h->headers, "Transfer-Encoding") > 1 ||
	    count_headers(&h->headers, "Content-Length") > 1)
		return 400;
	if (coding && (length || h->http10 || !str_eq_nocase(coding, "chunked")))
		return 400;
	h->chunked = coding != NULL;
	if (!length)
		return 0;
	e = parse_uint(length, INT64_MAX, &h->length);
	if (!e)
		return 0;
	err_free(e);
	return 400;
}

static int check_expect(struct http_head *h)
{
	const char *expect = http_headers_get(&h->headers, "Expect");

	if (!expect || h->http10)
		return 0;
	if (!str_eq_nocase(expect, "100-continue"))
		return 417;
	h->expects_continue = true;
	return 0;
}

static int check_head(struct http_head *h)
{
	const llhttp_t *p = &h->parser;
	int status;

	if (p->http_major != 1 || p->http_minor > 1)
		return 505;
	h->http10 = p->http_minor == 0;
	h->method = xstrdup(llhttp_method_name(llhttp_get_method((llhttp_t *)p)));
	if (p->method == HTTP_CONNECT)
		return 501; /* we are not a forward proxy */
	status = check_host(h);
	if (!status)
		status = check_framing(h);
	if (!status)
		status = check_expect(h);
	if (!status && !target_valid(h))
		status = 400;
	if (h->http10)
		h->keep_alive = http_headers_has_token(&h->headers, "Connection", "keep-alive");
	else
		h->keep_alive = !http_headers_has_token(&h->headers, "Connection", "close");
	return status;
}

static bool method_known(const char *method)
{
#define SAME(num, name, string) str_eq(method, #string) ||
	return HTTP_METHOD_MAP(SAME) false;
#undef SAME
}

static bool is_word(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f)
			return false;
	return true;
}

int http_head_check_http2(struct http_head *h)
{
	int status;

	if (str_eq(h->method, "CONNECT") || str_eq(h->method, "PRI") || !method_known(h->method))
		return 501;
	if ((h->target[0] != '/' && h->target[0] != '*') || !is_word(h->target))
		return 400;
	for (size_t i = 0; i < h->headers.n; i++)
		if (!http_header_valid(&h->headers.list[i]))
			return 400;
	status = check_host(h);
	if (!status)
		status = check_framing(h);
	if (!status)
		status = check_expect(h);
	return !status && !target_valid(h) ? 400 : status;
}

/* "GET /x HTTP/1.1": two spaces, not adjacent. */
static bool request_line_valid(const char *p, size_t len)
{
	const char *end = memchr(p, '\r', len);
	size_t n = 0;

	for (; p < end; p++) {
		n += *p == ' ';
		if (*p == ' ' && p[1] == ' ')
			return false;
	}
	return n == 2;
}

int http_head_parse(struct http_head *h, const char *p, size_t len, size_t max_headers)
{
	llhttp_errno_t r;

	if (!request_line_valid(p, len))
		return 400;
	llhttp_init(&h->parser, HTTP_REQUEST, &settings);
	h->parser.data = h;
	h->max_headers = max_headers;
	r = llhttp_execute(&h->parser, p, len);
	if (h->status)
		return h->status;
	if (r == HPE_INVALID_METHOD)
		return 501;
	if (r == HPE_PAUSED && llhttp_get_error_pos(&h->parser) != p + len)
		return 400;
	if ((r != HPE_OK && r != HPE_PAUSED) || !h->complete)
		return 400;
	return check_head(h);
}

void http_head_done(struct http_head *h)
{
	free(h->method);
	free(h->target);
	http_headers_done(&h->headers);
	http_headers_done(&h->trailers);
	buf_done(&h->name);
	buf_done(&h->value);
}

bool http_head_feed(struct http_head *h, const char *p, size_t len, size_t *ret_used,
		    bool *ret_done)
{
	llhttp_errno_t r;

	if (llhttp_get_errno(&h->parser) == HPE_PAUSED)
		llhttp_resume(&h->parser);
	r = llhttp_execute(&h->parser, p, len);
	if (r != HPE_OK && r != HPE_PAUSED)
		return false;
	*ret_used = r == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&h->parser) - p);
	*ret_done = h->body_done;
	return true;
}
