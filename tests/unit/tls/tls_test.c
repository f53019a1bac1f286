/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/tls.h"

#include <malloc.h>
#include <unistd.h>

#include "net/http_server.h"
#include "net/rig.h"
#include "net/stream.h"
#include "pair.h"
#include "test.h"

#define HOUR ((usec)3600 * 1000000)

static const struct pair_spec plain = { .server_sans = { "localhost" },
					.server_name = "localhost" };

static void hello(struct pair *p)
{
	conn_write(p->client.c, "hello", 5);
	until(p->l, p->server.got.len == 5);
	conn_write(p->server.c, "world", 5);
	until(p->l, p->client.got.len == 5);
	eq_str(buf_str(&p->server.got), "hello");
	eq_str(buf_str(&p->client.got), "world");
}

TEST(both_ways_through_tls)
{
	struct pair p;

	pair_init(&p, &plain);
	hello(&p);
	is_false(tls_peer_rejected(conn_stream(p.server.c)));
	pair_done(&p);
}

TEST(large_amounts_pass_in_both_directions_at_once)
{
	struct pair p;
	size_t len = 3 * 1024 * 1024;
	char *big = xmalloc(len);

	for (size_t i = 0; i < len; i++)
		big[i] = (char)(i * 7 + i / 251);
	pair_init(&p, &plain);
	conn_write(p.client.c, big, len);
	conn_write(p.server.c, big, len);
	until(p.l, p.server.got.len == len && p.client.got.len == len);
	is_true(!memcmp(buf_head(&p.server.got), big, len) &&
		!memcmp(buf_head(&p.client.got), big, len));
	free(big);
	pair_done(&p);
}

/* Whole records may be waiting inside OpenSSL while the descriptor has nothing more. */
TEST(records_already_read_come_after_a_pause)
{
	struct pair p;

	pair_init(&p, &plain);
	hello(&p);
	conn_pause(p.server.c, true);
	for (int i = 0; i < 5; i++) {
		conn_write(p.client.c, "0123456789", 10);
		rig_settle(p.l); /* one record each */
	}
	eq_int(p.server.got.len, 5);
	conn_pause(p.server.c, false);
	until(p.l, p.server.got.len == 55);
	pair_done(&p);
}

TEST(half_close_passes_through_tls)
{
	struct pair p;

	pair_init(&p, &plain);
	conn_write(p.client.c, "bye", 3);
	conn_end(p.client.c);
	until(p.l, p.server.eof);
	eq_str(buf_str(&p.server.got), "bye");
	conn_write(p.server.c, "so long", 7);
	conn_end(p.server.c);
	until(p.l, p.client.closed && p.server.closed);
	is_false(p.client.failed || p.server.failed);
	eq_str(buf_str(&p.client.got), "so long");
	pair_done(&p);
}

