/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "server/data/archive_priv.h"
#include "server/data/check_priv.h"
#include "tls/tls.h"

/* The keys of a data directory: are they there, can they be read, do they belong together. */
#define DAY_US (24LL * 3600 * 1000000)
enum {
	SOON_DAYS = 30,
};
static const char fix[] = "restore a backup (`cay restore --force`), or start once with "
			  "--new-keys after removing the damaged files: every kubeconfig and token "
			  "issued so far becomes invalid then";

static char *load(struct findings *f, const char *data_dir, const char *name)
{
	autofree char *path = xasprintf("%s/%s", data_dir, name);
	char *text = NULL;
	size_t len;
	struct err *e = file_read(AT_FDCWD, path, ARCHIVE_SMALL_MAX, &text, &len);

	if (e)
		findings_add(f, FINDING_FAULT, name, err_text(e), fix);
	err_free(e);
	return text;
}

static void check_ca(struct findings *f, const char *data_dir)
{
	autofree char *cert = load(f, data_dir, "ca.crt"), *key = load(f, data_dir, "ca.key");
	const struct tls_server_spec spec = { .cert_pem = cert, .key_pem = key };
	autoptr(tls_ctx) ctx = NULL;
	usec ends = 0;
	struct err *e;

	if (!cert || !key)
		return;
	e = tls_cert_expiry(cert, &ends);
	if (!e)
		e = tls_server_ctx(&spec, &ctx); /* which wants a pair */
	if (e)
		findings_add(f, FINDING_FAULT, "ca.crt", err_text(e), fix);
	else if (ends < clock_wall() + SOON_DAYS * DAY_US)
		findings_add(f, FINDING_NOTE, "ca.crt", "the CA expires in less than 30 days",
			     "plan for new keys (--new-keys), and give every client its new "
			     "kubeconfig");
	err_free(e);
}

static void check_signing_key(struct findings *f, const char *data_dir)
{
	autofree char *pem = load(f, data_dir, "sa.key"), *token = NULL;
	struct err *e = pem ? tls_token_sign(pem, "{}", &token) : NULL;

	if (e)
		findings_add(f, FINDING_FAULT, "sa.key", err_text(e), fix);
	err_free(e);
}

void check_keys(struct findings *f, const char *data_dir)
{
	check_ca(f, data_dir);
	check_signing_key(f, data_dir);
}
