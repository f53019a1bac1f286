/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "guest/execute/ws_frame_priv.h"

/*
 * The answer to a WebSocket's key is a SHA-1, which shows that it was understood and protects
 * nothing. The guest has no library for it.
 */
enum {
	SHA1_LEN = 20,
	CHUNK = 64,
};

static uint32_t rotate(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

static void sha1_chunk(uint32_t h[5], const uint8_t *p)
{
	uint32_t w[80], v[5];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(v, h, sizeof(v));
	for (int i = 0; i < 80; i++) {
		static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
		uint32_t f = i < 20              ? (v[1] & v[2]) | (~v[1] & v[3])
			     : i >= 40 && i < 60 ? (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])
						 : v[1] ^ v[2] ^ v[3];
		uint32_t next = rotate(v[0], 5) + f + v[4] + k[i / 20] + w[i];

		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotate(v[1], 30);
		v[1] = v[0];
		v[0] = next;
	}
	for (int i = 0; i < 5; i++)
		h[i] += v[i];
}

/* Of a text that fits into two chunks. */
static void sha1(const char *text, size_t len, uint8_t ret[SHA1_LEN])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	uint8_t data[2 * CHUNK] = { 0 };
	size_t all = len + 9 <= CHUNK ? CHUNK : sizeof(data);

	memcpy(data, text, len);
	data[len] = 0x80;
	data[all - 2] = (uint8_t)(len * 8 >> 8);
	data[all - 1] = (uint8_t)(len * 8);
	for (size_t at = 0; at < all; at += CHUNK)
		sha1_chunk(h, data + at);
	for (int i = 0; i < SHA1_LEN; i++)
		ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

bool ws_accept_key(const char *key, char ret[32])
{
	enum {
		KEY_LEN = 24, /* sixteen bytes in base64 */
	};
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[KEY_LEN + sizeof(guid)];
	autofree void *bytes = NULL;
	autofree char *encoded = NULL;
	uint8_t digest[SHA1_LEN];
	size_t len = 0;
	autoptr(err) e = NULL;

	if (!key || strlen(key) != KEY_LEN)
		return false;
	e = base64_decode(key, false, &bytes, &len);
	if (e || len != 16)
		return false;
	memcpy(text, key, KEY_LEN);
	memcpy(text + KEY_LEN, guid, sizeof(guid));
	sha1(text, KEY_LEN + sizeof(guid) - 1, digest);
	encoded = base64_encode(digest, sizeof(digest), false);
	memcpy(ret, encoded, strlen(encoded) + 1);
	return true;
}
