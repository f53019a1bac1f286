/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/str.h"
#include "hooks/hooks_priv.h"
#include "test.h"

/* Memory of deliveries, without its Secrets. */

static void key_of(unsigned n, char ret[HOOK_KEY_LEN + 1])
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", n);
	proof_key("id", text, ret);
}

/* One that ended so long ago; whether a chunk was retired for it. */
static bool remember(struct hook *k, unsigned n, usec ago)
{
	char key[HOOK_KEY_LEN + 1];
	struct chunk *old;
	struct known *known;
	bool retired;

	key_of(n, key);
	known = known_new(key, NULL);
	known->at -= ago;
	(void)snprintf(known->session, sizeof(known->session), "s-%u", n);
	seen_add(k, known);
	is_true(seen_note(k, known, &old));
	retired = old;
	chunk_free(old);
	known_unref(known);
	return retired;
}

static bool knows(struct hook *k, unsigned n)
{
	char key[HOOK_KEY_LEN + 1];

	key_of(n, key);
	return seen_find(k, key, NULL);
}

TEST(the_last_thousand_are_remembered_and_no_end_of_them)
{
	const usec hour = (usec)3600 * 1000000;
	struct hook k = { 0 };
	bool retired = false;
	unsigned n = 0;

	list_init(&k.chunks);
	while (n < 5000)
		retired |= remember(&k, n++, hour);
	is_true(retired);
	is_true(k.n_seen >= HOOKS_SEEN_MIN && k.n_seen < HOOKS_SEEN_MIN + 512);
	for (unsigned i = 0; i < HOOKS_SEEN_MIN; i++)
		is_true(knows(&k, n - 1 - i));
	is_false(knows(&k, 0));
	seen_free(&k);
}

TEST(what_a_signature_is_still_good_for_is_remembered_however_many_there_are)
{
	struct hook k = { 0 };

	list_init(&k.chunks);
	for (unsigned n = 0; n < 5000; n++)
		is_false(remember(&k, n, 0));
	is_true(knows(&k, 0));
	seen_free(&k);
}

TEST(what_was_written_is_read_again)
{
	struct hook k = { 0 }, again = { 0 };
	char id[HOOK_KEY_LEN + 1], proof[HOOK_KEY_LEN + 1];
	const struct known *found;
	struct known *known;
	struct chunk *c, *old;

	list_init(&k.chunks);
	list_init(&again.chunks);
	proof_key("id", "x", id);
	proof_key("proof", "y", proof);
	known = known_new(id, proof);
	known->filtered = true;
	c = seen_note(&k, known, &old);
	is_true(c && !old);
	/* Noted once, however often it is tried. */
	is_true(seen_note(&k, known, &old) == c && k.n_seen == 1);
	seen_load(&again, 7, buf_head(&c->text), c->text.len);
	found = seen_find(&again, "?", proof);
	is_true(found && found->filtered && !*found->session);
	eq_str(found->id, id);
	is_true(seen_find(&again, id, NULL) == found);
	is_false(seen_find(&again, "?", NULL));
	known_unref(known);
	seen_free(&k);
	seen_free(&again);
}

TEST(lines_that_are_not_ours_are_skipped)
{
	static const char text[] =
		"\n\nx\na b c d e f\n- - - - -\nid - 12 accepted s\nid2 - -1 accepted s\n"
		"0123456789012345678901234567890123456789 - 1 accepted s\nlast p 3 filtered -";
	struct hook k = { 0 };

	list_init(&k.chunks);
	seen_load(&k, 0, text, sizeof(text) - 1);
	eq_int(k.n_seen, 2);
	is_true(seen_find(&k, "id", NULL) && seen_find(&k, "last", NULL) &&
		seen_find(&k, "?", "p"));
	seen_free(&k);
}

TEST(so_many_are_taken_in_a_minute)
{
	struct hook k = { 0 };
	int after = 0;

	list_init(&k.chunks);
	for (int i = 0; i < 3; i++)
		is_true(hook_pace(&k, 3, &after));
	is_false(hook_pace(&k, 3, &after));
	is_true(after >= 59 && after <= 61);
	is_true(hook_pace(&k, 4, &after)); /* the limit was raised */
	is_false(hook_pace(&k, 4, &after));
	is_false(hook_pace(&k, 1, &after)); /* and lowered */
	k.taken[k.taken_at] -= (usec)61 * 1000000;
	is_true(hook_pace(&k, 1, &after));
	free(k.taken);
}
