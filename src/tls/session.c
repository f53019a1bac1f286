/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ssl.h>
#include <pthread.h>

#include "base/mem.h"
#include "crypto/crypto.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * Sessions that clients may resume, without a signature on either side: we keep them in memory and
 * the client has only a number. They end with the process, and there is no key that could decrypt
 * them later. The other way, a ticket with everything in it, costs more than it saves: OpenSSL
 * reads the client's certificate again for each ticket that it writes or gets.
 *
 * A session has the identity of its client, so it ends when the certificate does, and an hour after
 * the handshake that verified it, however often it was resumed in between. One whose certificate
 * was rejected is not kept: everybody can send large ones.
 */
enum {
	SESSIONS_MAX = 512, /* the oldest goes first */
	SESSION_S = 3600,
};

static int deadline_index; /* of the time, in seconds, after which a session must not be resumed */

static void deadline_index_make(void)
{
	deadline_index = SSL_SESSION_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	if (deadline_index < 0)
		abort(); /* out of memory */
}

/* A session that continues another one has inherited its deadline. */
static intptr_t deadline_of(SSL_SESSION *s, intptr_t now)
{
	intptr_t at = (intptr_t)SSL_SESSION_get_ex_data(s, deadline_index);
	X509 *cert = SSL_SESSION_get0_peer(s);

	if (at)
		return at;
	at = now + SESSION_S;
	return cert ? MIN(at, (intptr_t)(tls_not_after(cert) / 1000000)) : at;
}

/* OpenSSL has just stored s. */
static int on_stored(SSL *ssl, SSL_SESSION *s)
{
	intptr_t now = (intptr_t)(clock_wall() / 1000000), at = deadline_of(s, now);

	if (at <= now + 1 || SSL_get_verify_result(ssl) != X509_V_OK ||
	    SSL_SESSION_set_ex_data(s, deadline_index, (void *)at) != 1)
		(void)SSL_CTX_remove_session(SSL_get_SSL_CTX(ssl), s);
	else
		(void)SSL_SESSION_set_timeout(s, (long)(at - now - 1));
	return 0; /* we have taken no reference */
}

void tls_sessions_keep(SSL_CTX *s, const char *client_ca_pem)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *ca = client_ca_pem ? client_ca_pem : "";
	unsigned char digest[32];

	(void)pthread_once(&once, deadline_index_make);
	sha256(ca, strlen(ca), digest);
	if (SSL_CTX_set_session_id_context(s, digest, sizeof(digest)) != 1)
		abort();                          /* it is as long as OpenSSL allows */
	SSL_CTX_set_options(s, SSL_OP_NO_TICKET); /* numbers instead */
	SSL_CTX_set_num_tickets(s, 1);
	SSL_CTX_set_session_cache_mode(s, SSL_SESS_CACHE_SERVER);
	SSL_CTX_sess_set_cache_size(s, SESSIONS_MAX);
	SSL_CTX_set_timeout(s, SESSION_S);
	SSL_CTX_sess_set_new_cb(s, on_stored);
}
