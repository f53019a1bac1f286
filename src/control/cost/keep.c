/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/series.h"
#include "base/str.h"
#include "client/access.h"
#include "control/budget/newest.h"
#include "control/budget/under.h"
#include "control/cost/cost_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"
#include "control/pass/pass.h"

/*
 * One pass over the ledger of a namespace. The counters of the node and the marks of the last
 * ledger are all there is: what is beyond the marks is added to the rows in one write, guarded by
 * the revision that was read. Whatever becomes of that write, the next pass begins with what is
 * stored.
 *
 *   node: counters ─ count ─ one write: rows + marks ─ durable ─ node: settled ─ mark dropped
 *
 * A source that is over is settled only when the ledger that covers it is on the disk, and its mark
 * goes only when the node does not tell of it any more.
 */
enum {
	STATUS_EVERY = 6, /* writes of the ledger: statuses of what goes on */
	STATUS_MORE_MS = 20,
	OLD_RECHECK_MS = 6 * 3600 * 1000, /* whether one is too old */
	MARKS_OF_A_LOOK = 256, /* one write in each measurement for so many marks; fewer for more */
};

struct pace_of {
	uint64_t n_writes;
	uint64_t last_look; /* the measurement that was written last */
	size_t n_waiting;   /* sources for which there was no space */
};

struct keep {
	struct pass *p;
	struct books *cost;
	struct sources *sources;
	struct arena *arena;
	struct object *newest; /* NULL: there is none yet */
	bool same_day;         /* it is the one to go on with */
	struct ledger l;
	struct count ct;
	struct attachments attachments;
	struct count_budget *budgets;
	size_t n_budgets;
	struct map *payers; /* agent → array of const struct count_budget *, ends with NULL */
};

/* Budgets */

struct budget_list {
	struct keep *k;
	size_t max;
};

static bool count_one(void *arg, struct object *o unused)
{
	++*(size_t *)arg;
	return true;
}

static bool add_budget(void *arg, struct object *o)
{
	struct budget_list *list = arg;
	struct keep *k = list->k;
	const struct budget_view *v = budget_view(o);

	if (!v->deleting && k->n_budgets < list->max)
		k->budgets[k->n_budgets++] = (struct count_budget){ arena_strdup(k->arena, o->uid),
								    arena_strdup(k->arena, o->name),
								    v->created, v->period };
	return true;
}

static void load_budgets(struct keep *k)
{
	struct context *c = k->p->c;
	struct budget_list list = { .k = k };

	client_each(c->client, c->kinds.budget, k->p->key->ns, count_one, &list.max);
	k->budgets = arena_new_n(k->arena, struct count_budget, list.max + 1);
	client_each(c->client, c->kinds.budget, k->p->key->ns, add_budget, &list);
}

static const struct count_budget *budget_by_name(const struct keep *k, const char *name)
{
	for (size_t i = 0; i < k->n_budgets; i++)
		if (str_eq(k->budgets[i].name, name))
			return &k->budgets[i];
	return NULL;
}

/* Those that the use of an agent counts against; looked up once in a pass. */
static const struct count_budget **budgets_against(struct keep *k, const char *agent)
{
	const struct count_budget **list = map_get(k->payers, agent);
	struct budgets b;
	size_t n = 0;

	if (list)
		return list;
	list = arena_new_n(k->arena, const struct count_budget *, BUDGETS_MAX + 1);
	budgets_of(k->p->c, k->p->key->ns, agent, &b);
	for (size_t i = 0; i < b.n; i++) {
		const struct count_budget *one = budget_by_name(k, b.of[i]->name);

		if (one)
			list[n++] = one;
	}
	budgets_done(&b);
	map_put(k->payers, agent, list);
	return list;
}

/* Settling */

static void settled(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct settling *s = container_of(w, struct settling, write);

	for (size_t i = 0; i < s->n; i++) {
		if (!e)
			access_usage_settled(s->cost->c->opt.access, s->uids[i]);
		free(s->uids[i]);
	}
	free(take(s->uids));
	s->n = 0;
	err_free(e);
}

/* Nothing more will come of it: a Pod that is gone, or an attachment that is. */
static bool is_final(const struct keep *k, const struct source *s)
{
	return s->over && (!s->attachment || !map_has(k->attachments.by_uid, s->uid));
}

/* Those that the stored ledger covers, or all that are final where none can be kept. The node is
 * told when that is on the disk. */
