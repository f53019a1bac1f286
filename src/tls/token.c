/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * Tokens: base64url(head) "." base64url(claims) "." base64url(r || s), signed with ECDSA over P-256
 * and SHA-256.
 *
 * The head is a function of the key alone, {"alg":"ES256","kid":"..."}, and only exactly that head
 * is believed: there is no algorithm for the bearer of a token to choose.
 */
enum {
	TOKEN_MAX = 16 * 1024,
	HALF = 32, /* bytes of r and of s */
	SIG_LEN = 2 * HALF,
	SIG_DER_MAX = 80,
};

/* A key read from its text. Reading costs more than verifying, so each thread keeps its last one.
 */
struct token_key {
	char *pem;
	EVP_PKEY *key;
	char *head; /* encoded */
};

static _Thread_local struct token_key last;

void sha256(const void *p, size_t len, unsigned char ret[32])
{
	SHA256(p, len, ret);
}

static char *head_for(EVP_PKEY *key)
{
	unsigned char *der = NULL, hash[SHA256_DIGEST_LENGTH];
	int len = i2d_PUBKEY(key, &der);
	autofree char *kid = NULL, *text = NULL;

	if (len <= 0)
		abort(); /* out of memory */
	sha256(der, (size_t)len, hash);
	OPENSSL_free(der);
	kid = base64_encode(hash, sizeof(hash), true);
	text = xasprintf("{\"alg\":\"ES256\",\"kid\":\"%s\"}", kid);
	return base64_encode(text, strlen(text), true);
}

static struct err *key_get(const char *pem, struct token_key **ret)
{
	EVP_PKEY *key;
	char group[32];
	struct err *e;

	*ret = &last;
	if (last.pem && str_eq(last.pem, pem))
		return NULL;
	e = tls_read_key(pem, &key);
	if (e)
		return e;
	if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC ||
	    EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) != 1 ||
	    !str_eq(group, "prime256v1")) {
		EVP_PKEY_free(key);
		return err_new(ERR_INVALID, "read key: not a P-256 key");
	}
	if (last.pem)
		OPENSSL_cleanse(last.pem, strlen(last.pem));
	free(last.pem);
	free(last.head);
	EVP_PKEY_free(last.key);
	last = (struct token_key){ .pem = xstrdup(pem), .key = key, .head = head_for(key) };
	return NULL;
}

static bool sig_to_raw(const unsigned char *der, size_t len, unsigned char ret[SIG_LEN])
{
	ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);
	bool ok = sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), ret, HALF) == HALF &&
		  BN_bn2binpad(ECDSA_SIG_get0_s(sig), ret + HALF, HALF) == HALF;

	ECDSA_SIG_free(sig);
	return ok;
}

/* 0 when it cannot be. */
static size_t sig_to_der(const unsigned char raw[SIG_LEN], unsigned char ret[SIG_DER_MAX])
{
	ECDSA_SIG *sig = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(raw, HALF, NULL), *s = BN_bin2bn(raw + HALF, HALF, NULL);
	int len = 0;

	if (sig && r && s && ECDSA_SIG_set0(sig, r, s) == 1 &&
	    i2d_ECDSA_SIG(sig, NULL) <= SIG_DER_MAX)
		len = i2d_ECDSA_SIG(sig, &ret);
	ECDSA_SIG_free(sig);
	return len > 0 ? (size_t)len : 0;
}

static bool sign(EVP_PKEY *key, const char *text, unsigned char ret[SIG_LEN])
{
	auto_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	unsigned char der[SIG_DER_MAX];
	size_t len = sizeof(der);

	return ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	       EVP_DigestSign(ctx, der, &len, (const unsigned char *)text, strlen(text)) == 1 &&
	       sig_to_raw(der, len, ret);
}

static bool verify(EVP_PKEY *key, struct span text, const unsigned char raw[SIG_LEN])
{
	auto_ossl(EVP_MD_CTX) ctx = EVP_MD_CTX_new();
	unsigned char der[SIG_DER_MAX];
	size_t len = sig_to_der(raw, der);

	return ctx && len && EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	       EVP_DigestVerify(ctx, der, len, (const unsigned char *)text.p, text.len) == 1;
}

struct err *tls_token_sign(const char *key_pem, const char *claims, char **ret)
{
	autofree char *body = NULL, *text = NULL, *sig = NULL;
	unsigned char raw[SIG_LEN];
	struct token_key *k;
	struct err *e;

	e = key_get(key_pem, &k);
	if (e)
		return e;
	body = base64_encode(claims, strlen(claims), true);
	text = xasprintf("%s.%s", k->head, body);
	if (!sign(k->key, text, raw))
		return tls_err(ERR_INVALID, "sign token");
	sig = base64_encode(raw, sizeof(raw), true);
	*ret = xasprintf("%s.%s", text, sig);
	return NULL;
}

/* Why a token is not believed is not told to its bearer in detail. */
static struct err *token_bad(void)
{
	ERR_clear_error();
	return err_new(ERR_UNAUTHENTICATED, "verify token: not one of ours");
}

static bool decode(struct span s, void **ret, size_t *ret_len)
{
	autofree char *text = xstrndup(s.p, s.len);
	autoptr(err) e = base64_decode(text, true, ret, ret_len);

	return !e;
}

struct err *tls_token_verify(const char *key_pem, const char *token, char **ret_claims)
{
	autofree void *raw = NULL, *claims = NULL;
	size_t raw_len, claims_len;
	struct span head, body, sig, rest;
	struct token_key *k;
	struct err *e;

	e = key_get(key_pem, &k);
	if (e)
		return e;
	if (strnlen(token, TOKEN_MAX) >= TOKEN_MAX)
		return token_bad();
	head = span_cut(SPAN(token), '.', &rest);
	if (!rest.p || !span_eq(head, k->head))
		return token_bad();
	body = span_cut(rest, '.', &sig);
	if (!sig.p || !decode(sig, &raw, &raw_len) || raw_len != SIG_LEN)
		return token_bad();
	if (!verify(k->key, (struct span){ token, head.len + 1 + body.len }, raw))
		return token_bad();
	if (!decode(body, &claims, &claims_len) || !utf8_valid(claims, claims_len) ||
	    memchr(claims, '\0', claims_len))
		return token_bad();
	*ret_claims = xstrndup(claims, claims_len);
	return NULL;
}
