/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/crypto.h"
#include "test.h"

static struct signing_key *new_key(void)
{
	autofree char *pem = NULL;
	struct signing_key *k = NULL;

	works(signing_key_make(&pem));
	works(signing_key_read(pem, &k));
	return k;
}

TEST(a_signature_holds_for_its_key_and_text_alone)
{
	autoptr(signing_key) key = new_key();
	autoptr(signing_key) other = new_key();
	unsigned char sig[SIGNATURE_LEN];

	works(signing_key_sign(key, "text", 4, sig));
	is_true(signing_key_verifies(key, "text", 4, sig));
	is_false(signing_key_verifies(key, "test", 4, sig));
	is_false(signing_key_verifies(other, "text", 4, sig));
	for (size_t i = 0; i < sizeof(sig); i++) {
		sig[i] ^= 1;
		is_false(signing_key_verifies(key, "text", 4, sig));
		sig[i] ^= 1;
	}
}

TEST(each_key_has_an_id_of_its_own)
{
	autoptr(signing_key) key = new_key();
	autoptr(signing_key) other = new_key();
	unsigned char id[SHA256_LEN], again[SHA256_LEN], others[SHA256_LEN];

	signing_key_id(key, id);
	signing_key_id(key, again);
	signing_key_id(other, others);
	is_true(!memcmp(id, again, sizeof(id)));
	is_true(memcmp(id, others, sizeof(id)) != 0);
}

TEST(numbers_that_no_signature_has_are_refused)
{
	autoptr(signing_key) key = new_key();
	unsigned char zero[SIGNATURE_LEN] = { 0 }, ones[SIGNATURE_LEN];

	memset(ones, 0xff, sizeof(ones));
	is_false(signing_key_verifies(key, "text", 4, zero));
	is_false(signing_key_verifies(key, "text", 4, ones));
}

TEST(only_p256_keys_are_read)
{
	static const char ed25519[] =
		"-----BEGIN PUBLIC KEY-----\n"
		"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
		"-----END PUBLIC KEY-----\n";
	static const char p384[] =
		"-----BEGIN PRIVATE KEY-----\n"
		"MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDAh4enHszOAAvcyHMSI\n"
		"/aqAFw8uJqMXeMFRA3QRvZxreWOVr9cfRBMZxThh+DAOHgShZANiAARWEuys8v46\n"
		"FnfGbluzfuy0s7k+/39EFrPYsI72nSksgQEFMgI/HxNaeIDrtenyDpOYDkroj2r1\n"
		"FbSje1ryy9hXPHd0WVIhtftqObAucReYKN2ZM8Xm+mo7ygAVMBkojew=\n"
		"-----END PRIVATE KEY-----\n";
	struct signing_key *k = NULL;

	fails(signing_key_read(p384, &k), ERR_INVALID);
	fails(signing_key_read("junk", &k), ERR_INVALID);
	fails(signing_key_read(ed25519, &k), ERR_INVALID);
}
