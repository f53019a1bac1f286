/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "guest/files/multipart_priv.h"

/*
 *   preamble CRLF
 *   --boundary CRLF headers CRLF CRLF data CRLF
 *   --boundary CRLF headers CRLF CRLF data CRLF
 *   ...
 *   --boundary--
 *
 * The delimiter is CRLF, two dashes and the boundary. A CRLF of our own is put in front of the
 * input, so that a body which begins with its first delimiter needs no special case. What may be
 * the beginning of a delimiter is held back until more is known.
 */
enum {
	BOUNDARY_MAX = 200, /* the standard allows 70 */
};

enum multipart_state {
	MULTIPART_PREAMBLE,
	MULTIPART_DELIMITER, /* after a boundary: a new part or the end */
	MULTIPART_HEADERS,
	MULTIPART_DATA,
	MULTIPART_EPILOGUE,
	MULTIPART_STATE_MAX_,
};

struct multipart {
	struct multipart_events ev;
	void *arg;
	char delimiter[4 + BOUNDARY_MAX + 1];
	size_t delimiter_len;
	enum multipart_state state;
	unsigned n_parts;
	size_t skip; /* bytes of the input that belong to the end of the headers, not to the data */
	struct buf in;
};

static struct err *malformed(const char *what)
{
	return err_new(ERR_MALFORMED, "read form: %s", what);
}

/*
 * The next parameter of a header: `; name=value`, with or without quotes around the value. Advances
 * *at. Inside quotes a backslash escapes a quote or itself; before anything else it stands for
 * itself, because some clients send paths that way.
 */
static bool next_param(const char **at, struct span *name, struct buf *value)
{
	const char *p = *at + strspn(*at, "; \t");

	value->off = value->len = 0;
	name->p = p;
	name->len = strcspn(p, "=; \t");
	if (!name->len || p[name->len] != '=')
		return false;
	p += name->len + 1;
	if (*p != '"') {
		size_t len = strcspn(p, "; \t");

		buf_add(value, p, len);
		*at = p + len;
		return true;
	}
	for (p++; *p && *p != '"'; p++) {
		if (*p == '\\' && (p[1] == '"' || p[1] == '\\'))
			p++;
		buf_add_char(value, *p);
	}
	if (!*p)
		return false;
	*at = p + 1;
	return true;
}

static bool boundary_usable(const struct buf *b)
{
	for (size_t i = 0; i < b->len; i++) {
		unsigned char c = (unsigned char)buf_head(b)[i];

		if (c < ' ' || c >= 0x7f)
			return false;
	}
	return b->len && b->len <= BOUNDARY_MAX;
}

struct err *multipart_new(const char *content_type, const struct multipart_events *ev, void *arg,
			  struct multipart **ret)
{
	static const char type[] = "multipart/form-data";
	autobuf value = { 0 };
	struct multipart *m;
	const char *at;
	struct span name;

	if (!content_type || strncasecmp(content_type, type, sizeof(type) - 1) != 0)
		return malformed("the type is not multipart/form-data");
	at = content_type + sizeof(type) - 1;
	do
		if (!next_param(&at, &name, &value))
			return malformed("the boundary is missing");
	while (!span_eq_nocase(name, "boundary"));
	if (!boundary_usable(&value))
		return malformed("the boundary is empty or too long");
	m = xnew(struct multipart);
	m->ev = *ev;
	m->arg = arg;
	m->delimiter_len = 4 + value.len;
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, buf_head(&value), value.len);
	buf_add(&m->in, "\r\n", 2);
	*ret = m;
	return NULL;
}

void multipart_free(struct multipart *m)
{
	if (!m)
		return;
	buf_done(&m->in);
	free(m);
}

/*
 * Undoes what browsers and Python write for quotes and line breaks in a name; no other escape is
 * undone.
 */
static void undo_percent(struct buf *b)
{
	static const struct {
		const char *text;
		char c;
	} known[] = { { "%22", '"' }, { "%0D", '\r' }, { "%0A", '\n' } };
	const char *s = buf_str(b);
	autobuf plain = { 0 };

	while (*s) {
		size_t i;

		for (i = 0; i < ARRAY_LEN(known); i++)
			if (!strncasecmp(s, known[i].text, 3))
				break;
		buf_add_char(&plain, i < ARRAY_LEN(known) ? known[i].c : *s);
		s += i < ARRAY_LEN(known) ? 3 : 1;
	}
	b->off = b->len = 0;
	buf_add(b, buf_str(&plain), plain.len);
}

/* filename*=utf-8''na%20me; NULL if it has another form. */
static char *extended_value(struct buf *value)
{
	static const char charset[] = "utf-8'";
	const char *s = buf_str(value), *quote;
	autoptr(err) e = NULL;
	char *ret = NULL;
	size_t len;

	if (strncasecmp(s, charset, sizeof(charset) - 1) != 0)
		return NULL;
	quote = strchr(s + sizeof(charset) - 1, '\'');
	if (quote)
		e = url_decode(quote + 1, strlen(quote + 1), false, &ret, &len);
	return e ? NULL : ret;
}

struct disposition {
	char *name, *filename, *extended;
};

