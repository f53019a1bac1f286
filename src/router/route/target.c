/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/str.h"
#include "json/json.h"
#include "router/route/route.h"

/*
 * From a Sandbox to an address. A request reaches only the addresses in the status of the Sandbox
 * that it names; an address that the request itself names only chooses among them.
 */
enum {
	YOUNG_S = 60,
};

static void format_addr(const struct in6_addr *ip, uint16_t port, char *ret, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "";

	if (IN6_IS_ADDR_V4MAPPED(ip)) {
		(void)inet_ntop(AF_INET, &ip->s6_addr[12], text, sizeof(text));
		(void)snprintf(ret, size, "%s:%u", text, port);
	} else {
		(void)inet_ntop(AF_INET6, ip, text, sizeof(text));
		(void)snprintf(ret, size, "[%s]:%u", text, port);
	}
}

/* The address that the request names if it is one of the sandbox's, else the first. */
static void choose_addr(const struct json *pod_ips, const struct route *route, bool allow_loopback,
			struct target *ret)
{
	struct in6_addr ip, first = { 0 };
	bool found = false;

	json_each(it, pod_ips) {
		const char *text = json_str(it.val);

		if (!text || !route_ip(text, allow_loopback, &ip))
			continue;
		if (!found)
			first = ip;
		found = true;
		if (route->has_ip && IN6_ARE_ADDR_EQUAL(&ip, &route->ip)) {
			first = ip;
			break;
		}
	}
	if (found)
		format_addr(&first, route->port, ret->addr, sizeof(ret->addr));
}

void target_find(const struct object *sandbox, const struct route *route, bool allow_loopback,
		 struct target *ret)
{
	const struct sandbox_view *v = sandbox ? sandbox_view(sandbox) : NULL;

	*ret = (struct target){ .state = TARGET_UNKNOWN };
	if (!v || (route->has_uid && !str_eq(route->uid, sandbox->uid)) ||
	    (!route->has_uid && v->in_pool))
		return;
	choose_addr(v->pod_ips, route, allow_loopback, ret);
	if (v->ready.is_true && *ret->addr)
		ret->state = TARGET_READY;
	else
		ret->state = sandbox_is_down(v) ? TARGET_DOWN : TARGET_STARTING;
}

bool target_young(const struct object *sandbox, usec now)
{
	const struct condition_view *ready = sandbox ? &sandbox_view(sandbox)->ready : NULL;

	if (!ready)
		return false;
	return str_empty(ready->transition) ||
	       now - view_time(ready->transition) < YOUNG_S * 1000000ll;
}
