/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/str.h"
#include "router/callers/pass.h"
#include "router/route/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct tls_seal_key key = { "fuzz", 4 };

/* Claims that were sealed with our own key, and must survive being sealed again. */
static void read_claims(const char *text)
{
	autofree char *sealed = tls_seal(&key, "cay/signed-url/v1.", text), *again = NULL;
	autofree char *whole = xasprintf("u1.%s", sealed);
	struct pass p, q;

	if (!pass_open(&key, PASS_URL, whole, &p))
		return;
	if (!*p.ns || !*p.id || !*p.uid || !p.port)
		abort();
	again = pass_seal(&key, PASS_URL, &p);
	if (!pass_open(&key, PASS_URL, again, &q) || !str_eq(p.path, q.path) || p.port != q.port ||
	    p.expires != q.expires)
		abort();
}

/* Whatever is sent as a pass is none: nobody guesses the key. What is sealed may say anything. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *text = xstrndup((const char *)data, len);
	struct pass p;

	for (int kind = 0; kind < PASS_KIND_MAX_; kind++)
		if (pass_open(&key, (enum pass_kind)kind, text, &p))
			abort();
	read_claims(text);
	return 0;
}
