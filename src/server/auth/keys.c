/* SPDX-License-Identifier: Apache-2.0 */
#include "server/auth/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"

/*
 * The two certificates are replaced when they expire soon, and the server's also when it must carry
 * other names.
 */
#define DAY_US (24LL * 3600 * 1000000)
enum {
	CA_DAYS = 3650,
	CERT_DAYS = 365,
	RENEW_DAYS = 30,
	PEM_MAX = 64 * 1024,
	SANS_MAX = 64,
};

static struct err *path_read(const char *dir, const char *name, char **ret)
{
	autofree char *path = xasprintf("%s/%s", dir, name);
	size_t len;

	return file_read(AT_FDCWD, path, PEM_MAX, ret, &len);
}

static struct err *path_write(const char *dir, const char *name, const char *text)
{
	autofree char *path = xasprintf("%s/%s", dir, name);

	return file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

static struct err *path_remove(const char *dir, const char *name)
{
	autofree char *path = xasprintf("%s/%s", dir, name);

	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(errno, "remove %s", path);
	return NULL;
}

/* Reads NAME.crt and NAME.key; both are NULL when either is missing. */
static struct err *pair_read(const char *dir, const char *name, struct tls_pair *ret)
{
	autofree char *crt = xasprintf("%s.crt", name), *key = xasprintf("%s.key", name);
	struct err *e = path_read(dir, crt, &ret->cert_pem);

	if (!e)
		e = path_read(dir, key, &ret->key_pem);
	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		e = NULL;
		tls_pair_done(ret);
		*ret = (struct tls_pair){ 0 };
	}
	return e;
}

/* The old certificate is removed first and the new one written last: a crash in between leaves no
 * pair that does not match. */
static struct err *pair_write(const char *dir, const char *name, const struct tls_pair *p)
{
	autofree char *crt = xasprintf("%s.crt", name), *key = xasprintf("%s.key", name);
	struct err *e = path_remove(dir, crt);

	if (e)
		return e;
	e = path_write(dir, key, p->key_pem);
	return e ? e : path_write(dir, crt, p->cert_pem);
}

static struct err *missing(const char *what)
{
	return err_new(
		ERR_NOT_FOUND,
		"%s is missing; restore it from a backup, or start once with --new-keys: then "
		"every kubeconfig, certificate and token issued so far becomes invalid",
		what);
}

static struct err *load_ca(struct keys *k, const char *dir, bool make)
{
	struct err *e = pair_read(dir, "ca", &k->ca);

	if (e || k->ca.cert_pem)
		return e;
	if (!make)
		return missing("ca.key or ca.crt");
	/* What another CA has signed is of no use any more. */
	e = path_remove(dir, "server.crt");
	if (!e)
		e = path_remove(dir, "admin.crt");
	if (!e)
		e = tls_make_ca("cay-ca", CA_DAYS * DAY_US, &k->ca);
	return e ? e : pair_write(dir, "ca", &k->ca);
}

static bool lasts(const struct tls_pair *p)
{
	usec ends = 0;
	struct err *e;

	if (!p->cert_pem)
		return false;
	e = tls_cert_expiry(p->cert_pem, &ends);
	err_free(e); /* one that cannot be read is replaced */
	return !e && ends > clock_wall() + RENEW_DAYS * DAY_US;
}

static struct err *remake(struct keys *k, const char *dir, const char *name,
			  const struct tls_cert_spec *spec, struct tls_pair *ret)
{
	struct err *e;

	tls_pair_done(ret);
	*ret = (struct tls_pair){ 0 };
	e = tls_make_cert(&k->ca, spec, ret);
	return e ? e : pair_write(dir, name, ret);
}

static struct err *load_admin(struct keys *k, const char *dir)
{
	static const char *const groups[] = { "system:masters", NULL };
	const struct tls_cert_spec spec = {
		.common_name = "cay-admin",
		.organizations = groups,
		.client = true,
		.valid_for = CERT_DAYS * DAY_US,
	};
	struct err *e = pair_read(dir, "admin", &k->admin);

	if (e || lasts(&k->admin))
		return e;
	return remake(k, dir, "admin", &spec, &k->admin);
}

/* "127.0.0.1" of "127.0.0.1:6443", "::1" of "[::1]:6443"; malloc'd */
static char *host_of(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : strlen(address);

	if (len >= 2 && address[0] == '[' && address[len - 1] == ']')
		return xstrndup(address + 1, len - 2);
	return xstrndup(address, len);
}

