/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "guest/files/files.h"
#include "guest/files/rest_priv.h"
#include "guest/files/watcher.h"
#include "guest/runtime/json_text.h"
#include "guest/runtime/reply.h"
#include "guest/runtime/runtime.h"
#include "guest/runtime/sse.h"
#include "net/http_server.h"

/* GET /v1/watch/PATH: changes of files, as events. */
struct watching {
	struct sse *sse;
	struct watcher *w;
};

static const char *const names[WATCH_CHANGE_MAX_] = {
	[WATCH_CREATE] = "create", [WATCH_CHANGED] = "write", [WATCH_REMOVE] = "remove",
	[WATCH_RENAME] = "rename", [WATCH_CHMOD] = "chmod",   [WATCH_ERROR] = "error",
};

static bool on_full(void *arg)
{
	return sse_full(((struct watching *)arg)->sse);
}

static void put_member(struct buf *out, const char *name, const char *text)
{
	if (!text)
		return;
	buf_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", name);
	json_put_string(out, text);
}

static void on_change(void *arg, const struct change *c)
{
	struct watching *s = arg;
	autobuf json = { 0 };

	buf_add_char(&json, '{');
	put_member(&json, "path", c->path);
	put_member(&json, "old_path", c->old);
	put_member(&json, "error", c->text);
	buf_add_char(&json, '}');
	sse_event(s->sse, names[c->type], SSE_NO_ID, buf_str(&json));
}

static void on_over(void *arg)
{
	struct watching *s = arg;

	sse_end(s->sse);
	watcher_free(s->w);
	free(s);
}

static void on_drained(void *arg)
{
	watcher_drained(((struct watching *)arg)->w);
}

static void on_gone(void *arg)
{
	struct watching *s = arg;

	sse_free(s->sse);
	watcher_free(s->w);
	free(s);
}

void rest_watch_serve(struct face *f, struct http_request *r, const char *tail)
{
	static const struct watcher_events watcher_events = { on_full, on_change, on_over };
	static const struct sse_events sse_events = { on_drained, on_gone };
	autofree char *text = http_query_get(http_request_query(r), "recursive");
	struct watching *s;
	struct watcher *w;
	bool recursive;
	struct err *e;

	if (!rest_bool(text, &recursive)) {
		rest_error(r, 400, "INVALID_ARGUMENT", "recursive must be true or false");
		return;
	}
	e = watcher_new(f->rt, f->base, tail, recursive, &w);
	if (e) {
		rest_absent(r, e);
		return;
	}
	s = xnew(struct watching);
	s->w = w;
	s->sse = sse_new(r, &sse_events, s);
	sse_event(s->sse, "watching", SSE_NO_ID, "{}");
	watcher_begin(w, &watcher_events, s);
}
