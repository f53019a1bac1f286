/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "net/sha1_priv.h"

/* FIPS 180-4, one block after the other. */
static uint32_t rol(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static uint32_t round_word(unsigned i, const uint32_t s[5])
{
	if (i < 20)
		return ((s[1] & s[2]) | (~s[1] & s[3])) + 0x5a827999;
	if (i < 40)
		return (s[1] ^ s[2] ^ s[3]) + 0x6ed9eba1;
	if (i < 60)
		return ((s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3])) + 0x8f1bbcdc;
	return (s[1] ^ s[2] ^ s[3]) + 0xca62c1d6;
}

static void block(uint32_t h[5], const unsigned char *p)
{
	uint32_t w[80], s[5];

	for (unsigned i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(s, h, sizeof(s));
	for (unsigned i = 0; i < 80; i++) {
		uint32_t next = rol(s[0], 5) + round_word(i, s) + s[4] + w[i];

		memmove(s + 1, s, 4 * sizeof(*s));
		s[2] = rol(s[2], 30);
		s[0] = next;
	}
	for (unsigned i = 0; i < 5; i++)
		h[i] += s[i];
}

void sha1(const void *p, size_t len, unsigned char ret[20])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	unsigned char tail[128] = { 0 };
	size_t rest = len % 64, tail_len = rest < 56 ? 64 : 128;
	const unsigned char *at = p;

	for (size_t i = 0; i + 64 <= len; i += 64)
		block(h, at + i);
	if (rest)
		memcpy(tail, at + len - rest, rest);
	tail[rest] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		tail[tail_len - 1 - i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
	for (size_t i = 0; i < tail_len; i += 64)
		block(h, tail + i);
	for (unsigned i = 0; i < 20; i++)
		ret[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}
