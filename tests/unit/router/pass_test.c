/* SPDX-License-Identifier: Apache-2.0 */
#include "router/callers/pass.h"

#include "base/str.h"
#include "router/route/route.h"
#include "test.h"

/* What a signed URL, its cookie and a scoped token permit. */
static const struct tls_seal_key key = { "0123456789abcdef0123456789abcdef", 32 };
static const struct tls_seal_key other_key = { "0123456789abcdef0123456789abcdeg", 32 };
static const struct pass whole = { .ns = "ns",
				   .id = "box",
				   .uid = "u-1",
				   .port = 80,
				   .expires = 1000,
				   .path = "/a",
				   .methods = "GET,HEAD" };

TEST(a_pass_says_the_same_after_it_was_sealed)
{
	autofree char *text = pass_seal(&key, PASS_URL, &whole);
	struct pass p;

	is_true(str_starts(text, "u1."));
	eq_int(strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."),
	       strlen(text));
	is_true(pass_open(&key, PASS_URL, text, &p));
	eq_str(p.ns, "ns");
	eq_str(p.id, "box");
	eq_str(p.uid, "u-1");
	eq_int(p.port, 80);
	eq_int(p.expires, 1000);
	eq_str(p.path, "/a");
	eq_str(p.methods, "GET,HEAD");
}

TEST(a_pass_is_good_for_one_purpose_and_with_one_key)
{
	static const char *const prefixes[PASS_KIND_MAX_] = { "u1.", "c1.", "v1." };
	struct pass p;

	for (int made = 0; made < PASS_KIND_MAX_; made++) {
		autofree char *text = pass_seal(&key, (enum pass_kind)made, &whole);

		for (int read = 0; read < PASS_KIND_MAX_; read++) {
			autofree char *as = xasprintf("%s%s", prefixes[read], text + 3);

			eq_int(pass_open(&key, (enum pass_kind)read, as, &p), made == read);
			is_false(pass_open(&other_key, (enum pass_kind)read, as, &p));
		}
	}
}

TEST(a_pass_that_was_changed_anywhere_is_none)
{
	autofree char *text = pass_seal(&key, PASS_COOKIE, &whole);
	struct pass p;

	for (size_t i = 0; i < strlen(text); i++) {
		char was = text[i];

		text[i] = was == 'A' ? 'B' : 'A';
		is_false(pass_open(&key, PASS_COOKIE, text, &p));
		text[i] = '\0';
		is_false(pass_open(&key, PASS_COOKIE, text, &p));
		text[i] = was;
	}
	is_true(pass_open(&key, PASS_COOKIE, text, &p));
}

TEST(claims_that_say_too_little_or_too_much_are_none)
{
	static const struct {
		enum pass_kind kind;
		const char *claims;
		bool good;
	} rows[] = {
		{ PASS_SCOPED, "{\"ns\":\"a\",\"name\":\"b\",\"exp\":9}", true },
		{ PASS_SCOPED, "{\"ns\":\"\",\"name\":\"b\",\"exp\":9}", false },
		{ PASS_SCOPED, "{\"ns\":\"a\",\"exp\":9}", false },
		{ PASS_SCOPED, "{\"ns\":\"a\",\"name\":\"b\"}", false },
		{ PASS_SCOPED, "{\"ns\":\"a\",\"name\":\"b\",\"exp\":\"9\"}", false },
		{ PASS_SCOPED, "{\"ns\":\"a\",\"name\":7,\"exp\":9}", false },
		{ PASS_SCOPED, "[]", false },
		{ PASS_SCOPED, "", false },
		{ PASS_URL, "{\"ns\":\"a\",\"name\":\"b\",\"exp\":9}", false },
		{ PASS_URL, "{\"ns\":\"a\",\"name\":\"b\",\"exp\":9,\"uid\":\"u\",\"port\":1}",
		  true },
		{ PASS_URL, "{\"ns\":\"a\",\"name\":\"b\",\"exp\":9,\"uid\":\"u\",\"port\":65537}",
		  false },
		{ PASS_URL,
		  "{\"ns\":\"a\",\"name\":\"b\",\"exp\":9,\"uid\":\"u\",\"port\":1,\"path\":1}",
		  false },
	};
	static const struct {
		const char *prefix, *label;
	} kinds[] = { [PASS_URL] = { "u1.", "cay/signed-url/v1." },
		      [PASS_SCOPED] = { "v1.", "agent-sandbox/scoped-token/v1." } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *sealed = tls_seal(&key, kinds[rows[i].kind].label, rows[i].claims);
		autofree char *text = xasprintf("%s%s", kinds[rows[i].kind].prefix, sealed);
		struct pass p;

		eq_int(pass_open(&key, rows[i].kind, text, &p), rows[i].good);
	}
}

TEST(dataplane_151_to_153_a_pass_is_for_one_sandbox_until_its_time)
{
	static const struct {
		const char *ns, *id, *uid;
		uint16_t port;
		const char *method, *path;
		int64_t now;
		enum err_code code; /* 0: let in */
	} rows[] = {
		{ "ns", "box", "u-1", 80, "GET", "/a", 999, 0 },
		{ "ns", "box", NULL, 80, "HEAD", "/a/b", 0, 0 },
		{ "ns", "box", "u-1", 80, "GET", "/a", 1000, ERR_UNAUTHENTICATED },
		{ "other", "box", "u-1", 80, "GET", "/a", 0, ERR_FORBIDDEN },
		{ "ns", "other", "u-1", 80, "GET", "/a", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-2", 80, "GET", "/a", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 81, "GET", "/a", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "POST", "/a", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GE", "/a", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/ab", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/a/../b", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/a/%2E./b", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/a/..%2fb", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/a/%252e%252e/b", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/a//b", 0, ERR_FORBIDDEN },
		{ "ns", "box", "u-1", 80, "GET", "/a\\..\\b", 0, ERR_FORBIDDEN },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct route r = { .port = rows[i].port };
		struct err *e;

		(void)snprintf(r.ns, sizeof(r.ns), "%s", rows[i].ns);
		(void)snprintf(r.id, sizeof(r.id), "%s", rows[i].id);
		e = pass_check(&whole, &(struct pass_use){ .route = &r,
							   .uid = rows[i].uid,
							   .method = rows[i].method,
							   .path = rows[i].path,
							   .now = rows[i].now });
		if (rows[i].code)
			fails(e, rows[i].code);
		else
			works(e);
	}
}

TEST(a_pass_without_a_uid_opens_no_sandbox_whose_name_others_had)
{
	static const struct pass scoped = { .ns = "ns", .id = "box", .expires = 1000 };
	struct pass bound = scoped;
	struct route r = { .ns = "ns", .id = "box", .port = 80 };
	struct pass_use u = { .route = &r, .uid = "u-1", .method = "GET", .path = "/" };

	works(pass_check(&scoped, &u));
	u.others_had = true;
	fails(pass_check(&scoped, &u), ERR_FORBIDDEN);
	(void)snprintf(bound.uid, sizeof(bound.uid), "u-1");
	works(pass_check(&bound, &u));
}
