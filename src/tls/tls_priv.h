/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Include this after OpenSSL's own headers, which use some of our macro names. */
#include <openssl/ssl.h>

#include "base/clock.h"
#include "crypto/openssl.h"

struct stream;
struct tls_cert_spec;
struct tls_ctx;
struct tls_pair;

AUTO_OSSL(SSL_CTX, SSL_CTX_free)

must_use struct err *tls_read_cert(const char *pem, X509 **ret); /* the first certificate in pem */
usec tls_time(const ASN1_TIME *t);                               /* 0: it cannot be read */
usec tls_not_after(const X509 *x);                               /* 0 likewise */
SSL_CTX *tls_ctx_ssl(struct tls_ctx *c);

/* A certificate for a key that exists already. *ret_pem is malloc'd. */
must_use struct err *tls_make_cert_for(const struct tls_pair *ca, const struct tls_cert_spec *spec,
				       EVP_PKEY *key, char **ret_pem);
/* Signs certificates for A.B.domain as clients ask for them, all with this key. */
must_use struct err *tls_names_keep(SSL_CTX *s, const struct tls_pair *ca, const char *domain,
				    const char *key_pem);

/* Lets clients resume sessions. client_ca_pem may be NULL. */
void tls_sessions_keep(SSL_CTX *s, const char *client_ca_pem);

/* Lets certificates that were verified once be believed for a while. */
void tls_verdicts_keep(SSL_CTX *s);
size_t tls_verdicts_made(struct tls_ctx *c); /* certificates really verified; for tests */

/* What the peer's certificate says, once the handshake is over; NULL if it sent none. */
struct tls_identity;
struct tls_identity *tls_identity_of(const SSL *ssl);
void tls_identity_free(struct tls_identity *id);
const struct tls_identity *tls_stream_identity(const struct stream *s);
