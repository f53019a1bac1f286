/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Include after the library's headers: our macro names are theirs too. */
#include <openssl/ssl.h>

#include "crypto/openssl.h"

struct tls_ctx;

AUTO_OSSL(SSL_CTX, SSL_CTX_free)

must_use struct err *tls_read_cert(const char *pem, X509 **ret); /* the first in it */
SSL_CTX *tls_ctx_ssl(struct tls_ctx *c);
