/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * Contexts: which certificates we present, whom we trust, and which protocol versions we support.
 *
 * A server never fails a handshake because of a client's certificate. A torn handshake tells the
 * user nothing; instead the connection is established, tls_peer_rejected() says so, and whoever
 * serves it can answer with an explanation.
 */
struct tls_ctx {
	_Atomic unsigned refs;
	SSL_CTX *ssl;
};

static const unsigned char alpn_http11[] = "\x08http/1.1";
static const unsigned char alpn_http2[] = "\x02h2\x08http/1.1";
#define TLS13_SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
enum {
	ALPN_LEN = sizeof(alpn_http11) - 1,
	ALPN_HTTP2_LEN = sizeof(alpn_http2) - 1,
	CERTS_MAX = 16 * 1024, /* of a client: a certificate of ours takes less than one KiB */
};

struct err *tls_read_cert(const char *pem, X509 **ret)
{
	auto_ossl(BIO) b = ossl_text(pem);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

	if (!x)
		return ossl_err(ERR_INVALID, "read certificate");
	*ret = x;
	return NULL;
}

static struct err *use_pair(SSL_CTX *s, const char *cert_pem, const char *key_pem)
{
	auto_ossl(BIO) chain = ossl_text(cert_pem);
	auto_ossl(X509) leaf = PEM_read_bio_X509(chain, NULL, NULL, NULL);
	auto_ossl(EVP_PKEY) key = NULL;
	X509 *more;
	struct err *e;

	if (!leaf || SSL_CTX_use_certificate(s, leaf) != 1)
		return ossl_err(ERR_INVALID, "read certificate");
	while ((more = PEM_read_bio_X509(chain, NULL, NULL, NULL)))
		if (SSL_CTX_add0_chain_cert(s, more) != 1)
			return ossl_err(ERR_INVALID, "read certificate chain");
	ERR_clear_error(); /* OpenSSL reports the end of the text as an error */

	e = ossl_read_key(key_pem, &key);
	if (e)
		return e;
	if (SSL_CTX_use_PrivateKey(s, key) != 1 || SSL_CTX_check_private_key(s) != 1)
		return ossl_err(ERR_INVALID, "use key");
	return NULL;
}

/*
 * Trusts all certificates in pem. With as_client_ca, clients are also told of them, to help them
 * pick theirs.
 */
static struct err *trust(SSL_CTX *s, const char *pem, bool as_client_ca)
{
	auto_ossl(BIO) b = ossl_text(pem);
	X509_STORE *store = SSL_CTX_get_cert_store(s);
	unsigned n = 0;

	for (;; n++) {
		auto_ossl(X509) x = PEM_read_bio_X509(b, NULL, NULL, NULL);

		if (!x)
			break;
		if (X509_STORE_add_cert(store, x) != 1)
			return ossl_err(ERR_INVALID, "read CA certificate");
		if (as_client_ca && SSL_CTX_add_client_CA(s, x) != 1)
			return ossl_err(ERR_INVALID, "read CA certificate");
	}
	if (!n)
		return ossl_err(ERR_INVALID, "read CA certificate");
	ERR_clear_error();
	return NULL;
}

/* The handshake goes on; SSL_get_verify_result() keeps the last problem, even across resumption. */
static int verify_later(unused int ok, unused X509_STORE_CTX *x)
{
	return 1;
}

