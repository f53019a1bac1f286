/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "base/str.h"
#include "json/json.h"
#include "router/router_priv.h"

/*
 * From a Sandbox to an address. The addresses a request may reach are those in the status of the
 * Sandbox it names, and no others: what the request itself says of addresses only chooses among
 * them.
 */
enum {
	YOUNG_S = 60,
};

static const char *const ended_reasons[] = { "PodSucceeded", "PodFailed", "SandboxExpired", NULL };

/* A member that nobody has claimed belongs to its pool. */
static bool in_pool(const struct object *sb)
{
	const struct json *owner = object_controller(sb);
	char group[128];

	if (!str_eq(json_get_str(owner, "kind"), "SandboxWarmPool"))
		return false;
	api_version_group(str_or(json_get_str(owner, "apiVersion"), ""), group, sizeof(group));
	return str_eq(group, "extensions.agents.x-k8s.io");
}

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
static void choose_addr(const struct json *status, const struct route *route, bool allow_loopback,
			struct target *ret)
{
	struct in6_addr ip, first = { 0 };
	bool found = false;

	json_each(it, json_get(status, "podIPs")) {
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
	const struct json *status, *conditions, *ready;

	*ret = (struct target){ .state = TARGET_UNKNOWN };
	if (!sandbox || (route->has_uid && !str_eq(route->uid, sandbox->uid)) ||
	    (!route->has_uid && in_pool(sandbox)))
		return;
	status = object_status(sandbox);
	conditions = json_get(status, "conditions");
	ready = conditions_get(conditions, "Ready");
	choose_addr(status, route, allow_loopback, ret);
	if (str_eq(json_get_str(ready, "status"), "True") && *ret->addr)
		ret->state = TARGET_READY;
	else if (str_eq(json_get_str(object_spec(sandbox), "operatingMode"), "Suspended") ||
		 object_deleting(sandbox) || conditions_true(conditions, "Finished") ||
		 str_in(str_or(json_get_str(ready, "reason"), ""), ended_reasons))
		ret->state = TARGET_DOWN;
	else
		ret->state = TARGET_STARTING;
}

bool target_young(const struct object *sandbox, usec now)
{
	const struct json *ready;
	const char *text;
	usec since;
	struct err *e;

	if (!sandbox)
		return false;
	ready = conditions_get(json_get(object_status(sandbox), "conditions"), "Ready");
	text = json_get_str(ready, "lastTransitionTime");
	if (str_empty(text))
		return true;
	e = clock_parse(text, &since);
	if (e) {
		err_free(e);
		return false;
	}
	return now - since < YOUNG_S * 1000000ll;
}