TEST(the_server_must_own_the_name_it_is_called_by)
{
	static const struct {
		const char *san, *name;
		bool ok;
	} rows[] = {
		{ "localhost", "localhost", true },
		{ "127.0.0.1", "127.0.0.1", true },
		{ "::1", "::1", true },
		{ "localhost", "example.com", false },
		{ "localhost", "127.0.0.1", false },
		{ "127.0.0.1", "localhost", false },
		{ "*.example.com", "a.example.com", true },
		{ "localhost", NULL, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pair_spec spec = { .server_sans = { rows[i].san },
					  .server_name = rows[i].name };
		struct pair p;

		pair_init(&p, &spec);
		conn_write(p.client.c, "x", 1);
		until(p.l, p.server.got.len || p.client.closed);
		eq_int(!p.client.failed, rows[i].ok);
		pair_done(&p);
	}
}

/* A certificate that a client may present, and what the server makes of it. */
static void client_cert(struct tls_pair *ca, bool client, usec valid_for, const char *want_name)
{
	static const char *const orgs[] = { "system:masters", "ops", NULL };
	struct tls_cert_spec cs = { .common_name = "alice",
				    .organizations = orgs,
				    .client = client,
				    .server = !client,
				    .valid_for = valid_for };
	struct tls_pair cert = { 0 };
	struct pair_spec spec = plain;
	const struct tls_peer *peer;
	struct pair p;

	works(tls_make_cert(ca, &cs, &cert));
	spec.client_pair = &cert;
	spec.client_ca = test_ca.cert_pem;
	pair_init(&p, &spec);
	hello(&p); /* the handshake succeeds in any case */
	peer = tls_peer_of(conn_stream(p.server.c));
	eq_int(tls_peer_rejected(conn_stream(p.server.c)), want_name == NULL);
	eq_int(peer == NULL, want_name == NULL);
	if (peer) {
		eq_str(peer->name, want_name);
		eq_int(peer->n_groups, 2);
		eq_str(peer->groups[0], "system:masters");
		eq_str(peer->groups[1], "ops");
	}
	tls_pair_done(&cert);
	pair_done(&p);
}

TEST(a_client_is_who_its_certificate_says)
{
	pair_setup();
	client_cert(&test_ca, true, HOUR, "alice");
}

TEST(invalid_certificates_are_rejected_without_tearing_the_connection)
{
	pair_setup();
	client_cert(&other_ca, true, HOUR, NULL);               /* from another CA */
	client_cert(&test_ca, true, -10 * (usec)1000000, NULL); /* expired */
	client_cert(&test_ca, false, HOUR, NULL);               /* for a server */
}

/* alice signs a certificate for somebody else and sends hers along. */
TEST(a_clients_certificate_issues_no_others)
{
	struct tls_cert_spec cs = { .common_name = "alice", .client = true, .valid_for = HOUR };
	struct tls_pair alice = { 0 }, forged = { 0 };
	struct pair_spec spec = plain;
	char *chain;
	struct pair p;

	pair_setup();
	works(tls_make_cert(&test_ca, &cs, &alice));
	cs.common_name = "admin";
	works(tls_make_cert(&alice, &cs, &forged));
	chain = xasprintf("%s%s", forged.cert_pem, alice.cert_pem);
	free(forged.cert_pem);
	forged.cert_pem = chain;
	spec.client_pair = &forged;
	spec.client_ca = test_ca.cert_pem;
	pair_init(&p, &spec);
	hello(&p);
	is_true(!tls_peer_of(conn_stream(p.server.c)));
	is_true(tls_peer_rejected(conn_stream(p.server.c)));
	tls_pair_done(&alice);
	tls_pair_done(&forged);
	pair_done(&p);
}

TEST(a_client_without_certificate_is_nobody)
{
	struct pair_spec spec = plain;
	struct pair p;

	pair_setup();
	spec.client_ca = test_ca.cert_pem;
	pair_init(&p, &spec);
	hello(&p);
	is_true(!tls_peer_of(conn_stream(p.server.c)));
	is_false(tls_peer_rejected(conn_stream(p.server.c)));
	pair_done(&p);
}

TEST(a_plain_stream_has_no_peer)
{
	int fds[2];
	autoptr(stream) s = NULL;

	rig_pair(fds);
	s = stream_plain(fds[0]);
	is_true(!tls_peer_of(s));
	is_false(tls_peer_rejected(s));
	(void)close(fds[1]);
}

TEST(garbage_instead_of_a_handshake_is_an_error)
{
	struct tls_server_spec ss = { 0 };
	autoptr(tls_ctx) ctx = NULL;
	struct pair p;
	int fds[2];

	pair_init(&p, &plain);
	conn_free(take(p.server.c));
	ss.cert_pem = test_ca.cert_pem;
	ss.key_pem = test_ca.key_pem;
	works(tls_server_ctx(&ss, &ctx));
	rig_pair(fds);
	p.server.c = pair_conn(p.l, tls_accept(ctx, fds[0]), &p.server);
	rig_send_str(p.l, fds[1], "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	until(p.l, p.server.closed);
	is_true(p.server.failed);
	(void)close(fds[1]);
	pair_done(&p);
}

TEST(contexts_reject_keys_that_do_not_match)
{
	struct tls_server_spec spec = { 0 };
	struct tls_client_spec client = { .ca_pem = "nothing" };
	struct tls_ctx *ctx;

	pair_setup();
	spec.cert_pem = test_ca.cert_pem;
	spec.key_pem = other_ca.key_pem;
	fails(tls_server_ctx(&spec, &ctx), ERR_INVALID);
	spec.key_pem = "junk";
	fails(tls_server_ctx(&spec, &ctx), ERR_INVALID);
	spec.key_pem = test_ca.key_pem;
	spec.client_ca_pem = "";
	fails(tls_server_ctx(&spec, &ctx), ERR_INVALID);
	fails(tls_client_ctx(&client, &ctx), ERR_INVALID);
}

/* Both ends of n more connections, idle after a word in each direction. */
static void more_connections(struct pair *p, struct pair *more, size_t n)
{
	int fds[2];

	for (size_t i = 0; i < n; i++) {
		rig_pair(fds);
		more[i] = (struct pair){ .l = p->l };
		more[i].server.c =
			pair_conn(p->l, tls_accept(p->server_ctx, fds[0]), &more[i].server);
		more[i].client.c = pair_conn(p->l, tls_connect(p->client_ctx, fds[1], "localhost"),
					     &more[i].client);
		hello(&more[i]);
		buf_done(&more[i].server.got);
		buf_done(&more[i].client.got);
	}
}

TEST(an_idle_connection_is_small)
{
	struct pair p, more[50];
	struct mallinfo2 before, after;
	size_t each;

	pair_init(&p, &plain); /* warms the library up */
	hello(&p);
	before = mallinfo2();
	more_connections(&p, more, ARRAY_LEN(more));
	after = mallinfo2();
	each = (after.uordblks - before.uordblks) / (2 * ARRAY_LEN(more));
	print_message("# %zu bytes per end\n", each);
	is_true(each < 32 * 1024);
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		conn_free(more[i].server.c);
		conn_free(more[i].client.c);
	}
	pair_done(&p);
}

static void on_head(unused void *arg, struct http_request *r)
{
	http_respond_text(r, 200, "over tls");
}

static struct stream *wrap(void *arg, int fd)
{
	return tls_accept(arg, fd);
}

TEST(http_is_served_over_tls)
{
	static const struct http_handler handler = { on_head };
	struct http_server_spec hs = { .handler = &handler, .wrap = wrap };
	struct tls_cert_spec cert = { .common_name = "server", .server = true, .valid_for = HOUR };
	struct tls_client_spec cs = { .insecure = true };
	struct tls_server_spec ss = { 0 };
	struct tls_pair own = { 0 };
	autoptr(tls_ctx) sctx = NULL;
	autoptr(tls_ctx) cctx = NULL;
	struct http_server *server;
	struct pair p;
	char addr[64];
	int fd;

	pair_init(&p, &plain);
	works(tls_make_cert(&test_ca, &cert, &own));
	ss.cert_pem = own.cert_pem;
	ss.key_pem = own.key_pem;
	works(tls_server_ctx(&ss, &sctx));
	works(tls_client_ctx(&cs, &cctx));
	hs.wrap_arg = sctx;
	works(net_listen("127.0.0.1:0", &fd));
	works(net_local_addr(fd, addr, sizeof(addr)));
	works(http_server_start(p.l, fd, &hs, &server));

	conn_free(take(p.client.c));
	p.client.c = pair_conn(p.l, tls_connect(cctx, rig_connect(addr), NULL), &p.client);
	conn_write(p.client.c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
	until(p.l, p.client.got.len && strstr(buf_str(&p.client.got), "over tls\n"));
	http_server_free(server);
	tls_pair_done(&own);
	pair_done(&p);
}
