/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Include after the library's headers: our macro names are theirs too. */
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/err.h"

/* What OpenSSL's types need to be released by scopes. */
#define AUTO_OSSL(type, fn)                            \
	static inline void type##_auto_done_(type **p) \
	{                                              \
		fn(*p);                                \
	}
#define auto_ossl(type) __attribute__((cleanup(type##_auto_done_))) type *
AUTO_OSSL(BIO, BIO_free_all)
AUTO_OSSL(EVP_MD_CTX, EVP_MD_CTX_free)
AUTO_OSSL(EVP_PKEY, EVP_PKEY_free)
AUTO_OSSL(SSL_CTX, SSL_CTX_free)
AUTO_OSSL(X509, X509_free)

/* "doing: what OpenSSL says"; empties its queue of errors. */
must_use struct err *tls_err(enum err_code code, const char *doing);
must_use struct err *tls_read_cert(const char *pem, X509 **ret); /* the first in it */
must_use struct err *tls_read_key(const char *pem, EVP_PKEY **ret);
BIO *tls_text(const char *pem); /* reads from pem, which must stay */
char *tls_bio_steal(BIO *b);    /* what was written to a memory BIO, malloc'd */
SSL_CTX *tls_ctx_ssl(struct tls_ctx *c);
