/* SPDX-License-Identifier: Apache-2.0 */
#include "base/share.h"

#include "test.h"

TEST(whoever_has_as_many_as_are_free_gets_no_more)
{
	static const struct {
		size_t mine, all, max;
		bool room;
	} rows[] = {
		{ 0, 0, 0, false }, { 0, 0, 1, true },  { 0, 1, 1, false }, { 1, 1, 2, false },
		{ 3, 3, 8, true },  { 4, 4, 8, false }, { 0, 4, 8, true },  { 1, 6, 8, true },
		{ 2, 6, 8, false }, { 0, 7, 8, true },  { 0, 8, 8, false }, { 0, 9, 8, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		is_true(share_has_room(rows[i].mine, rows[i].all, rows[i].max) == rows[i].room);
}

TEST(one_alone_takes_half_and_the_next_finds_a_place)
{
	size_t mine = 0;

	while (share_has_room(mine, mine, 64))
		mine++;
	eq_int(mine, 32);
	is_true(share_has_room(0, mine, 64));
}
