/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * A TLS stream on a socket. The handshake runs inside the first reads and writes. Until it is over,
 * and whenever the protocol needs the opposite direction of what was asked for, wants() says what
 * to wait for.
 */
struct tls_stream {
	struct stream stream;
	SSL *ssl;
	unsigned wants;
	bool starved; /* OpenSSL wants more bytes than there are: it holds part of a record */
	bool broken;
	bool shut; /* our close_notify has been sent */
};

static const struct stream_ops tls_ops;

static struct tls_stream *tls_of(const struct stream *s)
{
	return container_of(s, struct tls_stream, stream);
}

/* OpenSSL's own socket BIO would raise SIGPIPE. */
static int sock_write(BIO *b, const char *p, int len)
{
	int fd = (int)(intptr_t)BIO_get_data(b);
	ssize_t n = send(fd, p, (size_t)len, MSG_NOSIGNAL);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(b);
	return (int)n;
}

static int sock_read(BIO *b, char *p, int len)
{
	int fd = (int)(intptr_t)BIO_get_data(b);
	ssize_t n = recv(fd, p, (size_t)len, 0);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	if (n == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long sock_ctrl(BIO *b, int cmd, unused long n, unused void *p)
{
	switch (cmd) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

static BIO_METHOD *sock_method;

static void sock_method_make(void)
{
	sock_method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "cay socket");
	if (!sock_method)
		abort();
	BIO_meth_set_write(sock_method, sock_write);
	BIO_meth_set_read(sock_method, sock_read);
	BIO_meth_set_ctrl(sock_method, sock_ctrl);
}

static struct err *stream_err(const char *doing, int errnum)
{
	if (!ERR_peek_error() && errnum)
		return err_sys(errnum, "%s", doing);
	return ossl_err(ERR_UNAVAILABLE, doing);
}

/* What an unfinished operation means; natural is the direction on which it would block anyway. */
static ssize_t tls_unfinished(struct tls_stream *t, int r, unsigned natural, struct err **ret_err)
{
	int errnum = errno;
	bool shaking = !SSL_is_init_finished(t->ssl);
	unsigned want = 0;

	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		want = WATCH_READ;
		t->starved = true;
		break;
	case SSL_ERROR_WANT_WRITE:
		want = WATCH_WRITE;
		break;
	case SSL_ERROR_ZERO_RETURN:
		t->wants = 0;
		return STREAM_EOF;
	default:
		t->wants = 0;
		t->broken = true;
		*ret_err = stream_err(natural == WATCH_READ ? "read from TLS connection"
							    : "write to TLS connection",
				      errnum);
		return STREAM_FAILED;
	}
	t->wants = shaking || want != natural ? want : 0;
	return STREAM_AGAIN;
}

static ssize_t tls_refused(struct err **ret_err)
{
	*ret_err = err_new(ERR_UNAVAILABLE, "the TLS connection broke earlier");
	return STREAM_FAILED;
}

static ssize_t tls_read(struct stream *s, void *p, size_t len, struct err **ret_err)
{
	struct tls_stream *t = tls_of(s);
	int r;

	if (t->broken)
		return tls_refused(ret_err);
	ERR_clear_error();
	errno = 0;
	r = SSL_read(t->ssl, p, (int)MIN(len, (size_t)INT_MAX));
	t->starved = false;
	if (r <= 0)
		return tls_unfinished(t, r, WATCH_READ, ret_err);
	t->wants = 0;
	return r;
}

static ssize_t tls_write(struct stream *s, const void *p, size_t len, struct err **ret_err)
{
	struct tls_stream *t = tls_of(s);
	int r;

	if (t->broken)
		return tls_refused(ret_err);
	ERR_clear_error();
	errno = 0;
	r = SSL_write(t->ssl, p, (int)MIN(len, (size_t)INT_MAX));
	if (r <= 0)
		return tls_unfinished(t, r, WATCH_WRITE, ret_err);
	t->wants = 0;
	return r;
}

static bool tls_shutdown(struct stream *s)
{
	struct tls_stream *t = tls_of(s);

	if (!t->broken && !t->shut && SSL_is_init_finished(t->ssl)) {
		int r;

		ERR_clear_error();
		r = SSL_shutdown(t->ssl);
		if (r < 0 && SSL_get_error(t->ssl, r) == SSL_ERROR_WANT_WRITE)
			return false;
		ERR_clear_error();
		t->shut = true;
	}
	(void)shutdown(s->fd, SHUT_WR); /* fails with ENOTCONN if the peer has gone */
	return true;
}

static unsigned tls_wants(const struct stream *s)
{
	return tls_of(s)->wants;
}

static bool tls_pending(const struct stream *s)
{
	const struct tls_stream *t = tls_of(s);

	return !t->starved && !t->broken && SSL_has_pending(t->ssl);
}

static void tls_free(struct stream *s)
{
	struct tls_stream *t = tls_of(s);

	SSL_free(t->ssl);
	(void)close(s->fd);
	ERR_clear_error();
	free(t);
}

static const struct stream_ops tls_ops = {
	.read = tls_read,
	.write = tls_write,
	.shutdown = tls_shutdown,
	.wants = tls_wants,
	.pending = tls_pending,
	.free = tls_free,
};

static struct tls_stream *tls_new(struct tls_ctx *c, int fd, unsigned wants)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tls_stream *t = xnew(struct tls_stream);
	BIO *b;

	(void)pthread_once(&once, sock_method_make);
	t->ssl = SSL_new(tls_ctx_ssl(c));
	b = BIO_new(sock_method);
	if (!t->ssl || !b)
		abort(); /* out of memory */
	BIO_set_data(b, (void *)(intptr_t)fd);
	BIO_set_init(b, 1);
	SSL_set_bio(t->ssl, b, b);
	t->stream.ops = &tls_ops;
	t->stream.fd = fd;
	t->wants = wants;
	return t;
}

