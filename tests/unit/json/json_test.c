/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/str.h"
#include "test.h"

static struct json_doc *doc_of(const char *text)
{
	struct json_doc *d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return d;
}

static void writes(const struct json *v, const char *want)
{
	autofree char *text = json_to_text(v);

	eq_str(text, want);
}

static void refuses(const char *text, size_t len)
{
	struct json_doc *d = NULL;

	fails(json_parse(text, len, NULL, &d), ERR_MALFORMED);
	is_true(!d);
}

/* Sharing */

static struct json_doc *frozen(const char *text)
{
	struct json_doc *d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return json_freeze(d);
}

static void eq_doc(const struct json_doc *d, const char *text)
{
	autofree char *now = json_to_text(json_root(d));

	eq_str(now, text);
}

#define MANY "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24]"
#define TREE "{\"a\":{\"b\":{\"c\":1},\"e\":{}},\"many\":" MANY ",\"s\":\"t\"}"

TEST(a_branch_changes_without_the_doc_that_lent_it)
{
	autoptr(json_doc) d = frozen(TREE);
	autoptr(json_doc) next = json_branch(d);
	struct json *a = json_need_obj(next, json_root(next), "a");

	is_true(json_same(json_get(a, "b"), json_at_path(json_root(d), "a.b")));
	is_false(json_same(a, json_get(json_root(d), "a")));
	json_set_int(next, json_own(next, json_get(a, "b")), "c", 2);
	json_set_int(next, json_need_obj(next, a, "e"), "f", 3);
	json_push(next, json_get(json_root(next), "many"), json_new_int(next, 25));
	eq_doc(d, TREE);
	is_true(json_int(json_at_path(json_root(next), "a.b.c"), 0) == 2);
	eq_int(json_len(json_get(json_root(next), "many")), 26);
	is_true(json_del(a, "b"));
	json_clear(json_get(json_root(next), "many"));
	eq_doc(next, "{\"a\":{\"e\":{\"f\":3}},\"many\":[],\"s\":\"t\"}");
	eq_doc(d, TREE);
}

TEST(the_next_state_refers_to_the_parts_that_did_not_change_and_to_nothing_else)
{
	struct json_doc *d = frozen(TREE), *next;
	const void *many = json_at(json_get(json_root(d), "many"), 0);
	size_t mem = json_doc_mem(d);

	for (int i = 0; i < 100; i++) {
		next = json_branch(d);
		json_set_int(next, json_need_obj(next, json_root(next), "a"), "e", i);
		json_doc_free(d);
		d = json_freeze(next);
		is_true(json_at(json_get(json_root(d), "many"), 0) == many);
		is_true(json_doc_mem(d) <= mem);
	}
	eq_doc(d, "{\"a\":{\"b\":{\"c\":1},\"e\":99},\"many\":" MANY ",\"s\":\"t\"}");
	json_doc_free(d);
}

TEST(a_moved_value_outlives_the_doc_it_was_made_in)
{
	autoptr(json_doc) d = frozen(TREE);
	struct json_doc *next = json_branch(d), *whole = json_branch(d);
	struct json *a = json_need_obj(next, json_root(next), "a");

	json_set_str(next, a, "e", "moved");
	(void)json_set(whole, json_root(whole), "a", json_move(whole, next, a));
	whole = json_freeze(whole);
	eq_doc(whole, "{\"a\":{\"b\":{\"c\":1},\"e\":\"moved\"},\"many\":" MANY ",\"s\":\"t\"}");
	json_doc_free(whole);
}

static struct json_doc *shelved(struct json_shelf *shelf, const char *text)
{
	struct json_doc *d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return json_freeze_shelved(d, shelf);
}

TEST(docs_from_one_shelf_share_the_member_that_is_equal_in_them)
{
	static const struct {
		const char *other;
		bool shared;
	} rows[] = {
		{ "{\"many\":" MANY ",\"s\":\"u\"}", true },
		/* The same length, another value. */
		{ "{\"many\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,25]}",
		  false },
		{ "{\"many\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,[]]}",
		  false },
		{ "{\"more\":" MANY "}", false }, /* not the member of this shelf */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct json_shelf *shelf = json_shelf_new("many");
		autoptr(json_doc) a = shelved(shelf, TREE);
		autoptr(json_doc) b = shelved(shelf, rows[i].other);
		const struct json *many = json_get(json_root(b), i == 3 ? "more" : "many");

		eq_int(json_same(json_get(json_root(a), "many"), many), rows[i].shared);
		json_shelf_free(shelf); /* they outlive it */
		eq_doc(a, TREE);
		eq_doc(b, rows[i].other);
	}
}

