/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "control/idle/idle_priv.h"

static const char *const tiers[IDLE_SLEEP_MAX_] = {
	[IDLE_FROZEN] = "frozen",
	[IDLE_SUSPENDED] = "suspended",
};

/* Upper ends, in microseconds. */
static const usec ends[IDLE_BUCKETS] = { 100,   500,    1000,   5000,    10000,
					 50000, 100000, 500000, 1000000, 5000000 };

void idle_count_wake(struct idle_counts *c, enum idle_sleep from, const char *cause, usec took)
{
	struct idle_took *t = &c->took[from];
	size_t i = 0;

	while (i < c->n_wakes && (c->wakes[i].from != from || !str_eq(c->wakes[i].cause, cause)))
		i++;
	if (i < IDLE_CAUSES_MAX) {
		c->wakes[i].from = from;
		c->wakes[i].cause = cause;
		c->wakes[i].n++;
		c->n_wakes = MAX(c->n_wakes, i + 1);
	}
	t->n++;
	t->sum += took;
	for (int b = 0; b < IDLE_BUCKETS; b++)
		t->in[b] += took <= ends[b];
}

static void put_head(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_took(struct buf *b, enum idle_sleep tier, const struct idle_took *t)
{
	for (int i = 0; i < IDLE_BUCKETS; i++)
		buf_printf(b, "cay_wake_seconds_bucket{tier=\"%s\",le=\"%g\"} %llu\n", tiers[tier],
			   (double)ends[i] / 1e6, (unsigned long long)t->in[i]);
	buf_printf(b, "cay_wake_seconds_bucket{tier=\"%s\",le=\"+Inf\"} %llu\n", tiers[tier],
		   (unsigned long long)t->n);
	buf_printf(b, "cay_wake_seconds_sum{tier=\"%s\"} %.6f\n", tiers[tier],
		   (double)t->sum / 1e6);
	buf_printf(b, "cay_wake_seconds_count{tier=\"%s\"} %llu\n", tiers[tier],
		   (unsigned long long)t->n);
}

void idle_metrics(const struct idle *i, struct buf *b)
{
	const struct idle_counts *c = &i->counts;
	uint64_t n[IDLE_SLEEP_MAX_] = { 0 };

	map_each(it, i->naps)
		n[((const struct nap *)it.value)->is]++;
	put_head(b, "cay_sandboxes_asleep", "gauge",
		 "Sandboxes that sleep because nobody uses them.");
	for (int t = IDLE_FROZEN; t < IDLE_SLEEP_MAX_; t++)
		buf_printf(b, "cay_sandboxes_asleep{tier=\"%s\"} %llu\n", tiers[t],
			   (unsigned long long)n[t]);
	put_head(b, "cay_sleeps_total", "counter",
		 "How often a Sandbox fell asleep, or was deleted.");
	for (int t = IDLE_FROZEN; t < IDLE_SLEEP_MAX_; t++)
		buf_printf(b, "cay_sleeps_total{tier=\"%s\"} %llu\n", tiers[t],
			   (unsigned long long)c->sleeps[t]);
	buf_printf(b, "cay_sleeps_total{tier=\"deleted\"} %llu\n", (unsigned long long)c->deleted);
	put_head(b, "cay_wakes_total", "counter", "How often one was woken, and by what.");
	for (size_t k = 0; k < c->n_wakes; k++)
		buf_printf(b, "cay_wakes_total{tier=\"%s\",cause=\"%s\"} %llu\n",
			   tiers[c->wakes[k].from], c->wakes[k].cause,
			   (unsigned long long)c->wakes[k].n);
	put_head(b, "cay_wake_seconds", "histogram",
		 "From the need to its processes running (frozen) or to Ready (suspended).");
	for (int t = IDLE_FROZEN; t < IDLE_SLEEP_MAX_; t++)
		put_took(b, (enum idle_sleep)t, &c->took[t]);
}
