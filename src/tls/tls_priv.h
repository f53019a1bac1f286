/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Include this after OpenSSL's own headers, which use some of our macro names. */
#include <openssl/ssl.h>

#include "crypto/openssl.h"

struct tls_ctx;

AUTO_OSSL(SSL_CTX, SSL_CTX_free)

must_use struct err *tls_read_cert(const char *pem, X509 **ret); /* the first certificate in pem */
SSL_CTX *tls_ctx_ssl(struct tls_ctx *c);
