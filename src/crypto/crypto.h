/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"

/* Digests, keys and signatures over libcrypto. Any thread may call any of these functions. */
enum {
	SHA1_LEN = 20,
	SHA256_LEN = 32,
	DIGEST_TEXT_LEN = 7 + 2 * SHA256_LEN + 1, /* "sha256:…" with its NUL */
};

/* Only for the WebSocket handshake, which requires it. It protects nothing. */
void sha1(const void *p, size_t len, unsigned char ret[SHA1_LEN]);
void sha256(const void *p, size_t len, unsigned char ret[SHA256_LEN]);

/* The same, piece by piece. */
struct sha256;
struct sha256 *sha256_new(void);
void sha256_free(struct sha256 *s);
AUTOPTR(sha256)
void sha256_add(struct sha256 *s, const void *p, size_t len);
/* Finishes the digest: nothing can be added afterwards. */
void sha256_end(struct sha256 *s, unsigned char ret[SHA256_LEN]);
/* "sha256:…", the form in which images name digests. */
void sha256_end_text(struct sha256 *s, char ret[DIGEST_TEXT_LEN]);

/* HMAC with SHA-256 (RFC 2104). */
void hmac_sha256(const void *key, size_t key_len, const void *p, size_t len,
		 unsigned char ret[SHA256_LEN]);
/* Whether both are the same, in a time that does not depend on where they differ. */
bool crypto_equal(const void *a, const void *b, size_t len);

enum {
	POINT_LEN = 64,     /* x and y of a public key, 32 bytes each */
	SIGNATURE_LEN = 64, /* r and s, 32 bytes each, as in JOSE */
};

/* A P-256 key that signs and verifies, or only verifies if it was read from a public key. */
struct signing_key;

must_use struct err *signing_key_make(char **ret_pem); /* a new private key, malloc'd */
must_use struct err *signing_key_read(const char *pem, struct signing_key **ret);
void signing_key_free(struct signing_key *k);
AUTOPTR(signing_key)

/* The digest of the public key, which is the same for both halves of a pair. */
void signing_key_id(const struct signing_key *k, unsigned char ret[SHA256_LEN]);
/* The public key, x and y. */
void signing_key_point(const struct signing_key *k, unsigned char ret[POINT_LEN]);

/* ECDSA over SHA-256. */
must_use struct err *signing_key_sign(struct signing_key *k, const void *p, size_t len,
				      unsigned char ret[SIGNATURE_LEN]);
bool signing_key_verifies(struct signing_key *k, const void *p, size_t len,
			  const unsigned char signature[SIGNATURE_LEN]);

enum {
	ED25519_KEY_LEN = 32, /* of a public key, and of the seed that is the private one */
	ED25519_SIGNATURE_LEN = 64,
};

/* An Ed25519 key that signs. */
struct ed25519;

struct ed25519 *ed25519_new(void); /* a new pair */
struct ed25519 *ed25519_from_seed(const unsigned char seed[ED25519_KEY_LEN]);
/* ERR_INVALID: it is not a private Ed25519 key. */
must_use struct err *ed25519_read(const char *pem, struct ed25519 **ret);
char *ed25519_pem(const struct ed25519 *k); /* the private key, malloc'd */
void ed25519_free(struct ed25519 *k);
AUTOPTR(ed25519)

void ed25519_seed(const struct ed25519 *k, unsigned char ret[ED25519_KEY_LEN]);
void ed25519_public(const struct ed25519 *k, unsigned char ret[ED25519_KEY_LEN]);
void ed25519_sign(const struct ed25519 *k, const void *p, size_t len,
		  unsigned char ret[ED25519_SIGNATURE_LEN]);
/* False also for the few public keys under which anybody can sign. */
bool ed25519_verifies(const unsigned char key[ED25519_KEY_LEN], const void *p, size_t len,
		      const unsigned char signature[ED25519_SIGNATURE_LEN]);
