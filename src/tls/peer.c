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
	while ((at = X509_NAME_get_index_by_NID(name, NID_organizationName, at)) >= 0) {
		char *group = name_entry(name, at);

		if (!group)
			continue;
		ret->groups = xrealloc(ret->groups, (ret->n_groups + 1) * sizeof(*ret->groups));
		ret->groups[ret->n_groups++] = group;
	}
}

/* malloc'd; NULL if it is of another sort, or not clean text. */
static char *alt_name(const GENERAL_NAME *n, int type, const char *prefix)
{
	const ASN1_STRING *value = n->type == type ? n->d.ia5 : NULL;
	const char *text = value ? (const char *)ASN1_STRING_get0_data(value) : NULL;
	size_t len = value ? (size_t)ASN1_STRING_length(value) : 0;

	if (!len || memchr(text, '\0', len) || len < strlen(prefix) ||
	    memcmp(text, prefix, strlen(prefix)) != 0)
		return NULL;
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return NULL;
	return xstrndup(text, len);
}

static void read_alt(const X509 *x, struct tls_peer *ret)
{
	static const struct {
		int type;
		const char *prefix;
	} sorts[] = { { GEN_URI, "spiffe://" }, { GEN_DNS, "" } };
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);

	for (size_t s = 0; s < ARRAY_LEN(sorts); s++)
		for (int i = 0; i < sk_GENERAL_NAME_num(names) && !ret->alt; i++)
			ret->alt = alt_name(sk_GENERAL_NAME_value(names, i), sorts[s].type,
					    sorts[s].prefix);
	GENERAL_NAMES_free(names);
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
	id->peer.expires = id->expires / 1000000;
	read_subject(X509_get_subject_name(x), &id->peer);
	read_alt(x, &id->peer);
	return id;
}

void tls_identity_free(struct tls_identity *id)
{
	if (!id)
		return;
	free(id->peer.name);
	free(id->peer.alt);
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

	return id && (id->peer.name || id->peer.alt) && stands(id) ? &id->peer : NULL;
}

bool tls_peer_rejected(const struct stream *s)
{
	const struct tls_identity *id = tls_stream_identity(s);

	return id && !stands(id);
}
