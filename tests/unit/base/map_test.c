/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/random.h"
#include "base/str.h"
#include "test.h"

static unsigned n_freed;

static void count_free(void *value)
{
	n_freed++;
	free(value);
}

TEST(a_map_keeps_what_was_put_last)
{
	autoptr(map) m = map_new(NULL);

	is_true(!map_get(m, "a"));
	map_put(m, "a", (void *)1);
	map_put(m, "a", (void *)2);
	eq_int((intptr_t)map_get(m, "a"), 2);
	eq_int(map_len(m), 1);
	is_true(map_has(m, "a"));
	is_true(map_take(m, "a") == (void *)2);
	is_false(map_del(m, "a"));
	eq_int(map_len(m), 0);
}

TEST(a_map_frees_what_it_owns_once)
{
	n_freed = 0;
	{
		autoptr(map) m = map_new(count_free);

		map_put(m, "a", xstrdup("1"));
		map_put(m, "a", xstrdup("2"));
		eq_int(n_freed, 1);
		map_put(m, "b", xstrdup("3"));
		is_true(map_del(m, "b"));
		eq_int(n_freed, 2);
		map_put(m, "c", xstrdup("4"));
		free(map_take(m, "c"));
	}
	eq_int(n_freed, 3);
}

TEST(a_map_survives_growth_and_removal_of_many)
{
	autoptr(map) m = map_new(NULL);
	char key[32];

	for (unsigned round = 0; round < 3; round++) {
		for (uintptr_t i = 1; i <= 20000; i++) {
			(void)snprintf(key, sizeof(key), "/pods/default/%zu", (size_t)i);
			map_put(m, key, (void *)i);
		}
		eq_int(map_len(m), 20000);
		for (uintptr_t i = 1; i <= 20000; i++) {
			(void)snprintf(key, sizeof(key), "/pods/default/%zu", (size_t)i);
			eq_int((uintptr_t)map_get(m, key), i);
			if (i % 2)
				is_true(map_del(m, key));
		}
		eq_int(map_len(m), 10000);
	}
}

TEST(a_map_lets_the_current_entry_go_while_iterating)
{
	autoptr(map) m = map_new(NULL);
	unsigned seen = 0;
	char key[8];

	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		map_put(m, key, (void *)1);
	}
	map_each(it, m) {
		seen++;
		map_del(m, it.key);
	}
	eq_int(seen, 100);
	eq_int(map_len(m), 0);
	map_each(it, m)
		seen++;
	eq_int(seen, 100);
}

TEST(a_tree_lists_in_order)
{
	static const char *const in[] = { "/b/2", "/a", "/b/1", "/c", "/b/10" };
	static const char *const out[] = { "/a", "/b/1", "/b/10", "/b/2", "/c" };
	autoptr(tree) t = tree_new(NULL);
	const char *key = "";
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(in); i++)
		tree_put(t, in[i], (void *)in[i]);
	while (tree_seek(t, key, true, &key))
		eq_str(key, out[n++]);
	eq_int(n, ARRAY_LEN(out));
	eq_str(tree_seek(t, "/b/", false, &key), "/b/1");
	eq_str(tree_seek(t, "/b/1", false, NULL), "/b/1");
	eq_str(tree_seek(t, "/b/1", true, NULL), "/b/10");
	is_true(!tree_seek(t, "/c", true, NULL));
}

TEST(a_tree_replaces_takes_and_frees)
{
	n_freed = 0;
	{
		autoptr(tree) t = tree_new(count_free);

		is_true(!tree_take(t, "a"));
		tree_put(t, "a", xstrdup("1"));
		tree_put(t, "a", xstrdup("2"));
		eq_int(n_freed, 1);
		eq_str(tree_get(t, "a"), "2");
		is_true(!tree_get(t, "b"));
		free(tree_take(t, "a"));
		eq_int(tree_len(t), 0);
		tree_put(t, "b", xstrdup("3"));
	}
	eq_int(n_freed, 2);
}

static void key_of(char *ret, size_t room, unsigned i)
{
	(void)snprintf(ret, room, "/pods/default/%08x", i * 2654435761u);
}

TEST(a_tree_puts_at_a_known_place)
{
	char first[] = "b", second[] = "b";
	autoptr(tree) t = tree_new_borrowing(NULL);
	struct tree_place *at = tree_put_at(t, NULL, first, first);
	const char *key;

	tree_put(t, "a", t);
	tree_put(t, "c", t);
	is_true(tree_put_at(t, at, second, second) == at);
	memset(first, 'x', sizeof(first)); /* who borrows keys borrows the new one now */
	is_true(tree_get(t, "b") == second);
	is_true(tree_seek(t, "a", true, &key) == second && key == second);
	eq_int(tree_len(t), 3);
}

TEST(a_tree_of_many_stays_sorted_and_complete)
{
	autoptr(tree) t = tree_new(NULL);
	const unsigned n = 100000;
	const char *key = "";
	char last[40] = "", at[40];
	size_t seen = 0;

	for (unsigned i = 0; i < n; i++) {
		key_of(at, sizeof(at), i);
		tree_put(t, at, t);
	}
	eq_int(tree_len(t), n);
	for (unsigned i = 0; i < n; i += 3) {
		key_of(at, sizeof(at), i);
		is_true(tree_take(t, at) == t);
	}
	while (tree_seek(t, key, true, &key)) {
		is_true(strcmp(last, key) < 0);
		(void)snprintf(last, sizeof(last), "%s", key);
		seen++;
	}
	eq_int(seen, tree_len(t));
	eq_int(seen, n - (n + 2) / 3);
	for (unsigned i = 0; i < n; i++) {
		key_of(at, sizeof(at), i);
		is_true((tree_get(t, at) == t) == (i % 3 != 0));
	}
}

TEST(random_names_do_not_repeat)
{
	autoptr(map) seen = map_new(NULL);
	char uuid[37], hex[13];

	for (int i = 0; i < 500; i++) {
		random_uuid(uuid);
		random_hex(hex, 12);
		is_false(map_has(seen, uuid));
		is_false(map_has(seen, hex));
		map_put(seen, uuid, seen);
		map_put(seen, hex, seen);
	}
}

TEST(random_text_has_its_shape)
{
	char uuid[37], other[37], hex[100], suffix[6];

	random_uuid(uuid);
	random_uuid(other);
	is_false(str_eq(uuid, other));
	eq_int(strlen(uuid), 36);
	eq_int(uuid[14], '4');
	is_true(strchr("89ab", uuid[19]));
	random_hex(hex, 99);
	eq_int(strlen(hex), 99);
	eq_int(strspn(hex, "0123456789abcdef"), 99);
	random_suffix(suffix, 5);
	eq_int(strspn(suffix, "bcdfghjklmnpqrstvwxz2456789"), 5);
}
