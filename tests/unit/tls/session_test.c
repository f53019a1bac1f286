/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <time.h>
#include <unistd.h>

#include "net/rig.h"
#include "net/stream.h"
#include "pair.h"
#include "test.h"
#include "tls/tls.h"

/* Resumed sessions, with OpenSSL itself as the client. */
#define HOUR ((usec)3600 * 1000000)

struct visit {
	struct pair *at;
	int version;
	const struct tls_pair *cert; /* NULL: none */
	SSL_SESSION *session;        /* to resume, or NULL */

	/* What came of it. */
	bool reused;
	char name[64]; /* "" : nobody */
	size_t n_groups;
	bool rejected;
	SSL_SESSION *next; /* for another visit, or NULL */
};

static void use_cert(SSL_CTX *c, const struct tls_pair *pair)
{
	BIO *cert = BIO_new_mem_buf(pair->cert_pem, -1), *key = BIO_new_mem_buf(pair->key_pem, -1);
	X509 *x = PEM_read_bio_X509(cert, NULL, NULL, NULL);
	EVP_PKEY *k = PEM_read_bio_PrivateKey(key, NULL, NULL, NULL);

	is_true(SSL_CTX_use_certificate(c, x) == 1 && SSL_CTX_use_PrivateKey(c, k) == 1);
	X509_free(x);
	EVP_PKEY_free(k);
	BIO_free(cert);
	BIO_free(key);
}

static int on_session(SSL *ssl, SSL_SESSION *s)
{
	struct visit *v = SSL_get_app_data(ssl);

	SSL_SESSION_free(v->next);
	v->next = s;
	return 1; /* ours now */
}

static SSL_CTX *client_new(const struct visit *v)
{
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());

	SSL_CTX_set_max_proto_version(c, v->version);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(c, on_session);
	if (v->cert)
		use_cert(c, v->cert);
	return c;
}

static void note_peer(struct visit *v, const struct stream *s)
{
	const struct tls_peer *peer = tls_peer_of(s);

	v->rejected = tls_peer_rejected(s);
	v->name[0] = '\0';
	v->n_groups = peer ? peer->n_groups : 0;
	if (peer)
		(void)snprintf(v->name, sizeof(v->name), "%s", peer->name);
}

/* Connects, gets a byte, and leaves. */
static void visit(struct visit *v)
{
	SSL_CTX *c = client_new(v);
	SSL *ssl = SSL_new(c);
	struct end end = { 0 };
	char byte = 0;
	int fds[2];

	rig_pair(fds);
	end.c = pair_conn(v->at->l, tls_accept(v->at->server_ctx, fds[0]), &end);
	conn_write(end.c, "x", 1);
	v->next = NULL;
	SSL_set_app_data(ssl, v);
	SSL_set_fd(ssl, fds[1]);
	if (v->session)
		is_true(SSL_set_session(ssl, v->session) == 1);
	SSL_set_connect_state(ssl);
	until(v->at->l, SSL_read(ssl, &byte, 1) == 1);
	eq_int(byte, 'x');
	v->reused = SSL_session_reused(ssl) == 1;
	note_peer(v, conn_stream(end.c));
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* keeps the session */
	SSL_free(ssl);
	SSL_CTX_free(c);
	conn_free(end.c); /* which does not wait for the client to end first */
	(void)close(fds[1]);
}

static void visit_done(struct visit *v)
{
	SSL_SESSION_free(v->session);
	SSL_SESSION_free(v->next);
}

/* The next visit tries to resume what this one was given. */
static void visit_again(struct visit *v)
{
	SSL_SESSION_free(v->session);
	v->session = take(v->next);
	visit(v);
}

static void rig_server(struct pair *p)
{
	struct pair_spec spec = { .server_sans = { "localhost" }, .server_name = "localhost" };

	pair_setup();
	spec.client_ca = test_ca.cert_pem;
	pair_init(p, &spec);
}

static struct tls_pair cert_of(const struct tls_pair *ca, const char *name, usec valid_for)
{
	static const char *const orgs[] = { "system:masters", "ops", NULL };
	const struct tls_cert_spec cs = {
		.common_name = name, .organizations = orgs, .client = true, .valid_for = valid_for
	};
	struct tls_pair ret = { 0 };

	pair_setup();
	works(tls_make_cert(ca, &cs, &ret));
	return ret;
}

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

TEST(a_resumed_session_has_the_identity_of_its_first_handshake)
{
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct pair p;

	rig_server(&p);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct visit v = { .at = &p, .version = versions[i], .cert = &alice };

		visit(&v);
		is_false(v.reused);
		v.cert = NULL; /* the session is proof enough */
		for (int again = 0; again < 3; again++) {
			visit_again(&v);
			is_true(v.reused);
			eq_str(v.name, "alice");
			eq_int(v.n_groups, 2);
			is_false(v.rejected);
			if (!v.next) /* TLS 1.2 goes on with the same one */
				v.next = take(v.session);
		}
		visit_done(&v);
	}
	tls_pair_done(&alice);
	pair_done(&p);
}

