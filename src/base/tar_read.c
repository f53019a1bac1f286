/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "base/tar.h"

/*
 * The bytes may come in any pieces: a header is gathered until it is whole, and so is the content
 * of an entry that describes the next one; the content of a file is passed on as it comes.
 */
enum tar_state {
	TAR_HEADER,
	TAR_EXTENDED, /* the content of a header for the next entry */
	TAR_CONTENT,
	TAR_PADDING,
	TAR_END,
};

struct tar_reader {
	const struct tar_events *ev;
	void *arg;
	enum tar_state state;
	struct buf gathered; /* of a header or what extends it */
	char extended;       /* its type */
	uint64_t left;       /* of the content, then of the padding */
	uint64_t padding;
	unsigned n_entries;
	/* What is known of the next entry before its header; NULL and false: nothing. */
	char *path, *link;
	bool has_size, has_mtime;
	uint64_t size, mtime;
};

struct tar_reader *tar_reader_new(const struct tar_events *ev, void *arg)
{
	struct tar_reader *t = xnew(struct tar_reader);

	t->ev = ev;
	t->arg = arg;
	return t;
}

void tar_reader_free(struct tar_reader *t)
{
	if (!t)
		return;
	buf_done(&t->gathered);
	free(t->path);
	free(t->link);
	free(t);
}

static struct err *bad(const struct tar_reader *t, const char *what)
{
	return err_new(ERR_INVALID, "entry %u of the archive: %s", t->n_entries + 1, what);
}

/* Octal among spaces and NULs, or bytes behind a mark. False: it is neither, or too large. */
static bool number_read(const char *p, size_t len, uint64_t *ret)
{
	uint64_t n = 0;
	size_t i = 0;

	if ((unsigned char)p[0] == 0x80) {
		for (i = 1; i < len; i++) {
			if (n >> 55)
				return false;
			n = n << 8 | (unsigned char)p[i];
		}
		*ret = n;
		return true;
	}
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
		n = n << 3 | (uint64_t)(p[i] - '0'); /* 12 digits at most */
	for (; i < len; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return false;
	*ret = n;
	return true;
}

static bool sum_fits(const char *h)
{
	enum {
		SUM_AT = 148,
		SUM_LEN = 8,
	};
	uint64_t want;
	unsigned sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= SUM_AT && i < SUM_AT + SUM_LEN ? ' ' : (unsigned char)h[i];
	return number_read(h + SUM_AT, SUM_LEN, &want) && want == sum;
}

static bool is_zero(const char *h)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (h[i])
			return false;
	return true;
}

/* ustar splits a long path at a slash. */
static char *path_of(const char *h)
{
	enum {
		NAME_LEN = 100,
		MAGIC_AT = 257,
		PREFIX_AT = 345,
		PREFIX_LEN = 155,
	};
	autofree char *name = xstrndup(h, strnlen(h, NAME_LEN));

	if (memcmp(h + MAGIC_AT, "ustar\0", 6) != 0 || !h[PREFIX_AT])
		return xstrdup(name);
	return xasprintf("%.*s/%s", (int)strnlen(h + PREFIX_AT, PREFIX_LEN), h + PREFIX_AT, name);
}

static void forget_next(struct tar_reader *t)
{
	free(take(t->path));
	free(take(t->link));
	t->has_size = t->has_mtime = false;
}

static enum tar_type type_of(char c, const char *path)
{
	switch (c) {
	case '\0':
	case '0':
	case '7':
		/* Before ustar, a directory was a file with a slash. */
		return str_ends(path, "/") ? TAR_DIR : TAR_FILE;
	case '1':
		return TAR_HARDLINK;
	case '2':
		return TAR_SYMLINK;
	case '5':
		return TAR_DIR;
	default:
		return TAR_OTHER;
	}
}

static struct err *entry_begin(struct tar_reader *t, const char *h, uint64_t size)
{
	enum {
		MODE_AT = 100,
		MTIME_AT = 136,
		TYPE_AT = 156,
		LINK_AT = 157,
		LINK_LEN = 100,
	};
	autofree char *path = t->path ? xstrdup(t->path) : path_of(h);
	autofree char *link =
		t->link ? xstrdup(t->link) : xstrndup(h + LINK_AT, strnlen(h + LINK_AT, LINK_LEN));
	uint64_t mode, mtime;
	struct tar_entry e = { .type = type_of(h[TYPE_AT], path), .path = path };
	struct err *failed;

