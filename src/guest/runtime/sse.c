/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/sse.h"

#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "guest/runtime/json_text.h"
#include "loop/loop.h"
#include "net/http_server.h"

enum {
	KEEP_ALIVE_MS = 15 * 1000,
};

struct sse {
	struct http_request *r;
	struct timer *timer;
	const struct sse_events *ev;
	void *arg;
	bool sent, gone;
};

static void on_gone(void *owner)
{
	struct sse *s = owner;

	s->gone = true;
	s->ev->gone(s->arg);
}

static void on_drained(void *owner)
{
	struct sse *s = owner;

	s->ev->drained(s->arg);
}

static void on_timer(void *arg)
{
	static const char comment[] = ": still here\n\n";
	struct sse *s = arg;

	if (!s->sent)
		http_respond_write(s->r, comment, sizeof(comment) - 1);
	s->sent = false;
	timer_set(s->timer, KEEP_ALIVE_MS);
}

struct sse *sse_new(struct http_request *r, const struct sse_events *ev, void *arg)
{
	struct http_headers h = { 0 };
	struct sse *s = xnew(struct sse);

	*s = (struct sse){ .r = http_request_ref(r), .ev = ev, .arg = arg };
	s->timer = timer_new(http_request_loop(r), on_timer, s);
	timer_set(s->timer, KEEP_ALIVE_MS);
	http_request_set_owner(r, s, on_gone);
	http_respond_on_drain(r, on_drained);
	http_headers_add(&h, "Content-Type", "text/event-stream");
	http_headers_add(&h, "Cache-Control", "no-cache");
	http_respond_start(r, 200, &h, -1);
	http_headers_done(&h);
	return s;
}

bool sse_full(const struct sse *s)
{
	return http_respond_full(s->r);
}

static void put(struct sse *s, struct buf *event)
{
	s->sent = true;
	http_respond_write(s->r, buf_head(event), event->len);
}

static void put_head(struct buf *out, const char *name, int64_t id)
{
	buf_printf(out, "event: %s\n", name);
	if (id != SSE_NO_ID)
		buf_printf(out, "id: %lld\n", (long long)id);
	buf_add_str(out, "data: ");
}

void sse_event(struct sse *s, const char *name, int64_t id, const char *json)
{
	autobuf out = { 0 };

	put_head(&out, name, id);
	buf_add_str(&out, json);
	buf_add_str(&out, "\n\n");
	put(s, &out);
}

void sse_bytes(struct sse *s, const char *name, int64_t id, const char *data, size_t len)
{
	autobuf out = { 0 };

	put_head(&out, name, id);
	if (utf8_valid(data, len)) {
		buf_add_str(&out, "{\"text\":\"");
		(void)json_escape(&out, data, len, len, false);
	} else {
		autofree char *text = base64_encode(data, len, false);

		buf_add_str(&out, "{\"base64\":\"");
		buf_add_str(&out, text);
	}
	buf_add_str(&out, "\"}\n\n");
	put(s, &out);
}

void sse_text(struct sse *s, struct sse_text *t, const char *name, int64_t end, struct span piece)
{
	autobuf all = { 0 };
	size_t hold;

	buf_add(&all, t->held, t->n_held);
	buf_add(&all, piece.p, piece.len);
	hold = utf8_unfinished(buf_head(&all), all.len);
	all.len -= hold;
	memcpy(t->held, buf_head(&all) + all.len, hold);
	t->n_held = (unsigned)hold;
	if (all.len)
		sse_bytes(s, name, end == SSE_NO_ID ? end : end - (int64_t)hold, buf_head(&all),
			  all.len);
}

void sse_text_end(struct sse *s, struct sse_text *t, const char *name, int64_t end)
{
	if (t->n_held)
		sse_bytes(s, name, end, t->held, t->n_held);
	t->n_held = 0;
}

void sse_end(struct sse *s)
{
	http_request_set_owner(s->r, NULL, NULL);
	http_respond_on_drain(s->r, NULL);
	http_respond_end(s->r);
	timer_free(s->timer);
	http_request_unref(s->r);
	free(s);
}

void sse_free(struct sse *s)
{
	if (!s)
		return;
	if (!s->gone) {
		http_request_set_owner(s->r, NULL, NULL);
		http_respond_on_drain(s->r, NULL);
		http_respond_abort(s->r);
	}
	timer_free(s->timer);
	http_request_unref(s->r);
	free(s);
}
