/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/random.h"
#include "identity/token_priv.h"

/*
 * Making tokens, as token.c reads them. What was made is read again before it is handed out, so
 * that no token leaves that nobody would accept.
 */
void token_sign(const struct ed25519 *k, const char *label, struct span text,
		unsigned char ret[ED25519_SIGNATURE_LEN])
{
	autofree char *all = xasprintf("%s%.*s", label, (int)text.len, text.p);

	ed25519_sign(k, all, strlen(all), ret);
}

static void add_part(struct buf *out, const void *p, size_t len)
{
	autofree char *text = base64_encode(p, len, true);

	if (out->len && buf_head(out)[out->len - 1] != '.')
		buf_add_char(out, '.');
	buf_add_str(out, text);
}

static void add_tree(struct buf *out, const struct json *tree)
{
	autofree char *text = json_to_text(tree);

	add_part(out, text, strlen(text));
}

/* A signature over what out holds from `from` on. */
static void add_signature(struct buf *out, size_t from, const struct ed25519 *k, const char *label)
{
	unsigned char raw[ED25519_SIGNATURE_LEN];

	token_sign(k, label, (struct span){ buf_head(out) + from, out->len - from }, raw);
	add_part(out, raw, sizeof(raw));
}

static void add_seed(struct buf *out, const struct ed25519 *k)
{
	unsigned char seed[ED25519_KEY_LEN];

	ed25519_seed(k, seed);
	add_part(out, seed, sizeof(seed));
	explicit_bzero(seed, sizeof(seed));
}

static void set_next(struct json_doc *d, struct json *o, const struct ed25519 *k)
{
	unsigned char pub[ED25519_KEY_LEN];
	autofree char *text = NULL;

	ed25519_public(k, pub);
	text = base64_encode(pub, sizeof(pub), true);
	json_set_str(d, o, "next", text);
}

/* What was built, if it reads as a token. */
static struct err *finish(struct buf *out, char **ret)
{
	autoptr(identity_token) t = NULL;
	struct err *e = identity_token_read(buf_str(out), &t);

	if (e)
		return err_recode(e, ERR_INVALID);
	*ret = buf_steal(out, NULL);
	return NULL;
}

struct err *identity_mint(const struct ed25519 *key, const struct identity_claims *c, char **ret)
{
	autofree char *sub = xasprintf(AGENT_USER "%s:%s", c->ns, c->agent);
	autoptr(ed25519) next = c->sealed ? NULL : ed25519_new();
	autoptr(json_doc) d = json_doc_new();
	struct json *head = json_obj(d), *claims = json_obj(d);
	autobuf out = { 0 };
	char id[37];

	if (c->ttl_s < 1 || c->ttl_s > IDENTITY_TTL_MAX_S)
		return err_new(ERR_INVALID, "a token of an agent lives from 1 to %d seconds",
			       IDENTITY_TTL_MAX_S);
	json_set_str(d, head, "alg", "EdDSA");
	json_set_str(d, head, "typ", "JWT");
	json_set_str(d, head, "kid", c->key_name);
	random_uuid(id);
	json_set_str(d, claims, "iss", sub);
	json_set_str(d, claims, "sub", sub);
	json_set_str(d, claims, "aud", c->audience);
	json_set_int(d, claims, "iat", c->now_s);
	json_set_int(d, claims, "exp", c->now_s + c->ttl_s);
	json_set_str(d, claims, "jti", id);
	if (next) {
		set_next(d, claims, next);
		buf_add_str(&out, IDENTITY_CHAIN);
	}
	add_tree(&out, head);
	add_tree(&out, claims);
	add_signature(&out, next ? strlen(IDENTITY_CHAIN) : 0, key, "");
	if (next)
		add_seed(&out, next);
	return finish(&out, ret);
}

static struct err *check_narrowable(const struct identity_token *t)
{
	if (!t->chained)
		return err_new(ERR_INVALID, "a plain JWT cannot be narrowed");
	if (t->sealed)
		return err_new(ERR_INVALID, "the token is sealed: it cannot be narrowed");
	return NULL;
}

struct err *identity_narrow(const char *token, const struct json *block, bool sealed, char **ret)
{
	autoptr(identity_token) t = NULL;
	autoptr(json_doc) d = json_doc_new();
	autoptr(ed25519) last = NULL;
	autobuf out = { 0 };
	struct err *e = identity_token_read(token, &t);

	if (e)
		return err_recode(e, ERR_INVALID);
	e = check_narrowable(t);
	if (e)
		return e;
	if (block && t->n_blocks == IDENTITY_BLOCKS_MAX)
		return err_new(ERR_INVALID, "the token has %d blocks, and cannot have more",
			       IDENTITY_BLOCKS_MAX);
	last = ed25519_from_seed(t->parts->proof);
	buf_add(&out, t->parts->text, t->parts->body_len);
	if (block) {
		autoptr(ed25519) next = ed25519_new();
		struct json *tree = json_copy(d, block);

		set_next(d, tree, next);
		add_tree(&out, tree);
		add_signature(&out, 0, last, BLOCK_LABEL);
		ed25519_free(last);
		last = take(next);
	}
	if (sealed)
		add_signature(&out, 0, last, SEALED_LABEL);
	else
		add_seed(&out, last);
	return finish(&out, ret);
}

char *identity_audience(const unsigned char ca_key[SHA256_LEN])
{
	char hex[2 * SHA256_LEN + 1];

	hex_encode(ca_key, SHA256_LEN, hex);
	return xasprintf("cay:instance:%s", hex);
}
