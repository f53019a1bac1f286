/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tar.h"

#include <string.h>

#include "test.h"

/* Writes down what a reader tells. */
static struct err *on_entry(void *arg, const struct tar_entry *e)
{
	static const char letters[] = "fdsho";

	buf_printf(arg, "%c %s", letters[e->type], e->path);
	if (*e->link)
		buf_printf(arg, " -> %s", e->link);
	buf_printf(arg, " %o %lld %llu [", e->mode, (long long)e->mtime,
		   (unsigned long long)e->size);
	return NULL;
}

static struct err *on_data(void *arg, const char *p, size_t len)
{
	buf_add(arg, p, len);
	return NULL;
}

static struct err *on_end(void *arg)
{
	buf_add_str(arg, "]\n");
	return NULL;
}

static const struct tar_events events = { on_entry, on_data, on_end };

static struct err *read_all(const struct buf *in, size_t piece, struct buf *out)
{
	autoptr(tar_reader) t = tar_reader_new(&events, out);
	struct err *e = NULL;

	for (size_t at = 0; at < in->len && !e; at += piece)
		e = tar_feed(t, buf_head(in) + at, MIN(piece, in->len - at));
	return e ? e : tar_finish(t);
}

static void put_file(struct buf *out, const char *path, const char *text)
{
	tar_put_header(out, &(struct tar_entry){ .type = TAR_FILE,
						 .path = path,
						 .link = "",
						 .size = strlen(text),
						 .mode = 0644,
						 .mtime = 7 });
	buf_add_str(out, text);
	tar_put_padding(out, strlen(text));
}

TEST(what_is_written_is_read_in_pieces_of_any_size)
{
	static const size_t sizes[] = { 1, 7, 511, 512, 513, 100000 };
	char name[301], target[201];
	autobuf in = { 0 }, want = { 0 };

	memset(name, 'n', 300);
	memset(target, 't', 200);
	name[300] = target[200] = '\0';
	tar_put_header(&in, &(struct tar_entry){
				    .type = TAR_DIR, .path = "d/", .link = "", .mode = 0755 });
	put_file(&in, "d/f", "text");
	put_file(&in, "d/empty", "");
	put_file(&in, name, "long");
	tar_put_header(&in,
		       &(struct tar_entry){ .type = TAR_SYMLINK, .path = "s", .link = target });
	tar_put_header(&in,
		       &(struct tar_entry){ .type = TAR_HARDLINK, .path = "h", .link = "d/f" });
	tar_put_end(&in);
	buf_printf(
		&want,
		"d d/ 755 0 0 []\nf d/f 644 7 4 [text]\nf d/empty 644 7 0 []\nf %s 644 7 4 [long]\n"
		"s s -> %s 0 0 0 []\nh h -> d/f 0 0 0 []\n",
		name, target);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		autobuf got = { 0 };

		works(read_all(&in, sizes[i], &got));
		eq_str(buf_str(&got), buf_str(&want));
	}
}

TEST(an_archive_without_its_end_is_refused)
{
	autobuf in = { 0 };

	put_file(&in, "f", "text");
	for (size_t len = 0; len <= in.len; len++) {
		struct buf part = { in.data, in.off, len, in.cap };
		autobuf got = { 0 };

		fails(read_all(&part, 100, &got), ERR_INVALID);
	}
}

static void put_extended(struct buf *out, char type, const char *text)
{
	char *h;
	unsigned sum = 0;
	size_t at = out->len;

	tar_put_header(out, &(struct tar_entry){ .path = "x", .link = "", .size = strlen(text) });
	h = buf_head(out) + at;
	h[156] = type;
	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)h[i];
	(void)snprintf(h + 148, 8, "%06o", sum);
	buf_add_str(out, text);
	tar_put_padding(out, strlen(text));
}

static struct err *with_extended(char type, const char *text, struct buf *got)
{
	autobuf in = { 0 };

	put_extended(&in, type, text);
	put_file(&in, "f", "text");
	tar_put_end(&in);
	return read_all(&in, 1000, got);
}

