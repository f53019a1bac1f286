/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <unistd.h>

#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * A tar from outside, in two steps, so that each form has its digest:
 *
 *   file → (digest) → outer: decompression → (diff-id, length) → inner: tar → entries
 *
 * Names in a tar are bytes, mostly UTF-8, whatever the locale of the command is: libarchive goes by
 * that of its thread.
 */
enum {
	CHUNK = 256 * 1024,
};

struct tar {
	struct tar_from from;
	struct archive *outer, *inner;
	struct sha256 *hash, *diff;
	uint64_t length;    /* of the tar, so far */
	bool empty;         /* there is nothing to decompress */
	struct err *failed; /* of the outer step, which the inner one can only pass on as text */
	struct tar_locale locale;
	char file[CHUNK], plain[CHUNK];
};

void tar_locale_enter(struct tar_locale *l)
{
	l->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
	if (l->utf8)
		l->before = uselocale(l->utf8);
}

void tar_locale_leave(struct tar_locale *l)
{
	if (!l->utf8)
		return;
	(void)uselocale(l->before);
	freelocale(l->utf8);
}

static la_ssize_t read_file(struct archive *a, void *arg, const void **ret)
{
	struct tar *t = arg;
	ssize_t n;

	if (t->from.bytes) {
		n = (ssize_t)MIN(t->from.len, (size_t)CHUNK);
		*ret = t->from.bytes;
		t->from.bytes = (const char *)t->from.bytes + n;
		t->from.len -= (size_t)n;
	} else {
		do
			n = read(t->from.fd, t->file, CHUNK);
		while (n < 0 && errno == EINTR);
		*ret = t->file;
	}
	if (n < 0) {
		archive_set_error(a, errno, "%s", "read");
		return -1;
	}
	sha256_add(t->hash, *ret, (size_t)n);
	return n;
}

static struct err *malformed(struct archive *a, const char *what)
{
	return err_new(ERR_MALFORMED, "%s: %s", what, str_or(archive_error_string(a), "unknown"));
}

static la_ssize_t read_plain(struct archive *a, void *arg, const void **ret)
{
	struct tar *t = arg;
	la_ssize_t n = t->empty ? 0 : archive_read_data(t->outer, t->plain, CHUNK);

	*ret = t->plain;
	if (n > 0) {
		sha256_add(t->diff, t->plain, (size_t)n);
		t->length += (uint64_t)n;
	}
	if (n >= 0 && t->length <= t->from.max)
		return n;
	if (!t->failed)
		t->failed = n < 0 ? malformed(t->outer, "decompress")
				  : err_new(ERR_EXHAUSTED, "archive is longer than %llu bytes",
					    (unsigned long long)t->from.max);
	archive_set_error(a, EIO, "%s", err_text(t->failed));
	return -1;
}

static struct archive *new_outer(void)
{
	struct archive *a = archive_read_new();

	(void)archive_read_support_format_raw(a);
	(void)archive_read_support_format_empty(a);
	(void)archive_read_support_filter_gzip(a);
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_filter_bzip2(a);
	return a;
}

static struct tar *tar_new(const struct tar_from *from)
{
	struct tar *t = xnew(struct tar);

	t->from = *from;
	if (from->bytes && !from->len)
		t->from.bytes = "";
	t->from.max = from->max ? from->max : UINT64_MAX;
	t->hash = sha256_new();
	t->diff = sha256_new();
	t->outer = new_outer();
	tar_locale_enter(&t->locale);
	return t;
}

void tar_free(struct tar *t)
{
	if (!t)
		return;
	(void)archive_read_free(t->inner);
	(void)archive_read_free(t->outer);
	sha256_free(t->hash);
	sha256_free(t->diff);
	err_free(t->failed);
	tar_locale_leave(&t->locale);
	free(t);
}

static struct err *open_outer(struct tar *t)
{
	struct archive_entry *en;
	int r;

	if (archive_read_open(t->outer, t, NULL, read_file, NULL) != ARCHIVE_OK)
		return malformed(t->outer, "open archive");
	r = archive_read_next_header(t->outer, &en);
	t->empty = r == ARCHIVE_EOF;
	return r < ARCHIVE_WARN ? malformed(t->outer, "decompress") : NULL;
}

/* What went wrong in the outer step says more than what the inner one makes of it. */
static struct err *inner_failed(struct tar *t)
{
	return t->failed ? take(t->failed) : malformed(t->inner, "read archive");
}

struct err *tar_open(const struct tar_from *from, struct tar **ret)
{
	autoptr(tar) t = tar_new(from);
	struct err *e = open_outer(t);

	if (e)
		return e;
	t->inner = archive_read_new();
	(void)archive_read_support_format_tar(t->inner);
	if (archive_read_open(t->inner, t, NULL, read_plain, NULL) != ARCHIVE_OK)
		return inner_failed(t);
	*ret = take(t);
	return NULL;
}

struct err *tar_next(struct tar *t, struct archive_entry **ret)
{
	int r = archive_read_next_header(t->inner, ret);

	if (r == ARCHIVE_EOF)
		*ret = NULL;
	else if (r < ARCHIVE_WARN)
		return inner_failed(t);
	return NULL;
}

struct err *tar_data(struct tar *t, const void **ret, size_t *ret_len, int64_t *ret_off)
{
	la_int64_t off = 0;
	int r = archive_read_data_block(t->inner, ret, ret_len, &off);

	*ret_off = off;
	if (r == ARCHIVE_EOF)
		*ret = NULL;
	else if (r < ARCHIVE_WARN)
		return inner_failed(t);
	return NULL;
}

struct err *tar_end(struct tar *t, struct layer_done *ret)
{
	const void *rest;
	la_ssize_t n;

	while ((n = read_plain(t->inner, t, &rest)) > 0)
		;
	if (n < 0)
		return inner_failed(t);
	while ((n = read_file(t->outer, t, &rest)) > 0)
		;
	if (n < 0)
		return malformed(t->outer, "read archive");
	sha256_end_text(t->hash, ret->digest);
	sha256_end_text(t->diff, ret->diff_id);
	return NULL;
}

struct err *tar_head(const struct tar_from *from, char *ret, size_t len, size_t *ret_len)
{
	autoptr(tar) t = tar_new(from);
	struct err *e = open_outer(t);

	for (*ret_len = 0; !e && !t->empty && *ret_len < len;) {
		la_ssize_t n = archive_read_data(t->outer, ret + *ret_len, len - *ret_len);

		if (n < 0)
			e = malformed(t->outer, "decompress");
		if (n <= 0)
			break;
		*ret_len += (size_t)n;
	}
	return e;
}
