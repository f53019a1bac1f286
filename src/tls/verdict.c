/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>

#include "base/mem.h"
#include "crypto/crypto.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * Verdicts on certificates: those of a peer that connects again are not verified again, which saves
 * a signature check in each handshake. The other one stays: the peer proves every time that it has
 * the key.
 *
 * A verdict is about exactly the certificates that a peer sends, in their order, and the name it is
 * called by. It stands as long as every certificate up to the one that is trusted is valid, and for
 * an hour at most. Only good ones are kept: anybody can send bad certificates. They belong to a
 * context, whose trusted certificates never change.
 *
 * Handshakes of one context run in several threads at once, on the crew of the loop, and OpenSSL
 * calls us from within them: hence the lock.
 */
enum {
	VERDICTS_MAX = 256, /* the oldest goes first */
};
#define VERDICT_STANDS ((usec)3600 * 1000000)

struct verdict {
	unsigned char about[SHA256_LEN];
	usec from, until;
};

struct tls_verdicts {
	pthread_mutex_t lock; /* for all that follows */
	struct verdict list[VERDICTS_MAX];
	size_t n, next; /* next: to be replaced, once all are in use */
	size_t n_made;
};

static bool add_cert(struct sha256 *s, const X509 *x)
{
	unsigned char *der = NULL;
	int len = x ? i2d_X509(x, &der) : -1;

	if (len < 0)
		return false;
	sha256_add(s, der, (size_t)len);
	OPENSSL_free(der);
	return true;
}

static void add_name(struct sha256 *s, const char *name)
{
	if (name)
		sha256_add(s, name, strlen(name));
	sha256_add(s, "", 1);
}

/* Not of certificates that cannot be written down again: they are verified every time. */
static bool about(X509_STORE_CTX *x, unsigned char ret[SHA256_LEN])
{
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(x);
	char *ip = X509_VERIFY_PARAM_get1_ip_asc(param);
	STACK_OF(X509) *sent = X509_STORE_CTX_get0_untrusted(x);
	autoptr(sha256) s = sha256_new();
	bool ok;

	add_name(s, X509_VERIFY_PARAM_get0_host(param, 0));
	add_name(s, ip);
	OPENSSL_free(ip);
	ok = add_cert(s, X509_STORE_CTX_get0_cert(x));
	for (int i = 0; ok && i < sk_X509_num(sent); i++)
		ok = add_cert(s, sk_X509_value(sent, i));
	if (ok)
		sha256_end(s, ret);
	return ok;
}

/* The time during which all of a verified chain is valid. */
static void narrow(struct verdict *v, const STACK_OF(X509) * chain)
{
	for (int i = 0; i < sk_X509_num(chain); i++) {
		const X509 *x = sk_X509_value(chain, i);

		v->from = MAX(v->from, tls_time(X509_get0_notBefore(x)));
		v->until = MIN(v->until, tls_time(X509_get0_notAfter(x)));
	}
}

static bool stands(struct tls_verdicts *t, const unsigned char *about_what, usec now)
{
	bool found = false;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n && !found; i++)
		found = !memcmp(t->list[i].about, about_what, SHA256_LEN) &&
			t->list[i].from <= now && now < t->list[i].until;
	pthread_mutex_unlock(&t->lock);
	return found;
}

static void keep(struct tls_verdicts *t, const struct verdict *v, bool good)
{
	pthread_mutex_lock(&t->lock);
	t->n_made++;
	if (good) {
		t->list[t->next] = *v;
		t->n = MAX(t->n, t->next + 1);
		t->next = (t->next + 1) % VERDICTS_MAX;
	}
	pthread_mutex_unlock(&t->lock);
}

static int on_verify(X509_STORE_CTX *x, void *arg)
{
	struct tls_verdicts *t = arg;
	usec now = clock_wall();
	struct verdict v = { .until = now + VERDICT_STANDS };
	bool known = about(x, v.about), good;
	int r;

	if (known && stands(t, v.about, now)) {
		X509_STORE_CTX_set_error(x, X509_V_OK);
		return 1;
	}
	r = X509_verify_cert(x);
	good = r == 1 && X509_STORE_CTX_get_error(x) == X509_V_OK;
	if (good)
		narrow(&v, X509_STORE_CTX_get0_chain(x));
	keep(t, &v, known && good);
	return r;
}

static int verdicts_index; /* of a context's verdicts, which end with it */

/* NOLINTNEXTLINE(readability-function-size): OpenSSL prescribes the parameters. */
static void on_ctx_free(unused void *parent, void *p, unused CRYPTO_EX_DATA *ad, unused int index,
			unused long argl, unused void *argp)
{
	struct tls_verdicts *t = p;

	if (!t)
		return;
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

static void verdicts_index_make(void)
{
	verdicts_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_ctx_free);
	if (verdicts_index < 0)
		abort(); /* out of memory */
}

void tls_verdicts_keep(SSL_CTX *s)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tls_verdicts *t = xnew(struct tls_verdicts);

	(void)pthread_once(&once, verdicts_index_make);
	if (pthread_mutex_init(&t->lock, NULL) != 0 ||
	    SSL_CTX_set_ex_data(s, verdicts_index, t) != 1)
		abort(); /* out of memory */
	SSL_CTX_set_cert_verify_callback(s, on_verify, t);
}

size_t tls_verdicts_made(struct tls_ctx *c)
{
	struct tls_verdicts *t = SSL_CTX_get_ex_data(tls_ctx_ssl(c), verdicts_index);
	size_t n;

	pthread_mutex_lock(&t->lock);
	n = t->n_made;
	pthread_mutex_unlock(&t->lock);
	return n;
}
