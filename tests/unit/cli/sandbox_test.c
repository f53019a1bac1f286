/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tar.h"
#include "cli/sandbox/cp_priv.h"
#include "cli/sandbox/pack_priv.h"
#include "cli/sandbox/port_priv.h"
#include "cli/sandbox/term.h"
#include "test.h"

TEST(a_place_is_a_path_or_one_in_a_sandbox)
{
	static const struct {
		const char *text, *name, *path;
	} rows[] = {
		{ "a", NULL, "a" },       { "/a/b", NULL, "/a/b" }, { "./a:b", NULL, "./a:b" },
		{ "/a:b", NULL, "/a:b" }, { "x:/a", "x", "/a" },    { "x:a", "x", "a" },
		{ "x:a:b", "x", "a:b" },
	};
	static const char *const wrong[] = { "", ":", ":a", "x:" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct place p = { 0 };

		works(place_parse(rows[i].text, &p));
		eq_str(p.name, rows[i].name);
		eq_str(p.path, rows[i].path);
		place_done(&p);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct place p = { 0 };

		fails(place_parse(wrong[i], &p), ERR_INVALID);
	}
}

TEST(a_path_has_a_directory_and_a_name)
{
	static const struct {
		const char *path, *dir, *base;
	} rows[] = {
		{ "a", ".", "a" },       { "a/", ".", "a" },      { "/a", "/", "a" },
		{ "/a/b", "/a", "b" },   { "/a/b//", "/a", "b" }, { "/", "/", "." },
		{ ".", ".", "." },       { "a/.", "a", "." },     { "..", "..", "." },
		{ "a/..", "a/..", "." },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *dir = NULL, *base = NULL;

		place_split(rows[i].path, &dir, &base);
		eq_str(dir, rows[i].dir);
		eq_str(base, rows[i].base);
	}
}

/* What becomes of an archive with one file, where `from` was asked for. */
static struct err *unpack_one(const char *dir, const char *path, bool recursive)
{
	autoptr(unpack) u = NULL;
	autoptr(tar_reader) t = NULL;
	autobuf b = { 0 };

	works(unpack_open(
		&(struct unpack_spec){
			.dir = dir, .from = "from", .name = "to", .recursive = recursive },
		&u));
	t = tar_reader_new(&unpack_events, u);
	tar_put_header(&b, &(struct tar_entry){ .type = TAR_FILE, .path = path, .mode = 0600 });
	tar_put_end(&b);
	return tar_feed(t, buf_head(&b), b.len);
}

TEST(a_tree_is_taken_only_where_one_was_asked_for)
{
	char dir[] = "/tmp/cay-unpack-XXXXXX";
	autofree char *sub = NULL;

	is_true(mkdtemp(dir));
	sub = xasprintf("%s/to", dir);
	is_true(mkdir(sub, 0700) == 0);
	fails(unpack_one(dir, "from/x", false), ERR_FORBIDDEN);
	works(unpack_one(dir, "from/x", true));
	is_true(rmdir(sub) < 0); /* it has x now */
	works(file_remove_tree(AT_FDCWD, sub));
	works(unpack_one(dir, "from", false));
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(ports_are_local_and_remote)
{
	static const struct {
		const char *text;
		struct port_pair pair;
	} rows[] = {
		{ "80", { 80, 80 } },  { "8000:80", { 8000, 80 } },   { ":80", { 0, 80 } },
		{ "0:80", { 0, 80 } }, { "65535", { 65535, 65535 } },
	};
	static const char *const wrong[] = { "",      ":", "0",     "80:", "80:0",
					     "65536", "a", "1:2:3", "-1" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct port_pair p;

		works(port_parse(rows[i].text, &p));
		eq_int(p.local, rows[i].pair.local);
		eq_int(p.remote, rows[i].pair.remote);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct port_pair p;

		fails(port_parse(wrong[i], &p), ERR_INVALID);
	}
}

TEST(ages_and_sizes_are_short)
{
	char text[TERM_AGE_MAX], size[TERM_SIZE_MAX];

	term_age(38 * 1000000ll, text);
	eq_str(text, "38s");
	term_age(3 * 60 * 1000000ll + 1000000, text);
	eq_str(text, "3m1s");
	term_age(5 * 3600 * 1000000ll, text);
	eq_str(text, "5h0m");
	term_age(-5, text);
	eq_str(text, "0s");
	term_size(12.3 * 1024 * 1024, size);
	eq_str(size, "12.3 MiB");
}

TEST(a_grid_aligns_and_cleans_its_cells)
{
	static const char *const heads[] = { "A", "LONG", NULL };
	autoptr(grid) g = grid_new(heads);
	autobuf out = { 0 };

	grid_cell(g, TERM_PLAIN, "xyz");
	grid_cell(g, TERM_GOOD, "\033[31m");
	grid_cell(g, TERM_PLAIN, NULL);
	grid_cell(g, TERM_PLAIN, "1");
	grid_cell(g, TERM_PLAIN, "\302\233\302\240");
	grid_cell(g, TERM_PLAIN, "\302");
	grid_write(g, true, false, &out);
	eq_str(buf_str(&out), "A    LONG\nxyz  ?[31m\n-    1\n??\302\240  \302\n");
}
