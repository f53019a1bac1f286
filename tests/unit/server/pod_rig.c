/* SPDX-License-Identifier: Apache-2.0 */
#include "pod_rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/object.h"
#include "base/bytes.h"
#include "base/parse.h"
#include "kinds.h"
#include "net/http_server.h"
#include "net/spdy_headers_priv.h"
#include "net/stream.h"
#include "server/streams/streams_priv.h"
#include "store/store.h"
#include "test.h"

/* The node */

struct run {
	struct list link;
	struct node *node;
	const struct access_events *ev;
	void *arg;
	char program[16];
	size_t left;
	int code, signal;
	bool paused, full, over, input_ended, follow, refused;
	struct deferred step;
	struct buf out;
};

static void run_end(struct run *r, const struct err *e, int code, int signal)
{
	r->over = true;
	r->ev->ended(r->arg, e, code, signal);
}

static void run_flood(struct run *r)
{
	static char block[32 * 1024];

	memset(block, 'x', sizeof(block));
	while (!r->paused && !r->over && r->left) {
		size_t len = MIN(r->left, sizeof(block));

		r->left -= len;
		r->ev->output(r->arg, 1, block, len);
	}
	if (!r->over && !r->paused && !r->left)
		run_end(r, NULL, 0, 0);
}

static void run_say(struct run *r)
{
	r->ev->output(r->arg, 1, "out", 3);
	r->ev->output(r->arg, 2, "err", 3);
	run_end(r, NULL, r->code, r->signal);
}

static void run_log(struct run *r)
{
	autoptr(err) e =
		r->node->torn || r->node->silent ? err_new(ERR_INTERNAL, "read log") : NULL;

	if (!r->node->silent)
		r->ev->output(r->arg, 1, "one\ntwo\n", 8);
	if (!r->over && (e || !r->follow))
		run_end(r, e, 0, 0);
}

static void run_cat(struct run *r)
{
	if (r->refused) {
		autoptr(err) e = err_new(ERR_UNAVAILABLE, "connect: refused");

		run_end(r, e, 0, 0);
		return;
	}
	if (r->out.len && !r->paused) {
		r->ev->output(r->arg, 1, buf_head(&r->out), r->out.len);
		buf_clear(&r->out);
	}
	if (r->input_ended && !r->out.len && !r->over)
		run_end(r, NULL, 0, 0);
}

static void run_step(void *arg)
{
	struct run *r = arg;

	if (r->over)
		return;
	if (str_eq(r->program, "flood"))
		run_flood(r);
	else if (str_eq(r->program, "say"))
		run_say(r);
	else if (str_eq(r->program, "log"))
		run_log(r);
	else if (!str_eq(r->program, "hang"))
		run_cat(r);
}

static void run_kick(struct run *r)
{
	if (!r->over)
		deferred_call(&r->step);
}

static struct err *run_start(struct node *n, const char *program, const struct access_events *ev,
			     void *arg, void **ret)
{
	struct run *r;

	if (n->refuse)
		return err_copy(n->refuse);
	r = xnew(struct run);
	r->node = n;
	r->ev = ev;
	r->arg = arg;
	(void)snprintf(r->program, sizeof(r->program), "%s", program);
	deferred_init(&r->step, n->l, run_step, r);
	list_add_tail(&n->runs, &r->link);
	n->n_started++;
	run_kick(r);
	*ret = r;
	return NULL;
}

static void remember(struct node *n, const struct access_target *to)
{
	(void)snprintf(n->container, sizeof(n->container), "%s",
		       to->container ? to->container : "");
	(void)snprintf(n->user, sizeof(n->user), "%s", to->user);
}

static int number(const char *text)
{
	int64_t v = 0;

	if (text)
		works(parse_int(text, 0, INT32_MAX, &v));
	return (int)v;
}

static struct err *node_exec(void *ctx, const struct access_exec_spec *spec,
			     const struct access_events *ev, void *arg, void **ret)
{
	struct node *n = ctx;
	const char *first = spec->argv[1];
	struct err *e = run_start(n, spec->argv[0], ev, arg, ret);
	struct run *r;

	if (e)
		return e;
	r = *ret;
	remember(n, &spec->to);
	r->code = number(first);
	r->left = (size_t)r->code;
	r->signal = number(first ? spec->argv[2] : NULL);
	return NULL;
}

static struct err *node_logs(void *ctx, const struct access_log_spec *spec,
			     const struct access_events *ev, void *arg, void **ret)
{
	struct node *n = ctx;
	struct err *e = run_start(n, "log", ev, arg, ret);

	if (e)
		return e;
	((struct run *)*ret)->follow = spec->follow;
	remember(n, &spec->to);
	n->log = *spec;
	return NULL;
}

