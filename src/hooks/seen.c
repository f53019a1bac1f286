/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "hooks/hooks_priv.h"

/*
 * What is remembered of deliveries that are over, so that none is taken twice. It is kept in lines
 * of text, in the order in which they ended,
 *
 *     KEY-OF-ID KEY-OF-SIGNATURE|- SECONDS accepted|filtered SESSION|-
 *
 * cut into chunks that are written as a whole: a line costs a chunk and not all. The oldest chunk
 * goes when there are enough lines without it, and none of its own is young.
 */
enum {
	CHUNK_LINES = 256,
};

struct known *known_new(const char *id_key, const char *proof)
{
	struct known *n = xnew(struct known);

	n->refs = 1;
	n->at = clock_wall();
	(void)snprintf(n->id, sizeof(n->id), "%s", id_key);
	(void)snprintf(n->proof, sizeof(n->proof), "%s", proof ? proof : "");
	return n;
}

void known_unref(struct known *n)
{
	if (n && !--n->refs)
		free(n);
}

static void drop_known(void *p)
{
	known_unref(p);
}

static struct known *known_ref(struct known *n)
{
	n->refs++;
	return n;
}

void seen_add(struct hook *k, struct known *n)
{
	if (!k->known)
		k->known = map_new(drop_known);
	map_put(k->known, n->id, known_ref(n));
	if (*n->proof)
		map_put(k->known, n->proof, known_ref(n));
}

static void forget(struct hook *k, const char *key, const char *id)
{
	const struct known *n = map_get(k->known, key);

	if (n && str_eq(n->id, id))
		(void)map_del(k->known, key);
}

void seen_forget(struct hook *k, struct known *n)
{
	autofree char *id = xstrdup(n->id), *proof = xstrdup(n->proof);

	if (*proof)
		forget(k, proof, id);
	forget(k, id, id);
}

const struct known *seen_find(const struct hook *k, const char *id_key, const char *proof)
{
	const struct known *n = k->known ? map_get(k->known, id_key) : NULL;

	if (!n && k->known && proof)
		n = map_get(k->known, proof);
	return n;
}

void chunk_free(struct chunk *c)
{
	if (!c)
		return;
	list_del(&c->on);
	buf_done(&c->text);
	free(c);
}

static struct chunk *last_chunk(struct hook *k)
{
	return list_empty(&k->chunks) ? NULL : list_item(k->chunks.prev, struct chunk, on);
}

static struct chunk *chunk_new(struct hook *k, unsigned number)
{
	struct chunk *c = xnew(struct chunk), *at;

	c->number = number;
	list_each(at, &k->chunks, on)
		if (at->number > number)
			break;
	list_add_tail(&at->on, &c->on); /* before it; at the end, if there is none */
	return c;
}

static bool take_word(struct span *line, char *ret, size_t size)
{
	struct span word = span_cut(*line, ' ', line);

	if (!word.len || word.len >= size)
		return false;
	memcpy(ret, word.p, word.len);
	ret[word.len] = '\0';
	return true;
}

/* NULL: it is none of ours. */
static struct known *read_line(struct span line)
{
	char id[HOOK_KEY_LEN + 1], proof[HOOK_KEY_LEN + 1], at[24], how[16];
	char session[HOOK_SESSION_LEN + 1];
	int64_t seconds = 0;
	struct known *n;
	struct err *e;

	if (!take_word(&line, id, sizeof(id)) || !take_word(&line, proof, sizeof(proof)) ||
	    !take_word(&line, at, sizeof(at)) || !take_word(&line, how, sizeof(how)) ||
	    !take_word(&line, session, sizeof(session)))
		return NULL;
	e = parse_int(at, 0, INT64_C(99999999999), &seconds);
	if (e) {
		err_free(e);
		return NULL;
	}
	n = known_new(id, str_eq(proof, "-") ? NULL : proof);
	n->at = seconds * 1000000;
	n->filtered = str_eq(how, "filtered");
	if (!str_eq(session, "-"))
		memcpy(n->session, session, sizeof(session));
	return n;
}

/* fn for each line of a chunk that can be read. */
static void each_line(struct hook *k, struct chunk *c,
		      void (*fn)(struct hook *k, struct chunk *c, struct known *n))
{
	struct span rest = { c->text.len ? buf_head(&c->text) : "", c->text.len };

	while (rest.p && rest.len) {
		struct known *n = read_line(span_cut(rest, '\n', &rest));

		if (n)
			fn(k, c, n);
		known_unref(n);
	}
}

static void learn(struct hook *k, struct chunk *c, struct known *n)
{
	seen_add(k, n);
	c->n++;
	k->n_seen++;
	c->last = MAX(c->last, n->at);
}

void seen_load(struct hook *k, unsigned number, const char *text, size_t len)
{
	struct chunk *c = chunk_new(k, number);

	c->made = true;
	buf_add(&c->text, text, len);
	each_line(k, c, learn);
}

static void unlearn(struct hook *k, struct chunk *c unused, struct known *n)
{
	seen_forget(k, n);
}

/* The oldest, if it is not needed any more. */
static struct chunk *retire(struct hook *k, usec now)
{
	struct chunk *c = list_first(&k->chunks, struct chunk, on);

	if (k->n_seen - c->n < HOOKS_SEEN_MIN || now - c->last < (usec)HOOKS_SEEN_S * 1000000 ||
	    c == last_chunk(k))
		return NULL;
	each_line(k, c, unlearn);
	k->n_seen -= c->n;
	list_del(&c->on);
	return c;
}

static struct chunk *find_chunk(struct hook *k, unsigned number)
{
	struct chunk *c;

	list_each(c, &k->chunks, on)
		if (c->number == number)
			return c;
	return NULL;
}

struct chunk *seen_note(struct hook *k, struct known *n, struct chunk **ret_old)
{
	struct chunk *c = last_chunk(k);

	*ret_old = NULL;
	if (n->noted)
		return find_chunk(k, n->chunk);
	if (!c || c->n >= CHUNK_LINES)
		c = chunk_new(k, c ? c->number + 1 : 0);
	buf_printf(&c->text, "%s %s %" PRId64 " %s %s\n", n->id, str_or(n->proof, "-"),
		   n->at / 1000000, n->filtered ? "filtered" : "accepted", str_or(n->session, "-"));
	n->noted = true;
	n->chunk = c->number;
	c->n++;
	c->last = MAX(c->last, n->at);
	k->n_seen++;
	*ret_old = retire(k, clock_wall());
	return c;
}

void seen_free(struct hook *k)
{
	struct chunk *c, *next;

	list_each_safe(c, next, &k->chunks, on)
		chunk_free(c);
	map_free(take(k->known));
}
