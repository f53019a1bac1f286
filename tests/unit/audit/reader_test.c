/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/chain.h"
#include "base/file.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "test.h"

/* A log that is written by hand: PATH is the youngest file. */
struct rig {
	char dir[64], path[96];
	struct chain chain;
	struct ed25519 *key;
	unsigned files;
};

static const struct audit_filter all = { 0 };

static void rig_init(struct rig *r)
{
	*r = (struct rig){ .key = ed25519_new() };
	(void)snprintf(r->dir, sizeof(r->dir), "/tmp/cay-reader-XXXXXX");
	is_true(mkdtemp(r->dir));
	(void)snprintf(r->path, sizeof(r->path), "%s/audit.log", r->dir);
	chain_init(&r->chain, r->key);
}

static void rig_done(struct rig *r)
{
	ed25519_free(r->key);
	works(file_remove_tree(AT_FDCWD, r->dir));
}

static void append(struct rig *r, const void *p, size_t len)
{
	int fd = open(r->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	is_true(fd >= 0);
	works(fd_write_all(fd, p, len));
	(void)close(fd);
}

static void append_text(struct rig *r, const char *text)
{
	append(r, text, strlen(text));
}

static void begin(struct rig *r)
{
	autobuf b = { 0 };

	chain_add_begin(&r->chain, 1000000, &b);
	append(r, buf_head(&b), b.len);
	r->files++;
}

static void rotate(struct rig *r)
{
	for (unsigned i = r->files; i > 0; i--) {
		autofree char *from = i > 1 ? xasprintf("%s.%u", r->path, i - 1) : xstrdup(r->path);
		autofree char *to = xasprintf("%s.%u", r->path, i);

		eq_int(rename(from, to), 0);
	}
	begin(r);
}

static void note(struct rig *r, const char *name, const char *ns)
{
	autofree char *text = xasprintf(
		"{\"time\":\"2026-03-04T05:06:07.000000Z\",\"user\":\"u\",\"verb\":\"create\","
		"\"namespace\":\"%s\",\"name\":\"%s\",\"status\":%d}",
		ns, name, str_eq(ns, "no") ? 403 : 201);
	autobuf b = { 0 };

	chain_add(&r->chain, text, strlen(text), &b);
	append(r, buf_head(&b), b.len);
}

static void notes(struct rig *r, unsigned from, unsigned to, const char *ns)
{
	for (unsigned i = from; i < to; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "m%u", i);
		note(r, name, ns);
	}
}

/* "m1 m2 m3" */
static void add_name(struct buf *out, struct span line)
{
	autoptr(json_doc) d = NULL;

	works(json_parse(line.p, line.len, NULL, &d));
	if (json_get(json_root(d), "gap"))
		buf_printf(out, "%sgap%lld-%lld", out->len ? " " : "",
			   (long long)json_get_int(json_get(json_root(d), "gap"), "from", 0),
			   (long long)json_get_int(json_get(json_root(d), "gap"), "to", 0));
	else
		buf_printf(out, "%s%s", out->len ? " " : "",
			   str_or(json_get_str(json_root(d), "name"), "?"));
}

struct paged {
	char *names;
	uint64_t last, next;
	size_t n;
};

static struct paged page(struct rig *r, const struct audit_filter *f, uint64_t before, size_t limit)
{
	autoptr(audit_page) p =
		audit_page_new(&(struct audit_page_spec){ r->path, f, before, limit });
	struct paged ret = { 0 };
	struct buf out = { 0 };
	bool over = false;

	while (!over)
		works(audit_page_step(p, &over));
	ret.n = audit_page_len(p);
	for (size_t i = 0; i < ret.n; i++)
		add_name(&out, audit_page_line(p, i));
	ret.last = audit_page_last(p);
	ret.next = audit_page_next(p);
	(void)buf_str(&out);
	ret.names = buf_steal(&out, NULL);
	return ret;
}

static void eq_page(struct paged p, const char *names)
{
	eq_str(p.names, names);
	free(p.names);
}

