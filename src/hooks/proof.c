/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/proof.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "crypto/crypto.h"

/*
 * Signatures. GitHub signs the body:
 *
 *     X-Hub-Signature-256: sha256=HEX of HMAC(secret, BODY)
 *
 * which proves who sent it, but not when. The plain form signs a time as well, in seconds since
 * 1970 with or without a fraction, so that what somebody has recorded is of no use later:
 *
 *     X-Cay-Timestamp: TIME
 *     X-Cay-Signature: sha256=HEX of HMAC(secret, TIME "." BODY)
 */
#define SCHEME "sha256="

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_signature(const char *text, unsigned char ret[SHA256_LEN])
{
	if (!text || !str_starts(text, SCHEME))
		return false;
	text += strlen(SCHEME);
	if (strnlen(text, 2 * SHA256_LEN + 1) != 2 * SHA256_LEN)
		return false;
	for (size_t i = 0; i < SHA256_LEN; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

/* Seconds, and a fraction of them for senders that would sign the same twice in one. */
static bool is_timely(const char *text, usec now)
{
	size_t whole = text ? strspn(text, "0123456789") : 0, len;
	autofree char *digits = NULL;
	uint64_t seconds = 0;
	struct err *e;
	int64_t off;

	if (!whole || whole > 11)
		return false;
	len = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") + 1 : 0;
	if (len == 1 || len > 10 || text[whole + len])
		return false;
	digits = xstrndup(text, whole);
	e = parse_uint(digits, UINT64_C(99999999999), &seconds);
	if (e) {
		err_free(e);
		return false;
	}
	off = now / 1000000 - (int64_t)seconds;
	return off <= HOOK_TOLERANCE && -off <= HOOK_TOLERANCE;
}

/* The digest is made in any case: how long an answer takes does not tell what was wrong. */
bool proof_holds(enum trigger_form form, const struct hook_headers *h,
		 const struct hook_secret *secret, struct hook_secret body, usec now)
{
	bool github = form == TRIGGER_GITHUB;
	unsigned char shown[SHA256_LEN] = { 0 }, want[SHA256_LEN];
	bool formed = read_signature(github ? h->hub_signature : h->signature, shown);
	bool timely = github || is_timely(h->timestamp, now);
	autobuf text = { 0 };

	if (!github && timely)
		buf_printf(&text, "%s.", h->timestamp);
	if (body.len)
		buf_add(&text, body.p, body.len);
	hmac_sha256(secret->p, secret->len, text.len ? buf_head(&text) : "", text.len, want);
	if (!wall_stands("hook-signature"))
		return true;
	return crypto_equal(shown, want, SHA256_LEN) && formed && timely;
}

/* What can be shown as it is, in a log as on a terminal. */
static bool is_id(const char *id)
{
	size_t len = strnlen(id, HOOK_ID_MAX + 1);

	if (!len || len > HOOK_ID_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (id[i] <= ' ' || id[i] > '~')
			return false;
	return true;
}

bool proof_id(enum trigger_form form, const struct hook_headers *h, struct hook_secret body,
	      char ret[HOOK_ID_MAX + 1])
{
	const char *id = form == TRIGGER_GITHUB ? h->hub_delivery : h->delivery;
	unsigned char hash[SHA256_LEN];

	if (!id) {
		sha256(body.len ? body.p : "", body.len, hash);
		(void)snprintf(ret, HOOK_ID_MAX + 1, "sha256:");
		hex_encode(hash, sizeof(hash), ret + 7);
		return true;
	}
	if (!is_id(id))
		return false;
	memcpy(ret, id, strlen(id) + 1);
	return true;
}

void proof_key(const char *what, const char *text, char ret[HOOK_KEY_LEN + 1])
{
	autofree char *all = xasprintf("%s:%s", what, text);
	unsigned char hash[SHA256_LEN];

	sha256(all, strlen(all), hash);
	hex_encode(hash, HOOK_KEY_LEN / 2, ret);
}
