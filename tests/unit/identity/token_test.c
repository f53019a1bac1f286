/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/token.h"

#include "base/buf.h"
#include "base/macros.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "test.h"

enum {
	NOW = 1800000000,
};
#define AUDIENCE "cay:instance:here"
#define HEAD     "{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"main\"}"
#define CLAIMS                                                                                   \
	"{\"iss\":\"cay:agent:team:coder\",\"sub\":\"cay:agent:team:coder\",\"aud\":\"" AUDIENCE \
	"\",\"iat\":1800000000,\"exp\":1800000300,\"jti\":\"1\"}"

static char *mint(const struct ed25519 *key, bool sealed)
{
	const struct identity_claims c = { .ns = "team",
					   .agent = "coder",
					   .key_name = "main",
					   .audience = AUDIENCE,
					   .now_s = NOW,
					   .ttl_s = 300,
					   .sealed = sealed };
	char *token = NULL;

	works(identity_mint(key, &c, &token));
	return token;
}

/* A JWT that says anything. */
static char *sign(const struct ed25519 *key, const char *head, const char *claims)
{
	autofree char *a = base64_encode(head, strlen(head), true);
	autofree char *b = base64_encode(claims, strlen(claims), true);
	autofree char *text = xasprintf("%s.%s", a, b), *c = NULL;
	unsigned char raw[ED25519_SIGNATURE_LEN];

	ed25519_sign(key, text, strlen(text), raw);
	c = base64_encode(raw, sizeof(raw), true);
	return xasprintf("%s.%s", text, c);
}

/* Whether it is accepted, now, under the key. */
static bool holds(const struct ed25519 *key, const char *text, int64_t now)
{
	autoptr(identity_token) t = NULL;
	unsigned char pub[ED25519_KEY_LEN];
	autoptr(err) e = identity_token_read(text, &t);

	if (e)
		return false;
	ed25519_public(key, pub);
	e = identity_token_check(t, AUDIENCE, now);
	return !e && identity_token_verifies(t, pub);
}

TEST(a_token_says_whose_it_is)
{
	autoptr(ed25519) key = ed25519_new();

	for (int sealed = 0; sealed < 2; sealed++) {
		autofree char *text = mint(key, sealed);
		autoptr(identity_token) t = NULL;

		is_true(identity_token_looks_so(text));
		works(identity_token_read(text, &t));
		eq_str(t->ns, "team");
		eq_str(t->agent, "coder");
		eq_str(t->key_name, "main");
		eq_str(t->audience, AUDIENCE);
		eq_int(t->expires - t->issued, 300);
		eq_int(t->chained, !sealed);
		eq_int(t->sealed, sealed);
		eq_int(t->n_blocks, 1);
		is_false(identity_grant_narrows(&t->grant));
		is_true(holds(key, text, NOW));
	}
}

TEST(a_token_holds_in_its_time_alone)
{
	autoptr(ed25519) key = ed25519_new();
	autofree char *text = mint(key, true);

	is_true(holds(key, text, NOW - IDENTITY_SKEW_S));
	is_false(holds(key, text, NOW - IDENTITY_SKEW_S - 1));
	is_true(holds(key, text, NOW + 299));
	is_false(holds(key, text, NOW + 300));
}

TEST(a_token_holds_under_its_key_alone)
{
	autoptr(ed25519) key = ed25519_new();
	autoptr(ed25519) other = ed25519_new();
	autofree char *plain = mint(key, true), *chain = mint(key, false);

	is_false(holds(other, plain, NOW));
	is_false(holds(other, chain, NOW));
}

TEST(a_jwt_of_another_library_is_accepted)
{
	static const char *const heads[] = { HEAD, "{\"kid\":\"main\",\"alg\":\"EdDSA\"}",
					     "{\"alg\":\"EdDSA\"}" };
	static const char claims[] =
		"{\"aud\":[\"" AUDIENCE "\"],\"sub\":\"cay:agent:team:coder\",\"nbf\":1800000000,"
		"\"iss\":\"cay:agent:team:coder\",\"iat\":1800000000,\"exp\":1800000060,\"jti\":\"x\"}";
	autoptr(ed25519) key = ed25519_new();

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		autofree char *text = sign(key, heads[i], claims);

		is_true(identity_token_looks_so(text));
		is_true(holds(key, text, NOW));
	}
}

TEST(a_header_chooses_no_other_algorithm)
{
	static const char *const heads[] = {
		"{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"main\"}",
		"{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"main\"}",
		"{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"main\"}",
		"{\"alg\":\"eddsa\",\"typ\":\"JWT\",\"kid\":\"main\"}",
		"{\"alg\":[\"EdDSA\"],\"typ\":\"JWT\",\"kid\":\"main\"}",
		"{\"typ\":\"JWT\",\"kid\":\"main\"}",
		"{\"alg\":\"EdDSA\",\"alg\":\"none\"}",
		"{\"alg\":\"EdDSA\",\"crit\":[\"x\"],\"x\":1}",
		"{\"alg\":\"EdDSA\",\"jwk\":{\"kty\":\"OKP\"}}",
		"{\"alg\":\"EdDSA\",\"typ\":\"at+jwt\"}",
		"{\"alg\":\"EdDSA\",\"kid\":1}",
		"{\"alg\":\"EdDSA\",\"kid\":\"\"}",
		"[]",
		"",
	};
	autoptr(ed25519) key = ed25519_new();

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		autofree char *text = sign(key, heads[i], CLAIMS);
		struct identity_token *t = NULL;

		fails(identity_token_read(text, &t), ERR_UNAUTHENTICATED);
	}
}