TEST(members_in_another_order_are_not_the_same)
{
#define AB "{\"s\":{\"v\":" MANY ",\"a\":1,\"b\":2}}"
#define BA "{\"s\":{\"v\":" MANY ",\"b\":2,\"a\":1}}"
	struct json_shelf *shelf = json_shelf_new("s");
	autoptr(json_doc) ab = shelved(shelf, AB);
	autoptr(json_doc) ba = shelved(shelf, BA);

	is_true(json_equal(json_root(ab), json_root(ba)));
	eq_doc(ab, AB);
	eq_doc(ba, BA);
	json_shelf_free(shelf);
}

/* An object at rest: a value takes 24 bytes, a text its bytes and a NUL, and there is no slack. */
TEST(a_frozen_doc_takes_what_its_values_and_texts_take)
{
	autoptr(json_doc) d = frozen("{\"key\":\"text\",\"list\":[1,2]}");
	size_t values = 1 + 4 + 2, text = sizeof("key") + sizeof("text") + sizeof("list");
	autoptr(json_doc) empty = frozen("{}");

	eq_int(json_doc_mem(d) - json_doc_mem(empty), (values - 1) * 24 + text);
	is_true(json_doc_mem(empty) <= 100);
}

TEST(what_is_lent_by_a_doc_that_may_change_is_a_copy)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(json_doc) other = json_doc_new();
	struct json *list = json_arr(other), *lent;

	json_push_str(other, list, "x");
	lent = json_lend(d, other, list);
	is_false(json_same(lent, list));
	json_push_str(other, list, "y");
	eq_int(json_len(lent), 1);
}

TEST(following_finds_members_behind_those_that_are_gone)
{
	autoptr(json_doc) d = frozen("{\"a\":1,\"b\":2,\"c\":3,\"d\":4}");
	autoptr(json_doc) next = json_branch(d);
	struct json_iter was = { .of = json_root(d) };

	is_true(json_del(json_root(next), "b"));
	json_set_int(next, json_root(next), "e", 5);
	json_each(it, json_root(next)) {
		const struct json *there = json_follow(&was, &it);

		eq_int(json_int(there, 0), str_eq(it.key, "e") ? 0 : json_int(it.val, -1));
	}
}

TEST(what_is_read_is_written_again)
{
	static const char *const texts[] = {
		"{\"a\":[1,2.5,-3,true,false,null,\"x\"],\"b\":{\"c\":{}},\"\":[]}",
		"18446744073709551615",
		"-9223372036854775808",
		"\"\\n\\\"\\\\\"",
		"[]",
		"null",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		autoptr(json_doc) d = doc_of(texts[i]);

		writes(json_root(d), texts[i]);
	}
}

TEST(what_is_not_json_is_rejected)
{
	static const char *const texts[] = {
		"",
		" ",
		"{",
		"[1,]",
		"{\"a\":1,}",
		"{a:1}",
		"'a'",
		"01",
		"+1",
		".5",
		"1.",
		"NaN",
		"Infinity",
		"1e999",
		"[1] x",
		"// c\n1",
		"\"\\x\"",
		"\"\\ud83d\"",
		"\"a\nb\"",
		"\"\xff\"",
		"\"\xed\xa0\x80\"",
		"\xef\xbb\xbf{}",
		"tru",
		"]",
		"}",
		"[}",
		"\"",
		"\"\\",
		"{\"a\"}",
		"{\"a\":}",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		refuses(texts[i], strlen(texts[i]));
	refuses("1\0", 2);
	refuses("\"\0\"", 3);
}

TEST(a_duplicate_member_is_rejected)
{
	autobuf b = { 0 };

	refuses("{\"a\":1,\"a\":1}", 13);
	refuses("[{\"x\":{\"a\":1,\"b\":2,\"\\u0061\":1}}]", 31);
	buf_add_str(&b, "{");
	for (unsigned i = 0; i < 1000; i++)
		buf_printf(&b, "\"k%u\":%u,", i, i);
	buf_add_str(&b, "\"k500\":0}");
	refuses(buf_head(&b), b.len);
}

TEST(members_that_appear_twice_stay_when_asked_for)
{
	static const char twice[] = "[{\"a\":1,\"b\":2,\"a\":3}]", once[] = "{\"a\":1}";
	bool any = false;
	const struct json_limits limits = { .duplicates = &any };
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) e = NULL;

	works(json_parse(twice, strlen(twice), &limits, &d));
	is_true(any);
	eq_int(json_len(json_at(json_root(d), 0)), 3);
	works(json_parse(once, strlen(once), &limits, &e));
	is_true(!any);
	json_add(e, json_root(e), "b", json_new_int(e, 2));
	eq_int(json_get_int(json_root(e), "b", 0), 2);
}