/* NOLINTNEXTLINE(readability-function-size): OpenSSL prescribes the parameters. */
static int alpn_choose(unused SSL *ssl, const unsigned char **out, unsigned char *out_len,
		       const unsigned char *in, unsigned in_len, void *arg)
{
	const unsigned char *ours = arg ? alpn_http2 : alpn_http11;
	unsigned ours_len = arg ? ALPN_HTTP2_LEN : ALPN_LEN;
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, out_len, ours, ours_len, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *ctx_base(const SSL_METHOD *method)
{
	SSL_CTX *s = SSL_CTX_new(method);

	if (!s)
		abort();
	SSL_CTX_set_min_proto_version(s, TLS1_2_VERSION);
	SSL_CTX_set_options(s, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
				       SSL_OP_CIPHER_SERVER_PREFERENCE);
	/*
	 * A waiting connection holds no record buffers: many watches are idle most of the time. We
	 * send the certificates we were given and no others: OpenSSL would look for their issuers
	 * in each handshake, verify them on the way, and make the peer read a CA that it has.
	 */
	SSL_CTX_set_mode(s, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				    SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
	SSL_CTX_set_read_ahead(s, 1); /* header and body of a record in one system call */
	/* A peer must not choose one that takes us milliseconds. */
	if (SSL_CTX_set1_groups_list(s, "X25519:P-256:P-384") != 1)
		abort();
	/* OpenSSL's set; the one with the fastest digest first. */
	if (SSL_CTX_set_ciphersuites(s, TLS13_SUITES) != 1)
		abort();
	tls_verdicts_keep(s);
	return s;
}

static struct tls_ctx *ctx_wrap(SSL_CTX *s)
{
	struct tls_ctx *c = xnew(struct tls_ctx);

	c->refs = 1;
	c->ssl = s;
	return c;
}

struct err *tls_server_ctx(const struct tls_server_spec *spec, struct tls_ctx **ret)
{
	auto_ossl(SSL_CTX) s = ctx_base(TLS_server_method());
	struct err *e;

	/* The argument only says whether HTTP/2 is offered. */
	SSL_CTX_set_alpn_select_cb(s, alpn_choose, spec->http2 ? s : NULL);
	SSL_CTX_set_max_cert_list(s, CERTS_MAX);
	tls_sessions_keep(s, spec->client_ca_pem);
	/* HTTP frames its bodies itself, and many clients just close the connection. */
	SSL_CTX_set_options(s, SSL_OP_IGNORE_UNEXPECTED_EOF);
	e = use_pair(s, spec->cert_pem, spec->key_pem);
	if (!e && spec->names_ca)
		e = tls_names_keep(s, spec->names_ca, spec->names_domain, spec->key_pem);
	if (e)
		return e;
	if (spec->client_ca_pem) {
		e = trust(s, spec->client_ca_pem, true);
		if (e)
			return e;
		SSL_CTX_set_verify(s, SSL_VERIFY_PEER, verify_later);
	}
	*ret = ctx_wrap(take(s));
	return NULL;
}

/* What is not to be verified costs nothing: the peer chooses how long its chain is. */
static int accept_any(unused X509_STORE_CTX *x, unused void *arg)
{
	return 1;
}

struct err *tls_client_ctx(const struct tls_client_spec *spec, struct tls_ctx **ret)
{
	auto_ossl(SSL_CTX) s = ctx_base(TLS_client_method());
	struct err *e = NULL;

	(void)SSL_CTX_set_alpn_protos(s, alpn_http11, ALPN_LEN);
	SSL_CTX_set_verify(s, spec->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	if (spec->insecure)
		SSL_CTX_set_cert_verify_callback(s, accept_any, NULL);
	else if (spec->ca_pem)
		e = trust(s, spec->ca_pem, false);
	else if (SSL_CTX_set_default_verify_paths(s) != 1)
		e = ossl_err(ERR_SYS, "read the system's CA certificates");
	if (!e && spec->cert_pem)
		e = use_pair(s, spec->cert_pem, spec->key_pem ? spec->key_pem : "");
	if (e)
		return e;
	*ret = ctx_wrap(take(s));
	return NULL;
}

struct tls_ctx *tls_ctx_ref(struct tls_ctx *c)
{
	atomic_fetch_add(&c->refs, 1);
	return c;
}

void tls_ctx_unref(struct tls_ctx *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	SSL_CTX_free(c->ssl);
	free(c);
}

SSL_CTX *tls_ctx_ssl(struct tls_ctx *c)
{
	return c->ssl;
}
