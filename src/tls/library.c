/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/core.h>
#include <openssl/core_dispatch.h>
#include <openssl/provider.h>
#include <openssl/ssl.h>
#include <pthread.h>

#include "base/mem.h"
#include "base/str.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * OpenSSL's algorithms as TLS needs them. To decode the public key of a certificate, OpenSSL 3.0
 * asks all decoders in turn, and looks at all algorithms for the kinds of keys: a fifth of a
 * handshake. So TLS has a library context of its own, whose only provider lends the algorithms of
 * OpenSSL's own one, but few decoders and few ciphers.
 */
enum {
	LENT_MAX = 32,
};

static OSSL_PROVIDER *whole; /* where the algorithms come from */

/* Public keys as certificates have them; private keys are read in OpenSSL's own context. */
static bool lends_decoder(const OSSL_ALGORITHM *a)
{
	static const char *const keys[] = { "EC", "RSA", "RSA-PSS", "ED25519", "ED448" };

	if (!strstr(a->property_definition, "structure=SubjectPublicKeyInfo"))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_eq(a->algorithm_names, keys[i]))
			return true;
	return false;
}

/* Of the suites of TLS 1.2 and 1.3. */
static bool lends_cipher(const OSSL_ALGORITHM *a)
{
	static const char *const ciphers[] = {
		"AES-128-GCM:",     "AES-256-GCM:",     "AES-128-CBC:",
		"AES-256-CBC:",     "AES-128-CCM:",     "AES-256-CCM:",
		"AES-128-CBC-HMAC", "AES-256-CBC-HMAC", "ChaCha20-Poly1305",
	};

	for (size_t i = 0; i < ARRAY_LEN(ciphers); i++)
		if (str_starts(a->algorithm_names, ciphers[i]))
			return true;
	return false;
}

/* The algorithms that pass, with an end like that of the whole list. */
static const OSSL_ALGORITHM *pick(const OSSL_ALGORITHM *all, OSSL_ALGORITHM *ret,
				  bool (*lends)(const OSSL_ALGORITHM *a))
{
	size_t n = 0;

	for (const OSSL_ALGORITHM *a = all; a && a->algorithm_names; a++) {
		if (!lends(a))
			continue;
		if (n + 1 == LENT_MAX)
			return all; /* not what we know: slow is better than incomplete */
		ret[n++] = *a;
	}
	ret[n] = (OSSL_ALGORITHM){ 0 };
	return n ? ret : all;
}

/* OpenSSL asks once for each operation, under a lock. */
static const OSSL_ALGORITHM *on_query(unused void *provider, int operation, int *no_store)
{
	static OSSL_ALGORITHM decoders[LENT_MAX], ciphers[LENT_MAX];
	const OSSL_ALGORITHM *all = OSSL_PROVIDER_query_operation(whole, operation, no_store);

	switch (operation) {
	case OSSL_OP_DECODER:
		return pick(all, decoders, lends_decoder);
	case OSSL_OP_CIPHER:
		return pick(all, ciphers, lends_cipher);
	case OSSL_OP_ENCODER:
	case OSSL_OP_STORE:
		return NULL;
	default:
		return all;
	}
}

static int on_capabilities(unused void *provider, const char *capability, OSSL_CALLBACK *fn,
			   void *arg)
{
	return OSSL_PROVIDER_get_capabilities(whole, capability, fn, arg);
}

static int on_load(unused const OSSL_CORE_HANDLE *core, unused const OSSL_DISPATCH *in,
		   const OSSL_DISPATCH **out, void **ret)
{
	static const OSSL_DISPATCH functions[] = {
		{ OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))on_query },
		{ OSSL_FUNC_PROVIDER_GET_CAPABILITIES, (void (*)(void))on_capabilities },
		{ 0, NULL },
	};

	*out = functions;
	*ret = OSSL_PROVIDER_get0_provider_ctx(whole); /* which the algorithms are given */
	return 1;
}

static OSSL_LIB_CTX *library;

/* What cannot be made is left out: TLS works with OpenSSL's own context too. */
static void library_make(void)
{
	OSSL_LIB_CTX *c = OSSL_LIB_CTX_new();

	whole = OSSL_PROVIDER_load(NULL, "default");
	if (c && whole && OSSL_PROVIDER_add_builtin(c, "lent", on_load) == 1 &&
	    OSSL_PROVIDER_load(c, "lent"))
		library = c;
	else
		OSSL_LIB_CTX_free(c);
}

OSSL_LIB_CTX *tls_library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, library_make);
	return library;
}
