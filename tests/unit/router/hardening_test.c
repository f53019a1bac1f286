/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "rig.h"

/*
 * Requests that two programs might read differently must not pass: whoever gets one through the
 * router speaks to a sandbox in another's name. The numbers are those of
 * docs/reference/dataplane.md.
 */
static char *say_raw(struct rig *g, const char *text, size_t len)
{
	int fd = rig_connect(g);
	char *got;

	until(g->l, send(fd, text, len, MSG_NOSIGNAL) == (ssize_t)len);
	(void)shutdown(fd, SHUT_WR);
	got = rig_read(g, fd, NULL);
	(void)close(fd);
	return got;
}

TEST(requests_that_can_be_read_in_two_ways_do_not_pass)
{
#define TO "Host: a\r\nX-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
	static const char *const rows[] = {
		"POST / HTTP/1.1\r\n" TO
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\n" TO
		"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\n" TO "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"POST / HTTP/1.1\r\n" TO "Content-Length: 1, 1\r\n\r\na",
		"POST / HTTP/1.1\r\n" TO "Content-Length: +1\r\n\r\na",
		"POST / HTTP/1.1\r\n" TO "Content-Length: 0x1\r\n\r\na",
		"POST / HTTP/1.1\r\n" TO "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\n" TO "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\n" TO "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\n" TO "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\n" TO "Transfer-Encoding:\x0b"
		"chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.0\r\n" TO "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\n" TO "\r\n",
		"GET / HTTP/1.1\r\n" TO "X: a\nY: b\r\n\r\n",
		"GET / HTTP/1.1\r\n" TO "X: a\r\n folded\r\n\r\n",
		"GET / HTTP/1.1\r\n" TO "X: a\rY: b\r\n\r\n",
		"GET  / HTTP/1.1\r\n" TO "\r\n",
		"GET / HTTP/1.1\r\n" TO "Host: b\r\n\r\n",
		"GET / HTTP/1.1\r\n" TO "X-Sandbox-ID: other\r\n\r\n",
		"GET /a#b HTTP/1.1\r\n" TO "\r\n",
		"GET ftp://a/ HTTP/1.1\r\n" TO "\r\n",
	};
	struct rig g = { 0 };

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 };
		autofree char *got = NULL;
		const char *at = strstr(rows[i], "%u");

		buf_add(&b, rows[i], (size_t)(at - rows[i]));
		buf_add_uint(&b, g.port);
		buf_add_str(&b, at + 2);
		got = say_raw(&g, buf_head(&b), b.len);
		eq_int(rig_status(got), 400);
		eq_int(g.n_requests, 0);
	}
	rig_stop(&g);
#undef TO
}

/* HTTP/2, by hand */

struct field {
	const char *name, *value;
};

static void put_frame(struct buf *b, int type, int flags, const struct buf *payload)
{
	const unsigned char head[] = { (unsigned char)(payload->len >> 16),
				       (unsigned char)(payload->len >> 8),
				       (unsigned char)payload->len,
				       (unsigned char)type,
				       (unsigned char)flags,
				       0,
				       0,
				       0,
				       type != 4 }; /* SETTINGS have no stream */

	buf_add(b, head, sizeof(head));
	if (payload->len)
		buf_add(b, buf_head(payload), payload->len);
}

static void put_field(struct buf *b, const char *name, const char *value)
{
	buf_add_char(b, 0); /* not indexed, with a name of its own */
	buf_add_char(b, (char)strlen(name));
	buf_add_str(b, name);
	buf_add_char(b, (char)strlen(value));
	buf_add_str(b, value);
}

/* A request with a header more, or another in place of its own. */
static void put_request(struct rig *g, struct buf *b, const struct field *odd, const char *body)
{
	char port[8];
	const struct field usual[] = { { ":method", "POST" },     { ":scheme", "http" },
				       { ":path", "/x" },         { ":authority", "a" },
				       { "x-sandbox-id", "box" }, { "x-sandbox-port", port } };
	autobuf head = { 0 }, data = { 0 }, nothing = { 0 };
	bool placed = false;

	(void)snprintf(port, sizeof(port), "%u", g->port);
	for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
		bool same = odd->name[0] == ':' && str_eq(odd->name, usual[i].name);

		placed = placed || same;
		put_field(&head, usual[i].name, same ? odd->value : usual[i].value);
	}
	if (!placed)
		put_field(&head, odd->name, odd->value);
	buf_add_str(&data, body);
	buf_add_str(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	put_frame(b, 4, 0, &nothing);
	put_frame(b, 1, 4, &head);
	put_frame(b, 0, 1, &data);
}

