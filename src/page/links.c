/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "base/strv.h"
#include "crypto/crypto.h"
#include "page/page_priv.h"

/*
 * Links that are open, in memory alone: a restart ends them. They are found by the digest of their
 * code, so that how long a search takes says nothing about a code.
 */
enum {
	CODE_BYTES = 32,
	KEY_LEN = 2 * SHA256_LEN,
};

static void digest(const char *code, char ret[KEY_LEN + 1])
{
	unsigned char hash[SHA256_LEN];

	sha256(code, strlen(code), hash);
	hex_encode(hash, sizeof(hash), ret);
}

void link_free(struct link *k)
{
	if (!k)
		return;
	list_del(&k->on);
	free(k->user);
	strv_free(k->groups);
	free(k->key);
	free(k);
}

void links_init(struct links *l)
{
	list_init(&l->list);
	l->by_key = map_new_borrowing(NULL);
}

static void drop(struct links *l, struct link *k)
{
	(void)map_del(l->by_key, k->key);
	link_free(k);
}

void links_done(struct links *l)
{
	struct link *k, *next;

	list_each_safe(k, next, &l->list, on)
		drop(l, k);
	map_free(take(l->by_key));
}

static void expire(struct links *l, usec now)
{
	struct link *k, *next;

	list_each_safe(k, next, &l->list, on) {
		if (k->until > now)
			return; /* all live for the same time */
		drop(l, k);
	}
}

static size_t count_of(const struct links *l, const char *user)
{
	const struct link *k;
	size_t n = 0;

	list_each(k, &l->list, on)
		n += str_eq(k->user, user);
	return n;
}

static struct link *link_new(const struct page_visitor *who)
{
	struct link *k = xnew(struct link);

	list_init(&k->on);
	k->user = xstrdup(who->user);
	k->groups = strv_copy(who->groups);
	k->expires = who->expires;
	return k;
}

struct err *links_add(struct links *l, const struct page_visitor *who, usec now,
		      char ret[PAGE_CODE_LEN + 1])
{
	unsigned char bytes[CODE_BYTES];
	autofree char *code = NULL;
	char key[KEY_LEN + 1];
	struct link *k;

	expire(l, now);
	if (map_len(l->by_key) >= LINKS_MAX || count_of(l, who->user) >= LINKS_USER_MAX)
		return err_new(ERR_EXHAUSTED,
			       "too many links to the page are open; try again in a minute");
	random_bytes(bytes, sizeof(bytes));
	code = base64_encode(bytes, sizeof(bytes), true);
	digest(code, key);
	k = link_new(who);
	k->key = xstrdup(key);
	k->until = now + (usec)PAGE_LINK_S * 1000000;
	list_add_tail(&l->list, &k->on);
	map_put(l->by_key, k->key, k);
	memcpy(ret, code, PAGE_CODE_LEN + 1);
	explicit_bzero(code, strlen(code));
	explicit_bzero(bytes, sizeof(bytes));
	return NULL;
}

struct link *links_take(struct links *l, const char *code, usec now)
{
	char key[KEY_LEN + 1];
	struct link *k;

	expire(l, now);
	if (strlen(code) != PAGE_CODE_LEN)
		return NULL;
	digest(code, key);
	k = map_take(l->by_key, key);
	if (k)
		list_del(&k->on);
	return k;
}
