/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "router/router_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A name that is found is short and clean, and stays the same when the bytes come in two parts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
	char name[256] = "", part[256];
	enum hello got = hello_read(data, len, name);

	if (got == HELLO_NAMED && (!*name || name[strspn(name, fine)]))
		abort();
	if (got != HELLO_MORE && got != HELLO_BAD && len &&
	    hello_read(data, len / 2, part) == HELLO_BAD)
		abort();
	if (got == HELLO_MORE && len >= HELLO_MAX)
		abort();
	return 0;
}
