/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "tls/tls.h"

/*
 * Tokens: base64url(header) "." base64url(claims) "." base64url(r || s), signed with ECDSA over
 * P-256 and SHA-256.
 *
 * The header is a function of the key alone, {"alg":"ES256","kid":"..."}, and only exactly that
 * header is accepted: the bearer of a token cannot choose an algorithm, and a token for others,
 * whose header says "typ":"JWT" too, is none here whatever its claims say.
 */
enum {
	TOKEN_MAX = 16 * 1024,
};

/* Parsing a key costs more than verifying with it, so each thread keeps the last one it parsed. */
struct token_key {
	char *pem;
	struct signing_key *key;
	char *head, *head_for_others; /* encoded */
};

static _Thread_local struct token_key last;

static char *head_for(const struct signing_key *key, const char *more)
{
	unsigned char id[SHA256_LEN];
	autofree char *kid = NULL, *text = NULL;

	signing_key_id(key, id);
	kid = base64_encode(id, sizeof(id), true);
	text = xasprintf("{\"alg\":\"ES256\",\"kid\":\"%s\"%s}", kid, more);
	return base64_encode(text, strlen(text), true);
}

static struct err *key_get(const char *pem, struct token_key **ret)
{
	struct signing_key *key;
	struct err *e;

	*ret = &last;
	if (last.pem && str_eq(last.pem, pem))
		return NULL;
	e = signing_key_read(pem, &key);
	if (e)
		return e;
	if (last.pem)
		explicit_bzero(last.pem, strlen(last.pem));
	free(last.pem);
	free(last.head);
	free(last.head_for_others);
	signing_key_free(last.key);
	last = (struct token_key){ .pem = xstrdup(pem),
				   .key = key,
				   .head = head_for(key, ""),
				   .head_for_others = head_for(key, ",\"typ\":\"JWT\"") };
	return NULL;
}

static struct err *sign(const struct token_key *k, const char *head, const char *claims, char **ret)
{
	autofree char *body = base64_encode(claims, strlen(claims), true);
	autofree char *text = xasprintf("%s.%s", head, body), *sig = NULL;
	unsigned char raw[SIGNATURE_LEN];
	struct err *e = signing_key_sign(k->key, text, strlen(text), raw);

	if (e)
		return err_wrap(e, "sign token");
	sig = base64_encode(raw, sizeof(raw), true);
	*ret = xasprintf("%s.%s", text, sig);
	return NULL;
}

struct err *tls_token_sign(const char *key_pem, const char *claims, char **ret)
{
	struct token_key *k;
	struct err *e = key_get(key_pem, &k);

	return e ? e : sign(k, k->head, claims, ret);
}

struct err *tls_token_sign_for_others(const char *key_pem, const char *claims, char **ret)
{
	struct token_key *k;
	struct err *e = key_get(key_pem, &k);

	return e ? e : sign(k, k->head_for_others, claims, ret);
}

/* The bearer of a token is not told in detail why it was rejected. */
static struct err *token_bad(void)
{
	return err_new(ERR_UNAUTHENTICATED, "the token was not issued here");
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
	if (!sig.p || !decode(sig, &raw, &raw_len) || raw_len != SIGNATURE_LEN)
		return token_bad();
	if (!signing_key_verifies(k->key, token, head.len + 1 + body.len, raw))
		return token_bad();
	if (!decode(body, &claims, &claims_len) || !utf8_valid(claims, claims_len) ||
	    memchr(claims, '\0', claims_len))
		return token_bad();
	*ret_claims = xstrndup(claims, claims_len);
	return NULL;
}

struct err *tls_token_keys(const char *key_pem, char **ret)
{
	autofree char *kid = NULL, *x = NULL, *y = NULL;
	unsigned char id[SHA256_LEN], point[POINT_LEN];
	struct token_key *k;
	struct err *e = key_get(key_pem, &k);

	if (e)
		return e;
	signing_key_id(k->key, id);
	signing_key_point(k->key, point);
	kid = base64_encode(id, sizeof(id), true);
	x = base64_encode(point, POINT_LEN / 2, true);
	y = base64_encode(point + POINT_LEN / 2, POINT_LEN / 2, true);
	*ret = xasprintf(
		"{\"keys\":[{\"use\":\"sig\",\"kty\":\"EC\",\"kid\":\"%s\",\"crv\":\"P-256\","
		"\"alg\":\"ES256\",\"x\":\"%s\",\"y\":\"%s\"}]}",
		kid, x, y);
	return NULL;
}
