/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/event.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "gate/gate_priv.h"
#include "json/json.h"

/*
 * Hosts that sandboxes look up. Where a rule says Ask, the lookup makes an Approval and is over;
 * the next one finds what was decided. So nobody waits here for a person, only for the disk: that
 * an answer was used is there before the host is open (an opening), and so it opens it once.
 *
 * How many questions code in a sandbox can cause is bounded.
 */
/* Open questions of one sandbox. */
static void count_open(struct gate *g, const struct object *o, int by)
{
	autofree char *key = xasprintf("%s/%s", o->ns, approval_view(o)->sandbox);
	size_t *n = map_get(g->asked, key);

	if (!n) {
		n = xnew(size_t);
		map_put(g->asked, key, n);
	}
	*n += (size_t)by;
	if (!*n)
		(void)map_del(g->asked, key);
}

static size_t n_open(const struct gate *g, const char *ns, const char *sandbox)
{
	autofree char *key = xasprintf("%s/%s", ns, sandbox);
	const size_t *n = map_get(g->asked, key);

	return n ? *n : 0;
}

static bool is_open_question(const struct object *o)
{
	const struct approval_view *v = o ? approval_view(o) : NULL;

	return v && str_eq(v->operation, "egress") && v->decision == APPROVAL_OPEN && !v->deleting;
}

void lookups_count(struct gate *g, struct object *was, struct object *now)
{
	bool before = is_open_question(was), after = is_open_question(now);

	if (before)
		count_open(g, was, -1);
	if (after)
		count_open(g, now, 1);
}

/* Openings: hosts that were approved */

struct opening {
	struct gate *gate;
	char *ns, *agent, *digest, *host;
	char *approval;
	struct client_write write;
	bool begun;          /* its use is being written */
	usec until;          /* 0: that is not on disk yet */
	struct list lookups; /* that wait for that */
};

static void opening_free(void *p)
{
	struct opening *s = p;
	struct gate_lookup *l, *next;

	client_cancel(&s->write);
	list_each_safe(l, next, &s->lookups, on) { /* the gate ends */
		list_del(&l->on);
		l->decided(l, VERDICT_ASK);
	}
	free(s->ns);
	free(s->agent);
	free(s->digest);
	free(s->host);
	free(s->approval);
	free(s);
}

static void set_timer(struct gate *g)
{
	usec first = 0;

	map_each(it, g->openings) {
		const struct opening *s = it.value;

		if (s->until && (!first || s->until < first))
			first = s->until;
	}
	if (first)
		timer_set(g->opening_end, (uint64_t)(MAX(first - clock_mono(), 0) / 1000 + 1));
}

static void egress_differs(struct gate *g)
{
	g->egress_differs = true;
	deferred_call(&g->changed);
}

static void on_opening_end(void *arg)
{
	struct gate *g = arg;
	usec now = clock_mono();
	bool found = true;

	while (found) { /* what is removed ends the walk */
		autofree char *key = NULL;

		map_each(it, g->openings) {
			const struct opening *s = it.value;

			if (!key && s->until && s->until <= now)
				key = xstrdup(it.key);
		}
		found = key && map_del(g->openings, key);
	}
	set_timer(g);
	egress_differs(g);
}

static void look_again(struct gate_lookup *l);

/* Whoever waits goes on: with the opening, or to what is refused. */
static void opening_settle(struct opening *s, struct err *e)
{
	struct gate *g = s->gate;
	struct list waiting;
	struct gate_lookup *l;

	list_init(&waiting);
	while (!list_empty(&s->lookups)) {
		l = list_first(&s->lookups, struct gate_lookup, on);
		list_del(&l->on);
		list_add_tail(&waiting, &l->on);
	}
	if (e) {
		autofree char *key = xasprintf("%s/%s/%s", s->ns, s->agent, s->digest);

		(void)map_del(g->openings, key);
	} else {
		s->until = clock_mono() + GATE_OPENING_S * 1000000LL;
		set_timer(g);
	}
	while (!list_empty(&waiting)) {
		l = list_first(&waiting, struct gate_lookup, on);
		list_del(&l->on);
		if (e)
			l->decided(l, VERDICT_ASK);
		else
			look_again(l);
	}
	err_free(e);
}

static void on_synced(struct client_write *w, struct err *e, struct object *obj unused)
{
	opening_settle(container_of(w, struct opening, write), e);
}

static void on_marked(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct opening *s = container_of(w, struct opening, write);

	if (e) { /* somebody else has used it */
		opening_settle(s, e);
		return;
	}
	s->write.done = on_synced;
	client_sync(s->gate->client, &s->write);
}

static void mark(struct opening *s)
{
	autoptr(object) approval =
		client_get(s->gate->client, s->gate->approval, s->ns, s->approval);

	s->write.done = on_marked;
	if (approval)
		approval_mark_used(s->gate, approval, &s->write);
	else
		opening_settle(s, err_new(ERR_NOT_FOUND, "approval %s was withdrawn", s->approval));
}