static struct err *node_dial(void *ctx, const struct access_dial_spec *spec,
			     const struct access_events *ev, void *arg, void **ret)
{
	struct node *n = ctx;
	struct err *e = run_start(n, "cat", ev, arg, ret);

	if (e)
		return e;
	remember(n, &spec->to);
	((struct run *)*ret)->refused = spec->port == 9;
	return NULL;
}

static void node_write(void *session, const void *p, size_t len)
{
	struct run *r = session;

	r->node->written += len;
	if (str_eq(r->program, "stuck")) {
		r->full = true;
		return;
	}
	buf_add(&r->out, p, len);
	run_kick(r);
}

static bool node_full(void *session)
{
	return ((struct run *)session)->full;
}

static void node_end_input(void *session)
{
	struct run *r = session;

	r->input_ended = true;
	run_kick(r);
}

static void node_resize(void *session, uint16_t cols, uint16_t rows)
{
	struct run *r = session;

	buf_printf(&r->out, "%ux%u ", cols, rows);
	run_kick(r);
}

static void node_pause(void *session, bool paused)
{
	struct run *r = session;

	r->paused = paused;
	if (paused)
		r->node->n_paused++;
	else
		run_kick(r);
}

static void node_cancel(void *session)
{
	struct run *r = session;

	r->over = true;
	r->node->n_canceled++;
}

static const struct access_ops node_ops = {
	.exec = node_exec,
	.logs = node_logs,
	.dial = node_dial,
	.write = node_write,
	.full = node_full,
	.end_input = node_end_input,
	.resize = node_resize,
	.pause = node_pause,
	.cancel = node_cancel,
};

void node_drain(struct pod_rig *r)
{
	struct run *run;

	list_each(run, &r->node.runs, link) {
		if (!run->full || run->over)
			continue;
		run->full = false;
		run->ev->drained(run->arg);
	}
}

/* The server */

static void on_head(void *arg, struct http_request *req)
{
	struct pod_rig *r = arg;
	struct call *c = call_new(&r->calls, req);

	c->user.name = "eve";
	works(route_read(c));
	switch (subresource_find(c->route.kind, c->route.sub)) {
	case SUB_LOG:
		streams_log(&r->pods, c);
		break;
	case SUB_EXEC:
		streams_exec(&r->pods, c);
		break;
	case SUB_ATTACH:
		streams_attach(&r->pods, c);
		break;
	default:
		streams_forward(&r->pods, c);
		break;
	}
}

static void put_pod(struct pod_rig *r, const char *name, const char *json)
{
	autofree char *key = key_of(kind_named("Pod"), "default", name);
	autofree char *text = xasprintf(
		"{\"metadata\":{\"namespace\":\"default\",\"name\":\"%s\"},%s}", name, json);
	autoptr(bytes) value = bytes_new(text, strlen(text));
	struct json_doc *d;

	works(json_parse(text, strlen(text), NULL, &d));
	works(store_put(r->objects.store, key, value, object_new(kind_named("Pod"), d), 0));
}

static void tag_free(void *tag)
{
	object_unref(tag);
}

static void start_zip(struct pod_rig *r)
{
	size_t len;
	const unsigned char *dict = spdy_dictionary(&len);

	eq_int(deflateInit(&r->zip, 9), Z_OK);
	eq_int(deflateSetDictionary(&r->zip, dict, (uInt)len), Z_OK);
}

int pod_rig_another(struct pod_rig *r)
{
	int fds[2], first = r->fd;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		fail_msg("no socket pair");
	r->fd = fds[1];
	http_server_adopt(r->http, stream_plain(fds[0]), "test");
	return first;
}

void pod_rig_init(struct pod_rig *r)
{
	static const struct http_handler handler = { on_head };
	struct http_server_spec http = { .handler = &handler, .arg = r };
	static const struct store_tags tags = { .free = tag_free };
	struct store_spec store = { .path = ":memory:", .tags = &tags };

	*r = (struct pod_rig){ .fd = -1 };
	works(loop_new(&r->l));
	list_init(&r->node.runs);
	r->node.l = r->l;
	streams_init(&r->pods, &r->objects, r->l);
	r->objects.kinds = r->calls.kinds = test_kinds();
	r->objects.pod = kind_named("Pod");
	works(store_open(r->l, &store, &r->objects.store));
	r->calls.store = r->objects.store;
	r->pods.access = access_new(&node_ops, &r->node);
	put_pod(r, "web", "\"spec\":{\"containers\":[{\"name\":\"main\"}]}");
	put_pod(r, "two", "\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]}");
	put_pod(r, "over",
		"\"spec\":{\"containers\":[{\"name\":\"main\"}]},"
		"\"status\":{\"phase\":\"Succeeded\"}");
	works(http_server_start(r->l, -1, &http, &r->http));
	(void)pod_rig_another(r);
	start_zip(r);
}

