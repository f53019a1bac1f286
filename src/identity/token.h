/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crypto/crypto.h"
#include "identity/grant.h"

/*
 * Tokens that an agent signs itself. Nothing here does I/O or looks at a clock, and nothing is
 * known of stored agents: whoever asks supplies their keys, the audience and the time.
 */
#define IDENTITY_CHAIN "cay1." /* what a token that can be narrowed, or was, begins with */
enum {
	IDENTITY_TOKEN_MAX = 8192,
	IDENTITY_BLOCKS_MAX = 8, /* the agent's own among them */
	IDENTITY_TTL_MAX_S = 300,
	IDENTITY_SKEW_S = 30, /* by so much the clock of an agent may be ahead */
};

/* A token as it reads. Nothing in it is true before it was checked and its signatures verified. */
struct identity_token {
	const char *ns, *agent; /* the subject */
	const char *key_name;   /* "": not named */
	const char *audience, *id;
	int64_t issued, not_before, expires; /* of the agent's own block */
	bool chained;                        /* it begins with IDENTITY_CHAIN */
	bool sealed;                         /* nobody can narrow it any further */
	size_t n_blocks;
	const struct json *blocks[IDENTITY_BLOCKS_MAX];    /* [0]: the claims */
	struct identity_grant grants[IDENTITY_BLOCKS_MAX]; /* of the chain as far as each block */
	struct identity_grant grant;                       /* of the whole */
	struct token_parts *parts;                         /* private to identity/ */
};
/* ERR_UNAUTHENTICATED: it is no such token. */
must_use struct err *identity_token_read(const char *text, struct identity_token **ret);
void identity_token_free(struct identity_token *t);
AUTOPTR(identity_token)

/* By its form, it should be one; others are for somebody else to read. */
bool identity_token_looks_so(const char *text);
/* Whether it is for this audience, now. ERR_UNAUTHENTICATED says what is wrong. */
must_use struct err *identity_token_check(const struct identity_token *t, const char *audience,
					  int64_t now_s);
/* Its agent has this public key, and every block was added by whoever held the one before. */
bool identity_token_verifies(const struct identity_token *t,
			     const unsigned char key[ED25519_KEY_LEN]);

/* What an agent says of itself. */
struct identity_claims {
	const char *ns, *agent;
	const char *key_name; /* NULL: the agent's keys are tried */
	const char *audience;
	int64_t now_s, ttl_s;
	bool sealed; /* a plain JWT, which cannot be narrowed */
};
/* ERR_INVALID: a name or a time that no token can have. *ret is malloc'd. */
must_use struct err *identity_mint(const struct ed25519 *key, const struct identity_claims *c,
				   char **ret);
/*
 * Adds a block, which has the members of a grant; NULL adds none. sealed: nobody can add another.
 * ERR_INVALID: the block is none, the token cannot be narrowed, or the result would be too large.
 */
must_use struct err *identity_narrow(const char *token, const struct json *block, bool sealed,
				     char **ret);

/*
 * The audience of an instance: "cay:instance:" and the SHA-256 of the public key of its CA, in
 * hexadecimal. Whoever can tell the instance from another by TLS can compute it. *ret is malloc'd.
 */
char *identity_audience(const unsigned char ca_key[SHA256_LEN]);