TEST(requests_of_http2_that_http1_would_read_differently_do_not_pass)
{
	static const struct field rows[] = {
		{ "x", "a\r\nx-sandbox-id: other" },
		{ "x", "a\nb" },
		{ "x", "a\rb" },
		{ "x\r\ny", "a" },
		{ "x y", "a" },
		{ "x:y", "a" },
		{ "X-Upper", "a" },
		{ "", "a" },
		{ ":path", "/x HTTP/1.1\r\nHost: b\r\n\r\nGET /y" },
		{ ":path", "/x y" },
		{ ":path", "" },
		{ ":path", "x" },
		{ ":path", "http://b/x" },
		{ ":path", "/x#y" },
		{ ":path", "*" },
		{ ":method", "GET /y HTTP/1.1" },
		{ ":method", "CONNECT" },
		{ ":authority", "a\r\nx: y" },
		{ ":authority", "a b" },
		{ ":status", "200" },
		{ ":protocol", "websocket" },
		{ "host", "b" },
		{ "connection", "close" },
		{ "connection", "upgrade" },
		{ "upgrade", "websocket" },
		{ "keep-alive", "1" },
		{ "proxy-connection", "close" },
		{ "transfer-encoding", "chunked" },
		{ "te", "gzip" },
		{ "content-length", "3" }, /* of a body that has 4 */
		{ "content-length", "5" },
		{ "content-length", "4, 4" },
		{ "content-length", "-4" },
	};
	struct rig g = { 0 };

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 };
		autofree char *got = NULL;

		put_request(&g, &b, &rows[i], "body");
		got = say_raw(&g, buf_head(&b), b.len);
		is_true(!strstr(got, "upstream"));
		/* A wrong length shows only when the head has been passed on. */
		if (!str_eq(rows[i].name, "content-length") || g.n_requests > 1)
			eq_int(g.n_requests, 0);
		g.n_requests = 0;
	}
	rig_stop(&g);
}

/* What was cut off in the middle leaves nothing behind on the connections that others use next. */
TEST(a_torn_request_does_not_become_part_of_the_next)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	for (int i = 0; i < 5; i++) {
		int fd = rig_connect(&g);

		rig_send(
			&g, fd,
			"POST /wait HTTP/1.1\r\nHost: a\r\nX-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
			"Content-Length: 100\r\n\r\nGET /stolen HTTP/1.1\r\nX: ",
			g.port);
		until(g.l, g.waiting && g.body.len);
		(void)close(fd); /* in the middle of its body */
		until(g.l, !g.waiting);
		buf_clear(&g.body);
	}
	a = rig_ask(&g, "GET /mine", "X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n", g.port);
	eq_int(rig_status(a), 201);
	is_true(strstr(a, "GET /mine\n") != NULL);
	rig_stop(&g);
}

/* A client that ends its direction counts as gone, and so it does for the sandbox. */
TEST(a_client_that_hangs_up_halfway_is_gone_for_the_sandbox_too)
{
	struct rig g = { 0 };
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(&g, fd,
		 "GET /wait HTTP/1.1\r\nHost: a\r\nX-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n\r\n",
		 g.port);
	until(g.l, g.waiting);
	(void)shutdown(fd, SHUT_WR);
	until(g.l, !g.waiting);
	(void)close(fd);
	rig_stop(&g);
}

TEST(dataplane_116_trailers_bring_in_nothing_that_a_head_may_not)
{
	struct rig g = { 0 };
	const struct http_headers *t;
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	fd = rig_connect(&g);
	rig_send(
		&g, fd,
		"POST /wait HTTP/1.1\r\nHost: a\r\nX-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
		"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nAuthorization: Bearer x\r\nHost: b\r\n"
		"X-Forwarded-For: 1.2.3.4\r\nX-Sandbox-ID: other\r\nContent-Type: a/b\r\nX-Sum: 9\r\n"
		"Remote-User: root\r\nx_auth_request_user: root\r\nCay-User: root\r\n\r\n",
		g.port);
	until(g.l, g.body_ended);
	t = http_request_trailers(g.waiting);
	eq_str(http_headers_get(t, "X-Sum"), "9");
	eq_int(t->n, 1);
	(void)close(fd);
	rig_stop(&g);
}
