/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/count.h"

#include "api/kind.h"
#include "base/series.h"
#include "base/str.h"
#include "server/call/call.h"
#include "server/call/route.h"

/*
 * Paths are the clients' to choose, so only what is served becomes a label: a group that does not
 * exist counts under "".
 */
static const uint32_t duration_us[] = { 5000,     25000,    50000,    100000,   200000,  400000,
					600000,   800000,   1000000,  1250000,  1500000, 2000000,
					3000000,  4000000,  5000000,  6000000,  8000000, 10000000,
					15000000, 20000000, 30000000, 45000000, 60000000 };
static const uint32_t fine_us[] = { 100,   250,    500,    1000,   2500,    5000,    10000,   25000,
				    50000, 100000, 250000, 500000, 1000000, 2500000, 10000000 };

/* As kube-apiserver orders them. */
enum {
	L_VERB,
	L_DRY_RUN,
	L_GROUP,
	L_VERSION,
	L_RESOURCE,
	L_SUBRESOURCE,
	L_SCOPE,
	L_COMPONENT,
	L_CODE,
	L_MAX_,
};
#define LABELS \
	"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"

static const struct series_spec total_spec = {
	"apiserver_request_total",
	"API requests, by what was asked for and how it was answered.",
	SERIES_COUNTER,
	{ LABELS, "code" },
	.max = 1000,
};
static const struct series_spec duration_spec = {
	"apiserver_request_duration_seconds",
	"From the head of an API request to the end of its answer; of a watch, to its end.",
	SERIES_HISTOGRAM,
	{ LABELS },
	duration_us,
	ARRAY_LEN(duration_us),
	1000000,
	.max = 300,
};
static const struct series_spec fine_spec = {
	"cay_api_request_seconds",
	"The same in finer steps, without watches and streams.",
	SERIES_HISTOGRAM,
	{ "verb" },
	fine_us,
	ARRAY_LEN(fine_us),
	1000000,
	.max = 16,
};

struct call_counts {
	struct series *total, *duration, *fine;
};

struct call_counts *call_counts_new(void)
{
	struct call_counts *n = xnew(struct call_counts);

	n->total = series_new(&total_spec);
	n->duration = series_new(&duration_spec);
	n->fine = series_new(&fine_spec);
	return n;
}

void call_counts_free(struct call_counts *n)
{
	if (!n)
		return;
	series_free(n->total);
	series_free(n->duration);
	series_free(n->fine);
	free(n);
}

/* Upstream's words for a verb are mostly methods. */
static const char *verb_of(const struct call *c, enum sub sub)
{
	static const char *const names[VERB_MAX_] = {
		[VERB_GET] = "GET",       [VERB_LIST] = "LIST",
		[VERB_WATCH] = "WATCH",   [VERB_CREATE] = "POST",
		[VERB_UPDATE] = "PUT",    [VERB_PATCH] = "PATCH",
		[VERB_DELETE] = "DELETE", [VERB_DELETE_COLLECTION] = "DELETECOLLECTION",
	};

	if (route_is_raw(&c->route) || sub == SUB_LOG)
		return "CONNECT";
	if (c->applies)
		return "APPLY";
	if (!c->route.resource && c->route.verb == VERB_LIST)
		return "GET";
	return names[c->route.verb];
}

static const char *scope_of(const struct route *r)
{
	if (!str_empty(r->name) || (r->resource && r->verb == VERB_CREATE))
		return "resource";
	if (!str_empty(r->ns))
		return "namespace";
	return r->resource ? "cluster" : "";
}

static const char *code_of(int status, char text[4])
{
	if (status < 100 || status > 599)
		return "0";
	text[0] = (char)('0' + status / 100);
	text[1] = (char)('0' + status / 10 % 10);
	text[2] = (char)('0' + status % 10);
	text[3] = '\0';
	return text;
}

void call_counts_add(struct call_counts *n, const struct call *c)
{
	const struct route *r = &c->route;
	enum sub sub = r->kind && !str_empty(r->sub) ? subresource_find(r->kind, r->sub) : SUB_MAX_;
	uint64_t took = (uint64_t)(clock_mono() - c->began);
	char code[4];
	const char *const labels[L_MAX_] = {
		[L_VERB] = verb_of(c, sub),
		[L_DRY_RUN] = c->dry_run ? "All" : "",
		[L_GROUP] = r->kind ? r->kind->group : "",
		[L_VERSION] = r->kind ? r->kind->version : "",
		[L_RESOURCE] = r->kind ? r->kind->plural : "",
		[L_SUBRESOURCE] = sub == SUB_MAX_ ? "" : subresources[sub].name,
		[L_SCOPE] = scope_of(r),
		[L_COMPONENT] = "apiserver",
		[L_CODE] = code_of(c->status, code),
	};

	series_add(n->total, labels, 1);
	series_observe(n->duration, labels, took);
	if (r->verb != VERB_WATCH && !route_is_raw(r))
		series_observe(n->fine, &labels[L_VERB], took);
}

void call_counts_write(const struct call_counts *n, struct buf *b)
{
	series_write(n->total, b);
	series_write(n->duration, b);
	series_write(n->fine, b);
}
