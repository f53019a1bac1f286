/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http.h"

#include <strings.h>

#include "base/mem.h"
#include "base/parse.h"

/*
 * Header lists keep the order of arrival. Names and values are in a few blocks of memory, which
 * live as long as the list: heads are many and short-lived, and whoever takes headers out of one
 * adds no more than a few. The list doubles in size whenever its length reaches a power of two, so
 * it needs no capacity field.
 */
enum {
	LIST_FIRST = 16,
	TEXT_FIRST = 480, /* most heads fit in */
};

struct http_text {
	struct http_text *next;
	size_t used, cap;
	char bytes[];
};

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{ 100, "Continue" },
	{ 101, "Switching Protocols" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 206, "Partial Content" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 422, "Unprocessable Entity" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
};

const char *http_reason(int status)
{
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}

void http_headers_done(struct http_headers *h)
{
	while (h->text) {
		struct http_text *t = h->text;

		h->text = t->next;
		free(t);
	}
	free(h->list);
	*h = (struct http_headers){ 0 };
}

static char *text_space(struct http_headers *h, size_t len)
{
	struct http_text *t = h->text;

	if (!t || t->cap - t->used < len) {
		size_t cap = MAX(len, t ? 2 * t->cap : (size_t)TEXT_FIRST);

		t = xmalloc(sizeof(*t) + cap);
		*t = (struct http_text){ .next = h->text, .cap = cap };
		h->text = t;
	}
	t->used += len;
	return t->bytes + t->used - len;
}

void http_headers_add(struct http_headers *h, const char *name, const char *value)
{
	size_t name_len = strlen(name), value_len = strlen(value);
	char *block = text_space(h, name_len + value_len + 2);

	if (!h->n)
		h->list = xrealloc(h->list, LIST_FIRST * sizeof(*h->list));
	else if (h->n >= LIST_FIRST && !(h->n & (h->n - 1)))
		h->list = xrealloc(h->list, 2 * h->n * sizeof(*h->list));
	memcpy(block, name, name_len + 1);
	memcpy(block + name_len + 1, value, value_len + 1);
	h->list[h->n++] = (struct http_header){ block, block + name_len + 1 };
}

/* Most names differ in their first letter, and a request is compared with dozens: no call for
 * those. */
static bool is_named(const struct http_header *h, const char *name)
{
	return !((h->name[0] ^ name[0]) & ~0x20) && str_eq_nocase(h->name, name);
}

void http_headers_del(struct http_headers *h, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->n; i++)
		if (!is_named(&h->list[i], name))
			h->list[kept++] = h->list[i];
	h->n = kept;
}

void http_headers_set(struct http_headers *h, const char *name, const char *value)
{
	http_headers_del(h, name); /* its text stays, should value point into it */
	http_headers_add(h, name, value);
}

const char *http_headers_get(const struct http_headers *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (is_named(&h->list[i], name))
			return h->list[i].value;
	return NULL;
}

bool http_header_valid(const struct http_header *h)
{
	for (const char *s = h->name; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == ':' || *s == 0x7f)
			return false;
	for (const char *s = h->value; *s; s++)
		if (((unsigned char)*s < ' ' && *s != '\t') || *s == 0x7f)
			return false;
	return *h->name != '\0';
}

static bool list_has_token(const char *list, const char *token)
{
	struct span rest = SPAN(list);

	while (rest.p) {
		struct span item = span_cut(rest, ',', &rest);

		if (span_eq_nocase(span_trim(item), token))
			return true;
	}
	return false;
}

int64_t http_headers_length(const struct http_headers *h)
{
	const char *text = http_headers_get(h, "Content-Length");
	int64_t len = -1;

	if (text && !http_headers_get(h, "Transfer-Encoding"))
		err_free(parse_int(text, 0, INT64_MAX, &len));
	return len;
}

bool http_headers_has_token(const struct http_headers *h, const char *name, const char *token)
{
	for (size_t i = 0; i < h->n; i++)
		if (is_named(&h->list[i], name) && list_has_token(h->list[i].value, token))
			return true;
	return false;
}

static bool is_hop_by_hop(const struct http_header *h)
{
	static const char *const names[] = { "keep-alive",        "te",      "trailer",
					     "transfer-encoding", "upgrade", NULL };

	for (size_t i = 0; names[i]; i++)
		if (is_named(h, names[i]))
			return true;
	return !strncasecmp(h->name, "proxy-", 6) && h->name[6];
}

void http_headers_del_hop_by_hop(struct http_headers *h)
{
	bool named = http_headers_get(h, "connection") != NULL;
	size_t n = h->n, kept = 0;

	/* Connection stays until the end, because it names others; it goes to the front. */
	for (size_t i = 0; named && i < n; i++) {
		struct http_header one = h->list[i];

		if (!str_eq_nocase(one.name, "connection"))
			continue;
		memmove(h->list + kept + 1, h->list + kept, (i - kept) * sizeof(one));
		h->list[kept++] = one;
	}
	h->n = kept;
	for (size_t i = kept; i < n; i++) {
		struct http_header one = h->list[i];

		if (!is_hop_by_hop(&one) &&
		    !(named && http_headers_has_token(h, "connection", one.name)))
			h->list[h->n++] = one;
	}
	if (named)
		http_headers_del(h, "connection");
}

/* NULL if it cannot be decoded: no parameter has such a name, and such a value counts as absent. */
static char *query_decode(struct span s)
{
	char *text;
	size_t len;
	autoptr(err) e = url_decode(s.p ? s.p : "", s.len, true, &text, &len);

	return e ? NULL : text;
}

char *http_query_get(const char *query, const char *name)
{
	return http_query_nth(query, name, 0);
}

char *http_query_nth(const char *query, const char *name, size_t n)
{
	struct span rest = SPAN(query);

	while (rest.p) {
		struct span value, pair = span_cut(rest, '&', &rest);
		struct span key = span_cut(pair, '=', &value);
		autofree char *text = query_decode(key);

		if (text && str_eq(text, name) && !n--)
			return query_decode(value);
	}
	return NULL;
}

static const struct http_limits default_limits = {
	.max_head = 64 * 1024,
	.max_headers = 100,
	.max_body = 3 * 1024 * 1024,
	.head_ms = 32 * 1000,
	.idle_ms = 120 * 1000,
	.max_conns = 4096,
};

void http_limits_fill(struct http_limits *l)
{
	const struct http_limits *d = &default_limits;

	l->max_head = l->max_head ? MIN(l->max_head, d->max_head) : d->max_head;
	l->max_headers = l->max_headers ? l->max_headers : d->max_headers;
	l->max_body = l->max_body ? l->max_body : d->max_body;
	l->head_ms = l->head_ms ? l->head_ms : d->head_ms;
	l->idle_ms = l->idle_ms ? l->idle_ms : d->idle_ms;
	l->max_conns = l->max_conns ? l->max_conns : d->max_conns;
}

bool http_bearer(const char *header, struct span *ret)
{
	struct span word, token = { 0 };

	if (!header)
		return false;
	word = span_cut(span_trim(SPAN(header)), ' ', &token);
	if (!span_eq_nocase(word, "bearer") || !token.p)
		return false;
	*ret = span_trim(token); /* not empty: what ends the header is no space */
	return true;
}
