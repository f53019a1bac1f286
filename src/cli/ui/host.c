/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/ui/ui_priv.h"

/*
 * Names by which a browser may call us. A page of the world can have a name that leads to this
 * machine (DNS rebinding): then its requests come with that name in Host.
 */

/* "127.0.0.1:80", "[::1]:80", "localhost:80" → the name without brackets, malloc'd, and the port
 * ("" if there is none). NULL: it is none of them. */
static char *split(const char *text, const char **ret_port)
{
	const char *end = text[0] == '[' ? strchr(text, ']') : text + strcspn(text, ":");

	if (!end)
		return NULL;
	*ret_port = end + (*end == ']');
	if (**ret_port == ':')
		(*ret_port)++;
	else if (**ret_port)
		return NULL;
	return text[0] == '[' ? xstrndup(text + 1, (size_t)(end - text) - 1)
			      : xstrndup(text, (size_t)(end - text));
}

static bool is_loopback(const char *name)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, name, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool ui_is_loopback(const char *addr)
{
	const char *port = NULL;
	autofree char *name = split(addr, &port);

	return name && is_loopback(name);
}

bool ui_host_is_ours(const char *host, const char *addr)
{
	const char *port = NULL, *own_port = NULL;
	autofree char *name = host ? split(host, &port) : NULL, *own = split(addr, &own_port);

	return name && own && str_eq(*port ? port : "80", own_port) &&
	       (str_eq_nocase(name, "localhost") || is_loopback(name));
}
