/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/str.h"
#include "router/route/route.h"

/*
 * Whether a Host header names us. A page in somebody's browser can make its own name lead to this
 * machine and then talk to us as if we were its origin, but it cannot send another Host than that
 * name. Addresses cannot be made to lead elsewhere, so those that do lead here are fine.
 */

/* Its length is limited as those of names are. */
bool host_name(const char *host, char ret[256])
{
	const char *colon = strrchr(host, ':');
	const char *end = host + strlen(host);
	size_t len;

	if (*host == '[') {
		host++;
		end = strchr(host, ']');
		if (!end)
			return false;
		colon = end[1] == ':' ? end + 1 : NULL;
		if (end[1] && !colon)
			return false;
	} else if (colon) {
		end = colon;
	}
	if (colon && colon[1 + strspn(colon + 1, "0123456789")])
		return false;
	len = (size_t)(end - host);
	if (len && host[len - 1] == '.')
		len--;
	if (!len || len > 255)
		return false;
	memcpy(ret, host, len);
	ret[len] = '\0';
	return true;
}

/* IPv4 in its mapped form. */
static bool parse(const char *text, struct in6_addr *ret)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, text, ret) == 1)
		return true;
	if (inet_pton(AF_INET, text, &v4) != 1)
		return false;
	*ret = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	memcpy(&ret->s6_addr[12], &v4, 4);
	return true;
}

static bool is_loopback(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static bool connected_to(int fd, const struct in6_addr *a)
{
	struct sockaddr_in6 own = { 0 };
	const struct sockaddr_in *v4 = (const void *)&own;
	socklen_t len = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		return false;
	if (own.sin6_family == AF_INET6)
		return IN6_ARE_ADDR_EQUAL(&own.sin6_addr, a);
	return own.sin6_family == AF_INET && IN6_IS_ADDR_V4MAPPED(a) &&
	       !memcmp(&a->s6_addr[12], &v4->sin_addr, 4);
}

bool host_served(const char *const *hosts, const char *host, int fd)
{
	struct in6_addr addr;
	char name[256];

	if (!host || !host_name(host, name))
		return false;
	for (size_t i = 0; hosts[i]; i++)
		if (str_eq_nocase(hosts[i], name))
			return true;
	return parse(name, &addr) && (is_loopback(&addr) || connected_to(fd, &addr));
}
