/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "test.h"

TEST(sha1_is_that_of_the_standard)
{
	static const struct {
		const char *text, *hash;
	} rows[] = {
		{ "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
		{ "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned char sum[SHA1_LEN];
		char text[2 * SHA1_LEN + 1];

		sha1(rows[i].text, strlen(rows[i].text), sum);
		hex_encode(sum, sizeof(sum), text);
		eq_str(text, rows[i].hash);
	}
}

TEST(sha256_is_that_of_the_standard_at_once_and_byte_by_byte)
{
	static const struct {
		const char *text, *digest;
	} rows[] = {
		{ "", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc",
		  "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(sha256) s = sha256_new();
		unsigned char sum[SHA256_LEN];
		char text[DIGEST_TEXT_LEN];

		for (const char *p = rows[i].text; *p; p++)
			sha256_add(s, p, 1);
		sha256_end_text(s, text);
		eq_str(text, rows[i].digest);
		sha256(rows[i].text, strlen(rows[i].text), sum);
		hex_encode(sum, sizeof(sum), text);
		eq_str(text, rows[i].digest + 7);
	}
}
