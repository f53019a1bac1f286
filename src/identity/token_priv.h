/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "identity/token.h"
#include "json/json.h"

/* What the signatures of a token are made over. */
#define BLOCK_LABEL  "block "
#define SEALED_LABEL "sealed "

/* One block: what was signed, as a length of the token's text, by which key, and the next key. */
struct token_link {
	size_t start, len; /* of the text that the signature is over */
	unsigned char signature[ED25519_SIGNATURE_LEN];
	unsigned char next[ED25519_KEY_LEN]; /* of chains: the public key for the next block */
};

struct token_parts {
	struct arena *arena;
	struct json_doc *docs[IDENTITY_BLOCKS_MAX + 1]; /* of the head, then of each block */
	char *text;
	struct token_link links[IDENTITY_BLOCKS_MAX];
	size_t body_len; /* of the text without the proof */
	/* The seed of the last key, or a signature by it. */
	unsigned char proof[ED25519_SIGNATURE_LEN];
};

/* A signature over label and text. */
void token_sign(const struct ed25519 *k, const char *label, struct span text,
		unsigned char ret[ED25519_SIGNATURE_LEN]);
