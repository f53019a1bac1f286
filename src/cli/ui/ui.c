/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay ui`: a link to the web page. A Cay server has the page and makes the link; where there is
 * none, as on a cluster, this command serves the page itself.
 */
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/ui/ui_priv.h"
#include "net/http_client.h"
#include "page/page.h"

const struct setting ui_settings[] = {
	{ "print", SETTING_BOOL, "false", NULL, "Print the link, and start no browser" },
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE", "Which server, and as whom" },
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR",
	  "Where admin.kubeconfig is, if neither --kubeconfig nor $KUBECONFIG is given" },
	{ "proxy", SETTING_BOOL, "false", NULL,
	  "Serve the page from this command, also if the server has one: no certificate to trust" },
	{ "listen", SETTING_ADDRESS, "127.0.0.1:0", "ADDR:PORT",
	  "Loopback address to serve the page on where the server has none; port 0: any" },
	{ 0 },
};

struct err *ui_ask(struct cli_server *at, const char *method, const char *path, const char *body,
		   struct ui_answer *ret)
{
	autofree char *target = xasprintf("%s%s", at->prefix, path);
	struct http_headers h = { 0 };
	autobuf text = { 0 }, sent = { 0 };
	struct err *e;

	buf_add_str(&sent, str_or(body, ""));
	if (body)
		http_headers_add(&h, "Content-Type", "application/json");
	http_headers_add(&h, "Host", at->host);
	http_headers_add(&h, "Accept", "application/json");
	if (at->authorization)
		http_headers_add(&h, "Authorization", at->authorization);
	e = cli_exchange(&(struct cli_request){ .addr = at->addr,
						.method = method,
						.target = target,
						.headers = &h,
						.body = &sent,
						.wrap = cli_server_wrap,
						.wrap_arg = at },
			 &ret->status, &text);
	http_headers_done(&h);
	if (err_errno(e) == ECONNREFUSED)
		return cli_server_refused(at, e);
	if (e)
		return err_wrap(e, "ask the server at %s", at->addr);
	err_free(json_parse(buf_str(&text), text.len, NULL, &ret->body));
	return NULL;
}

static const char *message_of(const struct ui_answer *a)
{
	return str_or(json_get_str(json_root(a->body), "message"), "the server refused");
}

/* Whether the server has a page: it tells everybody whom it knows who they are there. */
static bool has_page(struct cli_server *at)
{
	struct ui_answer a = { 0 };
	autoptr(err) e = ui_ask(at, "GET", PAGE_SELF, NULL, &a);
	bool there =
		!e && a.status == 200 && json_get(json_get(json_root(a.body), "user"), "username");

	if (a.body)
		json_doc_free(a.body);
	return there;
}

/* *ret stays NULL where there is no page. */
static struct err *ask_for_link(struct cli_server *at, char **ret)
{
	struct ui_answer a = { 0 };
	struct err *e = ui_ask(at, "POST", PAGE_LINKS, NULL, &a);
	const char *path = a.body ? json_get_str(json_root(a.body), "path") : NULL;

	if (!e && a.status == 201 && path)
		*ret = xasprintf("%s://%s%s%s", at->tls ? "https" : "http", at->host, at->prefix,
				 path);
	else if (!e && (a.status == 401 || a.status == 429 || a.status >= 500))
		e = err_new(ERR_FORBIDDEN, "%s", a.body ? message_of(&a) : "the server refused");
	else if (!e && has_page(at))
		e = err_new(ERR_FORBIDDEN, "%s", a.body ? message_of(&a) : "the server refused");
	if (a.body)
		json_doc_free(a.body);
	return e;
}

void ui_show(const struct settings *s, const char *url)
{
	autobuf line = { 0 };

	buf_printf(&line, "%s\n", url);
	cli_write(&line);
	if (!settings_bool(s, "print") && ui_open_browser(url))
		(void)fprintf(stderr, "cay: opened in your browser\n");
}

static void say_certificate(const char *kubeconfig)
{
	(void)fprintf(stderr,
		      "cay: the link is for one use within a minute. A browser does not know this "
		      "server's certificate: have it trust the CA in %s, see docs/guide/page.md\n",
		      kubeconfig ? kubeconfig : "your kubeconfig");
}

static struct err *run(const struct settings *s, struct cli_server *at)
{
	autofree char *kubeconfig = NULL, *url = NULL;
	struct err *e = cli_kubeconfig_find(settings_text(s, "kubeconfig"),
					    settings_text(s, "data-dir"), &kubeconfig);

	if (!e)
		e = cli_server_find(kubeconfig, at);
	if (!e && !settings_bool(s, "proxy"))
		e = ask_for_link(at, &url);
	if (e)
		return e;
	if (!url)
		return ui_serve(s, at);
	ui_show(s, url);
	if (at->tls)
		say_certificate(kubeconfig);
	return NULL;
}

int ui_run(const struct command *c unused, const struct settings *s)
{
	struct cli_server at = { 0 };
	struct err *e = run(s, &at);

	cli_server_done(&at);
	return e ? cli_fail(err_wrap(e, "ui")) : EXIT_OK;
}