TEST(a_nul_in_a_string_is_rejected)
{
	refuses("\"a\\u0000\"", 9);
	refuses("{\"\\u0000\":1}", 12);
	{
		autoptr(json_doc) d = doc_of("\"\\\\u0000\"");

		eq_str(json_str(json_root(d)), "\\u0000");
	}
}

TEST(depth_and_length_have_limits)
{
	struct json_limits limits = { .max_len = 8, .max_depth = 3 };
	autoptr(json_doc) d = NULL;
	struct json_doc *none = NULL;
	autobuf b = { 0 };

	works(json_parse("[[[\"[[\"]]]", 10, &(struct json_limits){ .max_depth = 3 }, &d));
	fails(json_parse("[[[[]]]]", 8, &limits, &none), ERR_MALFORMED);
	fails(json_parse("[[[   ]]]", 9, &limits, &none), ERR_TOO_LARGE);
	for (unsigned i = 0; i < 1000000; i++)
		buf_add_char(&b, '[');
	fails(json_parse(buf_head(&b), b.len, NULL, &none), ERR_MALFORMED);
	is_true(!none);
}

TEST(errors_name_the_place)
{
	struct json_doc *d = NULL;
	autoptr(err) e = json_parse("{\n  \"a\": x}", 11, NULL, &d);

	is_true(e && strstr(err_text(e), "line 2, column 8"));
}

TEST(reading_accepts_what_is_not_there)
{
	autoptr(json_doc) d = doc_of("{\"s\":\"x\",\"n\":7,\"l\":[5]}");
	struct json *o = json_root(d);

	eq_int(json_type(NULL), JSON_NONE);
	is_true(!json_get(NULL, "a"));
	is_true(!json_get(json_get(o, "s"), "a"));
	is_true(!json_at(o, 0));
	is_true(!json_at(json_get(o, "l"), 1));
	eq_str(json_str(NULL), NULL);
	eq_str(json_get_str(o, "n"), NULL);
	eq_int(json_int(NULL, -1), -1);
	eq_int(json_get_int(o, "s", -1), -1);
	is_true(json_get_bool(o, "s", true));
	eq_int(json_len(NULL), 0);
	eq_int(json_len(json_get(o, "s")), 0);
	eq_int(json_str_len(json_get(o, "s")), 1);
	is_true(json_real(json_get(o, "n"), 0) == 7.0);
	json_each(it, NULL)
		is_true(false);
	json_each(it, json_get(o, "n"))
		is_true(false);
	is_true(!json_root(NULL));
}

TEST(a_path_walks_objects_and_lists)
{
	static const struct {
		const char *path;
		int64_t value; /* -1: nothing there */
	} rows[] = {
		{ "status.ips.1.n", 2 },  { "status.ips.2.n", -1 },
		{ "status.ips.x.n", -1 }, { "status.ips..n", -1 },
		{ "status.none.n", -1 },  { "top", 3 },
		{ "top.n", -1 },          { "", -1 },
		{ "status.ips.01.n", 2 }, { "status.ips.9999999999999999999999.n", -1 },
	};
	autoptr(json_doc) d = doc_of("{\"status\":{\"ips\":[{\"n\":1},{\"n\":2}]},\"top\":3}");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(json_int(json_at_path(json_root(d), rows[i].path), -1), rows[i].value);
}