	if (!number_read(h + MODE_AT, 8, &mode) || !number_read(h + MTIME_AT, 12, &mtime))
		return bad(t, "its mode or time is no number");
	if (!*path || strlen(path) > TAR_PATH_MAX || strlen(link) > TAR_PATH_MAX)
		return bad(t, "a name is empty or has more than 4096 bytes");
	if (t->n_entries == TAR_ENTRIES_MAX)
		return err_new(ERR_TOO_LARGE, "archive has more than %d entries", TAR_ENTRIES_MAX);
	e.link = e.type == TAR_SYMLINK || e.type == TAR_HARDLINK ? link : "";
	e.size = e.type == TAR_FILE || e.type == TAR_OTHER ? size : 0;
	e.mode = mode & 0777;
	e.mtime = (int64_t)MIN(t->has_mtime ? t->mtime : mtime, (uint64_t)INT64_MAX);
	failed = t->ev->entry(t->arg, &e);
	t->n_entries++;

	/* What follows a header is not always content: some programs say how large a link's file
	 * is. */
	t->left = e.type == TAR_HARDLINK || e.type == TAR_SYMLINK ? 0 : size;
	if (e.type == TAR_DIR && size)
		return failed ? failed : bad(t, "a directory has no content");
	forget_next(t);
	return failed;
}

static struct err *header(struct tar_reader *t, const char *h)
{
	enum {
		SIZE_AT = 124,
		TYPE_AT = 156,
	};
	uint64_t size;
	struct err *e = NULL;

	if (is_zero(h)) {
		t->state = TAR_END;
		return NULL;
	}
	if (!sum_fits(h))
		return bad(t, (unsigned char)h[0] == 0x1f && (unsigned char)h[1] == 0x8b
				      ? "it is compressed; send a plain tar"
				      : "its header has a wrong checksum; is it a tar?");
	if (!number_read(h + SIZE_AT, 12, &size) || size > INT64_MAX)
		return bad(t, "its size is no number");
	if (t->has_size)
		size = t->size;
	t->extended = h[TYPE_AT];
	if (h[TYPE_AT] == 'L' || h[TYPE_AT] == 'K' || h[TYPE_AT] == 'x' || h[TYPE_AT] == 'g') {
		if (size > TAR_EXTENDED_MAX)
			return bad(t, "its extended header has more than 65536 bytes");
		t->left = size;
		t->state = TAR_EXTENDED;
	} else {
		e = entry_begin(t, h, size);
		t->state = TAR_CONTENT;
	}
	t->padding = -t->left & (TAR_BLOCK - 1);
	return e;
}

static struct err *pax_value(struct tar_reader *t, struct span key, struct span value)
{
	autofree char *text = xstrndup(value.p, value.len);
	char *dot;
	autoptr(err) e = NULL;

	if (strlen(text) != value.len)
		return bad(t, "a value of its extended header has a NUL");
	if (span_eq(key, "path") || span_eq(key, "linkpath")) {
		char **to = span_eq(key, "path") ? &t->path : &t->link;

		free(*to);
		*to = xstrdup(text);
	} else if (span_eq(key, "size")) {
		e = parse_uint(text, INT64_MAX, &t->size);
		t->has_size = !e;
	} else if (span_eq(key, "mtime") && *text != '-') {
		dot = strchr(text, '.');
		if (dot)
			*dot = '\0';
		e = parse_uint(text, INT64_MAX, &t->mtime);
		t->has_mtime = !e;
	} else if (key.len > 11 && !memcmp(key.p, "GNU.sparse.", 11)) {
		return bad(t, "sparse files are not supported; write the archive without --sparse");
	}
	return e ? bad(t, "a number of its extended header is none") : NULL;
}

/* Records of "length key=value\n", in which the length counts itself. */
static struct err *pax(struct tar_reader *t, struct span in)
{
	struct err *e = NULL;