static bool is_any(const char *host)
{
	return str_eq(host, "0.0.0.0") || str_eq(host, "::") || str_empty(host);
}

struct names {
	const char *list[SANS_MAX + 1];
	size_t n;
};

static void names_add(struct names *ns, const char *name)
{
	if (ns->n < SANS_MAX && !is_any(name) && !str_in(name, ns->list))
		ns->list[ns->n++] = name;
}

static struct err *load_server(struct keys *k, const char *dir, const struct names *names)
{
	const struct tls_cert_spec spec = {
		.common_name = "cay",
		.sans = names->list,
		.server = true,
		.valid_for = CERT_DAYS * DAY_US,
	};
	autofree char *had = NULL;
	autobuf want = { 0 };
	struct err *e;

	for (size_t i = 0; i < names->n; i++)
		buf_printf(&want, "%s\n", names->list[i]);
	e = pair_read(dir, "server", &k->server);
	if (e)
		return e;
	e = path_read(dir, "server.names", &had);
	if (e && !err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	if (lasts(&k->server) && str_eq(had, buf_str(&want)))
		return NULL;
	e = remake(k, dir, "server", &spec, &k->server);
	return e ? e : path_write(dir, "server.names", buf_str(&want));
}

/* Finds a bad key at start rather than with the first token. */
static struct err *try_sa_key(const struct keys *k)
{
	autofree char *token = NULL;
	struct err *e = tls_token_sign(k->sa_key, "{}", &token);

	return e ? err_wrap(e, "use sa.key") : NULL;
}

static struct err *load_sa_key(struct keys *k, const char *dir, bool make)
{
	struct err *e = path_read(dir, "sa.key", &k->sa_key);

	if (!e)
		return try_sa_key(k);
	if (!err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	if (!make)
		return missing("sa.key");
	e = signing_key_make(&k->sa_key);
	return e ? e : path_write(dir, "sa.key", k->sa_key);
}

struct err *keys_load(struct keys *k, const char *data_dir, const struct keys_spec *spec)
{
	static const char *const always[] = { "127.0.0.1", "::1", "localhost",
					      "kubernetes.default.svc" };
	autofree char *host = host_of(spec->listen);
	const char *const *sans = spec->sans;
	struct names names = { 0 };
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		names_add(&names, always[i]);
	names_add(&names, host);
	for (size_t i = 0; sans && sans[i]; i++)
		names_add(&names, sans[i]);

	e = load_ca(k, data_dir, spec->make);
	if (!e)
		e = load_server(k, data_dir, &names);
	if (!e)
		e = load_admin(k, data_dir);
	if (!e)
		e = load_sa_key(k, data_dir, spec->make);
	return err_wrap(e, "load the keys in %s", data_dir);
}

struct err *keys_write_kubeconfig(const struct keys *k, const char *data_dir, const char *address)
{
	autofree char *ca = base64_encode(k->ca.cert_pem, strlen(k->ca.cert_pem), false);
	autofree char *cert = base64_encode(k->admin.cert_pem, strlen(k->admin.cert_pem), false);
	autofree char *key = base64_encode(k->admin.key_pem, strlen(k->admin.key_pem), false);
	autofree char *host = host_of(address), *had = NULL;
	const char *port = strrchr(address, ':');
	autobuf b = { 0 };

	buf_add_str(&b, "apiVersion: v1\nkind: Config\nclusters:\n- name: cay\n  cluster:\n");
	if (is_any(host))
		buf_printf(&b, "    server: https://127.0.0.1%s\n", port ? port : "");
	else
		buf_printf(&b, "    server: https://%s\n", address);
	buf_printf(&b, "    certificate-authority-data: %s\n", ca);
	buf_printf(&b,
		   "users:\n- name: cay-admin\n  user:\n    client-certificate-data: %s\n"
		   "    client-key-data: %s\n",
		   cert, key);
	buf_add_str(&b, "contexts:\n- name: cay\n  context:\n    cluster: cay\n"
			"    user: cay-admin\n    namespace: default\ncurrent-context: cay\n");
	/* On a full disk it could not be written again, and need not be. */
	err_free(path_read(data_dir, "admin.kubeconfig", &had));
	if (str_eq(had, buf_str(&b)))
		return NULL;
	return path_write(data_dir, "admin.kubeconfig", buf_str(&b));
}

void keys_done(struct keys *k)
{
	tls_pair_done(&k->ca);
	tls_pair_done(&k->server);
	tls_pair_done(&k->admin);
	free(k->sa_key);
}
