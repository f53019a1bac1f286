/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "server/objects/objects.h"
#include "server/policy/ledger_priv.h"

/* Whether a write would use more than a quota allows, in the words of Kubernetes. */

/* What a write adds to a line; zero if it adds nothing. */
static struct quantity added(const struct ledger *l, const struct quota *q, const struct line *line,
			     const struct ledger_write *w)
{
	struct quantity more = measure_use(&line->m, w->obj, l->as_of), was;

	if (!w->old || (q->scoped && !scope_matches(object_spec(q->o), line->m.resource, w->old)))
		return more;
	was = measure_use(&line->m, w->old, l->as_of);
	more.nano = quantity_cmp(&more, &was) > 0 ? more.nano - was.nano : 0;
	return more;
}

static void add_item(struct buf *b, const char *name, const struct quantity *q)
{
	char text[QUANTITY_TEXT_MAX];

	quantity_text(q, text);
	buf_printf(b, "%s%s=%s", b->len ? "," : "", name, text);
}

static char *exceeds(const struct ledger *l, const struct quota *q, const struct ledger_write *w)
{
	autobuf asked = { 0 }, used = { 0 }, hard = { 0 };

	for (size_t i = 0; i < q->n_lines; i++) {
		const struct line *line = &q->lines[i];
		struct quantity more, sum = line->used;

		if (!measure_covers(&line->m, w->kind))
			continue;
		more = added(l, q, line, w);
		quantity_add(&sum, &more);
		if (!more.nano || quantity_cmp(&sum, &line->hard) <= 0)
			continue;
		add_item(&asked, line->name, &more);
		add_item(&used, line->name, &line->used);
		add_item(&hard, line->name, &line->hard);
	}
	if (!asked.len)
		return NULL;
	return xasprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q->o->name,
			 buf_str(&asked), buf_str(&used), buf_str(&hard));
}

/* A limit of nothing is none: the node would give the container what others get without one. */
static bool says(const struct json *amounts, const struct measure *m)
{
	struct quantity q;

	return quantity_read(json_get(amounts, m->of), &q) && (q.nano || m->what != MEASURE_LIMITS);
}

/* The names of the containers that do not say how much they need, sorted. */
static char *silent_containers(const struct measure *m, const struct json *pod)
{
	static const char *const lists[] = { "containers", "initContainers" };
	const char *member = m->what == MEASURE_LIMITS ? "limits" : "requests";
	const struct json *spec = json_get(pod, "spec");
	autofree const char **names =
		xnew_n(const char *, json_len(json_get(spec, "containers")) +
					     json_len(json_get(spec, "initContainers")) + 1);
	autobuf out = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(spec, lists[i]))
			if (!says(json_get(json_get(it.val, "resources"), member), m))
				names[n++] = str_or(json_get_str(it.val, "name"), "");
	str_sort(names, n);
	for (size_t i = 0; i < n; i++)
		buf_printf(&out, "%s%s", i ? "," : "", names[i]);
	return n ? xstrdup(buf_str(&out)) : NULL;
}

static char *lacks(const struct quota *q, const struct ledger_write *w)
{
	autobuf out = { 0 };

	for (size_t i = 0; i < q->n_lines; i++) {
		const struct line *line = &q->lines[i];
		autofree char *who = line->m.must ? silent_containers(&line->m, w->obj) : NULL;

		if (who)
			buf_printf(&out, "%s%s for: %s", out.len ? "; " : "", line->name, who);
	}
	if (!out.len)
		return NULL;
	return xasprintf("failed quota: %s: must specify %s", q->o->name, buf_str(&out));
}

/* Containers have to say what they need when a Pod comes, and when that changes. */
static bool is_told(const struct ledger *l, const struct ledger_write *w)
{
	if (w->kind != l->os->pod || pod_has_amounts(w->obj))
		return false;
	return !w->old || str_eq(w->sub, "resize") ||
	       pod_has_deadline(w->old) != pod_has_deadline(w->obj);
}

static bool is_about(const struct quota *q, const struct ledger_write *w)
{
	for (size_t i = 0; i < q->n_lines; i++)
		if (measure_covers(&q->lines[i].m, w->kind))
			return !q->scoped ||
			       scope_matches(object_spec(q->o), q->lines[i].m.resource, w->obj);
	return false;
}

char *ledger_refuses(const struct ledger *l, const struct ledger_write *w)
{
	struct space *s = map_len(l->spaces) ? map_get(l->spaces, w->ns) : NULL;
	struct quota *q;
	char *why = NULL;

	if (!s || str_eq(w->sub, "status"))
		return NULL;
	/* What a Pod lacks is told before what is exceeded, whichever quota says so. */
	list_each(q, &s->quotas, in_ns) {
		if (is_told(l, w) && is_about(q, w))
			why = lacks(q, w);
		if (why)
			return why;
	}
	list_each(q, &s->quotas, in_ns) {
		if (is_about(q, w))
			why = exceeds(l, q, w);
		if (why)
			return why;
	}
	return NULL;
}
