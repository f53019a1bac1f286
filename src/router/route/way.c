/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "net/http.h"
#include "router/route/route.h"

/*
 * Which sandbox a request is for. Exactly one of these says so:
 *
 *   Host: PORT-NAME.NAMESPACE.DOMAIN          every request for a name below the domain
 *   PREFIX/NAMESPACE/NAME/PORT/REST           otherwise, every path below the prefix
 *   X-Sandbox-ID, -Namespace, -Port, …        otherwise
 *
 * The port comes first in a host name because names may contain dashes and digits. A request that
 * names its sandbox in two of these ways is refused: another program on its way might have gone by
 * the other.
 */
static const char bad_host[] =
	"Host is below the router's domain but names no sandbox; its form is "
	"PORT-NAME.NAMESPACE.DOMAIN, for example 8888-box.default.sandbox.localhost.";
static const char bad_path[] =
	"Path-routed request must have the form <prefix>/<namespace>/<id>/<port>/...";
static const char twice[] =
	"The request names a sandbox by its host or path and also in X-Sandbox-* headers; "
	"leave one of them out.";

bool way_host(const char *domain, const char *name, struct route *ret, const char **bad)
{
	size_t len = strlen(name), own = domain ? strlen(domain) : 0;
	struct span label, ns, port, id;

	if (!own || len <= own + 1 || name[len - own - 1] != '.' ||
	    !str_eq_nocase(name + len - own, domain))
		return false;
	label = span_cut((struct span){ name, len - own - 1 }, '.', &ns);
	port = span_cut(label, '-', &id);
	*ret = (struct route){ .way = ROUTER_BY_HOST };
	*bad = bad_host;
	if (ns.p && id.p)
		(void)route_names(ns, id, port, ret, bad);
	return true;
}

static const char *by_path(const char *prefix, const char *target, struct route *ret,
			   size_t *ret_rest)
{
	struct span path = { target, strcspn(target, "?") };
	struct span rest = { target + strlen(prefix), path.len - strlen(prefix) };
	struct span ns, id, port, tail;
	const char *bad;

	(void)span_cut(rest, '/', &rest); /* the slash after the prefix */
	if (!rest.p)
		return bad_path;
	ns = span_cut(rest, '/', &rest);
	if (!rest.p)
		return bad_path;
	id = span_cut(rest, '/', &rest);
	if (!rest.p || !rest.len)
		return bad_path;
	port = span_cut(rest, '/', &tail);
	*ret = (struct route){ .way = ROUTER_BY_PATH };
	*ret_rest = (size_t)(port.p + port.len - target);
	(void)route_names(ns, id, port, ret, &bad);
	return bad;
}

static bool is_below(const char *prefix, const char *target)
{
	const char *next = target + (prefix ? strlen(prefix) : 0);

	return prefix && str_starts(target, prefix) && (*next == '/' || *next == '?' || !*next);
}

const char *way_read(const struct way_ask *q, struct route *ret, size_t *ret_rest)
{
	const char *bad = NULL;
	char name[256], lower[256];
	size_t i = 0;

	*ret_rest = 0;
	if (!q->host || !host_name(q->host, name))
		name[0] = '\0';
	for (; name[i]; i++)
		lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 0x20 : name[i]);
	lower[i] = '\0';
	if (!way_host(q->domain, lower, ret, &bad)) {
		if (!is_below(q->prefix, q->target))
			return route_parse(q->headers, q->allow_loopback, ret);
		bad = by_path(q->prefix, q->target, ret, ret_rest);
	}
	if (bad)
		return bad;
	if (route_has_any(q->headers))
		return twice;
	ret->timeout_ms = route_timeout_ms(q->headers);
	return NULL;
}

char *way_base(const char *prefix, const struct route *route)
{
	return xasprintf("%s/%s/%s/%u", prefix, route->ns, route->id, route->port);
}