void pod_rig_done(struct pod_rig *r)
{
	struct run *run, *next;

	http_server_free(r->http);
	streams_cut(&r->pods);
	eq_int(r->pods.n_open, 0);
	pod_rig_hang_up(r);
	for (int i = 0; i < 20; i++)
		loop_turn(r->l, 0);
	list_each_safe(run, next, &r->node.runs, link) {
		is_true(run->over); /* nothing goes on behind a client that left */
		buf_done(&run->out);
		free(run);
	}
	err_free(r->node.refuse);
	store_free(r->objects.store);
	access_free(r->pods.access);
	(void)deflateEnd(&r->zip);
	buf_done(&r->in);
	for (int i = 0; i < 20; i++)
		loop_turn(r->l, 0);
	loop_free(r->l);
}

void pod_rig_hang_up(struct pod_rig *r)
{
	if (r->fd >= 0)
		(void)close(r->fd);
	r->fd = -1;
}

/* The client */

static void send_all(struct pod_rig *r, const void *p, size_t len)
{
	usec end = clock_mono() + 10 * 1000000;
	size_t done = 0;

	while (done < len) {
		ssize_t n = send(r->fd, (const char *)p + done, len - done, MSG_NOSIGNAL);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EAGAIN)
			return; /* cut: what came before tells more */
		if (clock_mono() > end)
			fail_msg("sent %zu of %zu bytes", done, len);
		loop_turn(r->l, n > 0 ? 0 : 10);
	}
}

void send_buf(struct pod_rig *r, struct buf *b)
{
	send_all(r, buf_head(b), b->len);
	buf_clear(b);
}

/* False at the end. */
static bool fill(struct pod_rig *r)
{
	usec end = clock_mono() + 10 * 1000000;
	ssize_t n;

	for (;;) {
		n = read(r->fd, buf_reserve(&r->in, 65536), 65536);
		if (n > 0)
			buf_wrote(&r->in, (size_t)n);
		if (n >= 0 || errno != EAGAIN)
			return n > 0;
		if (clock_mono() > end)
			fail_msg("waited in vain; unread: \"%s\"", buf_str(&r->in));
		loop_turn(r->l, 10);
	}
}

size_t read_bytes(struct pod_rig *r, char *ret, size_t len)
{
	while (r->in.len < len && fill(r))
		;
	len = MIN(len, r->in.len);
	if (len)
		memcpy(ret, buf_head(&r->in), len);
	buf_eat(&r->in, len);
	return len;
}

char *read_to(struct pod_rig *r, const char *needle)
{
	const char *at = NULL;
	char *text;
	size_t len;

	while (!(needle && (at = strstr(buf_str(&r->in), needle))) && fill(r))
		;
	len = at ? (size_t)(at - buf_head(&r->in)) + strlen(needle) : r->in.len;
	text = xstrndup(buf_str(&r->in), len);
	buf_eat(&r->in, len);
	return text;
}

char *read_head(struct pod_rig *r)
{
	return read_to(r, "\r\n\r\n");
}

void pod_ask(struct pod_rig *r, const char *what, const char *headers)
{
	struct span path, method = span_cut(SPAN(what), ' ', &path);
	autobuf b = { 0 };

	buf_printf(&b, "%.*s /api/v1/namespaces/default/pods/%s%s HTTP/1.1\r\nHost: a\r\n%s\r\n",
		   (int)method.len, method.p, path.p[0] == '/' ? "web" : "", path.p, headers);
	send_buf(r, &b);
}

/* WebSocket */

