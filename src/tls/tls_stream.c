/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * A TLS stream on a socket. A handshake computes for a millisecond, so it runs in short jobs: a job
 * goes on until bytes of the peer are missing or the handshake is over, and the descriptor is
 * watched in between. So a peer that stalls holds no thread, and the loop does not touch the SSL
 * while a job runs. A stream that is freed in the meantime is destroyed when its job has ended.
 *
 * Afterwards the loop reads and writes. Where the protocol needs the opposite direction of what was
 * asked for, wants() says what to wait for.
 */
enum tls_state {
	TLS_WAITING, /* in a handshake, for the descriptor */
	TLS_SHAKING, /* a job has the SSL and everything that is marked as its own */
	TLS_OPEN,
	TLS_OVER, /* nothing was established, or it broke */
	TLS_STATE_MAX_,
};

static const unsigned tls_next[TLS_STATE_MAX_] = {
	[TLS_WAITING] = B(TLS_SHAKING),
	[TLS_SHAKING] = B(TLS_WAITING) | B(TLS_OPEN) | B(TLS_OVER),
	[TLS_OPEN] = B(TLS_OVER),
	[TLS_OVER] = 0,
};

struct tls_stream {
	struct stream stream;
	enum tls_state state;
	struct tls_ctx *ctx; /* until there is an SSL */
	char *server_name;   /* of a client, or NULL */
	bool client;
	struct loop *loop;
	void (*woken)(void *arg);
	void *woken_arg;

	SSL *ssl;                   /* the job's */
	unsigned wants;             /* the job's */
	enum tls_state turned;      /* the job's: what it led to */
	struct err *failure;        /* the job's: why nothing was established; told once */
	bool left;                  /* the job's: the peer ended the connection instead */
	struct tls_identity *owner; /* the job's: NULL if the peer sent no certificate */
	char protocol[16];          /* the job's: the one that was negotiated, or "" */
	atomic_bool freed;          /* while a job runs */

	bool starved; /* OpenSSL wants more bytes than there are: it holds part of a record */
	bool shut;    /* our close_notify has been sent */
};

static const struct stream_ops tls_ops;

static struct tls_stream *tls_of(const struct stream *s)
{
	return container_of(s, struct tls_stream, stream);
}

static void tls_enter(struct tls_stream *t, enum tls_state next)
{
	assert(tls_next[t->state] & B(next));
	t->state = next;
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

static BIO *sock_bio(int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *b;

	(void)pthread_once(&once, sock_method_make);
	b = BIO_new(sock_method);
	if (!b)
		abort(); /* out of memory */
	BIO_set_data(b, (void *)(intptr_t)fd);
	BIO_set_init(b, 1);
	return b;
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

static struct err *shake_begin(struct tls_stream *t)
{
	BIO *b = sock_bio(t->stream.fd);

	t->ssl = SSL_new(tls_ctx_ssl(t->ctx));
	if (!t->ssl)
		abort(); /* out of memory */
	tls_ctx_unref(take(t->ctx));
	SSL_set_bio(t->ssl, b, b);
	if (!t->client) {
		SSL_set_accept_state(t->ssl);
		return NULL;
	}
	SSL_set_connect_state(t->ssl);
	if (!set_server_name(t->ssl, t->server_name))
		return err_new(ERR_INVALID, "connect with TLS: no name to verify the server by");
	return NULL;
}

static void note_protocol(struct tls_stream *t)
{
	const unsigned char *name;
	unsigned len;

	SSL_get0_alpn_selected(t->ssl, &name, &len);
	if (len && len < sizeof(t->protocol)) /* it is one of ours */
		(void)snprintf(t->protocol, sizeof(t->protocol), "%.*s", (int)len,
			       (const char *)name);
}

static enum tls_state shake_on(struct tls_stream *t)
{
	int r, errnum;

	ERR_clear_error();
	errno = 0;
	r = SSL_do_handshake(t->ssl);
	errnum = errno;
	if (r == 1) {
		t->owner = tls_identity_of(t->ssl);
		note_protocol(t);
		return TLS_OPEN;
	}
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		t->wants = WATCH_READ;
		return TLS_WAITING;
	case SSL_ERROR_WANT_WRITE:
		t->wants = WATCH_WRITE;
		return TLS_WAITING;
	case SSL_ERROR_ZERO_RETURN:
		t->left = true;
		return TLS_OVER;
	default:
		t->failure = stream_err("establish TLS connection", errnum);
		return TLS_OVER;
	}
}

/* In a thread of its own. */
static void shake_work(void *arg)
{
	struct tls_stream *t = arg;

	t->wants = 0;
	t->turned = TLS_OVER;
	if (atomic_load(&t->freed))
		return;
	if (!t->ssl)
		t->failure = shake_begin(t);
	if (!t->failure)
		t->turned = shake_on(t);
	ERR_clear_error();
}

static void tls_destroy(struct tls_stream *t)
{
	/* OpenSSL forgets the session of a connection that was not shut down in both directions. */
	if (t->state == TLS_OPEN)
		SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(t->ssl);
	(void)close(t->stream.fd);
	ERR_clear_error();
	tls_ctx_unref(t->ctx);
	tls_identity_free(t->owner);
	err_free(t->failure);
	free(t->server_name);
	free(t);
}

static void shake_done(void *arg)
{
	struct tls_stream *t = arg;

	tls_enter(t, t->turned);
	if (atomic_load(&t->freed))
		tls_destroy(t);
	else
		t->woken(t->woken_arg);
}

/* Reading or writing before there is anything to read from or write to, or after that. */
static ssize_t tls_not_open(struct tls_stream *t, struct err **ret_err)
{
	if (t->state == TLS_WAITING) {
		tls_enter(t, TLS_SHAKING);
		job_run_short(t->loop, shake_work, shake_done, t);
	}
	if (t->state == TLS_SHAKING)
		return STREAM_AGAIN;
	if (t->left)
		return STREAM_EOF;
	*ret_err = take(t->failure);
	if (!*ret_err)
		*ret_err = err_new(ERR_UNAVAILABLE, "the TLS connection broke earlier");
	return STREAM_FAILED;
}

/* What an unfinished operation means; natural is the direction on which it would block anyway. */
static ssize_t tls_unfinished(struct tls_stream *t, int r, unsigned natural, struct err **ret_err)
{
	int errnum = errno;
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
		tls_enter(t, TLS_OVER);
		*ret_err = stream_err(natural == WATCH_READ ? "read from TLS connection"
							    : "write to TLS connection",
				      errnum);
		return STREAM_FAILED;
	}
	t->wants = want != natural ? want : 0;
	return STREAM_AGAIN;
}

