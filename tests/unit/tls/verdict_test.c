/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <time.h>
#include <unistd.h>

#include "net/rig.h"
#include "net/stream.h"
#include "pair.h"
#include "test.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/* Certificates are verified once and believed for a while: what must never be believed. */
#define HOUR ((usec)3600 * 1000000)

static struct tls_pair cert_of(const struct tls_pair *ca, const char *name, usec valid_for)
{
	const struct tls_cert_spec cs = { .common_name = name,
					  .client = true,
					  .valid_for = valid_for };
	struct tls_pair ret = { 0 };

	pair_setup();
	works(tls_make_cert(ca, &cs, &ret));
	return ret;
}

static void rig_server(struct pair *p, const struct tls_pair *ca)
{
	struct pair_spec spec = { .server_sans = { "localhost" }, .server_name = "localhost" };

	pair_setup();
	spec.client_ca = ca->cert_pem;
	pair_init(p, &spec);
}

/* Who the server of p takes a new client for that has this certificate: malloc'd, or NULL. */
static char *meet(struct pair *p, const struct tls_pair *cert)
{
	const struct tls_client_spec cs = { .ca_pem = test_ca.cert_pem,
					    .cert_pem = cert->cert_pem,
					    .key_pem = cert->key_pem };
	autoptr(tls_ctx) ctx = NULL;
	struct end server = { 0 }, client = { 0 };
	const struct tls_peer *peer;
	char *name = NULL;
	int fds[2];

	works(tls_client_ctx(&cs, &ctx));
	rig_pair(fds);
	server.c = pair_conn(p->l, tls_accept(p->server_ctx, fds[0]), &server);
	client.c = pair_conn(p->l, tls_connect(ctx, fds[1], "localhost"), &client);
	conn_write(client.c, "hello", 5);
	until(p->l, server.got.len == 5);
	peer = tls_peer_of(conn_stream(server.c));
	eq_int(tls_peer_rejected(conn_stream(server.c)), !peer);
	if (peer)
		name = xstrdup(peer->name);
	conn_free(server.c);
	conn_free(client.c);
	buf_done(&server.got);
	return name;
}

static void is_taken_for(struct pair *p, const struct tls_pair *cert, const char *want)
{
	autofree char *name = meet(p, cert);

	if (want)
		eq_str(name, want);
	else
		is_true(!name);
}

TEST(a_certificate_is_verified_once)
{
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct tls_pair bob = cert_of(&test_ca, "bob", HOUR);
	struct pair p;

	rig_server(&p, &test_ca);
	for (int i = 0; i < 3; i++) {
		is_taken_for(&p, &alice, "alice");
		eq_int(tls_verdicts_made(p.server_ctx), i ? 2 : 1);
		is_taken_for(&p, &bob, "bob");
		eq_int(tls_verdicts_made(p.server_ctx), 2);
	}
	tls_pair_done(&alice);
	tls_pair_done(&bob);
	pair_done(&p);
}

/* Everybody can send bad ones: they take no space, and are bad every time. */
TEST(a_bad_certificate_is_verified_every_time)
{
	struct tls_pair alice = cert_of(&other_ca, "alice", HOUR);
	struct pair p;

	rig_server(&p, &test_ca);
	for (size_t i = 1; i <= 3; i++) {
		is_taken_for(&p, &alice, NULL);
		eq_int(tls_verdicts_made(p.server_ctx), i);
	}
	tls_pair_done(&alice);
	pair_done(&p);
}

TEST(a_verdict_is_about_one_certificate)
{
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct tls_pair forged = cert_of(&other_ca, "alice", HOUR); /* another key and CA */
	struct tls_pair expired = cert_of(&test_ca, "alice", -10 * (usec)1000000);
	struct pair p;

	rig_server(&p, &test_ca);
	is_taken_for(&p, &alice, "alice");
	is_taken_for(&p, &forged, NULL);
	is_taken_for(&p, &expired, NULL);
	is_taken_for(&p, &alice, "alice");
	eq_int(tls_verdicts_made(p.server_ctx), 3);
	tls_pair_done(&alice);
	tls_pair_done(&forged);
	tls_pair_done(&expired);
	pair_done(&p);
}

TEST(a_verdict_holds_for_one_context)
{
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct pair here, there;

	rig_server(&here, &test_ca);
	rig_server(&there, &other_ca); /* the same server with another CA */
	is_taken_for(&here, &alice, "alice");
	is_taken_for(&there, &alice, NULL);
	is_taken_for(&here, &alice, "alice");
	is_taken_for(&there, &alice, NULL);
	tls_pair_done(&alice);
	pair_done(&here);
	pair_done(&there);
}

/* The CA of a server and a certificate under it, of which one or the other expires soon. */
static void verdict_ends(bool ca_expires)
{
	usec brief, end = 0;
	struct tls_pair ca = { 0 }, alice = { 0 };
	char *name = NULL;
	struct pair p;
	size_t made;

	pair_setup();
	for (int valid_s = 3; !name; valid_s++) { /* longer if that was too short for us */
		brief = (usec)valid_s * 1000000;
		if (ca.cert_pem)
			pair_done(&p);
		tls_pair_done(&ca);
		tls_pair_done(&alice);
		works(tls_make_ca("brief CA", ca_expires ? brief : HOUR, &ca));
		alice = cert_of(&ca, "alice", ca_expires ? HOUR : brief);
		works(tls_cert_expiry(ca_expires ? ca.cert_pem : alice.cert_pem, &end));
		rig_server(&p, &ca);
		name = meet(&p, &alice);
	}
	free(name);
	made = tls_verdicts_made(p.server_ctx);
	until(p.l, (usec)time(NULL) * 1000000 >= end); /* OpenSSL's clock, which lags */
	is_taken_for(&p, &alice, NULL);
	eq_int(tls_verdicts_made(p.server_ctx), made + 1);
	tls_pair_done(&ca);
	tls_pair_done(&alice);
	pair_done(&p);
}

