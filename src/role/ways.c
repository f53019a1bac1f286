/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the router of `cay serve` may be addressed: the names that Host may have, the domain, the
 * path prefix, the ports with TLS, and the key that signs URLs.
 */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "api/meta.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "base/strv.h"
#include "cli/settings.h"
#include "role/serve_priv.h"
#include "role/ways_priv.h"
#include "router/router.h"
#include "server/server.h"

enum {
	KEY_LEN = 32,
	SECRET_MIN = 32,
	SECRET_MAX = 4096,
	DOMAIN_MAX = 120, /* leaves room for the labels of a sandbox */
};

/* Names and loopback addresses of this machine, and the names that were given. */
static char **router_hosts(const struct serve *s)
{
	const char *given = settings_text(s->settings, "router-host");
	const char *san = settings_text(s->settings, "tls-san");
	char own[HOST_NAME_MAX + 1] = "localhost";
	struct span rest = SPAN(given ? given : ""), name;
	char **list = xnew_n(char *, 6 + rest.len);
	size_t n = 0;

	(void)gethostname(own, sizeof(own) - 1);
	list[n++] = xstrdup("127.0.0.1");
	list[n++] = xstrdup("::1");
	list[n++] = xstrdup("localhost");
	list[n++] = xstrdup(own);
	if (san)
		list[n++] = xstrdup(san);
	while (rest.len) {
		name = span_trim(span_cut(rest, ',', &rest));
		if (name.len)
			list[n++] = xstrndup(name.p, name.len);
	}
	return list;
}

static struct err *check_domain(const char *domain)
{
	struct span rest = SPAN(domain);

	while (rest.p) {
		struct span part = span_cut(rest, '.', &rest);
		autofree char *label = xstrndup(part.p, part.len);

		if (meta_bad_dns_label(label) || strlen(domain) > DOMAIN_MAX)
			return err_new(ERR_INVALID,
				       "--router-domain: %s is no domain in lower case of at most "
				       "%d characters, such as sandbox.localhost",
				       domain, DOMAIN_MAX);
	}
	return NULL;
}

struct err *ways_check_prefix(const char *flag, const char *prefix)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789-_~/";

	if (prefix[0] == '/' && prefix[1] && !str_ends(prefix, "/") && !strstr(prefix, "//") &&
	    !prefix[strspn(prefix, fine)] && !str_starts(prefix, "/healthz"))
		return NULL;
	return err_new(ERR_INVALID,
		       "%s: %s must begin with a slash, not end with one, and have only letters, "
		       "digits, - _ ~ and single slashes",
		       flag, prefix);
}

struct err *ways_read_secret(const char *flag, const char *path, char **ret)
{
	autofree char *text = NULL;
	struct span trimmed;
	size_t len, end;
	struct err *e;

	e = file_read(AT_FDCWD, path, SECRET_MAX, &text, &len);
	if (e)
		return err_wrap(e, "%s", flag);
	trimmed = (struct span){ text + strspn(text, " \t\r\n\v\f"), 0 };
	end = strlen(trimmed.p);
	while (end && strchr(" \t\r\n\v\f", trimmed.p[end - 1]))
		end--;
	if (end < SECRET_MIN || strlen(text) != len)
		return err_new(ERR_INVALID, "%s: %s must have %d bytes of text or more", flag, path,
			       SECRET_MIN);
	*ret = xstrndup(trimmed.p, end);
	return NULL;
}

/* Lost with the data directory alone: then the URLs it has signed are worth nothing, as is right.
 */
static struct err *read_key(const struct serve *s, char **ret)
{
	autofree char *path = xasprintf("%s/router.key", settings_text(s->settings, "data-dir"));
	unsigned char key[KEY_LEN];
	size_t len = 0;
	struct err *e = file_read(AT_FDCWD, path, KEY_LEN, ret, &len);

	if (!e && len == KEY_LEN)
		return NULL;
	if (!e || err_is(e, ERR_TOO_LARGE)) {
		err_free(e);
		return err_new(ERR_CORRUPT,
			       "%s is damaged: remove it, and all signed URLs become invalid",
			       path);
	}
	if (!err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	random_bytes(key, sizeof(key));
	e = file_write_atomic(AT_FDCWD, path, key, sizeof(key), 0600);
	if (!e)
		*ret = xmemdup(key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	return e;
}

static struct err *read_tls(const struct serve *s, const struct ways *w,
			    struct router_tls_spec *ret)
{
	*ret = (struct router_tls_spec){
		.listen = settings_text(s->settings, "router-tls-listen"),
		.cert_file = settings_text(s->settings, "router-tls-cert"),
		.key_file = settings_text(s->settings, "router-tls-key"),
		.ca = server_ca(s->server),
		.sans = (const char *const *)w->hosts,
		.client_ca_pem = server_ca_cert(s->server),
	};
	if (!ret->cert_file != !ret->key_file)
		return err_new(
			ERR_INVALID,
			"--router-tls-cert and --router-tls-key go together; one is missing");
	if (ret->cert_file && !ret->listen)
		return err_new(ERR_INVALID, "--router-tls-cert needs --router-tls-listen");
	return NULL;
}

static struct err *check_ways(const struct ways *w, const struct router_spec *spec)
{
	struct err *e = w->domain ? check_domain(w->domain) : NULL;

	if (!e && w->prefix)
		e = ways_check_prefix("--router-path-prefix", w->prefix);
	if (!e && spec->sni_listen && !w->domain)
		e = err_new(ERR_INVALID, "--router-sni-listen needs --router-domain");
	return e;
}

static char *text_of(const struct serve *s, const char *name)
{
	const char *text = settings_text(s->settings, name);

	return str_empty(text) ? NULL : xstrdup(text);
}

struct err *ways_read(const struct serve *s, struct ways *ret, struct router_spec *spec)
{
	const char *secret = settings_text(s->settings, "router-scoped-token-secret");
	struct err *e;

	ret->domain = text_of(s, "router-domain");
	ret->prefix = text_of(s, "router-path-prefix");
	ret->hosts = router_hosts(s);
	spec->domain = ret->domain;
	spec->path_prefix = ret->prefix;
	spec->no_rewrite = !settings_bool(s->settings, "router-path-rewrite");
	spec->sni_listen = settings_text(s->settings, "router-sni-listen");
	if (!str_in("*", (const char *const *)ret->hosts))
		spec->hosts = (const char *const *)ret->hosts;
	e = check_ways(ret, spec);
	if (!e)
		e = read_tls(s, ret, &spec->tls);
	if (!e && secret)
		e = ways_read_secret("--router-scoped-token-secret", secret, &ret->scoped_secret);
	if (!e)
		e = read_key(s, &ret->key);
	spec->scoped_secret = ret->scoped_secret;
	spec->pass_key = ret->key;
	spec->pass_key_len = KEY_LEN;
	return e;
}

void ways_done(struct ways *w)
{
	strv_free(w->hosts);
	free(w->domain);
	free(w->prefix);
	if (w->scoped_secret)
		explicit_bzero(w->scoped_secret, strlen(w->scoped_secret));
	free(w->scoped_secret);
	if (w->key)
		explicit_bzero(w->key, KEY_LEN);
	free(w->key);
}