static void settle(struct keep *k, bool all)
{
	struct settling *s = &k->cost->settling;

	if (s->uids)
		return; /* the next measurement brings them again */
	for (size_t i = 0; i < k->sources->n; i++) {
		const struct source *one = &k->sources->list[i];

		if (!is_final(k, one) || (!all && !count_covers(&k->ct, one->uid, &one->total)))
			continue;
		s->uids = xrealloc(s->uids, (s->n + 1) * sizeof(*s->uids));
		s->uids[s->n++] = xstrdup(one->uid);
	}
	if (!s->uids)
		return;
	s->write.done = settled;
	client_sync(k->p->c->client, &s->write);
}

/* Counting */

static struct costs session_before(const struct keep *k, const char *session, const char *uid)
{
	autoptr(object) o = str_empty(session) ? NULL
					       : client_get(k->p->c->client, k->p->c->kinds.session,
							    k->p->key->ns, session);
	struct costs c = { 0 };

	if (o && str_eq(o->uid, uid))
		costs_read(json_get(object_status(o), "cost"), 0, &c);
	return c;
}

static void count_one_source(struct keep *k, const struct source *from)
{
	struct payer_of by;
	struct count_source s = { .uid = arena_strdup(k->arena, from->uid),
				  .attachment = from->attachment,
				  .total = from->total };
	const struct ledger_mark *m = map_get(k->ct.marks, from->uid);

	s.known = payer_find(k->cost, from, &k->attachments, k->arena, &by);
	s.who = by.who;
	s.session = by.session;
	s.session_uid = by.session_uid;
	s.budgets = budgets_against(k, s.known || !m ? by.who.agent : m->who.agent);
	if (!map_has(k->ct.sessions, s.session_uid))
		s.session_before = session_before(k, s.session, s.session_uid);
	(void)count_source(&k->ct, &s);
}

/* Sessions that nothing counts for any more, and whose status says what they used. */
static void drop_sessions(struct keep *k)
{
	struct context *c = k->p->c;

	for (size_t i = k->l.n_sessions; i-- > 0;) {
		const struct ledger_session *e = &k->l.sessions[i];
		autoptr(object) o = client_get(c->client, c->kinds.session, k->p->key->ns, e->name);

		if (count_has_session(&k->ct, e->uid))
			continue;
		if (!o || !str_eq(o->uid, e->uid) || session_says(o, &e->used))
			count_drop_session(&k->ct, e->uid);
	}
}

static void count(struct keep *k)
{
	count_budgets(&k->ct, k->budgets, k->n_budgets);
	for (size_t i = 0; i < k->sources->n; i++)
		count_one_source(k, &k->sources->list[i]);
	count_end(&k->ct);
	drop_sessions(k);
}

static void note_waiting(struct keep *k, struct pace_of *at)
{
	if (k->ct.n_waiting && !at->n_waiting)
		log_warn("a ledger has no space for more attachments and Pods, counting them when "
			 "others have ended",
			 KV("namespace", k->p->key->ns), KV("count", k->ct.n_waiting));
	k->cost->n_waiting += k->ct.n_waiting - at->n_waiting;
	at->n_waiting = k->ct.n_waiting;
}

/* Writing */

/* What is counted in /metrics once the ledger is written. */
struct added {
	struct books *cost;
	char *ns;
	struct map *agents; /* agent → struct costs */
};

static void added_drop(void *arg)
{
	struct added *a = arg;

	map_free(a->agents);
	free(a->ns);
	free(a);
}

static void added_worked(struct context *c unused, void *arg)
{
	const struct added *a = arg;

	map_each(it, a->agents) {
		const char *const labels[] = { a->ns, it.key };
		const struct costs *more = it.value;

		for (enum cost i = 0; i < COST_MAX_; i++)
			if (more->of[i])
				series_add(a->cost->series[i], labels, (uint64_t)more->of[i]);
	}
}

static struct added *added_of(struct keep *k)
{
	struct added *a = xnew(struct added);

	a->cost = k->cost;
	a->ns = xstrdup(k->p->key->ns);
	a->agents = take(k->ct.agents);
	return a;
}

static void write_ledger(struct keep *k)
{
	struct pass *p = k->p;
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, API_CAY, "Ledger"), *meta;
	struct write w = { .name = k->same_day ? KEEP_WRITE_LEDGER : KEEP_WRITE_CREATE,
			   .what = "write ledger",
			   .flags = WRITE_CONFLICT_OK,
			   .worked = added_worked,
			   .arg = added_of(k),
			   .drop_arg = added_drop };
	char today[LEDGER_NAME_MAX];
	const char *name = today;

	ledger_name(p->now, 0, today);
	if (k->same_day)
		name = k->newest->name;
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", name);
	json_set_str(d, meta, "namespace", p->key->ns);
	if (k->same_day)
		draft_guard(d, meta, k->newest);
	json_set(d, root, "status", ledger_write(&k->l, p->now, d));
	w.to = (struct client_ref){ p->c->kinds.ledger, p->key->ns, name };
	if (k->same_day)
		pass_update(p, &w, d);
	else
		pass_create(p, &w, d);
}

