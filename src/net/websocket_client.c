/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/parse.h"
#include "base/random.h"
#include "net/conn.h"
#include "net/http_client.h"
#include "net/websocket.h"
#include "net/websocket_priv.h"

/*
 * The handshake as a client: an exchange of net/http_client.h that asks for an upgrade. Only an
 * answer that was made for the key of this handshake, and that chooses one of the protocols
 * offered, makes a WebSocket; whatever else comes with 101 is refused and the connection cut.
 */
enum {
	KEY_LEN = 16,
	REFUSAL_MAX = 64 * 1024,
};

struct websocket_dial {
	struct websocket_dial_events ev;
	void *arg;
	struct http_exchange *x;
	char *proof; /* the Sec-WebSocket-Accept that is expected */
	const char *const *protocols;
	size_t max_message;
	int status;
	struct buf body; /* of a refusal */
};

static void dial_free(struct websocket_dial *d)
{
	buf_done(&d->body);
	free(d->proof);
	free(d);
}

static const char *chosen(const struct websocket_dial *d, const struct http_headers *h)
{
	const char *name = http_headers_get(h, "Sec-WebSocket-Protocol");

	for (size_t i = 0; name && d->protocols[i]; i++)
		if (str_eq(d->protocols[i], name))
			return d->protocols[i];
	return NULL;
}

static const char *answer_fault(const struct websocket_dial *d, const struct http_headers *h)
{
	if (!http_headers_has_token(h, "Connection", "upgrade") ||
	    !http_headers_has_token(h, "Upgrade", "websocket"))
		return "it upgrades to something else than WebSocket";
	if (!str_eq(http_headers_get(h, "Sec-WebSocket-Accept"), d->proof))
		return "Sec-WebSocket-Accept does not belong to our key";
	if (http_headers_get(h, "Sec-WebSocket-Extensions"))
		return "it chooses an extension that was not offered";
	if (!chosen(d, h))
		return "it chooses none of the sub-protocols offered";
	return NULL;
}

static void dial_fail(struct websocket_dial *d, const struct err *e)
{
	d->ev.failed(d->arg, e);
	dial_free(d);
}

static void on_head(void *arg, int status, struct http_headers *h)
{
	struct websocket_dial *d = arg;
	const char *fault;
	const char *protocol;
	struct websocket *w;

	d->status = status;
	if (status != 101)
		return; /* a refusal, whose body says why */
	fault = answer_fault(d, h);
	if (fault) {
		autoptr(err) e =
			err_new(ERR_MALFORMED, "the answer to the WebSocket handshake: %s", fault);

		http_exchange_cancel(d->x);
		dial_fail(d, e);
		return;
	}
	protocol = chosen(d, h);
	w = websocket_new(http_exchange_take_conn(d->x), d->max_message, true);
	d->ev.opened(d->arg, w, protocol);
	dial_free(d);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct websocket_dial *d = arg;

	buf_add(&d->body, data, MIN(len, (size_t)REFUSAL_MAX - d->body.len));
}

static void on_end(void *arg, unused struct http_headers *trailers)
{
	struct websocket_dial *d = arg;

	d->ev.refused(d->arg, d->status, (struct span){ buf_str(&d->body), d->body.len });
	dial_free(d);
}

static void on_failed(void *arg, const struct err *e)
{
	dial_fail(arg, e);
}

static void put_handshake(struct websocket_dial *d, struct http_headers *h)
{
	unsigned char key[KEY_LEN];
	autofree char *key_text = NULL;
	autobuf list = { 0 };

	random_bytes(key, sizeof(key));
	key_text = base64_encode(key, sizeof(key), false);
	d->proof = websocket_accept_key(key_text);
	for (size_t i = 0; d->protocols[i]; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", d->protocols[i]);
	http_headers_set(h, "Connection", "Upgrade");
	http_headers_set(h, "Upgrade", "websocket");
	http_headers_set(h, "Sec-WebSocket-Version", "13");
	http_headers_set(h, "Sec-WebSocket-Key", key_text);
	http_headers_set(h, "Sec-WebSocket-Protocol", buf_str(&list));
}

struct websocket_dial *websocket_dial(struct http_pool *p, const struct websocket_dial_spec *spec,
				      const struct websocket_dial_events *ev, void *arg)
{
	static const struct http_exchange_events events = {
		.head = on_head,
		.data = on_data,
		.end = on_end,
		.failed = on_failed,
	};
	struct websocket_dial *d = xnew(struct websocket_dial);
	struct http_headers h = { 0 };

	d->ev = *ev;
	d->arg = arg;
	d->protocols = spec->protocols;
	d->max_message = spec->max_message;
	for (size_t i = 0; spec->headers && i < spec->headers->n; i++)
		http_headers_add(&h, spec->headers->list[i].name, spec->headers->list[i].value);
	put_handshake(d, &h);
	d->x = http_exchange_start(p,
				   &(struct http_exchange_spec){ .addr = spec->addr,
								 .method = "GET",
								 .target = spec->target,
								 .headers = &h,
								 .connect_ms = spec->connect_ms,
								 .head_ms = spec->head_ms },
				   &events, d);
	http_headers_done(&h);
	return d;
}

void websocket_dial_cancel(struct websocket_dial *d)
{
	if (!d)
		return;
	http_exchange_cancel(d->x);
	dial_free(d);
}
