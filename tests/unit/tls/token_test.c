/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "test.h"
#include "tls/tls.h"

static const char claims[] = "{\"iss\":\"cay\",\"sub\":\"system:serviceaccount:a:b\"}";

TEST(a_token_is_accepted_only_by_its_key)
{
	autofree char *key = NULL, *other = NULL, *token = NULL, *got = NULL;

	works(signing_key_make(&key));
	works(signing_key_make(&other));
	works(tls_token_sign(key, claims, &token));
	works(tls_token_verify(key, token, &got));
	eq_str(got, claims);
	fails(tls_token_verify(other, token, &got), ERR_UNAUTHENTICATED);
}

/* Others find the algorithm, the key and the type in its header; here it is worth nothing. */
TEST(a_token_for_others_is_none_to_us)
{
	autofree char *key = NULL, *token = NULL;
	autofree void *head = NULL;
	char *got = NULL;
	size_t len;

	works(signing_key_make(&key));
	works(tls_token_sign_for_others(key, claims, &token));
	fails(tls_token_verify(key, token, &got), ERR_UNAUTHENTICATED);
	*strchr(token, '.') = '\0';
	works(base64_decode(token, true, &head, &len));
	is_true(str_starts(head, "{\"alg\":\"ES256\",\"kid\":\""));
	is_true(str_ends(head, "\",\"typ\":\"JWT\"}"));
}

TEST(a_token_changed_anywhere_is_rejected)
{
	autofree char *key = NULL, *token = NULL;
	char *got;

	works(signing_key_make(&key));
	works(tls_token_sign(key, claims, &token));
	for (size_t i = 0; token[i]; i++) {
		char was = token[i];

		token[i] = was == 'A' ? 'B' : 'A';
		fails(tls_token_verify(key, token, &got), ERR_UNAUTHENTICATED);
		token[i] = was;
	}
	works(tls_token_verify(key, token, &got));
	free(got);
}

/* Headers that an attacker would like: no algorithm, a symmetric one, another key. */
TEST(no_other_algorithm_is_accepted)
{
	static const char *const heads[] = {
		"{\"alg\":\"none\"}",
		"{\"alg\":\"HS256\"}",
		"{\"alg\":\"ES256\"}",
		"{\"alg\":\"es256\"}",
		"{\"alg\":\"RS256\"}",
		"{\"alg\":\"ES384\"}",
		"{}",
		"",
	};
	autofree char *key = NULL, *token = NULL;
	const char *rest;
	char *got;

	works(signing_key_make(&key));
	works(tls_token_sign(key, claims, &token));
	rest = strchr(token, '.');
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		autofree char *head = base64_encode(heads[i], strlen(heads[i]), true);
		autofree char *forged = xasprintf("%s%s", head, rest);

		fails(tls_token_verify(key, forged, &got), ERR_UNAUTHENTICATED);
	}
}

/* A header that is signed like ours and says something else. */
TEST(a_signed_header_of_another_algorithm_is_rejected)
{
	static const char head[] = "{\"alg\":\"none\"}";
	autofree char *pem = NULL, *coded = base64_encode(head, strlen(head), true);
	autofree char *body = base64_encode(claims, strlen(claims), true), *sig = NULL;
	autofree char *text = xasprintf("%s.%s", coded, body), *token = NULL;
	unsigned char raw[SIGNATURE_LEN];
	autoptr(signing_key) key = NULL;
	char *got;

	works(signing_key_make(&pem));
	works(signing_key_read(pem, &key));
	works(signing_key_sign(key, text, strlen(text), raw));
	sig = base64_encode(raw, sizeof(raw), true);
	token = xasprintf("%s.%s", text, sig);
	fails(tls_token_verify(pem, token, &got), ERR_UNAUTHENTICATED);
}

TEST(malformed_tokens_are_rejected)
{
	autofree char *key = NULL, *token = NULL, *longer = NULL, *unsigned_token = NULL,
		      *padded = NULL;
	autofree char *huge = xcalloc(1, 100 * 1024);
	char *got;

	works(signing_key_make(&key));
	works(tls_token_sign(key, claims, &token));
	longer = xasprintf("%s.x", token);
	padded = xasprintf("%s==", token);
	unsigned_token = xstrdup(token);
	strrchr(unsigned_token, '.')[1] = '\0';
	memset(huge, 'a', 100 * 1024 - 1);
	{
		const char *const rows[] = { "",      ".",    "..",           "...",
					     "a.b.c", longer, unsigned_token, huge,
					     padded };

		for (size_t i = 0; i < ARRAY_LEN(rows); i++)
			fails(tls_token_verify(key, rows[i], &got), ERR_UNAUTHENTICATED);
	}
}

TEST(only_p256_keys_sign)
{
	char *token;

	fails(tls_token_sign("junk", claims, &token), ERR_INVALID);
	fails(tls_token_verify("junk", "a.b.c", &token), ERR_INVALID);
}

TEST(the_expiry_of_a_certificate_is_read)
{
	struct tls_pair ca = { 0 };
	usec now = clock_wall(), end;

	works(tls_make_ca("ca", (usec)3600 * 1000000, &ca));
	works(tls_cert_expiry(ca.cert_pem, &end));
	is_true(end > now + (usec)3590 * 1000000 && end < now + (usec)3610 * 1000000);
	fails(tls_cert_expiry("junk", &end), ERR_INVALID);
	tls_pair_done(&ca);
}