static void on_ruled(struct client_write *w, struct err *e, struct object *obj unused)
{
	err_free(e); /* it stays a question then, and this answer is good for once */
	mark(container_of(w, struct opening, write));
}

/* Exactly this host. */
static void add_rule(struct opening *s)
{
	struct json_doc *d = json_doc_new();
	struct json *rule = json_obj(d);

	json_set_root(d, rule);
	json_set_str(d, rule, "action", "Allow");
	json_set_str(d, rule, "host", s->host);
	s->write.done = on_ruled;
	approval_add_rule(s->gate, &(struct approval_of){ s->ns, s->agent, s->digest }, rule,
			  &s->write);
	json_doc_free(d);
}

/* Questions */

struct ask {
	struct gate *gate;
	const char *ns, *sandbox, *host;
	char *ports; /* that would be open there */
	bool only_look;
	enum verdict verdict;
	char *why;            /* of VERDICT_DENY */
	struct opening *wait; /* whose use is being written */
};

static char *digest_of(const struct ask *k, const struct limiter *l)
{
	struct sha256 *h = sha256_new();
	char text[DIGEST_TEXT_LEN];

	digest_add(h, "agent", l->agent);
	digest_add(h, "sandbox", k->sandbox);
	digest_add(h, "attachment", l->attachment ? l->attachment->uid : "");
	digest_add(h, "operation", "egress");
	digest_add(h, "host", k->host);
	digest_add(h, "ports", k->ports);
	sha256_end_text(h, text);
	sha256_free(h);
	return xstrdup(text);
}

static struct json_doc *draft(const struct ask *k, const struct limiter *l, const char *digest)
{
	const struct standing *s = standing_of(k->gate, k->ns, l->agent);
	usec expires = clock_wall() + agent_view(s->chain[0])->approval.expire;
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *spec;
	char when[CLOCK_TEXT_MAX];

	json_set_root(d, root);
	(void)json_set(d, json_need_obj(d, root, "metadata"), "generateName",
		       json_new_strf(d, "%s-", l->agent));
	spec = json_need_obj(d, root, "spec");
	json_set_str(d, spec, "agent", l->agent);
	if (l->attachment) {
		json_set_str(d, spec, "session", attachment_view(l->attachment)->session);
		json_set_str(d, spec, "attachment", l->attachment->name);
	}
	json_set_str(d, spec, "sandbox", k->sandbox);
	json_set_str(d, spec, "operation", "egress");
	json_set_str(d, spec, "host", k->host);
	json_set_str(d, spec, "digest", digest);
	(void)json_set(d, spec, "requestedBy",
		       json_new_strf(d, "%s%s:%s", AGENT_USER, k->ns, l->agent));
	clock_format(expires, when);
	json_set_str(d, spec, "expires", when);
	return d;
}

static void tell_sandbox(const struct ask *k, const struct limiter *l)
{
	autoptr(object) sandbox = client_get(k->gate->client, k->gate->sandbox, k->ns, k->sandbox);
	autofree char *text = xasprintf("a person is asked whether agent %s may reach %s: cay "
					"approve ls -n %s",
					l->agent, k->host, k->ns);
	const struct node_event event = { .about = sandbox,
					  .reason = "EgressAsked",
					  .message = text,
					  .node = "gate",
					  .now = clock_wall() };

	if (sandbox)
		client_create(k->gate->client,
			      &(struct client_ref){ .kind = k->gate->event,
						    .ns = node_event_ns(sandbox) },
			      node_event_doc(&event), NULL);
}

static void ask_person(const struct ask *k, const struct limiter *l, const char *digest)
{
	if (n_open(k->gate, k->ns, k->sandbox) >= GATE_EGRESS_QUESTIONS_MAX)
		return;
	client_create(k->gate->client,
		      &(struct client_ref){ .kind = k->gate->approval, .ns = k->ns },
		      draft(k, l, digest), NULL);
	tell_sandbox(k, l);
}

static struct opening *opening_new(const struct ask *k, const struct limiter *l, const char *digest)
{
	struct opening *s = xnew(struct opening);
	autofree char *key = xasprintf("%s/%s/%s", k->ns, l->agent, digest);

	s->gate = k->gate;
	s->ns = xstrdup(k->ns);
	s->agent = xstrdup(l->agent);
	s->digest = xstrdup(digest);
	s->host = xstrdup(k->host);
	list_init(&s->lookups);
	map_put(k->gate->openings, key, s);
	return s;
}

