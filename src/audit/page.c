/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "audit/reader.h"
#include "audit/reader_priv.h"
#include "json/json.h"

/*
 * The newest records that match: files are read from their ends, piece by piece, and a file that
 * has been read is followed by the one with the record before its first. What is taken is kept as
 * it is found, the newest first.
 */
enum {
	BACK = 64 * 1024,
};
static const usec clock_trust = INT64_C(24) * 3600 * 1000 * 1000; /* how far clocks are set back */

struct page_line {
	size_t off, len;
};

struct audit_page {
	struct audit_page_spec spec;
	struct log_file file;
	uint64_t at;      /* of the file, from here on it has been read */
	struct buf carry; /* a line whose beginning is before at */
	bool dropping;    /* that line is too long to be one */
	uint64_t looked;  /* bytes */
	uint64_t last;    /* the newest record */
	uint64_t oldest;  /* that was looked at */
	bool over, to_the_end;
	struct buf text;
	struct page_line *lines;
	size_t n, room;
};

struct audit_page *audit_page_new(const struct audit_page_spec *spec)
{
	struct audit_page *p = xnew(struct audit_page);

	p->spec = *spec;
	p->file.fd = -1;
	p->oldest = spec->before ? spec->before : UINT64_MAX;
	return p;
}

void audit_page_free(struct audit_page *p)
{
	if (!p)
		return;
	log_file_close(&p->file);
	buf_done(&p->carry);
	buf_done(&p->text);
	free(p->lines);
	free(p);
}

static void take_line(struct audit_page *p, const char *line, size_t len)
{
	if (p->n == p->room) {
		p->room = MAX(p->room * 2, (size_t)64);
		p->lines = xrealloc(p->lines, p->room * sizeof(*p->lines));
	}
	p->lines[p->n++] = (struct page_line){ p->text.len, len };
	buf_add(&p->text, line, len);
}

/* Before everything that is wanted, even if clocks were set. */
static bool is_too_old(const struct audit_page *p, const struct json *record)
{
	usec when = 0;

	if (!p->spec.filter->since)
		return false;
	err_free(clock_parse(str_or(json_get_str(record, "time"), ""), &when));
	return when && when < p->spec.filter->since - clock_trust;
}

static void look(struct audit_page *p, const char *line, size_t len)
{
	autoptr(json_doc) d = NULL;
	uint64_t n = 0;

	d = log_line_read(line, len, &n);
	if (!d || n >= p->oldest)
		return;
	if (!p->last)
		p->last = n;
	if (!p->spec.limit) {
		p->over = true;
		return;
	}
	if (audit_filter_wants(p->spec.filter, json_root(d))) {
		if (p->n && p->text.len + len > AUDIT_PAGE_MAX) {
			p->over = true;
			return; /* it is the first of the next page */
		}
		take_line(p, line, len);
	} else if (is_too_old(p, json_root(d))) {
		p->over = p->to_the_end = true;
	}
	p->oldest = n;
	if (n == 1)
		p->over = p->to_the_end = true;
	if (p->n >= p->spec.limit)
		p->over = true;
}

/* The bytes of the file up to at, with what is carried after them, the last line first. */
static void look_back(struct audit_page *p, const char *piece, size_t len)
{
	while (len && !p->over) {
		const char *end = memrchr(piece, '\n', len);
		size_t start = end ? (size_t)(end - piece) + 1 : 0;

		if (!end)
			break;
		if (!p->dropping)
			look(p, piece + start, len - start);
		p->dropping = false;
		len = start - 1;
	}
	buf_clear(&p->carry);
	if (len > AUDIT_LINE_MAX)
		p->dropping = true;
	if (!p->dropping)
		buf_add(&p->carry, piece, len);
}

static struct err *read_back(struct audit_page *p)
{
	size_t want = (size_t)MIN(p->at, (uint64_t)BACK), n = 0;
	autobuf b = { 0 };
	struct err *e = log_pread(p->file.fd, buf_reserve(&b, want), want, p->at - want, &n);

	if (e)
		return e;
	buf_wrote(&b, n);
	if (n == want && p->carry.len)
		buf_add(&b, buf_head(&p->carry), p->carry.len);
	p->at -= want;
	p->looked += want;
	look_back(p, buf_head(&b), b.len);
	if (!p->at && p->carry.len && !p->dropping && !p->over) {
		autobuf first = p->carry;

		p->carry = (struct buf){ 0 };
		look(p, buf_head(&first), first.len);
	}
	return NULL;
}

/* The file with the record before the oldest one so far. */
static struct err *next_file(struct audit_page *p)
{
	uint64_t first = p->file.fd >= 0 ? p->file.first : UINT64_MAX;
	uint64_t want = MIN(first, p->oldest) - 1, begin;
	struct err *e;

	log_file_close(&p->file);
	buf_clear(&p->carry);
	p->dropping = false;
	if (!want) {
		p->over = p->to_the_end = true;
		return NULL;
	}
	e = log_file_with(p->spec.path, want, &p->file);
	if (e)
		return e;
	if (p->file.fd < 0)
		p->over = p->to_the_end = true;
	else if (p->oldest == UINT64_MAX)
		p->at = p->file.len;
	else
		return log_file_seek(&p->file, p->oldest, &begin, &p->at);
	return NULL;
}

struct err *audit_page_step(struct audit_page *p, bool *ret_over)
{
	uint64_t until = p->looked + AUDIT_STEP;
	struct err *e = NULL;

	while (!e && !p->over && p->looked < until) {
		if (p->file.fd < 0 || !p->at)
			e = next_file(p);
		else
			e = read_back(p);
		p->over |= p->looked >= AUDIT_LOOK_MAX;
	}
	*ret_over = p->over;
	if (p->over)
		log_file_close(&p->file);
	return e;
}

size_t audit_page_len(const struct audit_page *p)
{
	return p->n;
}

struct span audit_page_line(const struct audit_page *p, size_t i)
{
	const struct page_line *l = &p->lines[p->n - 1 - i];

	return (struct span){ buf_head(&p->text) + l->off, l->len };
}

uint64_t audit_page_last(const struct audit_page *p)
{
	return p->last;
}

uint64_t audit_page_next(const struct audit_page *p)
{
	return p->to_the_end || p->oldest == UINT64_MAX ? 0 : p->oldest;
}