struct stream *tls_accept(struct tls_ctx *c, int fd)
{
	struct tls_stream *t = tls_new(c, fd, WATCH_READ);

	SSL_set_accept_state(t->ssl);
	return &t->stream;
}

static bool is_ip(const char *s)
{
	unsigned char addr[16];

	return inet_pton(AF_INET, s, addr) == 1 || inet_pton(AF_INET6, s, addr) == 1;
}

/*
 * The peer must own the name it was called by; without a name, only callers that verify nothing may
 * go on.
 */
static bool set_server_name(SSL *ssl, const char *name)
{
	if (!name)
		return SSL_get_verify_mode(ssl) == SSL_VERIFY_NONE;
	if (is_ip(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct stream *tls_connect(struct tls_ctx *c, int fd, const char *server_name)
{
	struct tls_stream *t = tls_new(c, fd, WATCH_WRITE);

	SSL_set_connect_state(t->ssl);
	t->broken = !set_server_name(t->ssl, server_name);
	return &t->stream;
}

/*
 * The peer's certificate; *ret_good says whether it passes all checks. NULL if it sent none, or
 * this is not TLS.
 */
static X509 *peer_cert(const struct stream *s, bool *ret_good)
{
	SSL *ssl;
	X509 *x;

	if (s->ops != &tls_ops)
		return NULL;
	ssl = tls_of(s)->ssl;
	x = SSL_is_init_finished(ssl) ? SSL_get0_peer_certificate(ssl) : NULL;
	if (x) /* a resumed session may have outlived its certificate */
		*ret_good = SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE &&
			    SSL_get_verify_result(ssl) == X509_V_OK &&
			    X509_cmp_current_time(X509_get0_notAfter(x)) > 0;
	return x;
}

/* malloc'd; NULL if it is not clean text. */
static char *name_entry(const X509_NAME *name, int at)
{
	ASN1_STRING *value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
	unsigned char *utf8 = NULL;
	int len = ASN1_STRING_to_UTF8(&utf8, value);
	char *text = NULL;

	if (len > 0 && !memchr(utf8, '\0', (size_t)len))
		text = xstrndup((const char *)utf8, (size_t)len);
	OPENSSL_free(utf8);
	return text;
}

void tls_peer_of(const struct stream *s, struct tls_peer *ret)
{
	bool good = false;
	X509 *x = peer_cert(s, &good);
	const X509_NAME *name;
	int at = -1;

	*ret = (struct tls_peer){ 0 };
	if (!good)
		return;
	name = X509_get_subject_name(x);
	while ((at = X509_NAME_get_index_by_NID((X509_NAME *)name, NID_commonName, at)) >= 0) {
		free(ret->name);
		ret->name = name_entry(name, at);
	}
	at = -1;
	while (ret->name && (at = X509_NAME_get_index_by_NID((X509_NAME *)name,
							     NID_organizationName, at)) >= 0) {
		char *group = name_entry(name, at);

		if (!group)
			continue;
		ret->groups = xrealloc(ret->groups, (ret->n_groups + 1) * sizeof(*ret->groups));
		ret->groups[ret->n_groups++] = group;
	}
}

bool tls_peer_rejected(const struct stream *s)
{
	bool good = false;

	return peer_cert(s, &good) && !good;
}

void tls_peer_done(struct tls_peer *p)
{
	free(p->name);
	for (size_t i = 0; i < p->n_groups; i++)
		free(p->groups[i]);
	free(p->groups);
	*p = (struct tls_peer){ 0 };
}