TEST(numbers_convert_only_without_loss)
{
	static const struct {
		const char *text;
		int64_t value; /* -7: not an int64 */
	} rows[] = {
		{ "3", 3 },
		{ "3.0", 3 },
		{ "3.5", -7 },
		{ "1e3", 1000 },
		{ "1e300", -7 },
		{ "18446744073709551615", -7 },
		{ "-9223372036854775808", INT64_MIN },
		{ "9223372036854775807", INT64_MAX },
		{ "9223372036854775808", -7 },
		{ "123456789012345678901234567890", -7 },
		{ "\"3\"", -7 },
		{ "true", -7 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc_of(rows[i].text);

		eq_int(json_int(json_root(d), -7), rows[i].value);
	}
}

TEST(members_keep_their_place_when_replaced)
{
	autoptr(json_doc) d = doc_of("{\"a\":1,\"b\":2,\"c\":3}");
	struct json *o = json_root(d);

	json_set_int(d, o, "a", 10);
	json_set_str(d, o, "c", "x");
	json_set_bool(d, o, "b", true);
	json_set_int(d, o, "d", -4);
	writes(o, "{\"a\":10,\"b\":true,\"c\":\"x\",\"d\":-4}");
	is_true(json_set(d, o, "b", json_get(o, "b")) == json_get(o, "b"));
	json_set_str(d, o, "c", NULL);
	json_set(d, o, "zz", NULL);
	writes(o, "{\"a\":10,\"b\":true,\"d\":-4}");
}

TEST(members_are_removed_first_middle_last_and_only)
{
	static const struct {
		const char *key, *left;
	} rows[] = {
		{ "a", "{\"b\":2,\"c\":3}" },
		{ "b", "{\"a\":1,\"c\":3}" },
		{ "c", "{\"a\":1,\"b\":2}" },
		{ "d", "{\"a\":1,\"b\":2,\"c\":3}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc_of("{\"a\":1,\"b\":2,\"c\":3}");
		struct json *o = json_root(d);

		eq_int(json_del(o, rows[i].key), i < 3);
		writes(o, rows[i].left);
		json_set_int(d, o, "n", 9); /* the ring is still intact */
		eq_int(json_get_int(o, "n", 0), 9);
		json_clear(o);
		writes(o, "{}");
		json_set_int(d, o, "n", 1);
		is_true(json_del(o, "n"));
		is_false(json_del(o, "n"));
		json_set_int(d, o, "m", 2);
		writes(o, "{\"m\":2}");
	}
}

TEST(lists_grow_and_shrink_anywhere)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *a = json_arr(d);

	json_push_str(d, a, "b");
	json_insert(d, a, 0, json_new_int(d, 1));
	json_insert(d, a, 2, json_new_bool(d, false));
	json_insert(d, a, 1, json_new_null(d));
	writes(a, "[1,null,\"b\",false]");
	json_remove(a, 3);
	json_remove(a, 0);
	json_remove(a, 7);
	writes(a, "[null,\"b\"]");
	json_push(d, a, json_new_real(d, 0.5));
	writes(a, "[null,\"b\",0.5]");
	json_clear(a);
	json_push(d, a, json_new_int(d, 1));
	json_remove(a, 0);
	json_push(d, a, json_new_int(d, 2));
	writes(a, "[2]");
}

TEST(need_creates_what_is_missing_or_of_another_type)
{
	autoptr(json_doc) d = doc_of("{\"a\":{\"x\":1},\"b\":2}");
	struct json *o = json_root(d);

	json_set_int(d, json_need_obj(d, o, "a"), "y", 2);
	json_set_int(d, json_need_obj(d, o, "b"), "y", 3);
	json_push_str(d, json_need_arr(d, o, "c"), "z");
	json_push_str(d, json_need_arr(d, o, "c"), "zz");
	writes(o, "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"y\":3},\"c\":[\"z\",\"zz\"]}");
}

TEST(a_copy_lives_in_its_own_doc)
{
	autoptr(json_doc) to = json_doc_new();

	{
		autoptr(json_doc) from = doc_of("{\"a\":[{\"b\":\"text\"}]}");

		json_set_root(to, json_copy(to, json_root(from)));
		json_set_str(from, json_root(from), "a", "changed");
	}
	writes(json_root(to), "{\"a\":[{\"b\":\"text\"}]}");
	is_true(!json_copy(to, NULL));
}

TEST(equality_compares_values)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} rows[] = {
		{ "1", "1.0", true },
		{ "1", "2", false },
		{ "-1", "18446744073709551615", false },
		{ "\"1\"", "1", false },
		{ "null", "false", false },
		{ "{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2],\"a\":1}", true },
		{ "{\"a\":1,\"b\":[1,2]}", "{\"b\":[2,1],\"a\":1}", false },
		{ "{\"a\":1}", "{\"b\":1}", false },
		{ "{\"a\":1}", "{\"a\":1,\"b\":1}", false },
		{ "[{}]", "[{}]", true },
		{ "[]", "{}", false },
		{ "\"ab\"", "\"ac\"", false },
		{ "true", "true", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) a = doc_of(rows[i].a);
		autoptr(json_doc) b = doc_of(rows[i].b);

		eq_int(json_equal(json_root(a), json_root(b)), rows[i].equal);
		eq_int(json_equal(json_root(b), json_root(a)), rows[i].equal);
		is_false(json_equal(json_root(a), NULL));
	}
	is_true(json_equal(NULL, NULL));
}

