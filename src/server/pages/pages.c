/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pages/pages.h"

#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/platform.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/count.h"
#include "server/call/status.h"
#include "server/pages/pages_priv.h"
#include "store/store.h"

#define KUBERNETES_MINOR "36"
#define GIT_VERSION      "v1." KUBERNETES_MINOR ".0+cay-" CAY_VERSION

static void show_version(struct pages *ps unused, struct call *c)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "major", "1");
	json_set_str(d, o, "minor", KUBERNETES_MINOR);
	json_set_str(d, o, "gitVersion", GIT_VERSION);
	json_set_str(d, o, "gitCommit", "");
	json_set_str(d, o, "gitTreeState", "clean");
	json_set_str(d, o, "buildDate", "1970-01-01T00:00:00Z");
	json_set_str(d, o, "goVersion", "none");
	json_set_str(d, o, "compiler", "cc");
	json_set_str(d, o, "platform", "linux/" PLATFORM_ARCH);
	call_reply_json(c, STATUS_OK, d);
}

static void show_metrics(struct pages *ps, struct call *c)
{
	struct pages_counts n = { 0 };
	struct store_stats st;
	autobuf b = { 0 };

	ps->count(ps->arg, &n);
	store_stats(ps->store, &st);
	metrics_counter(&b, "cay_api_requests_total", "API requests.", n.requests);
	metrics_counter(&b, "cay_api_failures_total", "API requests refused.", n.failures);
	metrics_counter(&b, "cay_api_limited_total", "API requests answered with 429.", n.limited);
	metrics_gauge(&b, "cay_api_requests_under_way", "API requests not answered in full.",
		      n.under_way);
	metrics_gauge(&b, "cay_api_answer_bytes",
		      "Bytes of long answers held for their readers, at most.", n.answer_bytes);
	metrics_counter(&b, "cay_api_writes_total", "Objects written.", n.writes);
	metrics_counter(&b, "cay_api_watches_started_total", "Watches begun.", n.watches_started);
	metrics_counter(&b, "cay_api_events_encoded_total", "Watch events encoded.",
			n.events_encoded);
	metrics_gauge(&b, "cay_api_watches", "Watches open.", n.watches);
	metrics_gauge(&b, "cay_store_objects", "Objects stored.", store_len(ps->store));
	metrics_gauge(&b, "cay_store_revision", "Newest committed revision.",
		      store_committed_rev(ps->store));
	metrics_counter(&b, "cay_store_commits_total", "Group commits.", st.commits);
	metrics_counter(&b, "cay_store_rows_total", "Rows written.", st.rows);
	metrics_counter(&b, "cay_store_failed_commits_total",
			"Attempts to commit that failed; each is made again.", st.failed_commits);
	metrics_gauge(&b, "cay_store_read_only", "1 while commits fail and writes are refused.",
		      store_state(ps->store) == STORE_READ_ONLY);
	metrics_gauge(&b, "cay_store_short_of_space",
		      "1 while the disk is full and only deletions are accepted.",
		      store_state(ps->store) == STORE_SHORT);
	metrics_gauge(&b, "cay_store_pending", "Writes not committed yet.", st.pending);
	metrics_gauge(&b, "cay_store_history", "Events kept for watches.", st.history);
	metrics_gauge(&b, "cay_store_history_bytes", "Memory of past states kept for watches.",
		      st.history_bytes);
	store_write_metrics(ps->store, &b);
	call_counts_write(ps->calls, &b);
	for (size_t i = 0; i < ps->n_metrics; i++)
		ps->metrics[i].write(ps->metrics[i].arg, &b);
	call_reply_text(c, STATUS_OK, "text/plain; version=0.0.4", &b);
}

static const struct {
	const char *path;
	bool below; /* also what is below it */
	void (*show)(struct pages *ps, struct call *c);
} pages[] = {
	{ "/healthz", true, health_show },
	{ "/livez", true, health_show },
	{ "/readyz", true, health_show },
	{ "/version", false, show_version },
	{ "/metrics", false, show_metrics },
	{ "/openapi/v3", true, openapi_v3_show },
	{ "/openapi/v2", false, openapi_v2_show },
	{ "/openid/v1/jwks", false, issuer_show_keys },
	{ "/.well-known/openid-configuration", false, issuer_show },
};

static void show_root(struct call *c)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d), *list;

	json_set_root(d, o);
	list = json_set(d, o, "paths", json_arr(d));
	json_push_str(d, list, "/api");
	json_push_str(d, list, "/apis");
	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		json_push_str(d, list, pages[i].path);
	call_reply_json(c, STATUS_OK, d);
}

void pages_show(struct pages *ps, struct call *c)
{
	const char *path = c->route.path;

	if (c->route.verb != VERB_LIST && c->route.verb != VERB_WATCH) {
		call_fail(c, err_no_method());
		return;
	}
	if (str_eq(path, "/")) {
		show_root(c);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		size_t len = strlen(pages[i].path);

		if (str_starts(path, pages[i].path) &&
		    (!path[len] || (pages[i].below && path[len] == '/'))) {
			pages[i].show(ps, c);
			return;
		}
	}
	if (!discovery_show(ps, c))
		call_fail(c, err_no_resource());
}

void pages_done(struct pages *ps)
{
	map_free(take(ps->documents));
	free(take(ps->jwks));
}
