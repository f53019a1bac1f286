/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/meta.h"
#include "base/parse.h"
#include "identity/token_priv.h"

/*
 * The two forms of a token. Every part is base64url without padding.
 *
 *   HEAD.CLAIMS.SIG                                  a JWT, which cannot be narrowed
 *   cay1.HEAD.CLAIMS.SIG(.BLOCK.SIG)*.PROOF          a chain
 *
 * HEAD and CLAIMS are those of a JWT, and its signature is by the agent's key. In a chain, CLAIMS
 * and each BLOCK name in "next" the public key by which the next block is signed; that signature
 * is over all of the text before it, so that no block can be left out, moved or put elsewhere.
 * PROOF shows that the chain was not cut: it is the private key that belongs to the last "next",
 * by which whoever has it can add a block, or a signature by it over the whole, after which nobody
 * can. A JWT with "next" is therefore not accepted as one: it would be a chain without its end.
 *
 * A member that is not known is refused everywhere, because it may be a limit.
 */
enum {
	PARTS_MAX = 3 + 2 * (IDENTITY_BLOCKS_MAX - 1) + 1,
	JWT_PARTS = 3,
	TEXT_MAX = 253,
	DEPTH_MAX = 8,
};
#define TIME_MAX (INT64_C(1) << 53)

static struct err *bad(const char *why)
{
	return err_new(ERR_UNAUTHENTICATED, "read token: %s", why);
}

void identity_token_free(struct identity_token *t)
{
	struct token_parts *p = t ? t->parts : NULL;

	if (!t)
		return;
	for (size_t i = 0; i < ARRAY_LEN(p->docs); i++)
		json_doc_free(p->docs[i]);
	arena_free(p->arena);
	if (p->text)
		explicit_bzero(p->text, strlen(p->text));
	explicit_bzero(p->proof, sizeof(p->proof));
	free(p->text);
	free(p);
	free(t);
}

/* Parts */

static bool decode(struct span s, void **ret, size_t *ret_len)
{
	autofree char *text = xstrndup(s.p, s.len);
	autoptr(err) e = base64_decode(text, true, ret, ret_len);

	return !e;
}

static bool decode_exactly(struct span s, void *ret, size_t len)
{
	autofree void *raw = NULL;
	size_t got = 0;

	if (!decode(s, &raw, &got) || got != len)
		return false;
	memcpy(ret, raw, len);
	explicit_bzero(raw, len);
	return true;
}

static bool decode_tree(struct span s, struct json_doc **ret)
{
	const struct json_limits limits = { .max_len = IDENTITY_TOKEN_MAX, .max_depth = DEPTH_MAX };
	autofree void *text = NULL;
	autoptr(err) e = NULL;
	size_t len;

	if (!decode(s, &text, &len))
		return false;
	e = json_parse(text, len, &limits, ret);
	return !e && json_is(json_root(*ret), JSON_OBJ);
}

static size_t split(const char *text, struct span ret[PARTS_MAX + 1])
{
	struct span rest = SPAN(text);
	size_t n = 0;

	while (rest.p && n <= PARTS_MAX)
		ret[n++] = span_cut(rest, '.', &rest);
	return n;
}

bool identity_token_looks_so(const char *text)
{
	autoptr(json_doc) d = NULL;
	struct span rest;

	if (str_starts(text, IDENTITY_CHAIN))
		return true;
	return strnlen(text, IDENTITY_TOKEN_MAX + 1) <= IDENTITY_TOKEN_MAX &&
	       decode_tree(span_cut(SPAN(text), '.', &rest), &d) &&
	       str_eq(json_get_str(json_root(d), "alg"), "EdDSA");
}

/* Members */

static bool only(const struct json *obj, const char *const *names)
{
	json_each(it, obj)
		if (!str_in(it.key, names))
			return false;
	return true;
}

/* A text of one line, of a length that a name can have. */
static const char *text_of(const struct json *v)
{
	const char *s = json_str(v);

	if (str_empty(s) || strlen(s) > TEXT_MAX)
		return NULL;
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return NULL;
	return s;
}

static bool time_of(const struct json *v, int64_t *ret)
{
	int64_t when = json_is(v, JSON_INT) ? json_int(v, -1) : -1;

	if (when < 0 || when > TIME_MAX)
		return false;
	*ret = when;
	return true;
}

