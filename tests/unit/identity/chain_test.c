/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/macros.h"
#include "base/parse.h"
#include "base/str.h"
#include "identity/token.h"
#include "json/json.h"
#include "test.h"

/* Chains: what narrowing takes away, and that nothing brings it back. */
enum {
	NOW = 1800000000,
	CHAINS = 10000,
	GROWING = 16, /* chains that are being made */
	PARTS_MAX = 32,
};
#define AUDIENCE "cay:instance:here"

static char *mint(const struct ed25519 *key)
{
	const struct identity_claims c = { .ns = "team",
					   .agent = "coder",
					   .key_name = "main",
					   .audience = AUDIENCE,
					   .now_s = NOW,
					   .ttl_s = 300 };
	char *token = NULL;

	works(identity_mint(key, &c, &token));
	return token;
}

static struct err *try_narrow(const char *token, const char *block, bool sealed, char **ret)
{
	autoptr(json_doc) d = NULL;

	if (!block)
		return identity_narrow(token, NULL, sealed, ret);
	works(json_parse(block, strlen(block), NULL, &d));
	return identity_narrow(token, json_root(d), sealed, ret);
}

static char *narrow(const char *token, const char *block, bool sealed)
{
	char *ret = NULL;

	works(try_narrow(token, block, sealed, &ret));
	return ret;
}

static bool holds(const struct ed25519 *key, const char *text)
{
	autoptr(identity_token) t = NULL;
	unsigned char pub[ED25519_KEY_LEN];
	autoptr(err) e = identity_token_read(text, &t);

	if (e)
		return false;
	ed25519_public(key, pub);
	e = identity_token_check(t, AUDIENCE, NOW);
	return !e && identity_token_verifies(t, pub);
}

TEST(each_block_takes_away)
{
	autoptr(ed25519) key = ed25519_new();
	autofree char *a = mint(key), *b = narrow(a, "{\"rights\":[\"read\",\"exec\"]}", false);
	autofree char *c =
		narrow(b, "{\"rights\":[\"read\",\"lifecycle\"],\"sandbox\":\"box\"}", false);
	autofree char *d = narrow(c, "{\"exp\":1800000060,\"tools\":[\"ls\"]}", true);
	autoptr(identity_token) t = NULL;

	is_true(holds(key, a) && holds(key, b) && holds(key, c) && holds(key, d));
	works(identity_token_read(d, &t));
	eq_int(t->n_blocks, 4);
	is_true(t->sealed);
	eq_int(t->grant.capabilities.rights, 1 << RIGHT_READ);
	eq_str(t->grant.sandbox, "box");
	eq_str(t->grant.ns, "team");
	eq_int(t->grant.expires, NOW + 60);
	is_true(capabilities_list_has(t->grant.capabilities.tools, "ls"));
	is_false(capabilities_list_has(t->grant.capabilities.tools, "rm"));
	works(identity_token_check(t, AUDIENCE, NOW + 59));
	fails(identity_token_check(t, AUDIENCE, NOW + 60), ERR_UNAUTHENTICATED);
}

TEST(a_later_end_extends_nothing)
{
	autoptr(ed25519) key = ed25519_new();
	autofree char *a = mint(key), *b = narrow(a, "{\"exp\":1900000000}", false);
	autoptr(identity_token) t = NULL;

	works(identity_token_read(b, &t));
	eq_int(t->grant.expires, NOW + 300);
}