/* A visit with a certificate that expires soon after it; the time at which it does. */
static usec visit_briefly(struct visit *v)
{
	usec end = 0;

	for (int valid_s = 3; !*v->name; valid_s++) { /* longer if that was too short for us */
		struct tls_pair brief = cert_of(&test_ca, "alice", (usec)valid_s * 1000000);

		works(tls_cert_expiry(brief.cert_pem, &end));
		v->cert = &brief;
		SSL_SESSION_free(v->next);
		visit(v);
		tls_pair_done(&brief);
	}
	return end;
}

TEST(a_session_ends_with_its_certificate)
{
	struct tls_pair renewed = cert_of(&test_ca, "alice", HOUR);
	struct pair p;

	rig_server(&p);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct visit v = { .at = &p, .version = versions[i] };
		usec end = visit_briefly(&v);

		until(p.l, (usec)time(NULL) * 1000000 >= end); /* OpenSSL's clock, which lags */
		v.cert = &renewed;
		visit_again(&v);
		is_false(v.reused);
		eq_str(v.name, "alice"); /* by the new one, which the server has asked for */
		visit_done(&v);
	}
	tls_pair_done(&renewed);
	pair_done(&p);
}

TEST(rejected_certificates_are_not_kept)
{
	struct tls_pair stranger = cert_of(&other_ca, "alice", HOUR);
	struct pair p;

	rig_server(&p);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct visit v = { .at = &p, .version = versions[i], .cert = &stranger };

		for (int n = 0; n < 2; n++) {
			if (n)
				visit_again(&v);
			else
				visit(&v);
			is_false(v.reused);
			is_true(v.rejected);
			eq_str(v.name, "");
		}
		visit_done(&v);
	}
	tls_pair_done(&stranger);
	pair_done(&p);
}

TEST(a_session_without_certificate_stays_one)
{
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct pair p;

	rig_server(&p);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct visit v = { .at = &p, .version = versions[i] };

		visit(&v);
		eq_str(v.name, "");
		v.cert = &alice; /* which nobody asks for when a session is resumed */
		visit_again(&v);
		is_true(v.reused);
		eq_str(v.name, "");
		is_false(v.rejected);
		visit_done(&v);
	}
	tls_pair_done(&alice);
	pair_done(&p);
}

TEST(another_server_resumes_nothing)
{
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct pair here, there;
	struct pair_spec other = { .server_sans = { "localhost" }, .server_name = "localhost" };

	rig_server(&here);
	other.client_ca = other_ca.cert_pem;
	pair_init(&there, &other);
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct visit v = { .at = &here, .version = versions[i], .cert = &alice };

		visit(&v);
		eq_str(v.name, "alice");
		v.at = &there;
		visit_again(&v);
		is_false(v.reused);
		is_true(v.rejected); /* it trusts another CA */
		visit_done(&v);
	}
	tls_pair_done(&alice);
	pair_done(&here);
	pair_done(&there);
}

/* A handshake with this client fails. Takes c. */
static void is_refused(struct pair *p, SSL_CTX *c)
{
	SSL *ssl = SSL_new(c);
	struct end end = { 0 };
	char byte;
	int fds[2];

	rig_pair(fds);
	end.c = pair_conn(p->l, tls_accept(p->server_ctx, fds[0]), &end);
	SSL_set_fd(ssl, fds[1]);
	SSL_set_connect_state(ssl);
	until(p->l, (SSL_read(ssl, &byte, 1), end.closed));
	is_true(end.failed);
	SSL_free(ssl);
	SSL_CTX_free(c);
	(void)close(fds[1]);
	conn_free(end.c);
}

TEST(a_client_cannot_send_certificates_without_end)
{
	struct tls_pair alice = cert_of(&test_ca, "alice", HOUR);
	struct visit v = { .version = TLS1_3_VERSION, .cert = &alice };
	SSL_CTX *c = client_new(&v);
	struct pair p;

	rig_server(&p);
	for (int i = 0; i < 100; i++) {
		BIO *b = BIO_new_mem_buf(alice.cert_pem, -1);

		is_true(SSL_CTX_add0_chain_cert(c, PEM_read_bio_X509(b, NULL, NULL, NULL)) == 1);
		BIO_free(b);
	}
	is_refused(&p, c);
	tls_pair_done(&alice);
	pair_done(&p);
}

TEST(a_client_cannot_choose_the_most_expensive_key_exchange)
{
	struct visit v = { .version = TLS1_3_VERSION };
	SSL_CTX *c = client_new(&v);
	struct pair p;

	rig_server(&p);
	is_true(SSL_CTX_set1_groups_list(c, "ffdhe8192:P-521:X448") == 1);
	is_refused(&p, c);
	pair_done(&p);
}
