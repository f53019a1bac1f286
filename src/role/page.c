/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web page on the port of the API server: the server knows who asks and signs their sessions,
 * page/ has the files and the links.
 */
#include "page/page.h"

#include "api/agents.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/settings.h"
#include "client/access.h"
#include "net/http_server.h"
#include "role/serve_priv.h"
#include "router/router.h"
#include "server/server.h"

enum {
	URL_S = 3600,
};

static bool shows(void *arg unused, const char *group)
{
	return server_shows_group(group);
}

static struct err *sign(void *arg, const struct page_visitor *who, int64_t *expires, char **ret)
{
	struct serve *s = arg;

	return server_page_token(
		s->server, &(struct access_target){ .user = who->user, .groups = who->groups },
		*expires, ret);
}

/* For as long as `cay url` would make one, and the session lasts. */
static int64_t url_ttl(const struct page_visitor *who)
{
	int64_t left = who->expires - clock_wall() / 1000000;

	return who->expires ? MIN((int64_t)URL_S, left) : URL_S;
}

static struct err *sign_url(struct serve *s, const struct page_visitor *who,
			    const struct page_port *to, char **ret, int64_t *ret_expires)
{
	const struct router_url ask = { .ns = to->ns,
					.sandbox = to->sandbox,
					.from = who->from,
					.port = to->port,
					.ttl_s = url_ttl(who) };
	struct err *e = serve_may_have_url(s,
					   &(struct access_target){ .user = who->user,
								    .groups = who->groups,
								    .account_ns = who->account_ns },
					   to->ns, to->sandbox);

	if (!e && ask.ttl_s < 1)
		e = err_new(ERR_UNAUTHENTICATED, "the session has ended");
	return e ? e : router_sign_url(s->router, &ask, ret, ret_expires);
}

static struct err *url(void *arg, const struct page_visitor *who, const struct page_port *to,
		       char **ret, int64_t *ret_expires)
{
	struct serve *s = arg;
	struct err *e = sign_url(s, who, to, ret, ret_expires);

	audit_write(s->audit, &(struct audit_record){ .user = who->user,
						      .from = who->from,
						      .verb = "connect",
						      .group = GROUP_AGENTS,
						      .resource = "sandboxes",
						      .sub = "url",
						      .ns = to->ns,
						      .name = to->sandbox,
						      .port = to->port,
						      .status = e ? server_status(e) : 201,
						      .note = e ? err_text(e) : NULL });
	return e;
}

/* Who has asked for a link, and who has used one. */
static void record(void *arg, const struct page_record *r)
{
	const struct serve *s = arg;

	audit_write(s->audit, &(struct audit_record){ .user = str_or(r->user, "system:anonymous"),
						      .from = r->from,
						      .verb = "create",
						      .group = "",
						      .resource = "page",
						      .sub = r->what,
						      .status = r->status });
}

static void visit(void *arg, struct http_request *req, const struct access_target *who)
{
	struct serve *s = arg;

	page_visit(s->page, req,
		   &(struct page_visitor){ .user = who->user,
					   .groups = who->groups,
					   .account_ns = who->account_ns,
					   .from = who->from,
					   .expires = who->expires,
					   .no_link = server_no_page(who) });
}

static void visit_files(void *arg, struct http_request *req, const struct access_target *who unused)
{
	struct serve *s = arg;

	page_visit_files(s->page, req);
}

static void visit_sessions(void *arg, struct http_request *req,
			   const struct access_target *who unused)
{
	struct serve *s = arg;

	page_visit_sessions(s->page, req);
}

static const struct server_endpoint endpoints[] = {
	{ .path = PAGE_ROOT, .visit = visit_files, .open = true },
	{ .path = PAGE_PATH, .visit = visit_files, .open = true },
	{ .path = PAGE_SESSIONS, .visit = visit_sessions, .open = true },
	{ .path = PAGE_SELF, .visit = visit },
	{ .path = PAGE_LINKS, .visit = visit },
	{ .path = PAGE_URLS, .visit = visit },
};

void serve_start_page(struct serve *s)
{
	if (!str_eq(settings_text(s->settings, "page"), "on"))
		return;
	s->page = page_new(&(struct page_spec){ .files = &page_embedded,
						.version = CAY_VERSION,
						.audit = s->audit,
						.shows = shows,
						.token = sign,
						.url = router_signs_urls(s->router) ? url : NULL,
						.record = record,
						.refuse = server_refuse_with,
						.arg = s });
	for (size_t i = 0; i < ARRAY_LEN(endpoints); i++) {
		struct server_endpoint e = endpoints[i];

		e.arg = s;
		server_add_endpoint(s->server, &e);
	}
}

void serve_stop_page(struct serve *s)
{
	if (!s->page)
		return;
	for (size_t i = 0; i < ARRAY_LEN(endpoints); i++)
		server_del_endpoint(s->server, endpoints[i].path);
	page_free(take(s->page));
}
