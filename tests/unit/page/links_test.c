/* SPDX-License-Identifier: Apache-2.0 */
#include "page/page_priv.h"
#include "test.h"

static const char *const groups[] = { "devs", "cay:key:1:2", NULL };
static const struct page_visitor ann = { .user = "ann", .groups = groups, .expires = 77 };

TEST(a_code_is_taken_once_and_says_who_asked)
{
	struct links l;
	char code[PAGE_CODE_LEN + 1], other[PAGE_CODE_LEN + 1];
	struct link *k;

	links_init(&l);
	works(links_add(&l, &ann, 1, code));
	works(links_add(&l, &ann, 1, other));
	eq_int(strlen(code), PAGE_CODE_LEN);
	is_true(strcmp(code, other) != 0);
	k = links_take(&l, code, 2);
	is_true(k);
	eq_str(k->user, "ann");
	eq_str(k->groups[1], "cay:key:1:2");
	is_false(k->groups[2]);
	eq_int(k->expires, 77);
	link_free(k);
	is_false(links_take(&l, code, 2));
	is_false(links_take(&l, "", 2));
	is_false(links_take(&l, "x", 2));
	links_done(&l);
}

TEST(a_code_ends_after_a_minute)
{
	const usec minute = (usec)PAGE_LINK_S * 1000000;
	char code[PAGE_CODE_LEN + 1], late[PAGE_CODE_LEN + 1];
	struct links l;

	links_init(&l);
	works(links_add(&l, &ann, 5, code));
	works(links_add(&l, &ann, 6, late));
	is_false(links_take(&l, code, 5 + minute));
	link_free(links_take(&l, late, 5 + minute));
	is_true(list_empty(&l.list));
	links_done(&l);
}

TEST(open_links_have_a_limit_for_each_user_and_for_all)
{
	char code[PAGE_CODE_LEN + 1], name[16];
	struct page_visitor who = { .user = name };
	struct links l;

	links_init(&l);
	for (int i = 0; i < LINKS_USER_MAX; i++)
		works(links_add(&l, &ann, 1, code));
	fails(links_add(&l, &ann, 1, code), ERR_EXHAUSTED);
	for (int i = LINKS_USER_MAX; i < LINKS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "user%d", i);
		works(links_add(&l, &who, 2, code));
	}
	(void)snprintf(name, sizeof(name), "late");
	fails(links_add(&l, &who, 3, code), ERR_EXHAUSTED);
	works(links_add(&l, &who, 1 + (usec)PAGE_LINK_S * 1000000, code)); /* ann's are over */
	links_done(&l);
}

TEST(wrong_codes_are_limited_by_address_and_minute)
{
	struct attempts a;
	int after = 0;

	attempts_init(&a);
	for (int i = 0; i < FAILURES_MAX; i++) {
		const char *peer = i % 2 ? "10.0.0.1:1" : "10.0.0.1:2";

		is_true(attempts_failed(&a, peer, 100000000, &after));
	}
	is_false(attempts_failed(&a, "10.0.0.1:3", 100000001, &after));
	is_true(after >= 1 && after <= 61);
	is_true(attempts_failed(&a, "10.0.0.2:3", 100000001, &after));
	is_true(attempts_failed(&a, "10.0.0.1:3", 161000000, &after));
	attempts_done(&a);
}

TEST(many_addresses_fill_no_log)
{
	struct attempts a;
	char peer[32];
	int after = 0;

	attempts_init(&a);
	for (int i = 0; i < HOSTS_MAX; i++) {
		(void)snprintf(peer, sizeof(peer), "h%d:1", i);
		is_true(attempts_failed(&a, peer, 100000000, &after));
	}
	is_false(attempts_failed(&a, "another:1", 100000000, &after));
	is_true(after >= 1 && after <= 61);
	is_true(attempts_failed(&a, "h0:1", 100000000, &after));
	is_true(attempts_failed(&a, "another:1", 161000000, &after));
	attempts_done(&a);
}
