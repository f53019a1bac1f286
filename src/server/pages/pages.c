/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"
#include "base/bytes.h"
#include "server/server_priv.h"

/*
 * Pages of the server itself: health, version, metrics, OpenAPI; discovery is next door.
 */
#define KUBERNETES_MINOR "36"
#define GIT_VERSION      "v1." KUBERNETES_MINOR ".0+cay-" CAY_VERSION

static void page_version(struct call *c)
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
	json_set_str(d, o, "platform", "linux/amd64");
	call_reply_json(c, STATUS_OK, d);
}

/* Alive while it answers at all; ready while it takes writes too. */
static void page_health(struct call *c)
{
	bool ready_page = str_starts(c->route.path, "/readyz");
	bool writable = store_writable(c->s->store);
	bool ok = !ready_page || (c->s->ready && writable);
	autobuf b = { 0 };

	if (call_query(c, "verbose"))
		buf_printf(&b, "[+]ping ok\n%s\n%s check %s\n",
			   writable ? "[+]store ok" : "[-]store failed: read-only",
			   c->route.path + 1, ok ? "passed" : "failed");
	else
		buf_add_str(&b, ok ? "ok" : "not ready");
	call_reply_text(c, ok ? STATUS_OK : status_of(ERR_UNAVAILABLE), "text/plain; charset=utf-8",
			&b);
}

static void metric(struct buf *b, const char *name, const char *type, const char *help,
		   uint64_t value)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name,
		   (unsigned long long)value);
}

static void page_metrics(struct call *c)
{
	const struct server_counts *n = &c->s->counts;
	struct store_stats st;
	autobuf b = { 0 };

	store_stats(c->s->store, &st);
	metric(&b, "cay_api_requests_total", "counter", "API requests.", n->requests);
	metric(&b, "cay_api_failures_total", "counter", "API requests refused.", n->failures);
	metric(&b, "cay_api_writes_total", "counter", "Objects written.", n->writes);
	metric(&b, "cay_api_watches_started_total", "counter", "Watches begun.",
	       n->watches_started);
	metric(&b, "cay_api_watches", "gauge", "Watches open.", n->watches);
	metric(&b, "cay_store_objects", "gauge", "Objects stored.", store_len(c->s->store));
	metric(&b, "cay_store_revision", "counter", "Newest committed revision.",
	       store_committed_rev(c->s->store));
	metric(&b, "cay_store_commits_total", "counter", "Group commits.", st.commits);
	metric(&b, "cay_store_rows_total", "counter", "Rows written.", st.rows);
	metric(&b, "cay_store_pending", "gauge", "Writes not committed yet.", st.pending);
	metric(&b, "cay_store_history", "gauge", "Events kept for watches.", st.history);
	call_reply_text(c, STATUS_OK, "text/plain; version=0.0.4", &b);
}

static void bytes_drop(void *value)
{
	bytes_unref(value);
}

/* Kept until the kinds change. NULL: there is no such document. */
static struct bytes *document(struct server *s, const char *path,
			      struct json_doc *(*make)(const struct server *s,
						       const char *const *gv),
			      const char *const *gv)
{
	struct bytes *b;
	autoptr(json_doc) d = NULL;

	if (!s->documents || s->documents_of != kinds_version(s->registry)) {
		map_free(s->documents);
		s->documents = map_new(bytes_drop);
		s->documents_of = kinds_version(s->registry);
	}
	b = map_get(s->documents, path);
	if (b)
		return bytes_ref(b);
	d = make(s, gv);
	if (!d)
		return NULL;
	b = json_to_bytes(json_root(d));
	map_put(s->documents, path, bytes_ref(b));
	return b;
}

static struct json_doc *make_index(const struct server *s, const char *const *gv unused)
{
	return openapi_v3_index(s->registry);
}

static struct json_doc *make_group(const struct server *s, const char *const *gv)
{
	const struct kind *const *all;
	size_t n;

	all = kinds_all(s->registry, &n);
	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i]->group, gv[0]) && str_eq(all[i]->version, gv[1]))
			return openapi_v3(s->registry, gv[0], gv[1]);
	return NULL;
}

static void not_found(struct call *c)
{
	call_fail(c, err_new(ERR_NOT_FOUND, "the server could not find the requested resource"));
}

static void page_openapi(struct call *c)
{
	const char *path = c->route.path + strlen("/openapi/v3"), *slash;
	const char *gv[2] = { "", "" };
	struct bytes *b = NULL;

	if (!*path) {
		b = document(c->s, c->route.path, make_index, NULL);
	} else if (str_starts(path, "/api/")) {
		gv[1] = path + strlen("/api/");
		b = document(c->s, c->route.path, make_group, gv);
	} else if (str_starts(path, "/apis/") && (slash = strchr(path + 6, '/'))) {
		gv[0] = arena_strndup(c->arena, path + 6, (size_t)(slash - path - 6));
		gv[1] = slash + 1;
		b = document(c->s, c->route.path, make_group, gv);
	}
	if (b)
		call_reply_document(c, "application/json", b->data);
	else
		not_found(c);
	bytes_unref(b);
}

static const struct {
	const char *path;
	bool below; /* also what is below it */
	void (*handle)(struct call *c);
} pages[] = {
	{ "/healthz", true, page_health },         { "/livez", true, page_health },
	{ "/readyz", true, page_health },          { "/version", false, page_version },
	{ "/metrics", false, page_metrics },       { "/openapi/v3", true, page_openapi },
	{ "/openapi/v2", false, page_openapi_v2 },
};

static void page_root(struct call *c)
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

void handle_page(struct call *c)
{
	const char *path = c->route.path;

	if (c->route.verb != VERB_LIST && c->route.verb != VERB_WATCH) {
		call_fail(c, err_new(ERR_METHOD, "the server does not allow this method on the "
						 "requested resource"));
		return;
	}
	if (str_eq(path, "/")) {
		page_root(c);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		size_t len = strlen(pages[i].path);

		if (str_starts(path, pages[i].path) &&
		    (!path[len] || (pages[i].below && path[len] == '/'))) {
			pages[i].handle(c);
			return;
		}
	}
	if (!discovery_page(c))
		not_found(c);
}
