/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"

struct sha256 {
	EVP_MD_CTX *ctx;
};

/* A digest over memory can fail only when memory runs out. */
static void need(int worked)
{
	if (worked != 1)
		abort();
}

void sha1(const void *p, size_t len, unsigned char ret[SHA1_LEN])
{
	need(EVP_Digest(p, len, ret, NULL, EVP_sha1(), NULL));
}

void sha256(const void *p, size_t len, unsigned char ret[SHA256_LEN])
{
	need(EVP_Digest(p, len, ret, NULL, EVP_sha256(), NULL));
}

struct sha256 *sha256_new(void)
{
	struct sha256 *s = xnew(struct sha256);

	s->ctx = EVP_MD_CTX_new();
	need(s->ctx != NULL);
	need(EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL));
	return s;
}

void sha256_free(struct sha256 *s)
{
	if (!s)
		return;
	EVP_MD_CTX_free(s->ctx);
	free(s);
}

void sha256_add(struct sha256 *s, const void *p, size_t len)
{
	need(EVP_DigestUpdate(s->ctx, p, len));
}

void sha256_end(struct sha256 *s, unsigned char ret[SHA256_LEN])
{
	need(EVP_DigestFinal_ex(s->ctx, ret, NULL));
}

void sha256_end_text(struct sha256 *s, char ret[DIGEST_TEXT_LEN])
{
	unsigned char sum[SHA256_LEN];

	sha256_end(s, sum);
	(void)snprintf(ret, DIGEST_TEXT_LEN, "sha256:");
	hex_encode(sum, sizeof(sum), ret + strlen(ret));
}

void hmac_sha256(const void *key, size_t key_len, const void *p, size_t len,
		 unsigned char ret[SHA256_LEN])
{
	unsigned int n = SHA256_LEN;

	need(HMAC(EVP_sha256(), key, (int)key_len, p, len, ret, &n) != NULL);
}

bool crypto_equal(const void *a, const void *b, size_t len)
{
	return !CRYPTO_memcmp(a, b, len);
}