void ws_open(struct pod_rig *r, const char *what, const char *protocol)
{
	autofree char *head = NULL;
	autobuf h = { 0 };

	buf_add_str(&h, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
	if (protocol)
		buf_printf(&h, "Sec-WebSocket-Protocol: %s\r\n", protocol);
	pod_ask(r, what, buf_str(&h));
	head = read_head(r);
	if (!str_starts(head, "HTTP/1.1 101 "))
		fail_msg("%s", head);
}

void ws_send(struct pod_rig *r, const void *p, size_t len)
{
	const unsigned char *from = p;
	autobuf b = { 0 };

	buf_add_char(&b, (char)0x82);
	if (len < 126) {
		buf_add_char(&b, (char)(0x80 | len));
	} else {
		buf_add_char(&b, (char)(0x80 | 126));
		buf_add_char(&b, (char)(len >> 8));
		buf_add_char(&b, (char)len);
	}
	buf_add(&b, "\1\2\3\4", 4);
	for (size_t i = 0; i < len; i++)
		buf_add_char(&b, (char)(from[i] ^ (1 + i % 4)));
	send_buf(r, &b);
}

unsigned ws_next(struct pod_rig *r, struct buf *ret)
{
	unsigned char head[2], more[8];
	size_t len, n_ext;

	buf_clear(ret);
	eq_int(read_bytes(r, (char *)head, 2), 2);
	len = head[1];
	n_ext = len == 126 ? 2 : len == 127 ? 8 : 0;
	eq_int(read_bytes(r, (char *)more, n_ext), n_ext);
	if (n_ext)
		len = 0;
	for (size_t i = 0; i < n_ext; i++)
		len = len << 8 | more[i];
	eq_int(read_bytes(r, buf_reserve(ret, len + 1), len), len);
	buf_wrote(ret, len);
	return head[0] & 0xf;
}

void ws_expect(struct pod_rig *r, char channel, const char *text)
{
	autobuf b = { 0 };

	eq_int(ws_next(r, &b), 2);
	is_true(b.len > 0);
	eq_int(buf_head(&b)[0], channel);
	eq_str(buf_str(&b) + 1, text);
}

void ws_expect_close(struct pod_rig *r, unsigned code)
{
	autobuf b = { 0 };
	const unsigned char *p;

	eq_int(ws_next(r, &b), 8);
	eq_int(b.len, 2);
	p = (const unsigned char *)buf_head(&b);
	eq_int((unsigned)p[0] << 8 | p[1], code);
}

/* SPDY */

void spdy_open(struct pod_rig *r, const char *what, const char *protocols)
{
	autofree char *headers = xasprintf("Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
					   "Content-Length: 0\r\n%s",
					   protocols);
	autofree char *head = NULL;

	pod_ask(r, what, headers);
	head = read_head(r);
	if (!str_starts(head, "HTTP/1.1 101 ") || !strstr(head, "Upgrade: SPDY/3.1\r\n"))
		fail_msg("%s", head);
}

static void put_u32(struct buf *b, uint32_t v)
{
	for (int i = 24; i >= 0; i -= 8)
		buf_add_char(b, (char)(v >> i));
}

static void put_str(struct buf *b, const char *s, size_t len)
{
	put_u32(b, (uint32_t)len);
	buf_add(b, s, len);
}

static void put_zipped(struct pod_rig *r, struct buf *to, struct buf *plain)
{
	size_t room = plain->len * 2 + 4096;

	r->zip.next_in = (Bytef *)buf_head(plain);
	r->zip.avail_in = (uInt)plain->len;
	r->zip.next_out = (Bytef *)buf_reserve(to, room);
	r->zip.avail_out = (uInt)room;
	eq_int(deflate(&r->zip, Z_SYNC_FLUSH), Z_OK);
	buf_wrote(to, room - r->zip.avail_out);
}

void spdy_put_stream(struct pod_rig *r, struct buf *b, uint32_t id, const char *type,
		     const char *request)
{
	struct span requestid, port = span_cut(SPAN(request ? request : ""), ' ', &requestid);
	autobuf plain = { 0 };
	autobuf payload = { 0 };

	put_u32(&plain, request ? 3 : 1);
	put_str(&plain, "streamtype", 10);
	put_str(&plain, type, strlen(type));
	if (request) {
		put_str(&plain, "port", 4);
		put_str(&plain, port.p, port.len);
		put_str(&plain, "requestid", 9);
		put_str(&plain, requestid.p, requestid.len);
	}
	put_u32(&payload, id);
	put_u32(&payload, 0);
	buf_add(&payload, "\0\0", 2);
	put_zipped(r, &payload, &plain);
	put_u32(b, 0x80030001);
	put_str(b, buf_head(&payload), payload.len);
}

void spdy_put_data(struct buf *b, uint32_t id, bool end, const char *text)
{
	put_u32(b, id);
	put_u32(b, (uint32_t)(end ? 1 << 24 : 0) | (uint32_t)strlen(text));
	buf_add_str(b, text);
}

void spdy_put_reset(struct buf *b, uint32_t id)
{
	put_u32(b, 0x80030003);
	put_u32(b, 8);
	put_u32(b, id);
	put_u32(b, 5);
}

static uint32_t u32_at(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

uint32_t spdy_next(struct pod_rig *r, struct buf *ret, bool *ret_end)
{
	char head[8] = { 0 };
	size_t len;

	do {
		buf_clear(ret);
		eq_int(read_bytes(r, head, 8), 8);
		len = u32_at(head + 4) & 0xffffff;
		eq_int(read_bytes(r, buf_reserve(ret, len + 1), len), len);
		buf_wrote(ret, len);
	} while (head[0] & 0x80);
	*ret_end = head[4] & 1;
	return u32_at(head);
}

void spdy_expect(struct pod_rig *r, uint32_t id, const char *text, bool end)
{
	autobuf b = { 0 };
	bool ended;

	eq_int(spdy_next(r, &b, &ended), id);
	eq_str(buf_str(&b), text);
	eq_int(ended, end);
}
