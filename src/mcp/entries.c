/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * A directory as the script of list_files writes it, one record for each entry:
 *
 *   MODE SIZE MTIME ./NAME\n        MODE in hexadecimal
 *
 * A name may contain anything but a slash, even what looks like a record; but a record begins with
 * a line that has a slash after its third space, which no name can forge. So the text is cut at
 * slashes: before each there is the name of the record before, a line break and three numbers.
 */
enum {
	CARRY_MAX = 4096, /* a record without its end: names have 255 bytes at most */
};

void entries_done(struct entries *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->list[i].name);
	free(e->list);
	free(e->carry);
	*e = (struct entries){ 0 };
}

static struct err *malformed(void)
{
	return err_new(ERR_MALFORMED, "the listing cannot be read");
}

/* "81a4 12 1700000000 ." */
static struct err *read_numbers(struct span text, struct entry *ret)
{
	struct span mode = span_cut(text, ' ', &text), size, mtime;
	unsigned m = 0;
	char number[2][24];
	struct err *e;

	if (!mode.len || mode.len > 8 || !text.p)
		return malformed();
	for (size_t i = 0; i < mode.len; i++) {
		char c = mode.p[i];

		if (!isxdigit((unsigned char)c))
			return malformed();
		m = m << 4 | (unsigned)(c <= '9' ? c - '0' : (c | ' ') - 'a' + 10);
	}
	size = span_cut(text, ' ', &text);
	mtime = text.p ? span_cut(text, ' ', &text) : (struct span){ 0 };
	if (!span_eq(text, ".") || size.len >= sizeof(number[0]) || mtime.len >= sizeof(number[1]))
		return malformed();
	(void)snprintf(number[0], sizeof(number[0]), "%.*s", (int)size.len, size.p);
	(void)snprintf(number[1], sizeof(number[1]), "%.*s", (int)mtime.len, mtime.p);
	e = parse_int(number[0], 0, INT64_MAX, &ret->size);
	if (!e)
		e = parse_int(number[1], INT64_MIN, INT64_MAX, &ret->mtime);
	ret->directory = S_ISDIR(m);
	return e ? err_recode(e, ERR_MALFORMED) : NULL;
}

/* One record: its numbers up to the slash, and its name. */
static struct err *add(struct entries *e, struct span numbers, struct span name)
{
	struct entry entry = { 0 };
	struct err *bad = read_numbers(numbers, &entry);

	if (bad)
		return bad;
	e->total++;
	if (e->n >= e->max)
		return NULL;
	if (!(e->n & (e->n - 1))) /* at powers of two */
		e->list = xrealloc(e->list, (e->n ? e->n * 2 : 1) * sizeof(*e->list));
	entry.name = xstrndup(name.p, name.len);
	e->list[e->n++] = entry;
	return NULL;
}

/* Where the numbers before this slash begin: after the line break before them. */
static const char *line_before(const char *start, const char *slash)
{
	while (slash > start && slash[-1] != '\n')
		slash--;
	return slash;
}

/* Takes the records that are complete from text; *ret_left is where the others begin. */
static struct err *take_records(struct entries *e, struct span text, bool last,
				const char **ret_left)
{
	const char *at = text.p, *end = text.p + text.len;

	while (at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		const char *next = slash ? memchr(slash + 1, '/', (size_t)(end - slash - 1)) : NULL;
		const char *over = next ? line_before(slash + 1, next) : end;
		struct err *bad;

		if (!slash && last)
			return malformed();
		if (!slash || (!next && !last))
			break;
		if (over == slash + 1 || over[-1] != '\n')
			return malformed();
		bad = add(e, (struct span){ at, (size_t)(slash - at) },
			  (struct span){ slash + 1, (size_t)(over - slash) - 2 });
		if (bad)
			return bad;
		at = over;
	}
	*ret_left = at;
	return NULL;
}

static struct err *consume(struct entries *e, const char *data, size_t len, bool last)
{
	autobuf text = { 0 };
	const char *left = NULL;
	struct err *bad;

	buf_add(&text, e->carry, e->carry_len);
	buf_add(&text, data, len);
	free(take(e->carry));
	e->carry_len = 0;
	if (!text.len)
		return NULL;
	bad = take_records(e, (struct span){ buf_head(&text), text.len }, last, &left);
	if (bad)
		return bad;
	e->carry_len = (size_t)(buf_head(&text) + text.len - left);
	if (e->carry_len > CARRY_MAX)
		return malformed();
	e->carry = xmemdup(left, e->carry_len);
	return NULL;
}

struct err *entries_feed(struct entries *e, const char *data, size_t len)
{
	return consume(e, data, len, false);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

struct err *entries_end(struct entries *e)
{
	struct err *bad = consume(e, "", 0, true);

	if (!bad && e->n)
		qsort(e->list, e->n, sizeof(*e->list), by_name);
	return bad;
}
