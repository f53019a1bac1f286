/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "net/http_server.h"
#include "router/router_priv.h"

/*
 * What the router counts, by the names and labels of upstream's. Peers choose methods and
 * namespaces, so both are limited to what is known; the rest is counted together.
 */
enum {
	NAMESPACES_MAX = 512,
};
#define NOT_KNOWN "-"
#define NS_LABEL  "sandbox_namespace"

static const struct {
	const char *name, *help;
	const char *label; /* beside the namespace; NULL: none */
} families[METRIC_MAX_] = {
	[METRIC_REQUESTS] = { "sandbox_router_requests_total", "Requests answered.", NULL },
	[METRIC_ERRORS] = { "sandbox_router_upstream_errors_total",
			    "Connections into sandboxes that failed.", "reason" },
	[METRIC_RETRIES] = { "sandbox_router_upstream_retries_total",
			     "Refused connections into sandboxes that were tried again.", NULL },
	[METRIC_DECISIONS] = { "sandbox_router_authz_decisions_total",
			       "Decisions about who may go in.", "decision" },
};

static const usec bounds_us[] = {
	5000,    10000,   25000,   50000,    100000,   250000,   500000,
	1000000, 2500000, 5000000, 10000000, 30000000, 60000000, 180000000
};

struct metrics {
	struct map *namespaces;          /* those that are labels; the values are 1 */
	struct map *series[METRIC_MAX_]; /* labels as text → uint64_t, owned */
	uint64_t buckets[ARRAY_LEN(bounds_us)], n_requests;
	usec sum;
};

struct metrics *metrics_new(void)
{
	struct metrics *m = xnew(struct metrics);

	m->namespaces = map_new(NULL);
	for (size_t i = 0; i < METRIC_MAX_; i++)
		m->series[i] = map_new(free);
	return m;
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	map_free(m->namespaces);
	for (size_t i = 0; i < METRIC_MAX_; i++)
		map_free(m->series[i]);
	free(m);
}

void metrics_learn_namespace(struct metrics *m, const char *ns)
{
	if (!map_has(m->namespaces, ns) && map_len(m->namespaces) < NAMESPACES_MAX)
		map_put(m->namespaces, ns, m);
}

static const char *ns_label(const struct metrics *m, const char *ns)
{
	return ns && map_has(m->namespaces, ns) ? ns : NOT_KNOWN;
}

/* Labels are put together for every request, by hand: printf() took a tenth of its instructions. */
struct labels {
	char text[160];
	size_t len;
};

static void put(struct labels *l, const char *s)
{
	size_t n = MIN(strlen(s), sizeof(l->text) - 1 - l->len);

	memcpy(l->text + l->len, s, n);
	l->len += n;
	l->text[l->len] = '\0';
}

static void put_label(struct labels *l, const char *name, const char *value)
{
	if (l->len)
		put(l, ",");
	put(l, name);
	put(l, "=\"");
	put(l, value);
	put(l, "\"");
}

static void add_one(struct metrics *m, enum metric what, const char *labels)
{
	uint64_t *n = map_get(m->series[what], labels);

	if (!n) {
		n = xnew(uint64_t);
		map_put(m->series[what], labels, n);
	}
	++*n;
}

void metrics_count(struct metrics *m, enum metric what, const char *ns, const char *label)
{
	struct labels l;

	l.len = 0;
	put_label(&l, NS_LABEL, ns_label(m, ns));
	if (families[what].label)
		put_label(&l, families[what].label, label);
	add_one(m, what, l.text);
}

static const char *method_label(const char *method)
{
	static const char *const known[] = { "GET",     "HEAD",  "POST",  "PUT",     "DELETE",
					     "OPTIONS", "PATCH", "TRACE", "CONNECT", NULL };

	return str_in(method, known) ? method : "OTHER";
}

/* A sandbox chooses its status: those that no protocol knows are counted together. */
static void put_status(struct labels *l, int status)
{
	char text[4] = "0";

	if (status >= 100 && status <= 599) {
		text[0] = (char)('0' + status / 100);
		text[1] = (char)('0' + status / 10 % 10);
		text[2] = (char)('0' + status % 10);
		text[3] = '\0';
	}
	put_label(l, "code", text);
}

void metrics_request(struct metrics *m, struct http_request *req, int status, const char *ns,
		     usec took)
{
	struct labels l;

	l.len = 0;
	put_label(&l, "method", method_label(http_request_method(req)));
	put_status(&l, status);
	put_label(&l, NS_LABEL, ns_label(m, ns));
	add_one(m, METRIC_REQUESTS, l.text);
	m->n_requests++;
	m->sum += took;
	for (size_t i = 0; i < ARRAY_LEN(bounds_us); i++)
		if (took <= bounds_us[i])
			m->buckets[i]++;
}

static void write_duration(const struct metrics *m, struct buf *b)
{
	static const char name[] = "sandbox_router_request_duration_seconds";

	buf_printf(b, "# HELP %s From the head of a request to the end of its answer.\n", name);
	buf_printf(b, "# TYPE %s histogram\n", name);
	for (size_t i = 0; i < ARRAY_LEN(bounds_us); i++)
		buf_printf(b, "%s_bucket{le=\"%g\"} %llu\n", name, (double)bounds_us[i] / 1e6,
			   (unsigned long long)m->buckets[i]);
	buf_printf(b, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)m->n_requests);
	buf_printf(b, "%s_sum %.6f\n%s_count %llu\n", name, (double)m->sum / 1e6, name,
		   (unsigned long long)m->n_requests);
}

void metrics_write(const struct metrics *m, struct buf *b)
{
	for (size_t i = 0; i < METRIC_MAX_; i++) {
		buf_printf(b, "# HELP %s %s\n# TYPE %s counter\n", families[i].name,
			   families[i].help, families[i].name);
		map_each(it, m->series[i])
			buf_printf(b, "%s{%s} %llu\n", families[i].name, it.key,
				   (unsigned long long)*(uint64_t *)it.value);
	}
	write_duration(m, b);
}
