/* SPDX-License-Identifier: Apache-2.0 */
/* The server of a kubeconfig, for commands that send requests of their own. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "client/http.h"
#include "net/stream.h"
#include "tls/tls.h"

enum {
	TOKEN_MAX = 64 * 1024,
};

/* "localhost:6443" → "127.0.0.1:6443"; connections are made to addresses only. */
static struct err *resolve(const char *host, const char *port, char **ret)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	char text[NI_MAXHOST];
	int r = getaddrinfo(host, port, &hints, &found);

	if (!r)
		r = getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), NULL, 0,
				NI_NUMERICHOST);
	if (!r)
		*ret = xasprintf(found->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", text, port);
	if (found)
		freeaddrinfo(found);
	return r ? err_new(ERR_UNAVAILABLE, "find the address of %s: %s", host, gai_strerror(r))
		 : NULL;
}

/* "https://[::1]:6443/x" → host "[::1]:6443", name "::1", prefix "/x", and the address of both */
static struct err *read_server(const char *server, struct cli_server *a)
{
	bool secure = str_starts(server, "https://");
	struct span rest = SPAN(server + strlen(secure ? "https://" : "http://"));
	struct span host = span_cut(rest, '/', &rest);
	const char *colon, *bracket;

	a->prefix = rest.p && rest.len ? xasprintf("/%.*s", (int)rest.len, rest.p) : xstrdup("");
	a->host = xstrndup(host.p, host.len);
	bracket = a->host[0] == '[' ? strchr(a->host, ']') : NULL;
	colon = strchr(bracket ? bracket : a->host, ':');
	if (bracket)
		a->name = xstrndup(a->host + 1, (size_t)(bracket - a->host) - 1);
	else
		a->name = colon ? xstrndup(a->host, (size_t)(colon - a->host)) : xstrdup(a->host);
	return resolve(a->name, colon ? colon + 1 : secure ? "443" : "80", &a->addr);
}

struct err *cli_authorization(const struct kubeconfig *k, char **ret)
{
	autofree char *text = NULL;
	struct span token = SPAN(str_or(k->token, ""));
	struct err *e;
	size_t len;

	if (!k->token && k->token_file) {
		e = file_read(AT_FDCWD, k->token_file, TOKEN_MAX, &text, &len);
		if (e)
			return err_wrap(e, "read the token");
		token = (struct span){ text, strcspn(text, "\r\n") };
	}
	if (token.len)
		*ret = xasprintf("Bearer %.*s", (int)token.len, token.p);
	return NULL;
}

/* The directory of a kubeconfig that `cay serve` has written for its administrator: its store is
 * beside it. NULL: it is another one. */
static char *own_data_dir(const char *kubeconfig)
{
	const char *slash = kubeconfig ? strrchr(kubeconfig, '/') : NULL;
	autofree char *dir = slash ? xstrndup(kubeconfig, (size_t)(slash - kubeconfig)) : NULL;
	autofree char *store = dir ? xasprintf("%s/store.db", dir) : NULL;

	return store && str_eq(slash, "/admin.kubeconfig") && file_exists(AT_FDCWD, store)
		       ? take(dir)
		       : NULL;
}

struct err *cli_server_refused(const struct cli_server *s, struct err *e)
{
	autofree char *start = NULL;
	enum err_code code = err_code(e);

	if (err_errno(e) != ECONNREFUSED)
		return e;
	err_free(e);
	if (s->data_dir)
		start = cli_start_command(s->data_dir);
	e = start ? err_sys(ECONNREFUSED, "no server answers at %s (start it with `%s`)", s->addr,
			    start)
		  : err_sys(ECONNREFUSED, "no server answers at %s", s->addr);
	return err_recode(e, code); /* who waits for a server to come back goes by it */
}

struct err *cli_server_find(const char *kubeconfig, struct cli_server *ret)
{
	struct kubeconfig k = { 0 };
	struct err *e = cli_kubeconfig_read(kubeconfig, &k);

	*ret = (struct cli_server){ .ns = xstrdup(k.namespace_),
				    .data_dir = own_data_dir(kubeconfig) };
	if (!e)
		e = read_server(k.server, ret);
	if (!e)
		e = cli_authorization(&k, &ret->authorization);
	if (!e && str_starts(k.server, "https://"))
		e = tls_client_ctx(&(struct tls_client_spec){ .ca_pem = k.ca_pem,
							      .cert_pem = k.cert_pem,
							      .key_pem = k.key_pem,
							      .insecure = k.insecure },
				   &ret->tls);
	kubeconfig_done(&k);
	return e;
}

void cli_server_done(struct cli_server *s)
{
	free(s->addr);
	free(s->host);
	free(s->name);
	free(s->prefix);
	free(s->ns);
	free(s->authorization);
	free(s->data_dir);
	tls_ctx_unref(s->tls);
}

struct stream *cli_server_wrap(void *server, int fd)
{
	const struct cli_server *s = server;

	return s->tls ? tls_connect(s->tls, fd, s->name) : stream_plain(fd);
}
