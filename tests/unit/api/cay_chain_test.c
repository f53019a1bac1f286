/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent_chain.h"
#include "api/cay/cay.h"
#include "api/object.h"
#include "api_test.h"
#include "base/buf.h"
#include "kinds.h"

/* Agents as a text: "a<b b<c! c" is a within b, b within c and being deleted, and c. */
struct team {
	struct object *agents[16];
	size_t n;
	unsigned n_asked;
};

static struct object *make(struct span word)
{
	struct span parent, name = span_cut(word, '<', &parent);
	bool deleting = word.len && word.p[word.len - 1] == '!';
	autofree char *text = NULL;

	if (deleting && parent.p)
		parent.len--;
	else if (deleting)
		name.len--;
	text = xasprintf("{'metadata':{'name':'%.*s'%s},'spec':{'parent':'%.*s'}}", (int)name.len,
			 name.p, deleting ? ",'deletionTimestamp':'2026-01-01T00:00:00Z'" : "",
			 (int)parent.len, parent.p ? parent.p : "");
	return object_new(kind_named(API_CAY " Agent"), doc(text));
}

static void team_init(struct team *t, const char *text)
{
	struct span rest = SPAN(text);

	*t = (struct team){ 0 };
	while (rest.p && rest.len)
		t->agents[t->n++] = make(span_cut(rest, ' ', &rest));
}

static void team_done(struct team *t)
{
	for (size_t i = 0; i < t->n; i++)
		object_unref(t->agents[i]);
}

static struct object *find(void *arg, const char *name)
{
	struct team *t = arg;

	t->n_asked++;
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->agents[i]->name, name))
			return t->agents[i];
	return NULL;
}

static void eq_names(const struct agent_chain *c, const char *want)
{
	autobuf names = { 0 };

	for (size_t i = 0; i < c->n; i++)
		buf_printf(&names, "%s%s", i ? " " : "", c->agents[i]->name);
	eq_str(buf_str(&names), want);
}

#define NINE "a<b b<c c<d d<e e<f f<g g<h h<i"

TEST(an_agent_is_followed_to_its_last_parent_or_to_where_the_chain_is_broken)
{
	static const struct {
		const char *team, *chain;
		enum chain_fault fault;
		const char *broken_at;
		bool deleting;
	} rows[] = {
		{ "a", "a", CHAIN_WHOLE, NULL, false },
		{ "a<b b", "a b", CHAIN_WHOLE, NULL, false },
		{ "a<b b<c c x<a", "a b c", CHAIN_WHOLE, NULL, false },
		{ "b", "", CHAIN_NO_PARENT, "a", false },
		{ "a<b", "a", CHAIN_NO_PARENT, "b", false },
		{ "a<b b<c", "a b", CHAIN_NO_PARENT, "c", false },
		{ "a<a", "a", CHAIN_LOOP, "a", false },
		{ "a<b b<a", "a b", CHAIN_LOOP, "a", false },
		{ "a<b b<c c<b", "a b c", CHAIN_LOOP, "b", false },
		{ "a! b", "a", CHAIN_WHOLE, NULL, true },
		{ "a<b b<c! c", "a b c", CHAIN_WHOLE, NULL, true },
		{ "a<b b!", "a b", CHAIN_WHOLE, NULL, true },
		{ "a<b! b<a", "a b", CHAIN_LOOP, "a", true },
		{ "a<b!", "a", CHAIN_NO_PARENT, "b", true },
		{ NINE " i", "a b c d e f g h i", CHAIN_WHOLE, NULL, false },
		{ NINE " i<j j", "a b c d e f g h i", CHAIN_TOO_LONG, "j", false },
		{ NINE " i<j", "a b c d e f g h i", CHAIN_TOO_LONG, "j", false },
		{ NINE " i<a", "a b c d e f g h i", CHAIN_LOOP, "a", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct agent_chain c;
		struct team t;

		team_init(&t, rows[i].team);
		agent_chain_follow("a", find, &t, &c);
		eq_names(&c, rows[i].chain);
		eq_int(c.fault, rows[i].fault);
		eq_str(c.broken_at, rows[i].broken_at);
		eq_int(c.deleting, rows[i].deleting);
		/* Each once, so that whoever counts references has as many as there are agents. */
		eq_int(t.n_asked, c.n + (c.fault == CHAIN_NO_PARENT));
		team_done(&t);
	}
}

TEST(nobody_has_no_chain)
{
	struct agent_chain c;
	struct team t;

	team_init(&t, "a");
	agent_chain_follow("", find, &t, &c);
	eq_int(c.n, 0);
	eq_int(c.fault, CHAIN_WHOLE);
	eq_int(t.n_asked, 0);
	team_done(&t);
}

TEST(who_is_above_an_agent_has_a_place_there)
{
	static const struct {
		const char *team, *name;
		int above; /* -1: it is not in the chain */
	} rows[] = {
		{ "a<b b<c c", "a", 0 },
		{ "a<b b<c c", "b", 1 },
		{ "a<b b<c c", "c", 2 },
		{ "a<b b x<a", "x", -1 },
		{ "a<b b", "", -1 },
		{ "a<b b<c", "c", 2 },      /* it does not exist, and would be the parent */
		{ "b", "a", 0 },            /* nor does this one */
		{ "a<b b<a", "a", 0 },      /* once around */
		{ NINE " i", "i", 8 },      /* the last that may be there */
		{ NINE " i<j j", "j", -1 }, /* one too many is not asked about */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t above = 99;
		struct agent_chain c;
		struct team t;

		team_init(&t, rows[i].team);
		agent_chain_follow("a", find, &t, &c);
		eq_int(agent_chain_has(&c, rows[i].name, &above), rows[i].above >= 0);
		eq_int(above, rows[i].above >= 0 ? rows[i].above : 99);
		team_done(&t);
	}
}