/* What has been decided about it, if anything has. */
static void look_for_answer(struct ask *k, const struct limiter *l, const char *digest)
{
	const struct object *o = approval_find(
		k->gate, &(struct approval_of){ k->ns, l->agent, digest }, clock_wall());

	k->verdict = VERDICT_ASK;
	if (!o) {
		ask_person(k, l, digest);
		return;
	}
	switch (approval_view(o)->decision) {
	case APPROVAL_ONCE:
	case APPROVAL_ALWAYS:
		k->wait = opening_new(k, l, digest);
		k->wait->approval = xstrdup(o->name);
		break;
	case APPROVAL_DENIED:
		k->verdict = VERDICT_DENY;
		k->why = xasprintf("%s denied it (approval %s)",
				   str_or(approval_view(o)->by, "somebody"), o->name);
		break;
	case APPROVAL_OPEN:
	case APPROVAL_EXPIRED:
	case APPROVAL_DECISION_MAX_:
		break;
	}
}

static bool ask_limiter(void *arg, const struct limiter *l)
{
	struct ask *k = arg;
	const struct deed deed = { .host = k->host };
	const struct standing *s = standing_of(k->gate, k->ns, l->agent);
	enum verdict v = s && !s->broken ? standing_judges(s, &deed) : VERDICT_DENY;
	autofree char *digest = NULL, *key = NULL;
	struct opening *found;

	if (v == VERDICT_ALLOW)
		return true;
	if (v == VERDICT_DENY) {
		k->verdict = v;
		k->why = xasprintf("a rule of agent %s, or of a parent, denies it", l->agent);
		return false;
	}
	digest = digest_of(k, l);
	key = xasprintf("%s/%s/%s", k->ns, l->agent, digest);
	found = map_get(k->gate->openings, key);
	if (found && found->until)
		return true;
	k->verdict = VERDICT_ASK;
	k->wait = found;
	if (!found && !k->only_look)
		look_for_answer(k, l, digest);
	return false;
}

static void begin_use(struct opening *s)
{
	autoptr(object) o = client_get(s->gate->client, s->gate->approval, s->ns, s->approval);

	if (s->begun)
		return;
	s->begun = true;
	if (o && approval_view(o)->decision == APPROVAL_ALWAYS)
		add_rule(s);
	else
		mark(s);
}

/* Those of all places that it is in, as packets see them. */
static char *ports_of(struct gate *g, const struct gate_way_out *w)
{
	autoptr(arena) a = arena_new();
	struct gate_egress e;
	autobuf text = { 0 };

	gate_egress(g, w->ns, w->sandbox, a, &e);
	for (size_t i = 0; e.limited && i < e.capabilities.n_egress; i++) {
		const struct egress *p = &e.capabilities.egress[i];

		if (*p->methods || *p->paths || !host_matches(p->host, w->host))
			continue;
		for (size_t k = 0; k < p->n_ports; k++)
			buf_printf(&text, "%lld ", (long long)p->ports[k]);
		buf_add_str(&text, p->n_ports ? "" : "443 ");
	}
	return xstrdup(buf_str(&text));
}

/* The caller's: why. */
static struct ask judge(struct gate *g, const struct gate_way_out *w, bool only_look)
{
	struct ask k = { .gate = g,
			 .ns = w->ns,
			 .sandbox = w->sandbox,
			 .host = w->host,
			 .ports = ports_of(g, w),
			 .only_look = only_look };

	each_limiter(g, w->ns, w->sandbox, ask_limiter, &k);
	free(take(k.ports));
	return k;
}

static void look_again(struct gate_lookup *l)
{
	const struct gate_way_out w = { .ns = l->ns, .sandbox = l->sandbox, .host = l->host };
	struct ask k = judge(l->gate, &w, false);
	autofree char *why = k.why;

	if (k.wait) {
		list_add_tail(&k.wait->lookups, &l->on);
		begin_use(k.wait);
		return;
	}
	way_out_record(l->gate, &w, k.verdict,
		       k.verdict == VERDICT_ASK ? "a person is asked" : why);
	l->decided(l, k.verdict);
}

void gate_lookup(struct gate *g, const struct gate_way_out *w, struct gate_lookup *l)
{
	l->gate = g;
	l->ns = xstrdup(w->ns);
	l->sandbox = xstrdup(w->sandbox);
	l->host = xstrdup(w->host);
	list_init(&l->on);
	look_again(l);
}

void gate_lookup_done(struct gate_lookup *l)
{
	list_del(&l->on);
	free(l->ns);
	free(l->sandbox);
	free(l->host);
}

bool gate_lookup_stands(struct gate *g, const struct gate_way_out *w)
{
	struct ask k = judge(g, w, true);

	free(k.why);
	return k.verdict == VERDICT_ALLOW;
}

void lookups_init(struct gate *g)
{
	g->openings = map_new(opening_free);
	g->asked = map_new(free);
	g->opening_end = timer_new(g->loop, on_opening_end, g);
}

void lookups_free(struct gate *g)
{
	timer_free(g->opening_end);
	map_free(g->openings);
}
