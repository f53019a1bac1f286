/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/credentials_priv.h"
#include "client/http_priv.h"

enum {
	MAX_TOKEN = 64 * 1024,
	TOKEN_CHECK_US = 1000000,
};

/* Token files are replaced while we run: bound service account tokens live for an hour. */
void credentials_refresh(struct credentials *c, bool now)
{
	autofree char *text = NULL;
	struct stat st;
	size_t len;
	struct err *e;

	if (!c->token_file || (!now && clock_mono() - c->token_checked < TOKEN_CHECK_US))
		return;
	c->token_checked = clock_mono();
	if (stat(c->token_file, &st) < 0 ||
	    (c->auth && st.st_mtim.tv_sec == c->token_mtime.tv_sec &&
	     st.st_mtim.tv_nsec == c->token_mtime.tv_nsec))
		return;
	e = file_read(AT_FDCWD, c->token_file, MAX_TOKEN, &text, &len);
	if (e) {
		err_free(e); /* the old token stays until it can be read again */
		return;
	}
	text[strcspn(text, " \r\n")] = 0;
	free(c->auth);
	c->auth = xasprintf("Authorization: Bearer %s", text);
	c->token_mtime = st.st_mtim;
	explicit_bzero(text, len);
}

static struct curl_blob blob_of(const char *pem)
{
	/* Our own copy: libcurl compares blobs to find a connection it can reuse. */
	return (struct curl_blob){ .data = xstrdup(pem),
				   .len = pem ? strlen(pem) : 0,
				   .flags = CURL_BLOB_NOCOPY };
}

void credentials_init(struct credentials *c, const struct kubeconfig *k)
{
	*c = (struct credentials){
		.ca = blob_of(k->ca_pem),
		.cert = blob_of(k->cert_pem),
		.key = blob_of(k->key_pem),
		.insecure = k->insecure,
		.token_file = xstrdup(k->token_file),
	};
	if (!str_empty(k->token))
		c->auth = xasprintf("Authorization: Bearer %s", k->token);
	credentials_refresh(c, true);
}

void credentials_done(struct credentials *c)
{
	if (c->auth)
		explicit_bzero(c->auth, strlen(c->auth));
	if (c->key.data)
		explicit_bzero(c->key.data, c->key.len);
	free(c->auth);
	free(c->ca.data);
	free(c->cert.data);
	free(c->key.data);
	free(c->token_file);
}

void credentials_set(const struct credentials *c, CURL *h)
{
	if (c->ca.data)
		(void)curl_easy_setopt(h, CURLOPT_CAINFO_BLOB, &c->ca);
	if (c->cert.data) {
		(void)curl_easy_setopt(h, CURLOPT_SSLCERT_BLOB, &c->cert);
		(void)curl_easy_setopt(h, CURLOPT_SSLKEY_BLOB, &c->key);
	}
	(void)curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, c->insecure ? 0L : 1L);
	(void)curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, c->insecure ? 0L : 2L);
	(void)curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}