	while (in.len && !e) {
		size_t len = 0, digits = 0;
		struct span key, value;

		for (; digits < in.len && digits < 6 && in.p[digits] >= '0' && in.p[digits] <= '9';
		     digits++)
			len = len * 10 + (size_t)(in.p[digits] - '0');
		if (!digits || len > in.len || len < digits + 3 || in.p[digits] != ' ' ||
		    in.p[len - 1] != '\n')
			return bad(t, "its extended header is broken");
		key = span_cut((struct span){ in.p + digits + 1, len - digits - 2 }, '=', &value);
		if (!value.p)
			return bad(t, "its extended header is broken");
		e = pax_value(t, key, value);
		in.p += len;
		in.len -= len;
	}
	return e;
}

static struct err *extended(struct tar_reader *t)
{
	struct span in = { buf_head(&t->gathered), t->gathered.len };
	char **to = t->extended == 'L' ? &t->path : &t->link;

	if (t->extended == 'x')
		return pax(t, in);
	if (t->extended == 'g')
		return NULL; /* defaults for all entries: names and sizes are never among them */
	free(*to);
	*to = xstrndup(in.p ? in.p : "", in.len);
	return NULL;
}

/* Takes from the input what the state needs; returns how much. */
static size_t gather(struct tar_reader *t, const char *p, size_t len, size_t want)
{
	size_t n = MIN(len, want - t->gathered.len);

	buf_add(&t->gathered, p, n);
	return n;
}

static struct err *step_header(struct tar_reader *t, const char *p, size_t len, size_t *ret)
{
	char h[TAR_BLOCK];

	*ret = gather(t, p, len, TAR_BLOCK);
	if (t->gathered.len < TAR_BLOCK)
		return NULL;
	memcpy(h, buf_head(&t->gathered), TAR_BLOCK);
	buf_clear(&t->gathered);
	return header(t, h);
}

static struct err *step_extended(struct tar_reader *t, const char *p, size_t len, size_t *ret)
{
	struct err *e;

	*ret = gather(t, p, len, (size_t)t->left);
	if (t->gathered.len < t->left)
		return NULL;
	e = extended(t);
	buf_clear(&t->gathered);
	t->left = t->padding;
	t->state = TAR_PADDING;
	return e;
}

static struct err *step_content(struct tar_reader *t, const char *p, size_t len, size_t *ret)
{
	struct err *e = NULL;

	*ret = (size_t)MIN((uint64_t)len, t->left);
	if (*ret)
		e = t->ev->data(t->arg, p, *ret);
	t->left -= *ret;
	if (e || t->left)
		return e;

	t->left = t->padding;
	t->state = TAR_PADDING;
	return t->ev->end(t->arg);
}

static struct err *step(struct tar_reader *t, const char *p, size_t len, size_t *ret)
{
	switch (t->state) {
	case TAR_HEADER:
		return step_header(t, p, len, ret);
	case TAR_EXTENDED:
		return step_extended(t, p, len, ret);
	case TAR_CONTENT:
		return step_content(t, p, len, ret);
	case TAR_PADDING:
		*ret = (size_t)MIN((uint64_t)len, t->left);
		t->left -= *ret;
		if (!t->left)
			t->state = TAR_HEADER;
		return NULL;
	case TAR_END: /* a second block of zeros, and what tar pads its records with */
		*ret = len;
		return NULL;
	}
	return NULL;
}

/* States that need no input are passed at once: an empty file, no padding. */
static bool at_rest(const struct tar_reader *t)
{
	return t->state == TAR_HEADER || t->state == TAR_END || t->left;
}

struct err *tar_feed(struct tar_reader *t, const char *p, size_t len)
{
	struct err *e = NULL;

	while (!e && (len || !at_rest(t))) {
		size_t used = 0;

		e = step(t, p, len, &used);
		p += used;
		len -= used;
	}
	return e;
}

struct err *tar_finish(struct tar_reader *t)
{
	if (t->state == TAR_END)
		return NULL;
	return err_new(ERR_INVALID, "the archive ends in the middle, after %u entries",
		       t->n_entries);
}