/* Of claims, a part that is replaced. */
TEST(claims_that_no_agent_has_are_refused)
{
	static const struct {
		const char *was, *is;
	} rows[] = {
		{ "\"iss\":\"cay:agent:team:coder\"", "\"iss\":\"cay:agent:team:other\"" },
		{ "\"iss\":\"cay:agent:team:coder\",", "" },
		{ ",\"jti\":\"1\"", "" },
		{ "\"jti\":\"1\"", "\"jti\":\"\"" },
		{ "\"jti\":\"1\"", "\"jti\":\"1\",\"jti\":\"1\"" },
		{ "\"jti\":\"1\"", "\"jti\":\"1\",\"rights\":[\"read\"]" },
		{ "\"jti\":\"1\"", "\"jti\":\"1\",\"next\":\"x\"" },
		{ "\"aud\":\"" AUDIENCE "\"", "\"aud\":[\"" AUDIENCE "\",\"other\"]" },
		{ "\"aud\":\"" AUDIENCE "\"", "\"aud\":[]" },
		{ "\"aud\":\"" AUDIENCE "\"", "\"aud\":\"cay:instance:there\"" },
		{ "\"iat\":1800000000", "\"iat\":1799999999" },
		{ "\"iat\":1800000000", "\"iat\":-9223372036854775808" },
		{ "\"iat\":1800000000", "\"iat\":18446744073709551615" },
		{ "\"iat\":1800000000", "\"iat\":\"1800000000\"" },
		{ "\"iat\":1800000000,", "" },
		{ "\"exp\":1800000300", "\"exp\":1800000000" },
		{ "\"exp\":1800000300", "\"exp\":9223372036854775807" },
		{ ",\"exp\":1800000300", "" },
		{ "\"iat\"", "\"nbf\":1800000031,\"iat\"" },
		{ "\"iat\"", "\"nbf\":null,\"iat\"" },
	};
	static const char *const subjects[] = {
		"cay:agent:team",       "cay:agent::coder",
		"cay:agent:team:",      "cay:agent:team:a:b",
		"cay:agent:Team:coder", "system:serviceaccount:team:coder",
		"cay:agent:",           "",
	};
	autoptr(ed25519) key = ed25519_new();
	autofree char *fine = sign(key, HEAD, CLAIMS);

	is_true(holds(key, fine, NOW));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *at = strstr(CLAIMS, rows[i].was);
		autofree char *claims = xasprintf("%.*s%s%s", (int)(at - CLAIMS), CLAIMS,
						  rows[i].is, at + strlen(rows[i].was));
		autofree char *text = sign(key, HEAD, claims);

		is_false(holds(key, text, NOW));
	}
	for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
		autofree char *claims =
			xasprintf("{\"iss\":\"%s\",\"sub\":\"%s\",\"aud\":\"" AUDIENCE
				  "\",\"iat\":1800000000,\"exp\":1800000300,\"jti\":\"1\"}",
				  subjects[i], subjects[i]);
		autofree char *text = sign(key, HEAD, claims);

		is_false(holds(key, text, NOW));
	}
}

TEST(what_is_no_token_is_refused)
{
	static const char *const rows[] = {
		"",       ".",    "..",           "...", "a.b.c", "cay1.", "cay1.a.b.c.d",
		"cay1..", "cay1", "cay2.a.b.c.d",
	};
	autoptr(ed25519) key = ed25519_new();
	autofree char *plain = mint(key, true), *chain = mint(key, false), *longer = NULL;
	autofree char *padded = xasprintf("%s=", plain), *more = xasprintf("%s.", plain);
	autofree char *wrapped = xasprintf("cay1.%s", plain);
	autobuf b = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		is_false(holds(key, rows[i], NOW));
	is_false(holds(key, padded, NOW));
	is_false(holds(key, more, NOW));
	is_false(holds(key, wrapped, NOW));
	is_false(holds(key, chain + strlen(IDENTITY_CHAIN), NOW));
	for (size_t i = 0; i <= IDENTITY_TOKEN_MAX; i++)
		buf_add_char(&b, 'a');
	longer = xasprintf("cay1.%s", buf_str(&b));
	is_false(holds(key, longer, NOW));
}

TEST(what_cannot_be_said_cannot_be_minted)
{
	const struct identity_claims fine = {
		.ns = "team", .agent = "coder", .audience = AUDIENCE, .now_s = NOW, .ttl_s = 300
	};
	struct identity_claims rows[5] = { fine, fine, fine, fine, fine };
	autoptr(ed25519) key = ed25519_new();
	char *text = NULL;

	rows[0].ns = "Team";
	rows[1].agent = "a:b";
	rows[2].ttl_s = 301;
	rows[3].ttl_s = 0;
	rows[4].audience = "";
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fails(identity_mint(key, &rows[i], &text), ERR_INVALID);
}

TEST(the_audience_is_the_digest_of_a_key)
{
	static const unsigned char digest[SHA256_LEN] = { 0xab, [31] = 1 };
	autofree char *text = identity_audience(digest);

	eq_str(text, "cay:instance:"
		     "ab00000000000000000000000000000000000000000000000000000000000001");
}
