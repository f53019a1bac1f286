/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Reads the input as a tar twice, whole and in small pieces: the same entries must come of it. A
 * path that is clean has no way up, and every entry has ended before the next begins. Checksums are
 * made to fit, for a search would hardly find one.
 */
struct seen {
	struct buf text;
	bool open;
	uint64_t left;
};

static struct err *on_entry(void *arg, const struct tar_entry *e)
{
	struct seen *s = arg;
	autofree char *clean = NULL;
	autoptr(err) bad = tar_path_clean(e->path, &clean);

	if (s->open || !*e->path || e->mode > 0777)
		abort();
	if (!bad && (*clean == '/' || str_eq(clean, "..") || strstr(clean, "/../") ||
		     str_starts(clean, "../") || str_ends(clean, "/..")))
		abort();
	buf_printf(&s->text, "%d|%s|%s|%llu|", (int)e->type, e->path, e->link,
		   (unsigned long long)e->size);
	if (!bad && e->type == TAR_SYMLINK)
		buf_printf(&s->text, "%d", tar_link_stays(clean, e->link));
	s->open = true;
	s->left = e->size;
	return NULL;
}

static struct err *on_data(void *arg, const char *p, size_t len)
{
	struct seen *s = arg;

	if (!s->open || len > s->left)
		abort();
	s->left -= len;
	buf_add(&s->text, p, len);
	return NULL;
}

static struct err *on_end(void *arg)
{
	struct seen *s = arg;

	if (!s->open || s->left)
		abort();
	s->open = false;
	return NULL;
}

static void fit_sums(char *p, size_t len)
{
	for (size_t at = 0; at + TAR_BLOCK <= len; at += TAR_BLOCK) {
		unsigned sum = 0;

		if (memcmp(p + at + 257, "ustar", 5) != 0)
			continue;
		memset(p + at + 148, ' ', 8);
		for (size_t i = 0; i < TAR_BLOCK; i++)
			sum += (unsigned char)p[at + i];
		(void)snprintf(p + at + 148, 8, "%06o", sum);
	}
}

static void read_all(const char *p, size_t len, size_t piece, struct seen *s)
{
	static const struct tar_events events = { on_entry, on_data, on_end };
	autoptr(tar_reader) t = tar_reader_new(&events, s);
	autoptr(err) e = NULL;

	for (size_t at = 0; at < len && !e; at += piece)
		e = tar_feed(t, p + at, MIN(piece, len - at));
	if (!e)
		e = tar_finish(t);
	buf_printf(&s->text, "%d", e ? (int)err_code(e) : -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *copy = xmemdup(data, len);
	struct seen whole = { 0 }, pieces = { 0 };

	fit_sums(copy, len);
	read_all(copy, len, len ? len : 1, &whole);
	read_all(copy, len, 17, &pieces);
	if (whole.text.len != pieces.text.len ||
	    memcmp(buf_head(&whole.text), buf_head(&pieces.text), whole.text.len) != 0)
		abort();
	buf_done(&whole.text);
	buf_done(&pieces.text);
	return 0;
}
