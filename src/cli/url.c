/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay url`: a URL that lets whoever has it into one port of one sandbox for a while. The router
 * signs it for callers that may send requests there themselves.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/cli.h"
#include "client/http.h"
#include "net/http_client.h"
#include "net/stream.h"
#include "tls/tls.h"

static const char *const vias[] = { "host", "path", NULL };
static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting url_settings[] = {
	{ "namespace", SETTING_TEXT, NULL, "NAME",
	  "Namespace of the sandbox (default: that of the kubeconfig, or default)", .letter = 'n' },
	{ "ttl", SETTING_DURATION, "1h", "TIME", "How long the URL is valid, at most 24h",
	  .max = 24 * 3600 * 1000 },
	{ "path", SETTING_TEXT, NULL, "/PATH",
	  "The only path that it opens, with all below it (by default every path)" },
	{ "methods", SETTING_TEXT, NULL, "METHOD,...",
	  "The only methods that it allows, for example GET,HEAD (by default every method)" },
	{ "via", SETTING_CHOICE, NULL, "WAY",
	  "How it names the sandbox: by `host`, the default where the router has a domain, or by `path`",
	  .choices = vias },
	{ "router", SETTING_TEXT, "http://127.0.0.1:8080", "URL",
	  "The router, as it should appear in the URL; with https:// the kubeconfig says whom to trust and who asks" },
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",
	  "Whose token or certificate is shown to the router; without it, who runs this command counts" },
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text, json or yaml",
	  .choices = formats, .letter = 'o' },
	{ 0 },
};

struct ask {
	const struct settings *s;
	struct kubeconfig who;
	char *authorization; /* NULL: none */
	struct tls_ctx *tls; /* NULL: plain HTTP */
	bool near;           /* the router is on this machine */
	char *host, *name, *port,
		*addr; /* "localhost:8080", "localhost", "8080", "127.0.0.1:8080" */
	int status;
	struct buf answer;
};

static bool is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(
			&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
	return a->sa_family == AF_INET &&
	       ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
}

static struct err *find_router(struct ask *a, const char *url)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	bool secure = str_starts(url, "https://");
	char text[NI_MAXHOST], *colon;
	int r;

	if (!secure && !str_starts(url, "http://"))
		return err_new(ERR_INVALID, "--router: %s must begin with http:// or https://",
			       url);
	a->host = xstrdup(url + strlen(secure ? "https://" : "http://"));
	a->host[strcspn(a->host, "/")] = '\0';
	colon = strrchr(a->host, ':');
	if (colon && strchr(colon, ']'))
		colon = NULL;
	a->name = xstrndup(a->host, colon ? (size_t)(colon - a->host) : strlen(a->host));
	a->port = xstrdup(colon ? colon + 1 : secure ? "443" : "80");
	if (a->name[0] == '[' && str_ends(a->name, "]")) {
		memmove(a->name, a->name + 1, strlen(a->name));
		a->name[strlen(a->name) - 1] = '\0';
	}
	r = getaddrinfo(a->name, a->port, &hints, &found);
	if (!r)
		r = getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), NULL, 0,
				NI_NUMERICHOST);
	if (!r)
		a->addr = xasprintf(found->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", text,
				    a->port);
	a->near = !r && is_loopback(found->ai_addr);
	if (found)
		freeaddrinfo(found);
	return r ? err_new(ERR_UNAVAILABLE, "find the address of %s: %s", a->name, gai_strerror(r))
		 : NULL;
}

static struct err *open_router(struct ask *a)
{
	const char *url = settings_text(a->s, "router");
	const char *kubeconfig = settings_text(a->s, "kubeconfig");
	struct err *e = find_router(a, url);

	if (!e && kubeconfig)
		e = cli_kubeconfig_read(kubeconfig, &a->who);
	if (!e)
		e = cli_authorization(&a->who, &a->authorization);
	if (!e && a->authorization && !a->near && !str_starts(url, "https://"))
		e = err_new(ERR_INVALID,
			    "--router: %s: a token is sent to another machine over https:// only",
			    url);
	if (!e && str_starts(url, "https://"))
		e = tls_client_ctx(&(struct tls_client_spec){ .ca_pem = a->who.ca_pem,
							      .cert_pem = a->who.cert_pem,
							      .key_pem = a->who.key_pem,
							      .insecure = a->who.insecure },
				   &a->tls);
	return e;
}

static struct stream *wrap(void *arg, int fd)
{
	const struct ask *a = arg;

	return a->tls ? tls_connect(a->tls, fd, a->name) : stream_plain(fd);
}

static void write_wish(const struct settings *s, struct buf *out)
{
	const char *methods = settings_text(s, "methods");
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	struct span rest = SPAN(methods ? methods : "");

	json_set_root(d, o);
	json_set_int(d, o, "ttlSeconds", settings_int(s, "ttl") / 1000);
	json_set_str(d, o, "path", settings_text(s, "path"));
	json_set_str(d, o, "via", settings_text(s, "via"));
	while (rest.len) {
		struct span one = span_trim(span_cut(rest, ',', &rest));

		json_push(d, json_need_arr(d, o, "methods"), json_new_strn(d, one.p, one.len));
	}
	json_write(o, out);
}

static struct err *send_wish(struct ask *a)
{
	const char *ns = settings_text(a->s, "namespace");
	struct http_headers h = { 0 };
	autoptr(err) e = NULL;
	autobuf body = { 0 };

	write_wish(a->s, &body);
	http_headers_add(&h, "Host", a->host);
	http_headers_add(&h, "X-Sandbox-ID", settings_arg(a->s, 0));
	http_headers_add(&h, "X-Sandbox-Port", settings_arg(a->s, 1));
	http_headers_add(&h, "X-Sandbox-Namespace", ns ? ns : str_or(a->who.namespace_, "default"));
	http_headers_add(&h, "Content-Type", "application/json");
	if (a->authorization)
		http_headers_add(&h, "Authorization", a->authorization);
	e = cli_exchange(&(struct cli_request){ .addr = a->addr,
						.method = "POST",
						.target = "/.cay/url",
						.headers = &h,
						.body = &body,
						.wrap = wrap,
						.wrap_arg = a },
			 &a->status, &a->answer);
	http_headers_done(&h);
	if (!e)
		return NULL;
	return err_new(err_code(e), "ask the router at %s: %s; --router names another", a->addr,
		       err_text(e));
}

static enum err_code code_of(int status)
{
	static const struct {
		int status;
		enum err_code code;
	} rows[] = {
		{ 400, ERR_INVALID },   { 401, ERR_UNAUTHENTICATED }, { 403, ERR_FORBIDDEN },
		{ 404, ERR_NOT_FOUND }, { 503, ERR_UNAVAILABLE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].code;
	return status >= 500 ? ERR_UNAVAILABLE : ERR_FORBIDDEN;
}

static struct err *read_answer(struct ask *a)
{
	const char *format = settings_text(a->s, "output");
	autoptr(json_doc) d = NULL;
	autobuf line = { 0 };
	struct err *e = json_parse(buf_str(&a->answer), a->answer.len, NULL, &d);

	if (e)
		return err_wrap(e, "read the router's answer (%d)", a->status);
	if (a->status != 200)
		return err_new(code_of(a->status), "%s",
			       str_or(json_get_str(json_root(d), "detail"), "refused"));
	if (!str_eq(format, "text")) {
		cli_print(json_root(d), format);
		return NULL;
	}
	buf_printf(&line, "%s\n", str_or(json_get_str(json_root(d), "url"), ""));
	cli_write(&line);
	return NULL;
}

static struct err *run(struct ask *a)
{
	struct err *e;

	if (settings_n_args(a->s) != 2)
		return err_new(ERR_INVALID, "give the name of a sandbox and one of its ports, for "
					    "example: cay url box 8888");
	e = open_router(a);
	if (!e)
		e = send_wish(a);
	return e ? e : read_answer(a);
}

int url_run(const struct command *c unused, const struct settings *s)
{
	struct ask a = { .s = s };
	struct err *e = run(&a);

	kubeconfig_done(&a.who);
	free(a.authorization);
	tls_ctx_unref(a.tls);
	buf_done(&a.answer);
	free(a.host);
	free(a.name);
	free(a.port);
	free(a.addr);
	return e ? cli_fail(err_wrap(e, "url")) : EXIT_OK;
}
