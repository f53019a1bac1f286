/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/http.h"

/*
 * What a kubeconfig's current context says: server, trust and identity. Anything that would change
 * who we are or whom we trust and is not supported here (exec plugins, proxies, other server names)
 * is rejected by name: ignoring it silently would be worse.
 */
enum {
	PEM_MAX = 1024 * 1024,
	TOKEN_MAX = 64 * 1024,
};

#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

void kubeconfig_done(struct kubeconfig *k)
{
	free(k->server);
	free(k->ca_pem);
	free(k->cert_pem);
	if (k->key_pem)
		explicit_bzero(k->key_pem, strlen(k->key_pem));
	free(k->key_pem);
	if (k->token)
		explicit_bzero(k->token, strlen(k->token));
	free(k->token);
	free(k->token_file);
	free(k->namespace_);
	*k = (struct kubeconfig){ 0 };
}

static char *path_in(const char *dir, const char *path)
{
	if (path[0] == '/' || str_empty(dir))
		return xstrdup(path);
	return xasprintf("%s/%s", dir, path);
}

/* The element of a named list that has this name; its member `what`. */
static const struct json *named(const struct json *doc, const char *list, const char *name,
				const char *what)
{
	json_each(it, json_get(doc, list)) {
		if (str_eq(json_get_str(it.val, "name"), name))
			return json_get(it.val, what);
	}
	return NULL;
}

/* One of `key`-data (base64) and `key` (a file). *ret stays NULL when there is neither. */
static struct err *read_pem(const struct json *from, const char *key, const char *dir, char **ret)
{
	autofree char *data_key = xasprintf("%s-data", key);
	const char *data = json_get_str(from, data_key);
	const char *path = json_get_str(from, key);
	autofree char *full = NULL;
	void *pem = NULL;
	size_t len;
	struct err *e;

	if (!str_empty(data)) {
		e = base64_decode(data, false, &pem, &len);
		if (e)
			return err_wrap(e, "read %s", data_key);
		*ret = pem;
		return NULL;
	}
	if (str_empty(path))
		return NULL;
	full = path_in(dir, path);
	return err_wrap(file_read(AT_FDCWD, full, PEM_MAX, ret, &len), "read %s", key);
}

static struct err *refuse_unknown(const struct json *from, const char *const *keys)
{
	for (; *keys; keys++) {
		if (json_get(from, *keys))
			return err_new(ERR_UNSUPPORTED, "read kubeconfig: %s is not supported",
				       *keys);
	}
	return NULL;
}

static struct err *read_cluster(const struct json *cluster, const char *dir, struct kubeconfig *k)
{
	static const char *const unknown[] = { "proxy-url", "tls-server-name", NULL };
	const char *server = json_get_str(cluster, "server");
	struct err *e = refuse_unknown(cluster, unknown);
	size_t len;

	if (e)
		return e;
	if (!str_starts(server ? server : "", "https://") &&
	    !str_starts(server ? server : "", "http://"))
		return err_new(ERR_INVALID, "read kubeconfig: server \"%s\" is not an http(s) URL",
			       server ? server : "");
	k->server = xstrdup(server);
	for (len = strlen(k->server); len && k->server[len - 1] == '/'; len--)
		k->server[len - 1] = 0;
	k->insecure = json_get_bool(cluster, "insecure-skip-tls-verify", false);
	return read_pem(cluster, "certificate-authority", dir, &k->ca_pem);
}

static struct err *read_user(const struct json *user, const char *dir, struct kubeconfig *k)
{
	static const char *const unknown[] = { "exec",     "auth-provider",
					       "username", "password",
					       "as",       NULL };
	const char *token_file = json_get_str(user, "tokenFile");
	struct err *e = refuse_unknown(user, unknown);

	if (e)
		return e;
	e = read_pem(user, "client-certificate", dir, &k->cert_pem);
	if (!e)
		e = read_pem(user, "client-key", dir, &k->key_pem);
	if (e)
		return e;
	if (!k->cert_pem != !k->key_pem)
		return err_new(
			ERR_INVALID,
			"read kubeconfig: client-certificate and client-key must be given together");
	k->token = xstrdup(json_get_str(user, "token"));
	if (!str_empty(token_file))
		k->token_file = path_in(dir, token_file);
	return NULL;
}

static struct err *read_doc(const struct json *doc, const char *dir, struct kubeconfig *k)
{
	const char *context_name = json_get_str(doc, "current-context");
	const struct json *context, *cluster, *user;
	struct err *e;

	if (str_empty(context_name))
		return err_new(ERR_INVALID, "read kubeconfig: current-context is not set");
	context = named(doc, "contexts", context_name, "context");
	if (!context)
		return err_new(ERR_INVALID, "read kubeconfig: no context is named %s",
			       context_name);
	cluster = named(doc, "clusters", json_get_str(context, "cluster"), "cluster");
	if (!cluster)
		return err_new(ERR_INVALID,
			       "read kubeconfig: the cluster of context %s is not defined",
			       context_name);
	user = named(doc, "users", json_get_str(context, "user"), "user");
	k->namespace_ = xstrdup(json_get_str(context, "namespace"));
	e = read_cluster(cluster, dir, k);
	return e ? e : read_user(user, dir, k);
}

static struct err *read_in_cluster(const char *dir, struct kubeconfig *k)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	autofree char *ca = path_in(dir, "ca.crt"), *ns = path_in(dir, "namespace");
	autofree char *token = NULL;
	struct err *e;
	size_t len;

	if (str_empty(host) || str_empty(port))
		return err_new(ERR_NOT_FOUND, "read in-cluster configuration: not in a cluster "
					      "(KUBERNETES_SERVICE_HOST is not set)");
	k->server = xasprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
	k->token_file = path_in(dir, "token");
	e = file_read(AT_FDCWD, k->token_file, TOKEN_MAX, &token, &len);
	if (!e)
		e = file_read(AT_FDCWD, ca, PEM_MAX, &k->ca_pem, &len);
	if (e)
		return err_wrap(e, "read in-cluster configuration");
	explicit_bzero(token, strlen(token));
	err_free(file_read(AT_FDCWD, ns, TOKEN_MAX, &k->namespace_, &len)); /* may be absent */
	return NULL;
}

struct err *kubeconfig_read(const struct json *doc, const char *dir, struct kubeconfig *ret)
{
	struct kubeconfig k = { 0 };
	struct err *e =
		doc ? read_doc(doc, dir, &k) : read_in_cluster(str_or(dir, ACCOUNT_DIR), &k);

	if (e) {
		kubeconfig_done(&k);
		return e;
	}
	*ret = k;
	return NULL;
}