static void disposition_read(const char *at, struct disposition *d)
{
	autobuf value = { 0 };
	struct span name;

	at += strcspn(at, ";"); /* "form-data" */
	while (next_param(&at, &name, &value)) {
		char **to = span_eq_nocase(name, "name")        ? &d->name
			    : span_eq_nocase(name, "filename")  ? &d->filename
			    : span_eq_nocase(name, "filename*") ? &d->extended
								: NULL;

		if (!to || *to)
			continue;
		if (to == &d->filename)
			undo_percent(&value);
		*to = to == &d->extended ? extended_value(&value) : xstrdup(buf_str(&value));
	}
}

/* All headers of a part, NUL-terminated, lines ended by CRLF. Only the disposition matters. */
static void part_begin(struct multipart *m, char *headers)
{
	static const char wanted[] = "content-disposition:";
	struct disposition d = { 0 };

	for (char *line = headers, *next; line; line = next) {
		next = strstr(line, "\r\n");
		if (next) {
			*next = '\0';
			next += 2;
		}
		if (!strncasecmp(line, wanted, sizeof(wanted) - 1))
			disposition_read(line + sizeof(wanted) - 1, &d);
	}
	m->ev.begin(m->arg, d.name, d.extended ? d.extended : d.filename);
	free(d.name);
	free(d.filename);
	free(d.extended);
}

/* The steps: each consumes what it can from the input, then moves on or asks for more (*more). */
static struct err *step_delimiter(struct multipart *m, bool *more)
{
	const char *p = buf_head(&m->in);
	size_t pad = 0;

	if (m->in.len >= 2 && !memcmp(p, "--", 2)) {
		m->state = MULTIPART_EPILOGUE;
		return NULL;
	}
	while (pad < m->in.len && (p[pad] == ' ' || p[pad] == '\t'))
		pad++;
	if (m->in.len < pad + 2 && pad < MULTIPART_HEADERS_MAX) {
		*more = true;
		return NULL;
	}
	if (m->in.len < pad + 2 || memcmp(p + pad, "\r\n", 2) != 0)
		return malformed("a boundary is followed by other bytes");
	if (++m->n_parts > MULTIPART_PARTS_MAX)
		return err_new(ERR_TOO_LARGE, "the form has more than %d parts",
			       MULTIPART_PARTS_MAX);
	/* The end of the line stays: headers may be empty, and then end with an empty line, too. */
	buf_eat(&m->in, pad);
	m->state = MULTIPART_HEADERS;
	return NULL;
}

static struct err *step_headers(struct multipart *m, bool *more)
{
	char *p = buf_head(&m->in), *end = memmem(p, m->in.len, "\r\n\r\n", 4);

	if (!end && m->in.len <= MULTIPART_HEADERS_MAX) {
		*more = true;
		return NULL;
	}
	if (!end || end - p > MULTIPART_HEADERS_MAX)
		return err_new(ERR_TOO_LARGE, "the headers of a part exceed %d bytes",
			       MULTIPART_HEADERS_MAX);
	if (memchr(p, '\0', (size_t)(end - p)))
		return malformed("the headers contain a NUL");
	*end = '\0';
	part_begin(m, p);
	/* The last CRLF may be the first half of a delimiter, if a part has no data. */
	*end = '\r';
	buf_eat(&m->in, (size_t)(end - p) + 2);
	m->state = MULTIPART_DATA;
	m->skip = 2;
	return NULL;
}

static void emit(struct multipart *m, size_t len)
{
	size_t skip = MIN(m->skip, len);

	if (m->state == MULTIPART_DATA && len > skip)
		m->ev.data(m->arg, buf_head(&m->in) + skip, len - skip);
	m->skip -= skip;
	buf_eat(&m->in, len);
}

/* Preamble and data: everything up to the next delimiter. */
static struct err *step_until_delimiter(struct multipart *m, bool *more)
{
	const char *p = buf_head(&m->in);
	const char *at = memmem(p, m->in.len, m->delimiter, m->delimiter_len);

	if (!at) {
		if (m->in.len >= m->delimiter_len)
			emit(m, m->in.len - (m->delimiter_len - 1));
		*more = true;
		return NULL;
	}
	emit(m, (size_t)(at - p));
	m->skip = 0;
	if (m->state == MULTIPART_DATA)
		m->ev.end(m->arg);
	buf_eat(&m->in, m->delimiter_len);
	m->state = MULTIPART_DELIMITER;
	return NULL;
}

static struct err *step(struct multipart *m, bool *more)
{
	switch (m->state) {
	case MULTIPART_PREAMBLE:
	case MULTIPART_DATA:
		return step_until_delimiter(m, more);
	case MULTIPART_DELIMITER:
		return step_delimiter(m, more);
	case MULTIPART_HEADERS:
		return step_headers(m, more);
	case MULTIPART_EPILOGUE:
	case MULTIPART_STATE_MAX_:
		break;
	}
	buf_clear(&m->in);
	*more = true;
	return NULL;
}

struct err *multipart_feed(struct multipart *m, const char *p, size_t len)
{
	struct err *e = NULL;
	bool more = false;

	buf_add(&m->in, p, len);
	while (!e && !more)
		e = step(m, &more);
	return e;
}

struct err *multipart_end(struct multipart *m)
{
	return m->state == MULTIPART_EPILOGUE ? NULL : malformed("the last boundary is missing");
}
