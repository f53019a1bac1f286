/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "guest/files/watcher.h"
#include "guest/rpc/pb_priv.h"
#include "guest/rpc/rpc_priv.h"

/* The service watcher.v1.FileWatcherService: changes of files, over gRPC. */
struct watch_request {
	char *path;
	bool recursive;
};

static const struct pb_field request_fields[] = {
	{ "path", 1, PB_STRING, .at = offsetof(struct watch_request, path), .seen = PB_UNSEEN },
	{ "recursive", 2, PB_BOOL, .at = offsetof(struct watch_request, recursive),
	  .seen = PB_UNSEEN },
	{ 0 },
};
static const struct pb_message request_message = { "WatchDirRequest", sizeof(struct watch_request),
						   request_fields };

static const struct pb_enum types = { "FileEventType",
				      { { "FILE_EVENT_TYPE_UNSPECIFIED", 0 },
					{ "FILE_EVENT_TYPE_CREATE", WATCH_CREATE },
					{ "FILE_EVENT_TYPE_WRITE", WATCH_CHANGED },
					{ "FILE_EVENT_TYPE_REMOVE", WATCH_REMOVE },
					{ "FILE_EVENT_TYPE_RENAME", WATCH_RENAME },
					{ "FILE_EVENT_TYPE_CHMOD", WATCH_CHMOD },
					{ "FILE_EVENT_TYPE_ERROR", WATCH_ERROR } } };

enum {
	EVENT_TYPE = 1,
	EVENT_PATH,
	EVENT_OLD_PATH,
	EVENT_ERROR,
};
static const struct pb_field event_fields[] = {
	{ "type", EVENT_TYPE, PB_ENUM, .values = &types },
	{ "path", EVENT_PATH, PB_STRING },
	{ "old_path", EVENT_OLD_PATH, PB_STRING },
	{ "error", EVENT_ERROR, PB_STRING },
	{ 0 },
};
static const struct pb_message event_message = { "FileEvent", 0, event_fields };

struct watching {
	struct rpc *c;
	struct watcher *w;
};

static void watching_free(struct watching *x)
{
	watcher_free(x->w);
	free(x);
}

static bool on_full(void *arg)
{
	return rpc_full(((struct watching *)arg)->c);
}

/* Names need not be UTF-8, and texts of protobuf must be. */
static void put_path(struct buf *out, uint32_t number, const char *path)
{
	size_t len = strlen(path);
	autobuf text = { 0 };

	while (len) {
		size_t n = utf8_prefix(path, len);

		buf_add(&text, path, n);
		if (n < len) {
			buf_add_str(&text, "\xef\xbf\xbd");
			n++;
		}
		path += n;
		len -= n;
	}
	pb_put_text(out, number, buf_str(&text));
}

static void on_change(void *arg, const struct change *c)
{
	struct watching *x = arg;
	autobuf message = { 0 };

	pb_put_int(&message, EVENT_TYPE, c->type);
	put_path(&message, EVENT_PATH, c->path);
	if (c->old)
		put_path(&message, EVENT_OLD_PATH, c->old);
	if (c->text)
		put_path(&message, EVENT_ERROR, c->text);
	rpc_send(x->c, &message);
}

static void on_over(void *arg)
{
	struct watching *x = arg;

	rpc_finish(x->c, RPC_OK, "%s", "");
	watching_free(x);
}

static void on_gone(void *arg)
{
	watching_free(arg);
}

static void on_drained(void *arg)
{
	watcher_drained(((struct watching *)arg)->w);
}

static void watch_dir(struct rpc *c, const void *request)
{
	static const struct watcher_events watcher_events = { on_full, on_change, on_over };
	static const struct rpc_events events = { on_gone, on_drained };
	const struct watch_request *q = request;
	struct watching *x = xnew(struct watching);
	struct err *e =
		watcher_new(rpc_rt(c), rpc_base(c), q->path ? q->path : "", q->recursive, &x->w);

	if (e) {
		free(x);
		rpc_fail(c, e);
		return;
	}
	x->c = c;
	rpc_own(c, &events, x);
	rpc_begin(c); /* from now on the client knows that nothing escapes it */
	watcher_begin(x->w, &watcher_events, x);
}

static const struct rpc_method methods[] = {
	{ "WatchDir", &request_message, &event_message, watch_dir, .many_answers = true },
	{ 0 },
};
const struct rpc_service watcher_service = { "watcher.v1", "FileWatcherService",
					     "watcher/v1/watcher.proto", methods };
