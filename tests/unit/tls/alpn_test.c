/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ssl.h>
#include <unistd.h>

#include "net/http_server.h"
#include "net/rig.h"
#include "net/stream.h"
#include "pair.h"
#include "test.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/* What client and server agree to speak, and that they are held to it. */
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static const struct pair_spec plain = { .server_sans = { "localhost" },
					.server_name = "localhost" };
static const struct pair_spec with_http2 = { .server_sans = { "localhost" },
					     .server_name = "localhost",
					     .http2 = true };

/* The handshake has not begun yet. */
static void offer(struct pair *p, const char *protocols)
{
	is_true(SSL_CTX_set_alpn_protos(tls_ctx_ssl(p->client_ctx),
					(const unsigned char *)protocols,
					(unsigned)strlen(protocols)) == 0);
}

TEST(http2_is_agreed_on_only_if_both_want_it)
{
	static const struct {
		const struct pair_spec *spec;
		const char *offer, *chosen;
	} rows[] = {
		{ &plain, "\x08http/1.1", "http/1.1" },
		{ &plain, "\x02h2\x08http/1.1", "http/1.1" },
		{ &plain, "\x02h2", "" },
		{ &with_http2, "\x08http/1.1", "http/1.1" },
		{ &with_http2, "\x08http/1.1\x02h2", "h2" },
		{ &with_http2, "\x05nonce", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct stream *s;
		struct pair p;

		pair_init(&p, rows[i].spec);
		offer(&p, rows[i].offer);
		s = conn_stream(p.server.c);
		eq_str(s->ops->protocol(s), "");
		conn_write(p.client.c, "hello", 5);
		until(p.l, p.server.got.len == 5);
		eq_str(s->ops->protocol(s), rows[i].chosen);
		pair_done(&p);
	}
}

static void on_head(unused void *arg, struct http_request *r)
{
	http_respond_text(r, 200, "hello");
}

static struct stream *wrap(void *arg, int fd)
{
	return tls_accept(arg, fd);
}

/* What the server answers with to a client that offers and then says these. */
static void ask(const char *protocols, const char *text, struct buf *ret)
{
	static const struct http_handler handler = { on_head };
	struct http_server_spec hs = { .handler = &handler,
				       .wrap = wrap,
				       .http2 = &http2_protocol };
	autoptr(http_server) server = NULL;
	struct pair p;
	char addr[64];
	int fd;

	pair_init(&p, &with_http2);
	offer(&p, protocols);
	hs.wrap_arg = p.server_ctx;
	works(net_listen("127.0.0.1:0", &fd));
	works(net_local_addr(fd, addr, sizeof(addr)));
	works(http_server_start(p.l, fd, &hs, &server));
	conn_free(take(p.client.c));
	p.client.c = pair_conn(p.l, tls_connect(p.client_ctx, rig_connect(addr), "localhost"),
			       &p.client);
	conn_write(p.client.c, text, strlen(text));
	until(p.l, p.client.got.len >= 12);
	*ret = p.client.got;
	p.client.got = (struct buf){ 0 };
	http_server_free(take(server));
	pair_done(&p);
}

TEST(what_was_agreed_on_is_spoken)
{
	enum {
		TYPE = 3, /* where it is in a frame */
		SETTINGS = 4,
	};
	static const char get[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	static const struct {
		const char *offer, *text, *answer; /* NULL: frames */
	} rows[] = {
		{ "\x02h2", PREFACE, NULL },
		{ "\x02h2", get, NULL },
		{ "\x08http/1.1", get, "HTTP/1.1 200" },
		{ "\x08http/1.1", PREFACE, "HTTP/1.1 4" },
		{ "\x05nonce", PREFACE, "HTTP/1.1 4" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf got = { 0 };

		ask(rows[i].offer, rows[i].text, &got);
		if (!rows[i].answer)
			eq_int(buf_head(&got)[TYPE], SETTINGS);
		else
			is_true(str_starts(buf_str(&got), rows[i].answer));
	}
}