static struct err *read_head(struct identity_token *t, const struct json *head)
{
	static const char *const names[] = { "alg", "typ", "kid", NULL };
	const struct json *typ = json_get(head, "typ"), *kid = json_get(head, "kid");

	if (!only(head, names) || !str_eq(json_get_str(head, "alg"), "EdDSA") ||
	    (typ && !str_eq(json_str(typ), "JWT")) || (kid && !text_of(kid)))
		return bad("the header is not that of an agent");
	t->key_name = kid ? json_str(kid) : "";
	return NULL;
}

/* cay:agent:NS:NAME */
static bool read_subject(struct identity_token *t, const char *sub)
{
	struct span name, ns;

	if (!sub || !str_starts(sub, AGENT_USER))
		return false;
	ns = span_cut(SPAN(sub + strlen(AGENT_USER)), ':', &name);
	if (!name.p)
		return false;
	t->ns = arena_strndup(t->parts->arena, ns.p, ns.len);
	t->agent = arena_strndup(t->parts->arena, name.p, name.len);
	return !meta_bad_dns_label(t->ns) && !meta_bad_dns_subdomain(t->agent);
}

static struct err *read_claims(struct identity_token *t, const struct json *c)
{
	static const char *const names[] = {
		"iss", "sub", "aud", "iat", "nbf", "exp", "jti", NULL
	};
	static const char *const chained[] = { "iss", "sub", "aud",  "iat", "nbf",
					       "exp", "jti", "next", NULL };
	const struct json *aud = json_get(c, "aud"), *nbf = json_get(c, "nbf");

	if (!only(c, t->chained ? chained : names))
		return bad("there is a claim that no such token has");
	if (json_is(aud, JSON_ARR) && json_len(aud) == 1)
		aud = json_at(aud, 0);
	t->audience = text_of(aud);
	t->id = text_of(json_get(c, "jti"));
	if (!t->audience || !t->id || !str_eq(json_get_str(c, "iss"), json_get_str(c, "sub")) ||
	    !read_subject(t, text_of(json_get(c, "sub"))))
		return bad("iss, sub, aud or jti is missing or wrong");
	if (!time_of(json_get(c, "iat"), &t->issued) || !time_of(json_get(c, "exp"), &t->expires) ||
	    (nbf && !time_of(nbf, &t->not_before)))
		return bad("iat, exp or nbf is missing or wrong");
	return NULL;
}

static struct err *read_next(struct identity_token *t, size_t i)
{
	const char *next = json_get_str(t->blocks[i], "next");

	if (!t->chained)
		return NULL;
	if (!next || !decode_exactly(SPAN(next), t->parts->links[i].next, ED25519_KEY_LEN))
		return bad("a block does not name the next key");
	return NULL;
}

/* The block of number i, in these two parts. */
static struct err *read_link(struct identity_token *t, size_t i, const struct span parts[2])
{
	struct token_parts *p = t->parts;
	struct token_link *l = &p->links[i];
	size_t end = (size_t)(parts[0].p + parts[0].len - p->text);

	/* The agent's own signature is that of a JWT, which knows nothing of chains. */
	l->start = !i && t->chained ? strlen(IDENTITY_CHAIN) : 0;
	l->len = end - l->start;
	if (!decode_exactly(parts[1], l->signature, sizeof(l->signature)))
		return bad("a signature is not 64 bytes");
	if (!decode_tree(parts[0], &p->docs[i + 1]))
		return bad("a block is not an object");
	t->blocks[i] = json_root(p->docs[i + 1]);
	return read_next(t, i);
}

static struct err *read_grants(struct identity_token *t)
{
	struct arena *a = t->parts->arena;
	struct identity_grant one, both;
	struct err *e;

	identity_grant_all(&t->grants[0]);
	t->grants[0].ns = t->ns;
	t->grants[0].expires = t->expires;
	for (size_t i = 1; i < t->n_blocks; i++) {
		e = identity_grant_read(t->blocks[i], "next", a, &one);
		if (e)
			return err_recode(err_wrap(e, "read block %zu of the token", i),
					  ERR_UNAUTHENTICATED);
		identity_grant_meet(&t->grants[i - 1], &one, a, &both);
		t->grants[i] = both;
	}
	t->grant = t->grants[t->n_blocks - 1];
	return NULL;
}