/* All that there is now. */
static char *follow(struct audit_cursor *c, size_t max)
{
	struct buf names = { 0 };
	bool end = false;

	while (!end && max) {
		autobuf out = { 0 };
		struct span rest;

		works(audit_cursor_step(c, &out, &max, &end));
		rest = out.len ? (struct span){ buf_head(&out), out.len } : (struct span){ 0 };
		while (rest.len) {
			struct span line = span_cut(rest, '\n', &rest);

			if (line.len)
				add_name(&names, line);
		}
	}
	(void)buf_str(&names);
	return buf_steal(&names, NULL);
}

static void eq_follow(struct audit_cursor *c, size_t max, const char *names)
{
	autofree char *have = follow(c, max);

	eq_str(have, names);
}

static struct audit_cursor *cursor(struct rig *r, uint64_t after)
{
	return audit_cursor_new(&(struct audit_cursor_spec){ r->path, &all, after });
}

TEST(a_page_has_the_newest_and_says_where_the_next_begins)
{
	struct paged p;
	struct rig r;

	rig_init(&r);
	begin(&r); /* 1 */
	notes(&r, 2, 6, "a");
	rotate(&r); /* 6 */
	notes(&r, 7, 10, "b");
	p = page(&r, &all, 0, 2);
	eq_int(p.last, 9);
	eq_int(p.next, 8);
	eq_page(p, "m8 m9");
	p = page(&r, &all, 8, 3);
	eq_int(p.next, 4);
	eq_page(p, "m4 m5 m7");
	p = page(&r, &all, 4, 100);
	eq_int(p.next, 0);
	eq_page(p, "m2 m3");
	eq_page(page(&r, &(struct audit_filter){ .ns = "a" }, 0, 2), "m4 m5");
	p = page(&r, &all, 0, 0);
	eq_int(p.last, 9);
	eq_page(p, "");
	eq_page(page(&r, &all, 1, 10), "");
	rig_done(&r);
}

TEST(filters_select_by_all_that_they_name)
{
	static const char text[] =
		"{\"n\":1,\"time\":\"2026-03-04T05:06:07Z\",\"user\":\"root\",\"as\":\"cay:agent:team:bot\","
		"\"verb\":\"connect\",\"resource\":\"pods\",\"namespace\":\"a\",\"name\":\"web\",\"status\":403}";
	const usec at = INT64_C(1772600767000000);
	const struct {
		struct audit_filter f;
		bool wanted;
	} rows[] = {
		{ { 0 }, true },
		{ { .user = "root" }, true },
		{ { .user = "cay:agent:team:bot" }, true },
		{ { .user = "bot" }, false },
		{ { .agent = "bot" }, true },
		{ { .agent = "team:bot" }, false },
		{ { .agent = "ot" }, false },
		{ { .sandbox = "web" }, true },
		{ { .sandbox = "we" }, false },
		{ { .ns = "a", .verb = "connect", .refused = true }, true },
		{ { .ns = "a", .verb = "create" }, false },
		{ { .ns = "b" }, false },
		{ { .since = at }, true },
		{ { .since = at + 1 }, false },
		{ { .until = at }, false },
		{ { .until = at + 1 }, true },
	};
	autoptr(json_doc) d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(audit_filter_wants(&rows[i].f, json_root(d)), rows[i].wanted);
}

TEST(what_is_no_record_is_passed_over_in_both_directions)
{
	autofree char *huge = xmalloc(3 * 1024 * 1024);
	autoptr(audit_cursor) c = NULL;
	struct rig r;

	rig_init(&r);
	begin(&r);
	notes(&r, 2, 4, "a");
	append_text(&r, "{\"n\":4,\"prev\":\"torn\n"); /* takes number 4 */
	r.chain.n++;
	append_text(&r,
		    "\n\n[1,2]\nnull\n{\"n\":-7}\n{\"n\":\"9\"}\n{\"n\":99999999999999999999}\n");
	memset(huge, 'x', 3 * 1024 * 1024);
	huge[3 * 1024 * 1024 - 1] = '\n';
	append(&r, huge, 3 * 1024 * 1024);
	notes(&r, 5, 7, "a");
	append_text(&r, "{\"n\":7,\"prev\":\"half"); /* being written */
	eq_page(page(&r, &all, 0, 100), "m2 m3 m5 m6");
	c = cursor(&r, 0);
	eq_follow(c, 100, "m2 m3 gap4-4 m5 m6");
	eq_int(audit_cursor_last(c), 6);
	rig_done(&r);
}

