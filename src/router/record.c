/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "audit/audit.h"
#include "base/log.h"
#include "base/str.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "router/router_priv.h"

/*
 * The access log: one line for every answer that a client gets, whoever gave it: the sandbox, the
 * router, or the HTTP server below it. Whatever answers a request records it here, once. Queries
 * are left out, because the pass of a signed URL is in them.
 */
struct line {
	const char *method, *path, *peer, *agent; /* NULL: not known */
	const struct route *route;                /* NULL: it leads nowhere */
	int status;
	uint64_t bytes;
	usec took;
};

static void write_line(const struct router *r, const struct line *l)
{
	enum log_level level = r->spec.no_access_log ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;

	log_at_(level, "request", KV("sandbox", l->route ? l->route->id : NULL),
		KV("namespace", l->route ? l->route->ns : NULL),
		KV("port", l->route ? l->route->port : 0), KV("method", l->method),
		KV("path", l->path), KV("peer", l->peer), KV("user_agent", l->agent),
		KV("status", l->status), KV("bytes", l->bytes), KV("took_ms", l->took / 1000));
}

void record_uncounted(const struct router *r, struct http_request *req, const struct record *rec)
{
	write_line(r, &(struct line){ .method = http_request_method(req),
				      .path = http_request_path(req),
				      .peer = http_request_peer(req),
				      .agent = http_request_header(req, "User-Agent"),
				      .route = rec->route,
				      .status = rec->status,
				      .bytes = rec->bytes,
				      .took = rec->took });
}

/*
 * One line for each request that went in, and for those of users who are known and may not. Others
 * are only counted: anybody could fill the log with them. Of what was asked for, the path is left
 * out, since it is the sandbox's own affair and may hold secrets.
 */
static void audit(const struct router *r, struct http_request *req, const struct record *rec)
{
	if (!r->spec.audit || !rec->route || (!rec->entered && str_empty(rec->who)))
		return;
	audit_write(r->spec.audit, &(struct audit_record){ .user = rec->who,
							   .from = http_request_peer(req),
							   .verb = "connect",
							   .group = GROUP_AGENTS,
							   .resource = "sandboxes",
							   .sub = str_or(rec->sub, "proxy"),
							   .ns = rec->route->ns,
							   .name = rec->route->id,
							   .port = rec->route->port,
							   .status = rec->status,
							   .note = rec->why,
							   .took = rec->took });
}

void record_request(const struct router *r, struct http_request *req, const struct record *rec)
{
	metrics_request(r->metrics, req, rec->status, rec->entered ? rec->route->ns : NULL,
			rec->took);
	record_uncounted(r, req, rec);
	audit(r, req, rec);
}

void record_refused(const struct router *r, const char *peer, int status)
{
	write_line(r, &(struct line){ .peer = peer, .status = status });
}

void record_passed(const struct router *r, const struct route *route,
		   const struct router_caller *caller, int fd)
{
	char who[ROUTER_WHO_MAX] = "", from[64] = "";

	if (!r->spec.audit)
		return;
	if (caller->local)
		router_ask_is(&(struct router_ask){ .who = who }, ROUTER_LOCAL, caller->uid);
	err_free(net_peer_addr(fd, from, sizeof(from))); /* it has left: the record says the rest */
	audit_write(r->spec.audit, &(struct audit_record){ .user = who,
							   .from = from,
							   .verb = "connect",
							   .group = GROUP_AGENTS,
							   .resource = "sandboxes",
							   .sub = "proxy",
							   .ns = route->ns,
							   .name = route->id,
							   .port = route->port,
							   .note = "TLS passed on" });
}

void record_tunnel_end(const struct router *r, const struct route *route, usec took)
{
	enum log_level level = r->spec.no_access_log ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;

	log_at_(level, "tunnel ended", KV("sandbox", route->id), KV("namespace", route->ns),
		KV("port", route->port), KV("took_ms", took / 1000));
}
