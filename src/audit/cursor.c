/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "audit/reader.h"
#include "audit/reader_priv.h"
#include "json/json.h"

/*
 * What comes after a record. A file that is not the youngest any more is complete, and is followed
 * by the oldest of those that begin after it; the one that is being read stays open, whatever it is
 * called or whether it was removed.
 */
enum {
	AHEAD = 256 * 1024,
	OUT_MAX = 64 * 1024, /* when a step has enough */
};

struct audit_cursor {
	struct audit_cursor_spec spec;
	struct log_file file;
	uint64_t at;   /* the beginning of a line of the file, unless it is skipped */
	bool skipping; /* the rest of a line that is too long to be one */
	uint64_t last;
	struct buf piece;
};

struct audit_cursor *audit_cursor_new(const struct audit_cursor_spec *spec)
{
	struct audit_cursor *c = xnew(struct audit_cursor);

	c->spec = *spec;
	c->file.fd = -1;
	c->last = spec->after;
	return c;
}

void audit_cursor_free(struct audit_cursor *c)
{
	if (!c)
		return;
	log_file_close(&c->file);
	buf_done(&c->piece);
	free(c);
}

static struct err *open_first(struct audit_cursor *c)
{
	struct err *e = log_file_with(c->spec.path, c->last + 1, &c->file);
	uint64_t end;

	if (!e && c->file.fd < 0)
		e = log_file_after(c->spec.path, c->last + 1, &c->file);
	c->at = 0;
	c->skipping = false;
	if (e || c->file.fd < 0)
		return e;
	return log_file_seek(&c->file, c->last + 1, &c->at, &end);
}

/* The file has been read; *ret_more: there is another. */
static struct err *open_next(struct audit_cursor *c, bool *ret_more)
{
	struct log_file next = { .fd = -1 };
	struct err *e = log_file_after(c->spec.path, c->file.first, &next);

	*ret_more = next.fd >= 0;
	if (e || next.fd < 0)
		return e;
	log_file_close(&c->file);
	c->file = next;
	c->at = 0;
	c->skipping = false;
	return NULL;
}

static void look(struct audit_cursor *c, const char *line, size_t len, struct buf *out,
		 size_t *max_lines)
{
	autoptr(json_doc) d = NULL;
	uint64_t n = 0;

	d = log_line_read(line, len, &n);
	if (!d || n <= c->last)
		return;
	if (n > c->last + 1)
		buf_printf(out, "{\"gap\":{\"from\":%llu,\"to\":%llu}}\n",
			   (unsigned long long)c->last + 1, (unsigned long long)n - 1);
	c->last = n;
	if (!audit_filter_wants(c->spec.filter, json_root(d)))
		return;
	buf_add(out, line, len);
	buf_add_char(out, '\n');
	--*max_lines;
}

/* The whole lines of the piece, until there is enough. Returns the bytes that are done with. */
static size_t look_through(struct audit_cursor *c, struct buf *out, size_t *max_lines)
{
	const char *p = buf_head(&c->piece), *end;
	size_t off = 0;

	while (*max_lines && out->len < OUT_MAX &&
	       (end = memchr(p + off, '\n', c->piece.len - off))) {
		size_t len = (size_t)(end - p) - off;

		if (!c->skipping)
			look(c, p + off, len, out, max_lines);
		c->skipping = false;
		off += len + 1;
	}
	return off;
}

/* *ret_none: there is no whole line at the moment. */
static struct err *read_ahead(struct audit_cursor *c, struct buf *out, size_t *max_lines,
			      bool *ret_none)
{
	size_t want = AHEAD, n = 0, done;
	struct err *e;

	for (;;) {
		buf_clear(&c->piece);
		e = log_pread(c->file.fd, buf_reserve(&c->piece, want), want, c->at, &n);
		if (e)
			return e;
		buf_wrote(&c->piece, n);
		if (n < want || want > AUDIT_LINE_MAX ||
		    memchr(buf_head(&c->piece), '\n', c->piece.len))
			break;
		want = AUDIT_LINE_MAX + 1;
	}
	done = n ? look_through(c, out, max_lines) : 0;
	if (!done && n > AUDIT_LINE_MAX) {
		c->skipping = true;
		done = n;
	}
	c->at += done;
	buf_clear(&c->piece);
	*ret_none = !done;
	return NULL;
}

static struct err *go_on(struct audit_cursor *c, struct buf *out, size_t *max_lines, bool *ret_end)
{
	bool complete, none = false, more = false;
	struct err *e = NULL;

	if (c->file.fd < 0)
		e = open_first(c);
	if (e || c->file.fd < 0) {
		*ret_end = true;
		return e;
	}
	complete = !log_file_is_youngest(&c->file, c->spec.path); /* before it is read */
	e = read_ahead(c, out, max_lines, &none);
	if (e || !none)
		return e;
	if (complete)
		e = open_next(c, &more);
	*ret_end = !more;
	return e;
}

struct err *audit_cursor_step(struct audit_cursor *c, struct buf *out, size_t *max_lines,
			      bool *ret_end)
{
	struct err *e = NULL;
	size_t steps = AUDIT_STEP / AHEAD;

	*ret_end = false;
	while (!e && !*ret_end && *max_lines && out->len < OUT_MAX && steps--)
		e = go_on(c, out, max_lines, ret_end);
	return e;
}

uint64_t audit_cursor_last(const struct audit_cursor *c)
{
	return c->last;
}