TEST(what_is_sealed_or_full_cannot_be_narrowed)
{
	autoptr(ed25519) key = ed25519_new();
	autofree char *sealed = NULL, *token = mint(key), *ret = NULL;
	autobuf big = { 0 };

	sealed = narrow(token, NULL, true);
	is_true(holds(key, sealed));
	fails(try_narrow(sealed, "{}", false, &ret), ERR_INVALID);
	fails(try_narrow("a.b.c", "{}", false, &ret), ERR_INVALID);
	fails(try_narrow(token, "{\"rights\":[\"root\"]}", false, &ret), ERR_INVALID);
	fails(try_narrow(token, "{\"x\":1}", false, &ret), ERR_INVALID);
	buf_add_str(&big, "{\"tools\":[\"");
	for (int i = 0; i < 6000; i++)
		buf_add_char(&big, 'x');
	buf_add_str(&big, "\"]}");
	fails(try_narrow(token, buf_str(&big), false, &ret), ERR_INVALID);
	for (int i = 1; i < IDENTITY_BLOCKS_MAX; i++) {
		char *next = narrow(token, "{}", false);

		free(token);
		token = next;
	}
	is_true(holds(key, token));
	fails(try_narrow(token, "{}", false, &ret), ERR_INVALID);
	free(sealed);
	sealed = narrow(token, NULL, true);
	is_true(holds(key, sealed));
}

/* The parts of a token, changed and put together again. */
struct pieces {
	struct span all[PARTS_MAX];
	size_t n;
};

static struct pieces cut(const char *token)
{
	struct pieces p = { 0 };
	struct span rest = SPAN(token);

	while (rest.p && p.n < PARTS_MAX)
		p.all[p.n++] = span_cut(rest, '.', &rest);
	return p;
}

static char *join(const struct pieces *p)
{
	autobuf b = { 0 };

	for (size_t i = 0; i < p->n; i++) {
		if (i)
			buf_add_char(&b, '.');
		buf_add(&b, p->all[i].p, p->all[i].len);
	}
	return buf_steal(&b, NULL);
}

/* Without n parts from that of number `at` on. */
static char *without(const char *token, size_t at, size_t n)
{
	struct pieces p = cut(token);

	memmove(p.all + at, p.all + at + n, (p.n - at - n) * sizeof(*p.all));
	p.n -= n;
	return join(&p);
}

/* A cut chain: whoever was given the narrow one has neither an earlier key nor a signature by it.
 */
TEST(a_chain_that_was_cut_is_no_token)
{
	autoptr(ed25519) key = ed25519_new();
	autoptr(ed25519) mine = ed25519_new();
	autofree char *a = mint(key), *b = narrow(a, "{\"rights\":[\"read\"]}", false);
	autofree char *sealed = narrow(b, NULL, true), *cut_open = without(b, 4, 2);
	autofree char *cut_sealed = without(sealed, 4, 2), *no_proof = without(cut_open, 4, 1);
	autofree char *jwt = without(no_proof, 0, 1), *forged = NULL, *seed = NULL;
	unsigned char raw[ED25519_KEY_LEN];

	is_true(holds(key, b) && holds(key, sealed));
	is_false(holds(key, cut_open));
	is_false(holds(key, cut_sealed));
	is_false(holds(key, no_proof));
	is_false(holds(key, jwt));
	ed25519_seed(mine, raw);
	seed = base64_encode(raw, sizeof(raw), true);
	forged = xasprintf("%s.%s", no_proof, seed);
	is_false(holds(key, forged));
}

/* Random chains, by a generator that is the same in every run. */
static uint64_t state = 20260101;

static unsigned dice(unsigned sides)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % sides;
}

static void add_list(struct buf *b, const char *name, const char *const *words, unsigned n)
{
	const char *comma = "";

	buf_printf(b, "%s\"%s\":[", b->len > 1 ? "," : "", name);
	for (unsigned i = 0; i < n; i++)
		if (dice(2)) {
			buf_printf(b, "%s%s", comma, words[i]);
			comma = ",";
		}
	buf_add_char(b, ']');
}

