/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cost/cost.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/series.h"
#include "base/str.h"
#include "client/access.h"
#include "control/cost/cost_priv.h"
#include "control/pass/context.h"
#include "control/pass/item.h"

/*
 * What the node tells after each measurement, by namespace. It is only kept until the next one:
 * whatever is not in a ledger by then is in the node's counters still.
 */
#define LABELS { "namespace", "agent" }
enum {
	SERIES_MAX = 200,
};

static const struct series_spec specs[COST_MAX_] = {
	[COST_CPU_US] = { "cay_cost_cpu_seconds_total",
			  "Processor time that was written into ledgers.", SERIES_COUNTER, LABELS,
			  .per = 1000000, .max = SERIES_MAX },
	[COST_MEMORY_BYTE_S] = { "cay_cost_memory_byte_seconds_total",
				 "Memory over time, likewise.", SERIES_COUNTER, LABELS,
				 .max = SERIES_MAX },
	[COST_DISK_BYTE_S] = { "cay_cost_disk_byte_seconds_total", "Disk over time, likewise.",
			       SERIES_COUNTER, LABELS, .max = SERIES_MAX },
	[COST_NETWORK_BYTES] = { "cay_cost_network_bytes_total",
				 "Bytes received and sent, likewise.", SERIES_COUNTER, LABELS,
				 .max = SERIES_MAX },
};

static void sources_drop(void *p)
{
	struct sources *s = p;

	for (size_t i = 0; i < s->n; i++) {
		free(s->list[i].uid);
		free(s->list[i].sandbox);
	}
	free(s->list);
	free(s);
}

static struct sources *sources_of(struct map *spaces, const char *ns)
{
	struct sources *s = map_get(spaces, ns);

	if (!s) {
		s = xnew(struct sources);
		s->fresh = true;
		map_put(spaces, ns, s);
	}
	return s;
}

static void add_source(void *arg, const struct access_source *from)
{
	struct sources *s = sources_of(arg, from->ns);

	s->list = xrealloc(s->list, (s->n + 1) * sizeof(*s->list));
	s->list[s->n++] = (struct source){
		.uid = xstrdup(from->uid),
		.sandbox = xstrdup(from->sandbox),
		.attachment = from->attachment,
		.over = from->over,
		.at_us = from->used.at_us,
		.total.of = { [COST_CPU_US] = from->used.cpu_us,
			      [COST_MEMORY_BYTE_S] = from->used.memory_byte_s,
			      [COST_DISK_BYTE_S] = from->used.disk_byte_s,
			      [COST_NETWORK_BYTES] = from->used.received + from->used.sent },
	};
}

static bool add_space(void *arg, struct object *ledger)
{
	(void)sources_of(arg, ledger->ns);
	return true;
}

/* Namespaces of which nothing is told any more are looked at once more: their marks go. */
static void on_measured(void *arg)
{
	struct books *c = arg;
	struct map *spaces = map_new(sources_drop);

	c->n_looks++;
	access_usage_each(c->c->opt.access, add_source, spaces);
	if (c->n_looks == 1) /* what an earlier run of this process has left undone */
		client_each(c->c->client, c->c->kinds.ledger, NULL, add_space, spaces);
	map_each(it, c->spaces)
		if (((const struct sources *)it.value)->n)
			(void)sources_of(spaces, it.key);
	map_each(it, c->paces)
		if (!map_has(spaces, it.key))
			(void)map_del(c->paces, it.key);
	map_free(c->spaces);
	c->spaces = spaces;
	map_each(it, spaces)
		item_wake(c->c->chores, CONTROL_LEDGER, it.key, "");
}

struct books *books_new(struct context *ctx)
{
	struct books *c = xnew(struct books);

	c->c = ctx;
	c->spaces = map_new(sources_drop);
	c->notes = map_new(notes_drop);
	c->paces = map_new(free);
	c->settling.cost = c;
	for (enum cost i = 0; i < COST_MAX_; i++)
		c->series[i] = series_new(&specs[i]);
	if (ctx->opt.access && ctx->opt.agents)
		access_set_measured(ctx->opt.access, on_measured, c);
	return c;
}

void books_free(struct books *c)
{
	if (!c)
		return;
	if (c->c->opt.access)
		access_set_measured(c->c->opt.access, NULL, NULL);
	client_cancel(&c->settling.write);
	for (size_t i = 0; i < c->settling.n; i++)
		free(c->settling.uids[i]);
	free(c->settling.uids);
	for (enum cost i = 0; i < COST_MAX_; i++)
		series_free(c->series[i]);
	map_free(c->spaces);
	map_free(c->notes);
	map_free(c->paces);
	free(c);
}

void books_metrics(const struct books *c, struct buf *b)
{
	for (enum cost i = 0; i < COST_MAX_; i++)
		series_write(c->series[i], b);
	metrics_gauge(b, "cay_cost_sources_waiting",
		      "Attachments and Pods whose use no ledger has space for.", c->n_waiting);
}
