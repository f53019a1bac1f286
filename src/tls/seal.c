/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "crypto/crypto.h"
#include "tls/tls.h"

/*
 * Sealed text: base64url(text) "." base64url(HMAC-SHA256(key, label || base64url(text))).
 *
 * What was sealed under one label opens under no other, so one key may serve several purposes. The
 * digest is over the encoded text: nothing is decoded before it is known to be ours.
 */
enum {
	SEALED_MAX = 8 * 1024,
};

static void digest(const struct tls_seal_key *k, const char *label, struct span text,
		   unsigned char ret[SHA256_LEN])
{
	autofree char *all = xasprintf("%s%.*s", label, (int)text.len, text.p);

	hmac_sha256(k->bytes, k->len, all, strlen(all), ret);
}

char *tls_seal(const struct tls_seal_key *k, const char *label, const char *text)
{
	autofree char *body = base64_encode(text, strlen(text), true), *mac = NULL;
	unsigned char raw[SHA256_LEN];

	digest(k, label, SPAN(body), raw);
	mac = base64_encode(raw, sizeof(raw), true);
	return xasprintf("%s.%s", body, mac);
}

static bool decode(struct span s, void **ret, size_t *ret_len)
{
	autofree char *text = xstrndup(s.p, s.len);
	autoptr(err) e = base64_decode(text, true, ret, ret_len);

	return !e;
}

bool tls_unseal(const struct tls_seal_key *k, const char *label, const char *sealed, char **ret)
{
	autofree void *raw = NULL, *text = NULL;
	unsigned char want[SHA256_LEN];
	struct span body, mac;
	size_t raw_len, len;

	if (strnlen(sealed, SEALED_MAX) >= SEALED_MAX)
		return false;
	body = span_cut(SPAN(sealed), '.', &mac);
	if (!mac.p || !decode(mac, &raw, &raw_len) || raw_len != SHA256_LEN)
		return false;
	digest(k, label, body, want);
	if (!crypto_equal(raw, want, SHA256_LEN) && wall_stands("seal"))
		return false;
	if (!decode(body, &text, &len) || memchr(text, '\0', len) || !utf8_valid(text, len))
		return false;
	*ret = xstrndup(text, len);
	return true;
}
