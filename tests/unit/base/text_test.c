/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/utsname.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/platform.h"
#include "base/str.h"
#include "test.h"

TEST(new_memory_is_zero_even_where_it_was_used_before)
{
	for (size_t len = 1; len < 8192; len += len / 3 + 1) {
		char *p = xmalloc(len);

		memset(p, 'x', len);
		free(p);
		p = xcalloc(len, 1);
		for (size_t i = 0; i < len; i++)
			eq_int(p[i], 0);
		free(p);
	}
}

TEST(strings_answer_about_null)
{
	is_true(str_eq(NULL, NULL));
	is_false(str_eq(NULL, ""));
	is_true(str_empty(NULL));
	is_false(str_starts(NULL, "a"));
	is_false(str_ends(NULL, "a"));
	is_true(str_eq_nocase(NULL, NULL));
	is_false(str_eq_nocase("a", NULL));
	eq_str(str_or("", "x"), "x");
}

TEST(strings_compare_by_parts_and_without_case)
{
	static const char *const list[] = { "a", "b", NULL };

	is_true(str_starts("/pods/x", "/pods/"));
	is_false(str_starts("/pod", "/pods"));
	is_true(str_ends("x.json", ".json"));
	is_false(str_ends("n", ".json"));
	is_true(str_eq_nocase("Content-TYPE", "content-type"));
	is_false(str_eq_nocase("a[", "a{"));
	is_true(str_in("b", list));
	is_false(str_in("c", list));
	is_false(str_in(NULL, list));
}

TEST(spans_cut_and_trim)
{
	struct span rest = SPAN("a, b ,"), part;

	part = span_cut(rest, ',', &rest);
	is_true(span_eq(part, "a"));
	part = span_trim(span_cut(rest, ',', &rest));
	is_true(span_eq(part, "b"));
	part = span_cut(rest, ',', &rest);
	is_true(span_eq(part, ""));
	is_true(!rest.p);
	is_true(span_eq(span_trim(SPAN(" \t ")), ""));
	is_true(span_eq_nocase(SPAN("Close"), "close"));
}

TEST(utf8_is_checked_strictly)
{
	static const struct {
		const char *text;
		size_t good; /* number of valid bytes at the beginning */
	} rows[] = {
		{ "plain", 5 },
		{ "\xc3\xa9", 2 },
		{ "\xe2\x82\xac", 3 },
		{ "\xf0\x9f\x98\x80", 4 },
		{ "\xf4\x8f\xbf\xbf", 4 },
		{ "a\x80", 1 },            /* continuation alone */
		{ "\xc0\xaf", 0 },         /* overlong */
		{ "\xe0\x9f\xbf", 0 },     /* overlong */
		{ "\xf0\x8f\xbf\xbf", 0 }, /* overlong */
		{ "\xed\xa0\x80", 0 },     /* surrogate */
		{ "\xf4\x90\x80\x80", 0 }, /* beyond the last character */
		{ "ab\xe2\x82", 2 },       /* cut */
		{ "\xff", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].text);

		eq_int(utf8_prefix(rows[i].text, len), rows[i].good);
		eq_int(utf8_valid(rows[i].text, len), rows[i].good == len);
	}
}

TEST(a_buf_is_a_queue_of_bytes)
{
	autobuf b = { 0 };
	size_t len;

	buf_add_str(&b, "hello");
	buf_add_char(&b, ' ');
	buf_printf(&b, "%s %d", "world", 7);
	eq_str(buf_str(&b), "hello world 7");
	buf_eat(&b, 6);
	eq_str(buf_str(&b), "world 7");
	buf_add(&b, "!", 1);
	{
		autofree char *text = buf_steal(&b, &len);

		eq_str(text, "world 7!");
		eq_int(len, 8);
	}
	eq_int(b.len, 0);
	eq_str(buf_str(&b), "");
}

TEST(a_buf_reuses_the_space_of_what_was_eaten)
{
	autobuf b = { 0 };

	for (unsigned i = 0; i < 10000; i++) {
		buf_add(&b, "0123456789", 10);
		if (i % 2)
			buf_eat(&b, 20);
	}
	eq_int(b.len, 0);
	is_true(b.cap <= 256);
}

TEST(a_cleared_buf_gives_large_memory_back)
{
	autobuf b = { 0 };

	memset(buf_reserve(&b, 1 << 20), 'x', 1 << 20);
	buf_wrote(&b, 1 << 20);
	buf_clear(&b);
	eq_int(b.cap, 0);
	buf_add_str(&b, "x");
	buf_clear(&b);
	is_true(b.cap > 0);
}

TEST(bytes_end_with_the_last_reference)
{
	autobuf b = { 0 };
	struct bytes *one, *two;

	buf_add_str(&b, "abc");
	one = bytes_from_buf(&b);
	two = bytes_ref(one);
	eq_int(b.len, 0);
	bytes_unref(one);
	eq_str(two->data, "abc");
	eq_int(two->len, 3);
	bytes_unref(two);
	bytes_unref(NULL);
	bytes_unref(bytes_new(NULL, 0));
}

TEST(an_arena_gives_aligned_zeroed_memory_of_any_size)
{
	static const size_t sizes[] = { 0, 1, 7, 16, 255, 256, 257, 1024, 65536, 1000000 };
	autoptr(arena) a = arena_new();

	for (unsigned round = 0; round < 20; round++) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			char *p = arena_alloc(a, sizes[i]);

			eq_int((uintptr_t)p % _Alignof(max_align_t), 0);
			for (size_t k = 0; k < sizes[i]; k += 97)
				eq_int(p[k], 0);
			memset(p, 0xff, sizes[i]);
		}
	}
}

TEST(an_arena_of_a_known_size_has_no_slack)
{
	autoptr(arena) like = arena_new();
	autoptr(arena) a = NULL;
	char *first;

	eq_int(arena_used(NULL), 0);
	for (size_t len = 1; len < 3000; len *= 3)
		(void)arena_alloc(like, len);
	a = arena_new_sized(arena_used(like));
	first = arena_alloc(a, 1);
	for (size_t len = 3; len < 3000; len *= 3) {
		char *p = arena_alloc(a, len);

		is_true(p > first && p + len <= first + arena_used(like)); /* all in one block */
	}
	eq_int(arena_used(a), arena_used(like));
	is_true(arena_alloc(a, 100) != NULL);
}

TEST(an_arena_copies_text)
{
	autoptr(arena) a = arena_new();

	eq_str(arena_strdup(a, "abc"), "abc");
	eq_str(arena_strdup(a, NULL), NULL);
	eq_str(arena_strndup(a, "abc", 2), "ab");
	eq_str(arena_printf(a, "%d-%s", 5, "x"), "5-x");
}

TEST(the_name_of_the_architecture_is_that_of_the_machine)
{
	static const struct {
		const char *machine, *arch;
	} rows[] = { { "x86_64", "amd64" }, { "aarch64", "arm64" } };
	struct utsname u;

	is_true(!uname(&u));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i].machine, u.machine)) {
			eq_str(PLATFORM_ARCH, rows[i].arch);
			return;
		}
	skip_because("this machine is neither of those");
}