static ssize_t tls_read(struct stream *s, void *p, size_t len, struct err **ret_err)
{
	struct tls_stream *t = tls_of(s);
	int r;

	if (t->state != TLS_OPEN)
		return tls_not_open(t, ret_err);
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

	if (t->state != TLS_OPEN)
		return tls_not_open(t, ret_err);
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

	if (t->state == TLS_SHAKING)
		return false;
	if (t->state == TLS_OPEN && !t->shut) {
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

static void tls_attach(struct stream *s, struct loop *l, void (*woken)(void *arg), void *arg)
{
	struct tls_stream *t = tls_of(s);

	t->loop = l;
	t->woken = woken;
	t->woken_arg = arg;
}

static unsigned tls_wants(const struct stream *s)
{
	const struct tls_stream *t = tls_of(s);

	return t->state == TLS_SHAKING ? STREAM_WORKS : t->wants;
}

static bool tls_pending(const struct stream *s)
{
	const struct tls_stream *t = tls_of(s);

	return t->state == TLS_OPEN && !t->starved && SSL_has_pending(t->ssl);
}

static const char *tls_protocol(const struct stream *s)
{
	const struct tls_stream *t = tls_of(s);

	return t->state == TLS_OPEN || t->state == TLS_OVER ? t->protocol : "";
}

static void tls_free(struct stream *s)
{
	struct tls_stream *t = tls_of(s);

	if (t->state == TLS_SHAKING)
		atomic_store(&t->freed, true); /* shake_done() goes on */
	else
		tls_destroy(t);
}

static const struct stream_ops tls_ops = {
	.read = tls_read,
	.write = tls_write,
	.shutdown = tls_shutdown,
	.attach = tls_attach,
	.wants = tls_wants,
	.pending = tls_pending,
	.protocol = tls_protocol,
	.free = tls_free,
};

static struct tls_stream *tls_new(struct tls_ctx *c, int fd, unsigned wants)
{
	struct tls_stream *t = xnew(struct tls_stream);

	t->stream.ops = &tls_ops;
	t->stream.fd = fd;
	t->ctx = tls_ctx_ref(c);
	t->wants = wants;
	return t;
}

struct stream *tls_accept(struct tls_ctx *c, int fd)
{
	return &tls_new(c, fd, WATCH_READ)->stream;
}

struct stream *tls_connect(struct tls_ctx *c, int fd, const char *server_name)
{
	struct tls_stream *t = tls_new(c, fd, WATCH_WRITE);

	t->client = true;
	t->server_name = server_name ? xstrdup(server_name) : NULL;
	return &t->stream;
}

const struct tls_identity *tls_stream_identity(const struct stream *s)
{
	const struct tls_stream *t = tls_of(s);

	return s->ops == &tls_ops && t->state != TLS_SHAKING ? t->owner : NULL;
}
