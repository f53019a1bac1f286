/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "cli/cli.h"
#include "cli/ui/ui.h"

struct http_pool;
struct http_request;

/* browser.c: opens the URL if there is a display and a browser, without telling other users of this
 * machine what it is. False: it cannot. */
bool ui_open_browser(const char *url);
void ui_show(const struct settings *s, const char *url); /* prints it, and opens it */

/* ui.c: one request to the server, and its answer if that is JSON (NULL: it is not). */
struct ui_answer {
	int status;
	struct json_doc *body;
};
must_use struct err *ui_ask(struct cli_server *at, const char *method, const char *path,
			    const char *body, struct ui_answer *ret);

/* host.c: whether the Host of a request is this machine's own loopback, with the port of addr
 * ("127.0.0.1:8443"). Anything else is a name that was made to lead here. */
bool ui_host_is_ours(const char *host, const char *addr);
bool ui_is_loopback(const char *addr); /* "127.0.0.1:0", "[::1]:0" */

/* serve.c: the page on loopback, until a signal comes. */
must_use struct err *ui_serve(const struct settings *s, struct cli_server *at);

/* pass.c: requests that go on to the server, with its credentials instead of the page's. */
struct passes {
	struct cli_server *at;
	struct http_pool *pool;
	struct list list; /* struct pass.on */
};
bool pass_path(const char *path); /* it is one of the API's */
void pass_start(struct passes *ps, struct http_request *req);
void passes_free(struct passes *ps); /* cuts them; the pool stays */