TEST(extended_headers_of_pax_describe_the_next_entry)
{
	static const char *const wrong[] = { "x",           "11 path",
					     "8 path=a\n",  "12 path=abc\n7",
					     "10 size=x\n", "999 path=a\n",
					     "0 path=a\n",  "24 GNU.sparse.major=10\n" };
	autobuf got = { 0 };

	works(with_extended('x', "12 path=abc\n13 mtime=9.5\n7 x=\xff\xff\n12 mtime=-5\n", &got));
	eq_str(buf_str(&got), "f abc 644 9 4 [text]\n");
	buf_clear(&got);
	works(with_extended('g', "12 path=abc\n", &got));
	eq_str(buf_str(&got), "f f 644 7 4 [text]\n");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		autobuf none = { 0 };

		fails(with_extended('x', wrong[i], &none), ERR_INVALID);
	}
}

TEST(what_is_no_tar_is_refused)
{
	autobuf in = { 0 }, got = { 0 };

	memset(buf_reserve(&in, TAR_BLOCK), 'x', TAR_BLOCK);
	buf_wrote(&in, TAR_BLOCK);
	fails(read_all(&in, 512, &got), ERR_INVALID);
	buf_clear(&in);
	put_file(&in, "f", "text");
	buf_head(&in)[0] = 'g'; /* the sum no longer fits */
	fails(read_all(&in, 512, &got), ERR_INVALID);
	buf_clear(&in);
	put_file(&in, "", "text");
	fails(read_all(&in, 512, &got), ERR_INVALID);
}

TEST(what_is_neither_file_nor_directory_nor_link_is_told)
{
	autobuf in = { 0 }, got = { 0 };

	put_extended(&in, '3', ""); /* a device */
	tar_put_end(&in);
	works(read_all(&in, 512, &got));
	eq_int(*buf_str(&got), 'o');
}

TEST(names_have_a_limit)
{
	static char name[100 * 1024];
	autobuf in = { 0 }, got = { 0 };

	memset(name, 'n', sizeof(name) - 1);
	put_file(&in, name, "");
	fails(read_all(&in, 512, &got), ERR_INVALID);
	name[TAR_PATH_MAX + 1] = '\0';
	buf_clear(&in);
	put_file(&in, name, "");
	fails(read_all(&in, 512, &got), ERR_INVALID);
}

TEST(large_numbers_are_written_and_read)
{
	autobuf in = { 0 }, got = { 0 };
	autoptr(tar_reader) t = tar_reader_new(&events, &got);

	tar_put_header(&in,
		       &(struct tar_entry){ .path = "f", .link = "", .size = UINT64_C(1) << 40 });
	works(tar_feed(t, buf_head(&in), in.len));
	eq_str(buf_str(&got), "f f 0 0 1099511627776 [");
}

static struct err *no_entry(unused void *arg, unused const struct tar_entry *e)
{
	return NULL;
}

static struct err *no_end(unused void *arg)
{
	return NULL;
}

TEST(an_archive_has_a_limit_of_entries)
{
	static const struct tar_events none = { no_entry, on_data, no_end };
	autoptr(tar_reader) t = tar_reader_new(&none, NULL);
	autobuf in = { 0 };

	put_file(&in, "f", "");
	for (int i = 0; i < TAR_ENTRIES_MAX; i++)
		works(tar_feed(t, buf_head(&in), in.len));
	fails(tar_feed(t, buf_head(&in), in.len), ERR_TOO_LARGE);
}

TEST(names_that_lead_outside_are_refused)
{
	static const struct {
		const char *path, *want; /* NULL: refused */
	} rows[] = {
		{ "a/b", "a/b" },     { "./a//b/", "a/b" }, { ".", "" },    { "./", "" },
		{ "..a/b", "..a/b" }, { "/a", NULL },       { "..", NULL }, { "a/../b", NULL },
		{ "a/..", NULL },     { "./../a", NULL },   { "//", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *got = NULL;

		if (!rows[i].want) {
			fails(tar_path_clean(rows[i].path, &got), ERR_FORBIDDEN);
			continue;
		}
		works(tar_path_clean(rows[i].path, &got));
		eq_str(got, rows[i].want);
	}
}

TEST(links_stay_inside_whatever_other_links_there_are)
{
	static const struct {
		const char *path, *target;
		bool stays;
	} rows[] = {
		{ "l", "f", true },           { "l", "./d/f", true },  { "l", "..", false },
		{ "d/l", "..", true },        { "d/l", "../f", true }, { "d/l", "../..", false },
		{ "d/e/l", "../../x", true }, { "l", "/etc", false },  { "d/l", "x/../y", false },
		{ "d/l", "../x/..", false },  { "l", "", true },       { "d/l", ".././/..", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(tar_link_stays(rows[i].path, rows[i].target), rows[i].stays);
}