TEST(numbers_that_do_not_rise_end_no_reader)
{
	static const char lines[] = "{\"n\":5,\"name\":\"five\"}\n{\"n\":3,\"name\":\"three\"}\n"
				    "{\"n\":5,\"name\":\"again\"}\n{\"n\":9,\"name\":\"nine\"}\n";
	autoptr(audit_cursor) c = NULL;
	struct rig r;

	rig_init(&r);
	append_text(&r, lines);
	eq_page(page(&r, &all, 0, 100), "three again nine");
	c = cursor(&r, 4);
	eq_follow(c, 100, "five gap6-8 nine");
	rig_done(&r);
}

TEST(an_empty_log_and_one_without_numbers_have_no_page)
{
	autoptr(audit_cursor) c = NULL;
	struct paged p;
	struct rig r;

	rig_init(&r);
	c = cursor(&r, 0);
	eq_page(page(&r, &all, 0, 10), "");
	eq_follow(c, 10, "");
	append_text(&r, "");
	p = page(&r, &all, 0, 10);
	eq_int(p.last, 0);
	eq_int(p.next, 0);
	eq_page(p, "");
	eq_follow(c, 10, "");
	append_text(&r, "{\"user\":\"u\",\"name\":\"old\"}\n");
	eq_page(page(&r, &all, 0, 10), "");
	eq_follow(c, 10, "");
	rig_done(&r);
}

TEST(a_cursor_goes_on_over_rotation_without_loss)
{
	autoptr(audit_cursor) c = NULL;
	struct rig r;

	rig_init(&r);
	begin(&r);
	notes(&r, 2, 5, "a");
	c = cursor(&r, 2);
	eq_follow(c, 100, "m3 m4");
	eq_follow(c, 100, "");
	notes(&r, 5, 6, "a"); /* the last of a file, which was read to its end before */
	rotate(&r);           /* 6 */
	rotate(&r);           /* 7 */
	notes(&r, 8, 9, "a");
	eq_follow(c, 100, "m5 m8");
	notes(&r, 9, 12, "a");
	eq_follow(c, 2, "m9 m10");
	rotate(&r);
	eq_follow(c, 100, "m11");
	rig_done(&r);
}

TEST(what_was_rotated_away_is_a_gap)
{
	autofree char *old = NULL, *older = NULL;
	autoptr(audit_cursor) c = NULL;
	autoptr(audit_cursor) late = NULL;
	struct rig r;

	rig_init(&r);
	begin(&r);
	notes(&r, 2, 4, "a");
	c = cursor(&r, 0);
	eq_follow(c, 1, "m2");
	rotate(&r); /* 4 */
	notes(&r, 5, 6, "a");
	rotate(&r); /* 6 */
	notes(&r, 7, 8, "a");
	old = xasprintf("%s.1", r.path);
	older = xasprintf("%s.2", r.path);
	eq_int(unlink(old), 0);
	eq_int(unlink(older), 0);
	eq_follow(c, 100, "m3 gap4-5 m7"); /* its file was open still */
	late = cursor(&r, 2);
	eq_follow(late, 100, "gap3-5 m7");
	rig_done(&r);
}

TEST(a_page_in_the_middle_of_a_rotation_has_all)
{
	struct rig r;
	autofree char *one = NULL, *two = NULL, *three = NULL;

	rig_init(&r);
	begin(&r);
	notes(&r, 2, 3, "a");
	rotate(&r); /* 3 */
	notes(&r, 4, 5, "a");
	rotate(&r); /* 5 */
	notes(&r, 6, 7, "a");
	one = xasprintf("%s.1", r.path);
	two = xasprintf("%s.2", r.path);
	three = xasprintf("%s.3", r.path);
	eq_int(rename(two, three), 0); /* a hole, as a rotation leaves for a moment */
	eq_page(page(&r, &all, 0, 10), "m2 m4 m6");
	eq_int(rename(one, two), 0);
	eq_page(page(&r, &all, 0, 10), "m2 m4 m6");
	eq_int(rename(r.path, one), 0);
	eq_page(page(&r, &all, 0, 10), "m2 m4 m6");
	rig_done(&r);
}