TEST(a_verdict_ends_with_the_certificate)
{
	verdict_ends(false);
}

TEST(a_verdict_ends_with_the_ca)
{
	verdict_ends(true);
}

/* The names that a server may be called by are part of what a client verifies. */
TEST(a_verdict_is_about_one_name)
{
	static const char *const names[] = { "localhost", "example.com", "127.0.0.1", "localhost" };
	struct pair p;

	rig_server(&p, &test_ca);
	conn_write(p.client.c, "x", 1);
	until(p.l, p.server.got.len);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct end server = { 0 }, client = { 0 };
		bool ok = i == 0 || i == 3;
		int fds[2];

		rig_pair(fds);
		server.c = pair_conn(p.l, tls_accept(p.server_ctx, fds[0]), &server);
		client.c = pair_conn(p.l, tls_connect(p.client_ctx, fds[1], names[i]), &client);
		conn_write(client.c, "x", 1);
		until(p.l, server.got.len || client.closed);
		eq_int(!client.failed, ok);
		conn_free(server.c);
		conn_free(client.c);
		buf_done(&server.got);
	}
	eq_int(tls_verdicts_made(p.client_ctx), 3);
	pair_done(&p);
}

static EVP_PKEY *read_key(const struct tls_pair *pair)
{
	BIO *b = BIO_new_mem_buf(pair->key_pem, -1);
	EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);

	BIO_free(b);
	return k;
}

/* What somebody has who knows the certificate of one and the key of another. */
static EVP_PKEY *mixed_key(const struct tls_pair *public, const struct tls_pair *private)
{
	EVP_PKEY *theirs = read_key(public), *own = read_key(private), *ret = NULL;
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	unsigned char point[256];
	OSSL_PARAM *params;
	BIGNUM *d = NULL;
	size_t len = 0;

	is_true(EVP_PKEY_get_octet_string_param(theirs, OSSL_PKEY_PARAM_PUB_KEY, point,
						sizeof(point), &len) == 1);
	is_true(EVP_PKEY_get_bn_param(own, OSSL_PKEY_PARAM_PRIV_KEY, &d) == 1);
	is_true(OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) == 1 &&
		OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, point, len) == 1 &&
		OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_PRIV_KEY, d) == 1);
	params = OSSL_PARAM_BLD_to_param(b);
	is_true(EVP_PKEY_fromdata_init(c) == 1 &&
		EVP_PKEY_fromdata(c, &ret, EVP_PKEY_KEYPAIR, params) == 1);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(b);
	EVP_PKEY_CTX_free(c);
	EVP_PKEY_free(theirs);
	EVP_PKEY_free(own);
	BN_clear_free(d);
	return ret;
}

/*
 * How many certificates a client with this certificate and key is sent; 0 if it does not get
 * through its handshake.
 */
static int gets_in(struct pair *p, const struct tls_pair *cert, EVP_PKEY *key, int version)
{
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());
	BIO *b = BIO_new_mem_buf(cert->cert_pem, -1);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
	SSL *ssl;
	struct end end = { 0 };
	char byte;
	int fds[2], n_sent, r = 0;

	SSL_CTX_set_max_proto_version(c, version);
	is_true(SSL_CTX_use_certificate(c, x) == 1 && SSL_CTX_use_PrivateKey(c, key) == 1);
	ssl = SSL_new(c);
	rig_pair(fds);
	end.c = pair_conn(p->l, tls_accept(p->server_ctx, fds[0]), &end);
	conn_write(end.c, "x", 1);
	SSL_set_fd(ssl, fds[1]);
	SSL_set_connect_state(ssl);
	until(p->l, (r = SSL_read(ssl, &byte, 1)) == 1 || end.closed);
	n_sent = r == 1 ? sk_X509_num(SSL_get_peer_cert_chain(ssl)) : 0;
	SSL_free(ssl);
	SSL_CTX_free(c);
	X509_free(x);
	BIO_free(b);
	(void)close(fds[1]);
	conn_free(end.c);
	return n_sent;
}

TEST(a_known_certificate_still_needs_its_key)
{
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct tls_pair mallory = cert_of(&test_ca, "mallory", HOUR);
	EVP_PKEY *good = read_key(&alice), *stolen = mixed_key(&alice, &mallory);
	struct pair p;

	rig_server(&p, &test_ca);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		eq_int(gets_in(&p, &alice, good, versions[i]), 1); /* and not the CA's too */
		eq_int(gets_in(&p, &alice, stolen, versions[i]), 0);
	}
	eq_int(tls_verdicts_made(p.server_ctx), 1);
	EVP_PKEY_free(good);
	EVP_PKEY_free(stolen);
	tls_pair_done(&alice);
	tls_pair_done(&mallory);
	pair_done(&p);
}

/* Nobody who has many certificates makes us keep them all. */
TEST(old_verdicts_are_forgotten)
{
	enum {
		MORE = 256,
	};
	struct tls_pair first = cert_of(&test_ca, "first", HOUR);
	struct pair p;

	rig_server(&p, &test_ca);
	is_taken_for(&p, &first, "first");
	for (int i = 0; i < MORE; i++) {
		struct tls_pair other = cert_of(&test_ca, "other", HOUR);

		is_taken_for(&p, &other, "other");
		tls_pair_done(&other);
	}
	eq_int(tls_verdicts_made(p.server_ctx), MORE + 1);
	is_taken_for(&p, &first, "first");
	eq_int(tls_verdicts_made(p.server_ctx), MORE + 2);
	tls_pair_done(&first);
	pair_done(&p);
}
