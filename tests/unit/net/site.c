/* SPDX-License-Identifier: Apache-2.0 */
#include "site.h"

#include <unistd.h>

#include "net/conn.h"
#include "net/stream.h"
#include "rig.h"
#include "test.h"

static void on_ended(void *owner)
{
	struct site *s = owner;

	s->n_ended++;
	s->held = NULL;
}

static void on_body(unused void *owner, struct http_request *r, const char *data, size_t len)
{
	http_respond(r, 200, NULL, (struct http_body){ "text/plain", data, len });
}

static void on_piece(void *owner, struct http_request *r, const char *data, size_t len)
{
	struct site *s = owner;

	buf_add(&s->streamed, data, len);
	if (s->pause_pieces)
		http_request_pause(r, true);
}

static void on_piece_end(void *owner, struct http_request *r)
{
	struct site *s = owner;
	const char *sum = http_headers_get(http_request_trailers(r), "X-Sum");

	s->n_body_ends++;
	s->trailer = sum ? xstrdup(sum) : NULL;
}

static void respond_with_trailers(struct http_request *r)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "X-Sum", "42");
	http_headers_add(&h, "Bad", "a\r\nb: c");
	http_respond_start(r, 200, NULL, -1);
	http_respond_write(r, "body", 4);
	http_respond_trailers(r, &h);
	http_respond_end(r);
	http_headers_done(&h);
}

static void respond_version(struct http_request *r)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "version %d length %lld", http_request_version(r),
		       (long long)http_request_body_len(r));
	http_respond_text(r, 200, text);
}

static const struct http_body_events pieces = { on_piece, on_piece_end };

static void on_head(void *arg, struct http_request *r)
{
	struct site *s = arg;
	const char *path = http_request_path(r);

	s->n_heads++;
	http_request_set_owner(r, s, on_ended);
	if (str_eq(path, "/hello")) {
		http_respond(r, 200, &s->extra, (struct http_body){ "text/plain", "hello\n", 6 });
	} else if (str_eq(path, "/query")) {
		http_respond_text(r, 200, http_request_query(r));
	} else if (str_eq(path, "/host")) {
		http_respond_text(r, 200, http_request_header(r, "Host"));
	} else if (str_eq(path, "/echo")) {
		http_request_buffer(r, 1000, on_body);
	} else if (str_eq(path, "/whole")) {
		http_request_buffer(r, 0, on_body);
	} else if (str_eq(path, "/stream")) {
		s->held = r;
		http_request_stream(r, &pieces);
	} else if (str_eq(path, "/upgrade")) {
		struct http_headers h = { 0 };

		http_headers_add(&h, "Connection", "Upgrade");
		http_headers_add(&h, "Upgrade", "test");
		http_respond_upgrade(r, &h, &s->upgraded);
		http_headers_done(&h);
	} else if (str_eq(path, "/trailers")) {
		respond_with_trailers(r);
	} else if (str_eq(path, "/version")) {
		respond_version(r);
	} else if (str_eq(path, "/cookie")) {
		http_respond_text(r, 200, http_request_header(r, "Cookie"));
	} else if (str_eq(path, "/big")) {
		http_respond(r, 200, NULL, (struct http_body){ NULL, s->big, s->big_len });
	} else if (str_eq(path, "/none")) {
		http_respond(r, 204, NULL, (struct http_body){ 0 });
	} else {
		s->held = r;
	}
}

static const struct http_handler handler = { on_head };

void site_init(struct site *s, const struct http_limits *limits)
{
	site_init_wrapped(s, limits, NULL, NULL);
}

void site_init_wrapped(struct site *s, const struct http_limits *limits, http_wrap wrap, void *arg)
{
	struct http_server_spec spec = { .handler = &handler,
					 .arg = s,
					 .http2 = &http2_protocol,
					 .wrap = wrap,
					 .wrap_arg = arg };
	int fd;

	*s = (struct site){ .l = rig_loop() };
	if (limits)
		spec.limits = *limits;
	works(net_listen("127.0.0.1:0", &fd));
	works(net_local_addr(fd, s->addr, sizeof(s->addr)));
	works(http_server_start(s->l, fd, &spec, &s->server));
	s->fd = rig_connect(s->addr);
}

void site_done(struct site *s)
{
	conn_free(s->upgraded);
	http_server_free(s->server);
	(void)close(s->fd);
	buf_done(&s->streamed);
	http_headers_done(&s->extra);
	free(s->trailer);
	rig_settle(s->l);
	loop_free(s->l);
}

void site_expect(struct site *s, const char *needle)
{
	autofree char *text = rig_read(s->l, s->fd, needle);

	if (!strstr(text, needle))
		fail_msg("no \"%s\" in \"%s\"", needle, text);
}

int site_status(const char *answer)
{
	unsigned status = 0;

	(void)sscanf(answer, "HTTP/1.1 %u", &status);
	return (int)status;
}
