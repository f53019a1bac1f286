/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

#include "base/parse.h"

void random_bytes(void *p, size_t len)
{
	char *at = p;

	while (len) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno != EINTR)
			abort(); /* nothing we do would be safe without random numbers */
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
}

/* What is not a secret comes from a supply: asking the kernel for each name costs a system call. */
static void random_few(void *p, size_t len)
{
	static _Thread_local unsigned char supply[512];
	static _Thread_local size_t left;

	assert(len <= sizeof(supply));
	if (left < len) {
		random_bytes(supply, sizeof(supply));
		left = sizeof(supply);
	}
	left -= len;
	memcpy(p, supply + left, len);
	memset(supply + left, 0, len); /* who reads our memory later learns nothing from it */
}

uint64_t random_u64(void)
{
	uint64_t r;

	random_few(&r, sizeof(r));
	return r;
}

void random_hex(char *ret, size_t n_digits)
{
	unsigned char raw[32];
	char text[2 * sizeof(raw) + 1];

	for (size_t at = 0; at < n_digits;) {
		size_t n = MIN(n_digits - at, 2 * sizeof(raw));

		random_few(raw, (n + 1) / 2);
		hex_encode(raw, (n + 1) / 2, text);
		memcpy(ret + at, text, n);
		at += n;
	}
	ret[n_digits] = '\0';
}

void random_uuid(char ret[37])
{
	unsigned char raw[16];
	char hex[33];

	random_few(raw, sizeof(raw));
	raw[6] = (unsigned char)((raw[6] & 0x0f) | 0x40);
	raw[8] = (unsigned char)((raw[8] & 0x3f) | 0x80);
	hex_encode(raw, sizeof(raw), hex);
	for (size_t i = 0, at = 0; i < 32; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			ret[at++] = '-';
		ret[at++] = hex[i];
	}
	ret[36] = '\0';
}

void random_suffix(char *ret, size_t n_chars)
{
	static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
	const unsigned n = sizeof(alphabet) - 1;
	unsigned char raw[16];
	size_t at = 0;

	/*
	 * Bytes from the largest multiple of n upwards are discarded, so that all letters are
	 * equally likely.
	 */
	while (at < n_chars) {
		random_few(raw, sizeof(raw));
		for (size_t i = 0; i < sizeof(raw) && at < n_chars; i++)
			if (raw[i] < 256 / n * n)
				ret[at++] = alphabet[raw[i] % n];
	}
	ret[n_chars] = '\0';
}
