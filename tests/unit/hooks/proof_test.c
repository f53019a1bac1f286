/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/proof.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "crypto/crypto.h"
#include "test.h"

#define SECRET "It's a Secret to Everybody"
#define BODY   "Hello, World!"
/* GitHub's own example of its form. */
#define GITHUB_SIGNATURE "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

static const usec now = (usec)1700000000 * 1000000;

static bool holds(enum trigger_form form, const struct hook_headers *h, const char *secret,
		  const char *body)
{
	return proof_holds(form, h, &(struct hook_secret){ secret, strlen(secret) },
			   (struct hook_secret){ body, strlen(body) }, now);
}

/* "sha256=…" of a text; until the next. */
static const char *sign(const char *text)
{
	static char value[7 + 2 * SHA256_LEN + 1];
	unsigned char raw[SHA256_LEN];

	hmac_sha256(SECRET, strlen(SECRET), text, strlen(text), raw);
	memcpy(value, "sha256=", 7);
	hex_encode(raw, sizeof(raw), value + 7);
	return value;
}

TEST(the_example_of_github_holds)
{
	const struct hook_headers h = { .hub_signature = GITHUB_SIGNATURE };

	is_true(holds(TRIGGER_GITHUB, &h, SECRET, BODY));
	is_false(holds(TRIGGER_GITHUB, &h, SECRET, "Hello, World"));
	is_false(holds(TRIGGER_GITHUB, &h, "another", BODY));
	is_false(holds(TRIGGER_PLAIN, &h, SECRET, BODY));
}

TEST(a_signature_has_one_form_of_each_length)
{
	static const char *const rows[] = {
		"",
		"sha256=",
		GITHUB_SIGNATURE "0",
		GITHUB_SIGNATURE " ",
		"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		"sha1=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1",
		"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1g",
		"sha256=0000000000000000000000000000000000000000000000000000000000000000",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct hook_headers h = { .hub_signature = rows[i] };

		is_false(holds(TRIGGER_GITHUB, &h, SECRET, BODY));
	}
	is_false(holds(TRIGGER_GITHUB, &(struct hook_headers){ 0 }, SECRET, BODY));
}

TEST(the_plain_form_signs_the_moment_too)
{
	struct hook_headers h = { .timestamp = "1700000000" };

	h.signature = sign("1700000000." BODY);
	is_true(holds(TRIGGER_PLAIN, &h, SECRET, BODY));
	is_false(holds(TRIGGER_GITHUB, &h, SECRET, BODY));
	h.timestamp = "1700000001";
	is_false(holds(TRIGGER_PLAIN, &h, SECRET, BODY));
	h.timestamp = NULL;
	is_false(holds(TRIGGER_PLAIN, &h, SECRET, BODY));
	h.timestamp = "1700000000";
	h.signature = sign(BODY);
	is_false(holds(TRIGGER_PLAIN, &h, SECRET, BODY));
	/* The time ends where its point is: it cannot be shifted into the body. */
	h.timestamp = "1700000000.5";
	h.signature = sign("1700000000.5." BODY);
	is_true(holds(TRIGGER_PLAIN, &h, SECRET, BODY));
}

TEST(a_moment_may_be_five_minutes_off)
{
	static const struct {
		const char *at;
		bool ok;
	} rows[] = {
		{ "1699999700", true },
		{ "1699999699", false },
		{ "1700000300", true },
		{ "1700000301", false },
		{ "1700000000.", false },
		{ "1700000000.x", false },
		{ "-1700000000", false },
		{ " 1700000000", false },
		{ "1700000000 ", false },
		{ "1.7e9", false },
		{ "", false },
		{ "99999999999999999999", false },
		{ "1700000000.123456789", true },
		{ "1700000000.1234567891", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hook_headers h = { .timestamp = rows[i].at };
		char text[128];

		(void)snprintf(text, sizeof(text), "%s." BODY, rows[i].at);
		h.signature = sign(text);
		eq_int(holds(TRIGGER_PLAIN, &h, SECRET, BODY), rows[i].ok);
	}
}

TEST(an_id_is_the_senders_or_the_digest_of_the_body)
{
	const struct hook_secret body = { BODY, strlen(BODY) };
	struct hook_headers h = { .hub_delivery = "hub", .delivery = "plain" };
	char id[HOOK_ID_MAX + 1], longest[HOOK_ID_MAX + 3];

	is_true(proof_id(TRIGGER_GITHUB, &h, body, id));
	eq_str(id, "hub");
	is_true(proof_id(TRIGGER_PLAIN, &h, body, id));
	eq_str(id, "plain");
	is_true(proof_id(TRIGGER_PLAIN, &(struct hook_headers){ 0 }, body, id));
	eq_str(id, "sha256:dffd6021bb2bd5b0af676290809ec3a53191dd81c7f70a4b28688a362182986f");
	memset(longest, 'x', sizeof(longest));
	longest[HOOK_ID_MAX] = '\0';
	h.delivery = longest;
	is_true(proof_id(TRIGGER_PLAIN, &h, body, id));
	longest[HOOK_ID_MAX] = 'x';
	longest[HOOK_ID_MAX + 1] = '\0';
	is_false(proof_id(TRIGGER_PLAIN, &h, body, id));
	h.delivery = "";
	is_false(proof_id(TRIGGER_PLAIN, &h, body, id));
	h.delivery = "two words";
	is_false(proof_id(TRIGGER_PLAIN, &h, body, id));
	h.delivery = "\x1b[2J";
	is_false(proof_id(TRIGGER_PLAIN, &h, body, id));
}