static struct err *read_proof(struct identity_token *t, struct span part)
{
	struct token_parts *p = t->parts;

	p->body_len = (size_t)(part.p - 1 - p->text);
	if (decode_exactly(part, p->proof, ED25519_SIGNATURE_LEN))
		t->sealed = true;
	else if (!decode_exactly(part, p->proof, ED25519_KEY_LEN))
		return bad("it has no proof of its end");
	return NULL;
}

static struct err *read_parts(struct identity_token *t)
{
	struct token_parts *p = t->parts;
	struct span parts[PARTS_MAX + 1];
	size_t skip = t->chained ? strlen(IDENTITY_CHAIN) : 0, n = split(p->text + skip, parts);
	struct err *e = NULL;

	if (t->chained ? n < JWT_PARTS + 1 || n > PARTS_MAX || n % 2 : n != JWT_PARTS)
		return bad("it does not have as many parts as such a token has");
	t->n_blocks = t->chained ? (n - 2) / 2 : 1;
	if (!decode_tree(parts[0], &p->docs[0]))
		return bad("the header is not an object");
	e = read_head(t, json_root(p->docs[0]));
	for (size_t i = 0; i < t->n_blocks && !e; i++)
		e = read_link(t, i, parts + 1 + 2 * i);
	if (!e)
		e = read_claims(t, t->blocks[0]);
	if (!e && t->chained)
		e = read_proof(t, parts[n - 1]);
	return e ? e : read_grants(t);
}

struct err *identity_token_read(const char *text, struct identity_token **ret)
{
	autoptr(identity_token) t = NULL;
	struct err *e;

	if (strnlen(text, IDENTITY_TOKEN_MAX + 1) > IDENTITY_TOKEN_MAX)
		return bad("it is longer than 8192 bytes");
	t = xnew(struct identity_token);
	t->parts = xnew(struct token_parts);
	t->parts->arena = arena_new();
	t->parts->text = xstrdup(text);
	t->chained = str_starts(text, IDENTITY_CHAIN);
	t->sealed = !t->chained;
	e = read_parts(t);
	if (e)
		return e;
	*ret = take(t);
	return NULL;
}

/* Verifying */

struct err *identity_token_check(const struct identity_token *t, const char *audience,
				 int64_t now_s)
{
	if (!str_eq(t->audience, audience))
		return err_new(ERR_UNAUTHENTICATED, "check token: it is for another instance");
	if (t->expires <= t->issued || t->expires - t->issued > IDENTITY_TTL_MAX_S)
		return err_new(ERR_UNAUTHENTICATED,
			       "check token: it must end within five minutes of iat");
	if (MAX(t->issued, t->not_before) > now_s + IDENTITY_SKEW_S)
		return err_new(ERR_UNAUTHENTICATED, "check token: it is not valid yet");
	if (t->grant.expires <= now_s)
		return err_new(ERR_UNAUTHENTICATED, "check token: it has expired");
	return NULL;
}

static bool verifies(const unsigned char key[ED25519_KEY_LEN], const char *label, struct span text,
		     const unsigned char signature[ED25519_SIGNATURE_LEN])
{
	autofree char *all = xasprintf("%s%.*s", label, (int)text.len, text.p);

	return ed25519_verifies(key, all, strlen(all), signature);
}

static bool proof_holds(const struct identity_token *t)
{
	const struct token_parts *p = t->parts;
	const unsigned char *last = p->links[t->n_blocks - 1].next;
	const struct span body = { p->text, p->body_len };
	autoptr(ed25519) key = NULL;
	unsigned char pub[ED25519_KEY_LEN];

	if (!t->chained)
		return true;
	if (t->sealed)
		return verifies(last, SEALED_LABEL, body, p->proof);
	key = ed25519_from_seed(p->proof);
	ed25519_public(key, pub);
	return crypto_equal(pub, last, sizeof(pub));
}

bool identity_token_verifies(const struct identity_token *t,
			     const unsigned char key[ED25519_KEY_LEN])
{
	const struct token_parts *p = t->parts;

	for (size_t i = 0; i < t->n_blocks; i++) {
		const struct token_link *l = &p->links[i];

		if (!verifies(i ? p->links[i - 1].next : key, i ? BLOCK_LABEL : "",
			      (struct span){ p->text + l->start, l->len }, l->signature))
			return false;
	}
	return proof_holds(t);
}
