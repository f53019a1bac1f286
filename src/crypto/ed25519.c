/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <string.h>

#include "base/macros.h"
#include "base/random.h"
#include "crypto/crypto.h"
#include "crypto/openssl.h"

/*
 * Ed25519 (RFC 8032). Keys are raw bytes, as JOSE has them; only what a person keeps in a file is
 * PEM. OpenSSL refuses signatures whose s is out of range, so a signature has one encoding.
 */
struct ed25519 {
	EVP_PKEY *key;
};

/* These fail only when memory runs out, or if libcrypto has no Ed25519. */
static void need(bool worked)
{
	if (!worked)
		abort();
}

static struct ed25519 *wrap(EVP_PKEY *key)
{
	struct ed25519 *k = xnew(struct ed25519);

	need(key);
	k->key = key;
	return k;
}

struct ed25519 *ed25519_new(void)
{
	unsigned char seed[ED25519_KEY_LEN];
	struct ed25519 *k;

	random_bytes(seed, sizeof(seed));
	k = ed25519_from_seed(seed);
	explicit_bzero(seed, sizeof(seed));
	return k;
}

struct ed25519 *ed25519_from_seed(const unsigned char seed[ED25519_KEY_LEN])
{
	return wrap(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, ED25519_KEY_LEN));
}

struct err *ed25519_read(const char *pem, struct ed25519 **ret)
{
	autoptr(ed25519) k = xnew(struct ed25519);
	unsigned char seed[ED25519_KEY_LEN];
	size_t len = sizeof(seed);
	struct err *e = ossl_read_key(pem, &k->key);

	if (e)
		return e;
	if (EVP_PKEY_get_base_id(k->key) != EVP_PKEY_ED25519)
		return err_new(ERR_INVALID, "the key is not an Ed25519 key");
	if (EVP_PKEY_get_raw_private_key(k->key, seed, &len) != 1) {
		ERR_clear_error();
		return err_new(ERR_INVALID, "the key is a public key; a private one signs");
	}
	explicit_bzero(seed, sizeof(seed));
	*ret = take(k);
	return NULL;
}

char *ed25519_pem(const struct ed25519 *k)
{
	return ossl_key_text(k->key);
}

void ed25519_free(struct ed25519 *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->key);
	free(k);
}

void ed25519_seed(const struct ed25519 *k, unsigned char ret[ED25519_KEY_LEN])
{
	size_t len = ED25519_KEY_LEN;

	need(EVP_PKEY_get_raw_private_key(k->key, ret, &len) == 1);
}

void ed25519_public(const struct ed25519 *k, unsigned char ret[ED25519_KEY_LEN])
{
	size_t len = ED25519_KEY_LEN;

	need(EVP_PKEY_get_raw_public_key(k->key, ret, &len) == 1);
}

void ed25519_sign(const struct ed25519 *k, const void *p, size_t len,
		  unsigned char ret[ED25519_SIGNATURE_LEN])
{
	auto_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	size_t ret_len = ED25519_SIGNATURE_LEN;

	need(ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->key) == 1 &&
	     EVP_DigestSign(ctx, ret, &ret_len, p, len) == 1);
}

/*
 * The points of small order, without their sign: under such a key there are signatures that hold
 * for any text, or for every eighth one that is tried.
 */
static bool is_weak(const unsigned char key[ED25519_KEY_LEN])
{
	static const unsigned char weak[][ED25519_KEY_LEN] = {
		{ 0 },
		{ 1 },
		{ 0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
		  0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
		  0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05 },
		{ 0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
		  0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
		  0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a },
		{ 0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
		{ 0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
		{ 0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
	};
	unsigned char y[ED25519_KEY_LEN];

	memcpy(y, key, sizeof(y));
	y[sizeof(y) - 1] &= 0x7f;
	for (size_t i = 0; i < ARRAY_LEN(weak); i++)
		if (!memcmp(y, weak[i], sizeof(y)))
			return true;
	return false;
}

bool ed25519_verifies(const unsigned char key[ED25519_KEY_LEN], const void *p, size_t len,
		      const unsigned char signature[ED25519_SIGNATURE_LEN])
{
	auto_ossl(EVP_PKEY) k = is_weak(key) ? NULL
					     : EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL,
									   key, ED25519_KEY_LEN);
	auto_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	bool ok = k && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k) == 1 &&
		  EVP_DigestVerify(ctx, signature, ED25519_SIGNATURE_LEN, p, len) == 1;

	ERR_clear_error();
	return ok;
}
