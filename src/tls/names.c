/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ssl.h>
#include <pthread.h>

#include "base/mem.h"
#include "base/str.h"
#include "crypto/openssl.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * Certificates for names that are not known in advance. A wildcard stands for one label, so a
 * server with names A.B.domain needs one for every B: it is signed when the first client asks for
 * it (SNI), and kept. Names that do not have this form get the certificate of the context.
 *
 * All have one key: only the signature is made anew, which costs less than the handshake it is for.
 * Handshakes run in several threads at once, hence the lock.
 */
enum {
	NAMES_MAX = 256, /* the oldest goes first */
	LABEL_MAX = 63,
	RENEW_S = 24 * 3600,
};
#define NAME_VALID ((usec)30 * 24 * 3600 * 1000000)

struct name {
	char label[LABEL_MAX + 1];
	X509 *cert;
	usec made;
};

struct tls_names {
	char *domain;
	struct tls_pair ca;
	EVP_PKEY *key;
	pthread_mutex_t lock; /* for all that follows */
	struct name list[NAMES_MAX];
	size_t n, next; /* next: to be replaced, once all are in use */
};

static bool is_label(struct span s)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

	if (!s.len || s.len > LABEL_MAX || s.p[0] == '-' || s.p[s.len - 1] == '-')
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!memchr(fine, s.p[i] | ((s.p[i] >= 'A' && s.p[i] <= 'Z') ? 0x20 : 0),
			    sizeof(fine) - 1))
			return false;
	return true;
}

/* B of A.B.domain, in lower case. */
static bool label_of(const char *domain, const char *name, char ret[LABEL_MAX + 1])
{
	struct span rest, first = span_cut(SPAN(name), '.', &rest), second;

	if (!rest.p || !is_label(first))
		return false;
	second = span_cut(rest, '.', &rest);
	if (!rest.p || !is_label(second) || !span_eq_nocase(rest, domain))
		return false;
	for (size_t i = 0; i < second.len; i++)
		ret[i] = (char)(second.p[i] >= 'A' && second.p[i] <= 'Z' ? second.p[i] | 0x20
									 : second.p[i]);
	ret[second.len] = '\0';
	return true;
}

/* A reference, or NULL. */
static X509 *find(struct tls_names *t, const char *label, usec now)
{
	X509 *x = NULL;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n && !x; i++)
		if (str_eq(t->list[i].label, label) &&
		    now - t->list[i].made < RENEW_S * (usec)1000000)
			x = t->list[i].cert;
	if (x)
		X509_up_ref(x);
	pthread_mutex_unlock(&t->lock);
	return x;
}

static void keep(struct tls_names *t, const char *label, X509 *x, usec now)
{
	struct name *n;

	pthread_mutex_lock(&t->lock);
	n = &t->list[t->next];
	X509_free(n->cert);
	X509_up_ref(x);
	n->cert = x;
	n->made = now;
	(void)snprintf(n->label, sizeof(n->label), "%s", label);
	t->n = MAX(t->n, t->next + 1);
	t->next = (t->next + 1) % NAMES_MAX;
	pthread_mutex_unlock(&t->lock);
}

static X509 *make(const struct tls_names *t, const char *label)
{
	autofree char *wildcard = xasprintf("*.%s.%s", label, t->domain);
	const char *const sans[] = { wildcard, NULL };
	const struct tls_cert_spec spec = {
		.common_name = "cay", .sans = sans, .server = true, .valid_for = NAME_VALID
	};
	autofree char *pem = NULL;
	X509 *x = NULL;
	struct err *e = tls_make_cert_for(&t->ca, &spec, t->key, &pem);

	if (!e)
		e = tls_read_cert(pem, &x);
	err_free(e); /* the client gets the other certificate, and says what it thinks of it */
	return x;
}

static int on_certificate(SSL *ssl, void *arg)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	struct tls_names *t = arg;
	usec now = clock_wall();
	char label[LABEL_MAX + 1];
	auto_ossl(X509) x = NULL;

	if (!name || !label_of(t->domain, name, label))
		return 1;
	x = find(t, label, now);
	if (!x) {
		x = make(t, label);
		if (x)
			keep(t, label, x, now);
	}
	if (!x)
		return 1;
	return SSL_use_certificate(ssl, x) == 1 && SSL_use_PrivateKey(ssl, t->key) == 1;
}

static int names_index; /* of a context's names, which end with it */

static void names_free(struct tls_names *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		X509_free(t->list[i].cert);
	(void)pthread_mutex_destroy(&t->lock);
	EVP_PKEY_free(t->key);
	tls_pair_done(&t->ca);
	free(t->domain);
	free(t);
}

/* NOLINTNEXTLINE(readability-function-size): OpenSSL prescribes the parameters. */
static void on_ctx_free(unused void *parent, void *p, unused CRYPTO_EX_DATA *ad, unused int index,
			unused long argl, unused void *argp)
{
	names_free(p);
}

static void names_index_make(void)
{
	names_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_ctx_free);
	if (names_index < 0)
		abort(); /* out of memory */
}

struct err *tls_names_keep(SSL_CTX *s, const struct tls_pair *ca, const char *domain,
			   const char *key_pem)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tls_names *t = xnew(struct tls_names);
	struct err *e;

	(void)pthread_once(&once, names_index_make);
	if (pthread_mutex_init(&t->lock, NULL) != 0)
		abort(); /* out of memory */
	t->domain = xstrdup(domain);
	t->ca = (struct tls_pair){ xstrdup(ca->cert_pem), xstrdup(ca->key_pem) };
	e = ossl_read_key(key_pem, &t->key);
	if (e) {
		names_free(t);
		return e;
	}
	if (SSL_CTX_set_ex_data(s, names_index, t) != 1)
		abort(); /* out of memory */
	SSL_CTX_set_cert_cb(s, on_certificate, t);
	return NULL;
}
