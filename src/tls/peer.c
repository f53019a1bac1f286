/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "tls/tls.h"
#include "tls/tls_priv.h"

/*
 * Who the peer of a stream is. Its certificate is read once, at the end of the handshake; what may
 * change afterwards is only whether it has expired.
 */
struct tls_identity {
	struct tls_peer peer; /* nameless unless verified */
	usec expires;
};

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

static void read_subject(X509_NAME *name, struct tls_peer *ret)
{
	int at = -1;

	while ((at = X509_NAME_get_index_by_NID(name, NID_commonName, at)) >= 0) {
		free(ret->name);
		ret->name = name_entry(name, at);
	}
	at = -1;
	while (ret->name &&
	       (at = X509_NAME_get_index_by_NID(name, NID_organizationName, at)) >= 0) {
		char *group = name_entry(name, at);

		if (!group)
			continue;
		ret->groups = xrealloc(ret->groups, (ret->n_groups + 1) * sizeof(*ret->groups));
		ret->groups[ret->n_groups++] = group;
	}
}

struct tls_identity *tls_identity_of(const SSL *ssl)
{
	X509 *x = SSL_get0_peer_certificate(ssl);
	struct tls_identity *id;

	if (!x)
		return NULL;
	id = xnew(struct tls_identity);
	/* Of a resumed session, the result is that of its first handshake. */
	if (SSL_get_verify_mode(ssl) == SSL_VERIFY_NONE || SSL_get_verify_result(ssl) != X509_V_OK)
		return id;
	id->expires = tls_not_after(x);
	read_subject(X509_get_subject_name(x), &id->peer);
	return id;
}

void tls_identity_free(struct tls_identity *id)
{
	if (!id)
		return;
	free(id->peer.name);
	for (size_t i = 0; i < id->peer.n_groups; i++)
		free(id->peer.groups[i]);
	free(id->peer.groups);
	free(id);
}

static bool stands(const struct tls_identity *id)
{
	return clock_wall() < id->expires;
}

const struct tls_peer *tls_peer_of(const struct stream *s)
{
	const struct tls_identity *id = tls_stream_identity(s);

	return id && id->peer.name && stands(id) ? &id->peer : NULL;
}

bool tls_peer_rejected(const struct stream *s)
{
	const struct tls_identity *id = tls_stream_identity(s);

	return id && !stands(id);
}
