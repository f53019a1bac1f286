/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include "net/rig.h"
#include "net/stream.h"
#include "pair.h"
#include "test.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/* Contexts have few of OpenSSL's algorithms: all that peers may need are among them. */
#define HOUR ((usec)3600 * 1000000)

static EVP_PKEY *key_of(const char *pem)
{
	BIO *b = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);

	BIO_free(b);
	return k;
}

/* A certificate of the test CA for this key. */
static X509 *cert_for(EVP_PKEY *key)
{
	const struct tls_cert_spec cs = { .common_name = "alice",
					  .client = true,
					  .valid_for = HOUR };
	struct tls_pair pair = { 0 };
	EVP_PKEY *ca = key_of(test_ca.key_pem);
	X509 *x = NULL;

	works(tls_make_cert(&test_ca, &cs, &pair));
	works(tls_read_cert(pair.cert_pem, &x));
	is_true(X509_set_pubkey(x, key) == 1 && X509_sign(x, ca, EVP_sha256()) > 0);
	EVP_PKEY_free(ca);
	tls_pair_done(&pair);
	return x;
}

/* Who a server takes such a client for. suites: of TLS 1.2, NULL: TLS 1.3. */
static void is_alice(struct pair *p, EVP_PKEY *key, const char *suites)
{
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());
	X509 *x = cert_for(key);
	const struct tls_peer *peer;
	struct end end = { 0 };
	char byte;
	SSL *ssl;
	int fds[2];

	is_true(SSL_CTX_use_certificate(c, x) == 1 && SSL_CTX_use_PrivateKey(c, key) == 1);
	if (suites)
		is_true(SSL_CTX_set_max_proto_version(c, TLS1_2_VERSION) == 1 &&
			SSL_CTX_set_cipher_list(c, suites) == 1);
	ssl = SSL_new(c);
	rig_pair(fds);
	end.c = pair_conn(p->l, tls_accept(p->server_ctx, fds[0]), &end);
	conn_write(end.c, "x", 1);
	SSL_set_fd(ssl, fds[1]);
	SSL_set_connect_state(ssl);
	until(p->l, SSL_read(ssl, &byte, 1) == 1 || end.closed);
	is_false(end.closed);
	if (suites)
		eq_str(SSL_get_cipher_name(ssl), suites);
	peer = tls_peer_of(conn_stream(end.c));
	is_true(peer != NULL);
	eq_str(peer->name, "alice");
	SSL_free(ssl);
	SSL_CTX_free(c);
	X509_free(x);
	(void)close(fds[1]);
	conn_free(end.c);
}

static void rig_server(struct pair *p)
{
	struct pair_spec spec = { .server_sans = { "localhost" }, .server_name = "localhost" };

	pair_setup();
	spec.client_ca = test_ca.cert_pem;
	pair_init(p, &spec);
}

TEST(tls_has_a_library_context_of_its_own)
{
	is_true(tls_library() != NULL);
}

TEST(a_client_may_have_any_usual_kind_of_key)
{
	EVP_PKEY *keys[] = { EVP_EC_gen("P-256"), EVP_EC_gen("P-384"), EVP_RSA_gen(2048),
			     EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") };
	struct pair p;

	rig_server(&p);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		is_alice(&p, keys[i], NULL);
		EVP_PKEY_free(keys[i]);
	}
	pair_done(&p);
}

TEST(suites_of_tls_1_2_are_all_there)
{
	static const char *const suites[] = {
		"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
		"ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-SHA256",
		"ECDHE-ECDSA-AES256-SHA384",     "ECDHE-ECDSA-AES256-SHA",
	};
	EVP_PKEY *key = EVP_EC_gen("P-256");
	struct pair p;

	rig_server(&p);
	for (size_t i = 0; i < ARRAY_LEN(suites); i++)
		is_alice(&p, key, suites[i]);
	EVP_PKEY_free(key);
	pair_done(&p);
}
