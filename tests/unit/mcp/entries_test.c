/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mcp/mcp_priv.h"
#include "test.h"

static struct err *read_all(struct entries *e, const char *text)
{
	struct err *bad = entries_feed(e, text, strlen(text));

	return bad ? bad : entries_end(e);
}

TEST(a_listing_is_sorted_and_counted)
{
	struct entries e = { .max = 2 };

	works(read_all(&e, "81a4 12 1700000000 ./b\n41ed 4096 5 ./a\n81a4 1 -7 ./c\n"));
	eq_int(e.total, 3);
	eq_int(e.n, 2);
	eq_str(e.list[0].name, "a");
	is_true(e.list[0].directory);
	eq_str(e.list[1].name, "b");
	eq_int(e.list[1].size, 12);
	is_false(e.list[1].directory);
	entries_done(&e);
}

TEST(a_name_cannot_forge_a_record)
{
	struct entries e = { .max = 10 };

	works(read_all(&e, "81a4 0 1 ./x\n41ed 9 9 .\n81a4 2 2 ./\n\n"));
	eq_int(e.total, 2);
	eq_str(e.list[0].name, "\n");
	eq_str(e.list[1].name, "x\n41ed 9 9 .");
	entries_done(&e);
}

TEST(a_listing_comes_in_any_pieces)
{
	static const char text[] = "81a4 12 1700000000 ./b\n41ed 4096 5 ./a\n";
	struct entries e = { .max = 10 };

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		works(entries_feed(&e, text + i, 1));
	works(entries_end(&e));
	eq_int(e.total, 2);
	eq_str(e.list[0].name, "a");
	entries_done(&e);
}

TEST(what_no_script_of_ours_wrote_is_refused)
{
	static const char *const rows[] = {
		"x",
		"81a4 1 1 ./a",
		"81a4 1 ./a\n",
		"81a4 x 1 ./a\n",
		"zz 1 1 ./a\n",
		"81a4 1 1 /a\n",
		"81a4 -1 1 ./a\n",
		"81a4 1 1 ./a\n./b\n",
		"\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct entries e = { .max = 10 };

		fails(read_all(&e, rows[i]), ERR_MALFORMED);
		entries_done(&e);
	}
}

TEST(a_record_without_an_end_has_a_limit)
{
	struct entries e = { .max = 10 };
	char text[512];
	struct err *bad = NULL;

	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 100 && !bad; i++)
		bad = entries_feed(&e, text, sizeof(text));
	fails(bad, ERR_MALFORMED);
	entries_done(&e);
}
