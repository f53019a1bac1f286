/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct stream;
struct tls_pair;

/*
 * TLS streams over OpenSSL, certificates and signed tokens. This folder knows nothing about HTTP or
 * Kubernetes.
 */

/* Contexts are reference-counted: connections keep theirs alive. TLS 1.2 and 1.3, ALPN http/1.1
 * and, for servers that ask for it, h2. */
struct tls_ctx;
struct tls_server_spec {
	const char *cert_pem, *key_pem; /* chain and key, as text */
	const char *client_ca_pem;      /* NULL: do not ask for client certificates */
	bool http2;                     /* offer h2, before http/1.1 */
	/*
	 * Not NULL: a client that asks for A.B.domain gets a certificate for *.B.domain, signed by
	 * this CA when it is first needed, with the key above. Both are copied.
	 */
	const struct tls_pair *names_ca;
	const char *names_domain;
};
must_use struct err *tls_server_ctx(const struct tls_server_spec *spec, struct tls_ctx **ret);
struct tls_client_spec {
	const char *ca_pem;             /* NULL: the system's */
	const char *cert_pem, *key_pem; /* NULL: none */
	bool insecure;                  /* no verification: only if the user asked for it */
};
must_use struct err *tls_client_ctx(const struct tls_client_spec *spec, struct tls_ctx **ret);
struct tls_ctx *tls_ctx_ref(struct tls_ctx *c);
void tls_ctx_unref(struct tls_ctx *c);
AUTOREF(tls_ctx)

/*
 * These take ownership of fd. The handshake happens in threads of the loop that a connection gives
 * the stream to; until it is over, nothing can be read or written. server_name is for SNI and
 * verification.
 */
struct stream *tls_accept(struct tls_ctx *c, int fd);
struct stream *tls_connect(struct tls_ctx *c, int fd, const char *server_name);

/* Who the peer is: the CN and all O of its certificate. At least one of name and alt is there. */
struct tls_peer {
	char *name; /* NULL: it has none */
	char *alt;  /* the first SPIFFE ID among its names, else the first DNS name; NULL: none */
	char **groups;
	size_t n_groups;
	int64_t expires; /* seconds since 1970 */
};
/* NULL unless it sent a certificate that is verified and has not expired. The stream keeps it. */
const struct tls_peer *tls_peer_of(const struct stream *s);
/*
 * True if a certificate was sent but does not verify against client_ca: requests with it are
 * unauthenticated.
 */
bool tls_peer_rejected(const struct stream *s);

/* Certificates: ECDSA P-256, PEM text, malloc'd. */
struct tls_pair {
	char *cert_pem, *key_pem;
};
void tls_pair_done(struct tls_pair *p);
must_use struct err *tls_make_ca(const char *common_name, usec valid_for, struct tls_pair *ret);
struct tls_cert_spec {
	const char *common_name;
	const char *const *organizations; /* NULL-terminated or NULL */
	const char *const *sans;          /* "127.0.0.1", "localhost": NULL-terminated or NULL */
	bool server, client;
	usec valid_for;
};
must_use struct err *tls_make_cert(const struct tls_pair *ca, const struct tls_cert_spec *spec,
				   struct tls_pair *ret);
must_use struct err *tls_cert_expiry(const char *cert_pem, usec *ret);
/* The SHA-256 of its public key, as it stands in the certificate. */
must_use struct err *tls_cert_key_id(const char *cert_pem, unsigned char ret[32]);

/*
 * Tokens: JWT signed with ES256 by a key from crypto/crypto.h. claims is JSON text; kid goes into
 * the header.
 */
must_use struct err *tls_token_sign(const char *key_pem, const char *claims, char **ret);
/* With "typ":"JWT" in the header: for others to check, with tls_token_keys(). To tls_token_verify()
 * it is no token. */
must_use struct err *tls_token_sign_for_others(const char *key_pem, const char *claims, char **ret);
/*
 * Returns the claims if the signature is valid, otherwise ERR_UNAUTHENTICATED. Checking times and
 * audiences is up to the caller.
 */
must_use struct err *tls_token_verify(const char *key_pem, const char *token, char **ret_claims);
/* The public half of the key as a JSON Web Key Set (RFC 7517), malloc'd. */
must_use struct err *tls_token_keys(const char *key_pem, char **ret);

/*
 * Sealed text: anybody can read it, but only who has the key can make it. The label says what it is
 * for: what was sealed under one opens under no other.
 */
struct tls_seal_key {
	const void *bytes;
	size_t len;
};
char *tls_seal(const struct tls_seal_key *k, const char *label, const char *text); /* malloc'd */
/* False unless it was sealed with this key and label. *ret is malloc'd UTF-8. */
bool tls_unseal(const struct tls_seal_key *k, const char *label, const char *sealed, char **ret);
