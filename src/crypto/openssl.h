/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Include this after OpenSSL's own headers, which use some of our macro names. */
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/err.h"

/* The parts of OpenSSL that crypto/ and tls/ share; nobody else may include this. */

/* Lets scopes free OpenSSL's types. */
#define AUTO_OSSL(type, fn)                            \
	static inline void type##_auto_done_(type **p) \
	{                                              \
		fn(*p);                                \
	}
#define auto_ossl(type) __attribute__((cleanup(type##_auto_done_))) type *
AUTO_OSSL(BIO, BIO_free_all)
AUTO_OSSL(EVP_MD_CTX, EVP_MD_CTX_free)
AUTO_OSSL(EVP_PKEY, EVP_PKEY_free)
AUTO_OSSL(X509, X509_free)

/* "doing: OpenSSL's reason"; empties OpenSSL's error queue. */
must_use struct err *ossl_err(enum err_code code, const char *doing);
BIO *ossl_text(const char *pem); /* reads from pem, which must outlive the BIO */
char *ossl_steal(BIO *b);        /* what was written to a memory BIO, malloc'd */

/* A private key, or a public key for callers that only verify. */
must_use struct err *ossl_read_key(const char *pem, EVP_PKEY **ret);
char *ossl_key_text(EVP_PKEY *key); /* the private key as PEM, malloc'd */