struct oldest {
	struct object *o;
	const char *before;
};

static bool is_old(void *arg, struct object *o)
{
	struct oldest *old = arg;

	if (strcmp(o->name, old->before) >= 0)
		return true;
	old->o = object_ref(o);
	return false;
}

/* The last one stays, however old: it has the counters of budgets. False: there is none. */
static bool remove_old(struct pass *p)
{
	autoptr(object) newest = ledger_newest(p->c, p->key->ns);
	char before[LEDGER_NAME_MAX];
	struct oldest old = { .before = before };
	struct write w = { .name = KEEP_WRITE_DELETE, .flags = WRITE_GONE_OK | WRITE_CONFLICT_OK };

	ledger_name(p->now, LEDGER_DAYS, before);
	client_each(p->c->client, p->c->kinds.ledger, p->key->ns, is_old, &old);
	if (!old.o)
		return newest;
	w.to = ref_of(old.o);
	if (!newest || !str_eq(old.o->name, newest->name))
		pass_delete_uid(p, &w, old.o->uid);
	object_unref(old.o);
	return newest;
}

/* The pass */

static struct pace_of *pace(struct books *c, const char *ns)
{
	struct pace_of *p = map_get(c->paces, ns);

	if (!p) {
		p = xnew(struct pace_of);
		map_put(c->paces, ns, p);
	}
	return p;
}

/* Large ledgers are written less often: at most so many bytes in a second. */
static bool is_due(const struct keep *k, const struct pace_of *at)
{
	return k->cost->n_looks - at->last_look >= 1 + k->l.n_marks / MARKS_OF_A_LOOK;
}

/* Rows are those of one day; all else goes on. A clock that goes back does not open the ledger of a
 * day that is over. */
static void keep_begin(struct keep *k)
{
	struct pass *p = k->p;
	char today[LEDGER_NAME_MAX];

	ledger_name(p->now, 0, today);
	k->arena = arena_new();
	k->payers = map_new(NULL);
	k->newest = ledger_newest(p->c, p->key->ns);
	ledger_read(k->newest ? object_status(k->newest) : NULL, k->sources->n, k->arena, &k->l);
	k->same_day = k->newest && strcmp(k->newest->name, today) >= 0;
	if (!k->same_day)
		k->l.n_rows = 0;
	count_begin(&k->ct, &k->l, p->now, k->arena);
	attachments_load(p->c, p->key->ns, &k->attachments);
	load_budgets(k);
}

static void keep_done(struct keep *k)
{
	count_done(&k->ct);
	attachments_done(&k->attachments);
	map_free(k->payers);
	object_unref(k->newest);
	arena_free(k->arena);
}

/* True: there is more to report. */
static bool look(struct keep *k)
{
	struct pace_of *at = pace(k->cost, k->p->key->ns);
	bool fresh = k->sources->fresh;

	k->sources->fresh = false;
	if (fresh) {
		notes_sweep(k->cost, k->p->key->ns, k->sources);
		settle(k, false);
	}
	if (fresh && !is_due(k, at))
		return false;
	count(k);
	note_waiting(k, at);
	if (k->ct.changed) {
		at->last_look = k->cost->n_looks;
		at->n_writes++;
		write_ledger(k);
		return false;
	}
	return statuses_report(k->p, &(struct statuses){ &k->l, k->sources, &k->attachments,
							 at->n_writes % STATUS_EVERY == 1 });
}

/* The ledger could not be made because there is no such namespace: nobody is left to pay. */
static bool is_nowhere(const struct pass *p)
{
	return err_is(p->out[KEEP_WRITE_CREATE].e, ERR_NOT_FOUND);
}

static bool pass_over(struct keep *k, bool nowhere)
{
	bool more = false;

	keep_begin(k);
	if (nowhere)
		settle(k, true);
	else
		more = look(k);
	keep_done(k);
	return more;
}

struct again ledger_reconcile(struct pass *p)
{
	struct books *c = p->own;
	struct keep k = { .p = p, .cost = c, .sources = map_get(c->spaces, p->key->ns) };
	bool nowhere = is_nowhere(p), more = false, kept = false;
	struct err *e = pass_take_error(p);

	if (e && !nowhere)
		return again_retry(e);
	err_free(e);
	/* Nothing was told of it: nothing is known, and no mark may go. */
	if (k.sources)
		more = pass_over(&k, nowhere);
	if (!nowhere)
		kept = remove_old(p);
	if (p->started)
		return again_wait();
	if (more)
		return again_after(STATUS_MORE_MS);
	return kept ? again_after(OLD_RECHECK_MS) : again_never();
}
