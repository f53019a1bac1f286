/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "guest/execute/ring_priv.h"
#include "test.h"

/* Everything of a channel that is kept. */
static void eq_kept(const struct ring *r, unsigned channel, const char *want)
{
	autobuf got = { 0 };

	for (uint64_t at = r->begin; at < r->end;) {
		unsigned of;
		struct span s = ring_at(r, at, &of);

		if (of == channel)
			buf_add(&got, s.p, s.len);
		at += s.len;
	}
	eq_str(buf_str(&got), want);
}

TEST(a_ring_keeps_what_fits_and_whose_it_is)
{
	struct ring r;

	ring_init(&r, 1 << 20);
	ring_add(&r, 1, "one ", 4);
	ring_add(&r, 1, "two ", 4);
	ring_add(&r, 2, "err", 3);
	ring_add(&r, 1, "three", 5);
	eq_int(r.end, 16);
	eq_int(r.n_chunks, 3);
	eq_kept(&r, 1, "one two three");
	eq_kept(&r, 2, "err");
	ring_done(&r);
}

TEST(a_ring_forgets_its_oldest_bytes)
{
	static char all[10 * RING_CHUNK];
	unsigned channel;
	struct ring r;

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)('a' + i % 23);
	ring_init(&r, 4 * RING_CHUNK);
	for (size_t at = 0; at < sizeof(all); at += 1000)
		ring_add(&r, 1, all + at, 1000);
	eq_int(r.end, sizeof(all));
	eq_int(r.begin, 6 * RING_CHUNK);
	for (uint64_t at = r.begin; at < r.end; at += 777) {
		struct span s = ring_at(&r, at, &channel);

		is_true(s.len > 0 && !memcmp(s.p, all + at, s.len));
	}
	ring_done(&r);
}

TEST(a_ring_of_single_bytes_is_limited_too)
{
	struct ring r;

	ring_init(&r, 4 * RING_CHUNK);
	for (unsigned i = 0; i < 100; i++)
		ring_add(&r, 1 + i % 2, "x", 1);
	eq_int(r.n_chunks, 4);
	eq_int(r.begin, 96);
	ring_done(&r);
}
