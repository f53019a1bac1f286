/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/parse.h"
#include "crypto/crypto.h"
#include "test.h"

static void from_hex(const char *text, unsigned char *ret)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; text[2 * i]; i++)
		ret[i] = (unsigned char)((strchr(digits, text[2 * i]) - digits) << 4 |
					 (strchr(digits, text[2 * i + 1]) - digits));
}

/* RFC 8032, 7.1, TEST 2 */
TEST(ed25519_is_that_of_the_standard)
{
	unsigned char seed[ED25519_KEY_LEN], pub[ED25519_KEY_LEN], sig[ED25519_SIGNATURE_LEN];
	char text[2 * ED25519_SIGNATURE_LEN + 1];
	autoptr(ed25519) k = NULL;

	from_hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", seed);
	k = ed25519_from_seed(seed);
	ed25519_public(k, pub);
	hex_encode(pub, sizeof(pub), text);
	eq_str(text, "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
	ed25519_sign(k, "\x72", 1, sig);
	hex_encode(sig, sizeof(sig), text);
	eq_str(text, "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
		     "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
	is_true(ed25519_verifies(pub, "\x72", 1, sig));
}

TEST(an_ed25519_signature_holds_for_its_key_and_text_alone)
{
	autoptr(ed25519) key = ed25519_new();
	autoptr(ed25519) other = ed25519_new();
	unsigned char pub[ED25519_KEY_LEN], others[ED25519_KEY_LEN], sig[ED25519_SIGNATURE_LEN];

	ed25519_public(key, pub);
	ed25519_public(other, others);
	ed25519_sign(key, "text", 4, sig);
	is_true(ed25519_verifies(pub, "text", 4, sig));
	is_false(ed25519_verifies(pub, "test", 4, sig));
	is_false(ed25519_verifies(pub, "text", 3, sig));
	is_false(ed25519_verifies(others, "text", 4, sig));
	for (size_t i = 0; i < sizeof(sig); i++) {
		sig[i] ^= 1;
		is_false(ed25519_verifies(pub, "text", 4, sig));
		sig[i] ^= 1;
	}
}

TEST(an_ed25519_key_survives_its_pem_and_its_seed)
{
	autoptr(ed25519) key = ed25519_new();
	autoptr(ed25519) read = NULL;
	autoptr(ed25519) seeded = NULL;
	autofree char *pem = ed25519_pem(key);
	unsigned char a[ED25519_KEY_LEN], b[ED25519_KEY_LEN], seed[ED25519_KEY_LEN];

	works(ed25519_read(pem, &read));
	ed25519_seed(read, seed);
	seeded = ed25519_from_seed(seed);
	ed25519_public(key, a);
	ed25519_public(seeded, b);
	is_true(crypto_equal(a, b, sizeof(a)));
}

TEST(only_private_ed25519_keys_sign)
{
	static const char pub[] = "-----BEGIN PUBLIC KEY-----\n"
				  "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
				  "-----END PUBLIC KEY-----\n";
	autofree char *p256 = NULL;
	struct ed25519 *k = NULL;

	works(signing_key_make(&p256));
	fails(ed25519_read(p256, &k), ERR_INVALID);
	fails(ed25519_read(pub, &k), ERR_INVALID);
	fails(ed25519_read("junk", &k), ERR_INVALID);
}

/* Under the neutral element, R = it and s = 0 would hold for every text. */
TEST(keys_under_which_anybody_can_sign_verify_nothing)
{
	unsigned char key[ED25519_KEY_LEN] = { 1 }, sig[ED25519_SIGNATURE_LEN] = { 1 };

	is_false(ed25519_verifies(key, "text", 4, sig));
	key[31] = 0x80;
	is_false(ed25519_verifies(key, "text", 4, sig));
}

/* RFC 4231, test cases 2 and 6 */
TEST(hmac_sha256_is_that_of_the_standard)
{
	static const char text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	unsigned char mac[SHA256_LEN], key[131];
	char hex[2 * SHA256_LEN + 1];

	hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac);
	hex_encode(mac, sizeof(mac), hex);
	eq_str(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	hmac_sha256(key, sizeof(key), text, strlen(text), mac);
	hex_encode(mac, sizeof(mac), hex);
	eq_str(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	is_true(crypto_equal("abc", "abc", 3));
	is_false(crypto_equal("abc", "abd", 3));
	is_true(crypto_equal("a", "b", 0));
}
