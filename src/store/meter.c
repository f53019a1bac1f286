/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/series.h"
#include "store/store_priv.h"

/*
 * How long commits take, and how many writes share one. The writer measures, the loop counts.
 */
static const uint32_t took_us[] = { 100,   250,   500,    1000,   2500,   5000,    10000,
				    25000, 50000, 100000, 250000, 500000, 1000000, 5000000 };
static const uint32_t rows[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096 };

static const struct series_spec took_spec = {
	"cay_store_commit_seconds",
	"How long a group commit took, its fdatasync included.",
	SERIES_HISTOGRAM,
	.bounds = took_us,
	.n_bounds = ARRAY_LEN(took_us),
	.per = 1000000,
	.max = 1,
};
static const struct series_spec rows_spec = {
	"cay_store_commit_rows", "Rows that a group commit wrote.", SERIES_HISTOGRAM,
	.bounds = rows,          .n_bounds = ARRAY_LEN(rows),       .max = 1,
};

struct meter {
	struct series *took, *rows;
};

struct meter *meter_new(void)
{
	struct meter *m = xnew(struct meter);

	m->took = series_new(&took_spec);
	m->rows = series_new(&rows_spec);
	return m;
}

void meter_free(struct meter *m)
{
	if (!m)
		return;
	series_free(m->took);
	series_free(m->rows);
	free(m);
}

void meter_commit(struct meter *m, usec took, size_t n_rows)
{
	series_observe(m->took, NULL, (uint64_t)took);
	series_observe(m->rows, NULL, n_rows);
}

void store_write_metrics(const struct store *s, struct buf *b)
{
	series_write(s->meter->took, b);
	series_write(s->meter->rows, b);
}