TEST(deep_pages_of_a_large_file_are_found)
{
	autobuf b = { 0 };
	struct paged p;
	struct rig r;
	autofree char *text = NULL;
	autoptr(audit_cursor) c = NULL;

	rig_init(&r);
	begin(&r);
	for (unsigned i = 2; i <= 20000; i++) {
		free(text);
		text = xasprintf("{\"name\":\"m%u\",\"note\":\"%0*d\"}", i, (int)(i % 300), 7);
		chain_add(&r.chain, text, strlen(text), &b);
	}
	append(&r, buf_head(&b), b.len);
	eq_page(page(&r, &all, 10001, 3), "m9998 m9999 m10000");
	eq_page(page(&r, &all, 3, 3), "m2");
	p = page(&r, &all, 0, 10000);
	eq_int(p.n, 10000);
	eq_int(p.next, 10001);
	free(p.names);
	c = cursor(&r, 12344);
	eq_follow(c, 2, "m12345 m12346");
	rig_done(&r);
}

TEST(a_page_is_bounded_in_bytes)
{
	autofree char *note_text = xmalloc(300001);
	struct rig r;
	autobuf b = { 0 };
	struct paged p;

	rig_init(&r);
	begin(&r);
	memset(note_text, 'n', 300000);
	note_text[300000] = '\0';
	for (unsigned i = 2; i <= 31; i++) {
		autofree char *text = xasprintf("{\"name\":\"m%u\",\"note\":\"%s\"}", i, note_text);

		chain_add(&r.chain, text, strlen(text), &b);
	}
	append(&r, buf_head(&b), b.len);
	p = page(&r, &all, 0, 100);
	eq_int(p.n, 13); /* of 300 kB each, 4 MiB at most */
	eq_int(p.next, 19);
	free(p.names);
	p = page(&r, &all, 19, 100);
	eq_int(p.next, 6);
	free(p.names);
	eq_page(page(&r, &all, 6, 100), "m2 m3 m4 m5");
	rig_done(&r);
}

static struct audit_verdict verify(struct rig *r, struct audit_verify **ret)
{
	unsigned char key[ED25519_KEY_LEN];
	bool over = false;

	ed25519_public(r->key, key);
	works(audit_verify_open(r->path, key, ret));
	while (!over)
		works(audit_verify_step(*ret, 100, &over));
	return audit_verify_verdict(*ret);
}

static void write_head(struct rig *r)
{
	autofree char *name = xasprintf("%s.head", r->path);
	autobuf b = { 0 };

	chain_head_write(&r->chain, 1, &b);
	works(file_write_atomic(AT_FDCWD, name, buf_head(&b), b.len, 0600));
}

TEST(the_check_goes_through_all_files_in_steps)
{
	autoptr(audit_verify) v = NULL;
	autoptr(audit_verify) w = NULL;
	struct audit_verdict said;
	struct rig r;

	rig_init(&r);
	begin(&r);
	notes(&r, 2, 50, "a");
	rotate(&r);
	notes(&r, 51, 60, "a");
	write_head(&r);
	said = verify(&r, &v);
	eq_int(said.faults, 0);
	eq_int(said.files, 2);
	eq_int(said.lines, 59);
	eq_int(said.bytes, said.of);
	eq_str(said.from, "1970-01-01T00:00:01.000000Z");
	eq_str(said.to, "2026-03-04T05:06:07.000000Z");
	note(&r, "after", "a");
	append_text(&r, "forged\n");
	write_head(&r);
	said = verify(&r, &w);
	eq_int(said.faults, 1);
	eq_int(json_len(said.findings), 1);
	rig_done(&r);
}
