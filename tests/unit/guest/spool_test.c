/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/execute/spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/runtime/sse.h"
#include "test.h"

static void eq_byte_at(const struct spool *s, uint64_t at, char want)
{
	char c = 0;

	eq_int(spool_read(s, at, &c, 1), 1);
	eq_int(c, want);
}

TEST(a_spool_moves_to_a_file_and_keeps_every_byte)
{
	struct spool_place place = { "/tmp", UINT64_C(1) << 30 };
	char piece[1000];
	struct spool s;

	spool_init(&s);
	for (int i = 0; i < 1000; i++) {
		memset(piece, 'a' + i % 26, sizeof(piece));
		spool_add(&s, &place, piece, sizeof(piece));
		is_true(s.memory.len <= SPOOL_MEMORY);
	}
	eq_int(s.kept, 1000000);
	is_true(s.fd >= 0 && !s.memory.len && !spool_cut(&s));
	for (unsigned i = 0; i < 1000; i += 37)
		eq_byte_at(&s, i * 1000 + 999, (char)('a' + i % 26));
	eq_int(spool_read(&s, 999990, piece, sizeof(piece)), 10);
	eq_int(spool_read(&s, 1000000, piece, sizeof(piece)), 0);
	spool_done(&s);
}

TEST(a_spool_beyond_its_limit_counts_and_has_no_hole)
{
	struct spool_place place = { "/tmp", 10 };
	struct spool s;

	spool_init(&s);
	spool_add(&s, &place, "12345678", 8);
	is_true(!spool_cut(&s));
	spool_add(&s, &place, "90ab", 4);
	eq_int(s.kept, 10);
	eq_int(s.total, 12);
	eq_int(s.last, '0');
	place.max = 100; /* too late */
	spool_add(&s, &place, "cd", 2);
	eq_int(s.kept, 10);
	eq_int(s.total, 14);
	eq_byte_at(&s, 9, '0');
	spool_done(&s);
}

TEST(a_spool_on_a_full_disk_says_what_it_lost)
{
	struct spool_place place = { "/tmp", UINT64_C(1) << 30 };
	autofree char *much = xcalloc(1, 1 << 20);
	autoclose file = -1;
	struct spool s;

	spool_init(&s);
	s.max = place.max;
	s.fd = open("/dev/full", O_RDWR | O_CLOEXEC);
	spool_add(&s, &place, much, 1 << 20);
	eq_int(s.kept, 0);
	is_true(spool_cut(&s)); /* no space left: said, not an error */
	file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	is_true(file >= 0 && dup2(file, s.fd) == s.fd); /* and now there is some */
	spool_add(&s, &place, much, 10);
	eq_int(s.kept, 0);
	eq_int(s.total, (1 << 20) + 10);
	spool_done(&s);
}

TEST(unfinished_characters_are_found)
{
	eq_int(utf8_unfinished("abc", 3), 0);
	eq_int(utf8_unfinished("", 0), 0);
	eq_int(utf8_unfinished("a\xc3", 2), 1);
	eq_int(utf8_unfinished("a\xc3\xa4", 3), 0);
	eq_int(utf8_unfinished("a\xe2\x82", 3), 2);
	eq_int(utf8_unfinished("\xf0\x9f\x8f", 3), 3);
	eq_int(utf8_unfinished("\xf0\x9f\x8f\x9d", 4), 0);
	eq_int(utf8_unfinished("\x80\x80\x80\x80", 4), 0);
	eq_int(utf8_unfinished("a\xff", 2), 0);
	eq_int(utf8_unfinished("\xc3\x61", 2), 0);
}
