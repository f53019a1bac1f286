/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/str.h"
#include "identity/token.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const unsigned char seed[ED25519_KEY_LEN] = "the key of the agent that fuzzes";

/* Nobody guesses the agent's key, so whatever reads as a token is signed by somebody else. */
static void read_token(const char *text, const unsigned char key[ED25519_KEY_LEN])
{
	autoptr(identity_token) t = NULL;
	autoptr(err) e = identity_token_read(text, &t);

	if (e)
		return;
	if (!identity_token_looks_so(text) || !*t->ns || !*t->agent || !t->n_blocks)
		abort();
	for (size_t i = 0; i < t->n_blocks; i++)
		if (!identity_grant_contains(&t->grants[i], &t->grant))
			abort();
	err_free(identity_token_check(t, "cay:instance:fuzz", t->issued));
	if (identity_token_verifies(t, key))
		abort();
}

/* Bytes as a block of a token that is fine: it narrows, or is refused. */
static void add_block(const struct ed25519 *agent, const char *text,
		      const unsigned char key[ED25519_KEY_LEN])
{
	const struct identity_claims c = {
		.ns = "n", .agent = "a", .audience = "x", .now_s = 1, .ttl_s = 1
	};
	autofree char *token = NULL, *narrow = NULL;
	autoptr(identity_token) t = NULL;
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(text, strlen(text), NULL, &d);

	if (e || !json_is(json_root(d), JSON_OBJ))
		return;
	if (identity_mint(agent, &c, &token))
		abort();
	e = identity_narrow(token, json_root(d), false, &narrow);
	if (e)
		return;
	if (identity_token_read(narrow, &t) || !identity_token_verifies(t, key) ||
	    !identity_grant_contains(&t->grants[0], &t->grant))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *text = xstrndup((const char *)data, len);
	autoptr(ed25519) agent = ed25519_from_seed(seed);
	unsigned char key[ED25519_KEY_LEN];

	ed25519_public(agent, key);
	read_token(text, key);
	add_block(agent, text, key);
	return 0;
}
