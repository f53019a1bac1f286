/* SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

#include "net/rig.h"
#include "net/stream.h"
#include "test.h"

struct tls_pair test_ca, other_ca;

#define HOUR ((usec)3600 * 1000000)

void pair_setup(void)
{
	if (test_ca.cert_pem)
		return;
	works(tls_make_ca("test CA", HOUR, &test_ca));
	works(tls_make_ca("other CA", HOUR, &other_ca));
}

static void on_data(void *arg, struct buf *in)
{
	struct end *e = arg;

	buf_add(&e->got, buf_head(in), in->len);
	buf_eat(in, in->len);
}

static void on_eof(void *arg)
{
	((struct end *)arg)->eof = true;
}

static void on_closed(void *arg, const struct err *err)
{
	struct end *e = arg;

	e->closed = true;
	e->failed = err != NULL;
}

static const struct conn_events events = { .data = on_data, .eof = on_eof, .closed = on_closed };

struct conn *pair_conn(struct loop *l, struct stream *s, struct end *e)
{
	return conn_new(l, s, &events, e);
}

void pair_init(struct pair *p, const struct pair_spec *spec)
{
	struct tls_cert_spec cert = { .common_name = "server",
				      .sans = spec->server_sans,
				      .server = true,
				      .valid_for = HOUR };
	struct tls_pair own = { 0 };
	struct tls_server_spec ss = { .client_ca_pem = spec->client_ca, .http2 = spec->http2 };
	struct tls_client_spec cs = { 0 };
	int fds[2];

	pair_setup();
	*p = (struct pair){ .l = rig_loop() };
	works(tls_make_cert(&test_ca, &cert, &own));
	ss.cert_pem = own.cert_pem;
	ss.key_pem = own.key_pem;
	works(tls_server_ctx(&ss, &p->server_ctx));
	cs.ca_pem = test_ca.cert_pem;
	if (spec->client_pair) {
		cs.cert_pem = spec->client_pair->cert_pem;
		cs.key_pem = spec->client_pair->key_pem;
	}
	works(tls_client_ctx(&cs, &p->client_ctx));
	tls_pair_done(&own);
	rig_pair(fds);
	p->server.c = pair_conn(p->l, tls_accept(p->server_ctx, fds[0]), &p->server);
	p->client.c =
		pair_conn(p->l, tls_connect(p->client_ctx, fds[1], spec->server_name), &p->client);
}

void pair_done(struct pair *p)
{
	conn_free(p->server.c);
	conn_free(p->client.c);
	tls_ctx_unref(p->server_ctx);
	tls_ctx_unref(p->client_ctx);
	buf_done(&p->server.got);
	buf_done(&p->client.got);
	rig_settle(p->l);
	loop_free(p->l);
}