TEST(iterating_gives_members_in_order)
{
	autoptr(json_doc) d = doc_of("{\"a\":[1,2,3],\"b\":{}}");
	int64_t sum = 0;
	autobuf keys = { 0 };

	json_each(it, json_root(d)) {
		buf_add_str(&keys, it.key);
		json_each(el, it.val) {
			is_true(!el.key);
			sum += json_int(el.val, 0);
		}
	}
	eq_str(buf_str(&keys), "ab");
	eq_int(sum, 6);
}

TEST(everything_built_can_be_written_and_read)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(json_doc) again = NULL;
	autobuf out = { 0 };
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "bad", "a\xff\x80z");
	json_set(d, o, "nul", json_new_strn(d, "a\0b", 3));
	json_set(d, o, "huge", json_new_real(d, 1e308 * 10));
	json_set(d, o, "fmt", json_new_strf(d, "%s-%d", "x", 5));
	json_set(d, o, "none", json_new_str(d, NULL));
	json_set_int(d, o, "k\xfe", 1);
	json_write(o, &out);
	works(json_parse(buf_head(&out), out.len, NULL, &again));
	writes(json_root(again), "{\"bad\":\"a\xef\xbf\xbd\xef\xbf\xbdz\",\"nul\":\"a\xef\xbf\xbd"
				 "b\",\"huge\":null,\"fmt\":\"x-5\",\"none\":null,"
				 "\"k\xef\xbf\xbd\":1}");
}

TEST(writers_agree)
{
	autoptr(json_doc) d = doc_of("{\"a\":[1]}");
	autoptr(bytes) b = json_to_bytes(json_root(d));
	autobuf out = { 0 };

	eq_str(b->data, "{\"a\":[1]}");
	json_write_pretty(json_root(d), &out);
	eq_str(buf_str(&out), "{\n  \"a\": [\n    1\n  ]\n}");
	writes(NULL, "null");
	is_true(json_doc_mem(d) > 64);
}

TEST(texts_of_any_length_are_written_whole)
{
	for (size_t len = 1000; len < 200 * 1000; len += len / 2) {
		autofree char *text = xmalloc(len + 1);
		autoptr(json_doc) d = json_doc_new();
		autoptr(bytes) b = NULL;
		autobuf out = { 0 };

		memset(text, 'x', len);
		text[len] = '\0';
		json_set_root(d, json_arr(d));
		json_push_str(d, json_root(d), text);
		json_push_str(d, json_root(d), "end");
		b = json_to_bytes(json_root(d));
		eq_int(b->len, len + 10);
		eq_str(b->data + len + 3, ",\"end\"]");
		json_write(json_root(d), &out);
		eq_str(buf_str(&out), b->data);
	}
}

TEST(equal_objects_of_many_members_are_compared_fast)
{
	autobuf forward = { 0 }, backward = { 0 };
	autoptr(json_doc) da = NULL;
	autoptr(json_doc) db = NULL;

	for (unsigned i = 0; i < 100000; i++) {
		buf_printf(&forward, "%s\"k%u\":1", i ? "," : "{", i);
		buf_printf(&backward, "%s\"k%u\":1", i ? "," : "{", 99999 - i);
	}
	buf_add_str(&forward, "}");
	buf_add_str(&backward, "}");
	works(json_parse(buf_head(&forward), forward.len, NULL, &da));
	works(json_parse(buf_head(&backward), backward.len, NULL, &db));
	is_true(json_equal(json_root(da), json_root(db)));
}
