/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include "base/str.h"
#include "crypto/crypto.h"
#include "crypto/openssl.h"

/*
 * OpenSSL encodes signatures as DER of varying length. We use r and s side by side, so that a
 * signature has one length and one encoding.
 */
enum {
	HALF = SIGNATURE_LEN / 2,
	DER_MAX = 80,
};

struct signing_key {
	EVP_PKEY *key;
};

struct err *signing_key_make(char **ret_pem)
{
	auto_ossl(EVP_PKEY) key = EVP_EC_gen("P-256");

	if (!key)
		return ossl_err(ERR_INTERNAL, "create a key");
	*ret_pem = ossl_key_text(key);
	return NULL;
}

struct err *signing_key_read(const char *pem, struct signing_key **ret)
{
	autoptr(signing_key) k = xnew(struct signing_key);
	char group[32];
	struct err *e = ossl_read_key(pem, &k->key);

	if (e)
		return e;
	if (EVP_PKEY_get_base_id(k->key) != EVP_PKEY_EC ||
	    EVP_PKEY_get_group_name(k->key, group, sizeof(group), NULL) != 1 ||
	    !str_eq(group, "prime256v1"))
		return err_new(ERR_INVALID, "the key is not a P-256 key");
	*ret = take(k);
	return NULL;
}

void signing_key_free(struct signing_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->key);
	free(k);
}

void signing_key_id(const struct signing_key *k, unsigned char ret[SHA256_LEN])
{
	unsigned char *der = NULL;
	int len = i2d_PUBKEY(k->key, &der);

	if (len <= 0)
		abort(); /* out of memory */
	sha256(der, (size_t)len, ret);
	OPENSSL_free(der);
}

static void coordinate(const struct signing_key *k, const char *name, unsigned char *ret)
{
	BIGNUM *n = NULL;

	if (EVP_PKEY_get_bn_param(k->key, name, &n) != 1 ||
	    BN_bn2binpad(n, ret, POINT_LEN / 2) != POINT_LEN / 2)
		abort(); /* out of memory: signing_key_read() takes keys on this curve alone */
	BN_free(n);
}

void signing_key_point(const struct signing_key *k, unsigned char ret[POINT_LEN])
{
	coordinate(k, OSSL_PKEY_PARAM_EC_PUB_X, ret);
	coordinate(k, OSSL_PKEY_PARAM_EC_PUB_Y, ret + POINT_LEN / 2);
}

static bool der_to_raw(const unsigned char *der, size_t len, unsigned char ret[SIGNATURE_LEN])
{
	ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
	bool ok = sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), ret, HALF) == HALF &&
		  BN_bn2binpad(ECDSA_SIG_get0_s(sig), ret + HALF, HALF) == HALF;

	ECDSA_SIG_free(sig);
	return ok;
}

/* The length, or 0 if r and s cannot be a signature. */
static size_t raw_to_der(const unsigned char raw[SIGNATURE_LEN], unsigned char ret[DER_MAX])
{
	ECDSA_SIG *sig = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(raw, HALF, NULL), *s = BN_bin2bn(raw + HALF, HALF, NULL);
	int len = 0;

	if (sig && r && s && ECDSA_SIG_set0(sig, r, s) == 1 && i2d_ECDSA_SIG(sig, NULL) <= DER_MAX)
		len = i2d_ECDSA_SIG(sig, &ret);
	ECDSA_SIG_free(sig);
	return len > 0 ? (size_t)len : 0;
}

struct err *signing_key_sign(struct signing_key *k, const void *p, size_t len,
			     unsigned char ret[SIGNATURE_LEN])
{
	auto_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	unsigned char der[DER_MAX];
	size_t der_len = sizeof(der);

	if (!ctx || EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, k->key) != 1 ||
	    EVP_DigestSign(ctx, der, &der_len, p, len) != 1 || !der_to_raw(der, der_len, ret))
		return ossl_err(ERR_INVALID, "sign");
	return NULL;
}

bool signing_key_verifies(struct signing_key *k, const void *p, size_t len,
			  const unsigned char signature[SIGNATURE_LEN])
{
	auto_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	unsigned char der[DER_MAX];
	size_t der_len = raw_to_der(signature, der);
	bool ok = ctx && der_len &&
		  EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, k->key) == 1 &&
		  EVP_DigestVerify(ctx, der, der_len, p, len) == 1;

	ERR_clear_error();
	return ok;
}