static char *random_block(void)
{
	static const char *const rights[] = { "\"exec\"", "\"read\"", "\"write\"", "\"ports\"",
					      "\"lifecycle\"" };
	static const char *const names[] = { "\"a*\"", "\"*b\"", "\"ab\"", "\"*\"", "\"c\"" };
	static const char *const places[] = {
		"{\"host\":\"*\"}",
		"{\"host\":\"*.example.org\",\"ports\":[80,443]}",
		"{\"host\":\"a.example.org\",\"methods\":[\"GET\"]}",
		"{\"host\":\"b.org\",\"paths\":[\"/x*\"],\"methods\":[\"GET\",\"POST\"]}",
	};
	static const char *const boxes[] = { "box", "other", "" };
	autobuf b = { 0 };

	buf_add_char(&b, '{');
	if (dice(2))
		add_list(&b, "rights", rights, ARRAY_LEN(rights));
	if (dice(2))
		add_list(&b, "tools", names, ARRAY_LEN(names));
	if (dice(3) == 0)
		add_list(&b, "credentials", names, ARRAY_LEN(names));
	if (dice(2))
		add_list(&b, "egress", places, ARRAY_LEN(places));
	if (dice(3) == 0)
		buf_printf(&b, "%s\"sandbox\":\"%s\"", b.len > 1 ? "," : "",
			   boxes[dice(ARRAY_LEN(boxes))]);
	if (dice(3) == 0)
		buf_printf(&b, "%s\"exp\":%u", b.len > 1 ? "," : "", NOW + 1 + dice(600));
	buf_add_char(&b, '}');
	return buf_steal(&b, NULL);
}

/* One of the chains that are being made gets a block; one that is full begins anew. A copy may be
 * sealed. */
static char *random_chain(const struct ed25519 *key, char *growing[GROWING])
{
	char **one = &growing[dice(GROWING)], *next = NULL;
	autofree char *block = random_block();
	autoptr(err) e = *one ? try_narrow(*one, block, false, &next) : NULL;

	if (!next)
		next = mint(key);
	free(*one);
	*one = next;
	return dice(2) ? narrow(next, NULL, true) : xstrdup(next);
}

static void check_shrinking(const struct ed25519 *key, const char *token)
{
	autoptr(identity_token) t = NULL;
	unsigned char pub[ED25519_KEY_LEN];

	ed25519_public(key, pub);
	works(identity_token_read(token, &t));
	is_true(identity_token_verifies(t, pub));
	for (size_t i = 0; i < t->n_blocks; i++)
		is_true(identity_grant_contains(&t->grants[i], &t->grant));
}

/* Drops, repeats, moves or edits something of the blocks: parts 1 to 3 are the agent's, then two
 * for each block, then the proof. */
static char *damage(const char *token)
{
	struct pieces p = cut(token);
	size_t n_blocks = (p.n - 5) / 2, i, j;
	struct span one[2];
	char *text;

	if (n_blocks && dice(4) == 0)
		return without(token, 4 + 2 * (size_t)dice((unsigned)n_blocks), 2);
	if (n_blocks && dice(3) == 0) {
		i = 4 + 2 * (size_t)dice((unsigned)n_blocks);
		memmove(p.all + i + 2, p.all + i, (p.n - i) * sizeof(*p.all));
		p.n += 2;
		return join(&p);
	}
	if (n_blocks > 1 && dice(2)) {
		i = 4 + 2 * (size_t)dice((unsigned)n_blocks);
		j = 4 + (i - 4 + 2 + 2 * (size_t)dice((unsigned)n_blocks - 1)) % (2 * n_blocks);
		memcpy(one, p.all + i, sizeof(one));
		memcpy(p.all + i, p.all + j, sizeof(one));
		memcpy(p.all + j, one, sizeof(one));
		return join(&p);
	}
	text = xstrdup(token);
	i = 5 + dice((unsigned)strlen(text) - 5);
	text[i] = text[i] == 'A' ? 'B' : 'A';
	return text;
}

TEST(of_ten_thousand_chains_none_grows_and_none_survives_a_change)
{
	autoptr(ed25519) key = ed25519_new();
	char *growing[GROWING] = { NULL };

	for (int i = 0; i < CHAINS; i++) {
		autofree char *token = random_chain(key, growing), *broken = damage(token);

		check_shrinking(key, token);
		is_false(holds(key, broken));
	}
	for (size_t i = 0; i < GROWING; i++)
		free(growing[i]);
}
