/* SPDX-License-Identifier: Apache-2.0 */
#include "router/route/route.h"

#include <arpa/inet.h>
#include <math.h>

#include "api/agents.h"
#include "api/meta.h"
#include "base/parse.h"
#include "base/str.h"
#include "net/http.h"

/*
 * The X-Sandbox-* headers. They are checked in the order of this table, and the answer names the
 * first that is wrong. Each may come only once: if there were two, another program on the way might
 * have gone by the other.
 */
enum {
	HEAD_ID,
	HEAD_NS,
	HEAD_PORT,
	HEAD_IP,
	HEAD_UID,
	HEAD_TIMEOUT,
	HEAD_MAX_,
};
static const struct {
	const char *name, *bad;
} heads[HEAD_MAX_] = {
	[HEAD_ID] = { "ID", "Invalid sandbox ID format." },
	[HEAD_NS] = { "Namespace", "Invalid namespace format." },
	[HEAD_PORT] = { "Port", "Invalid port format." },
	[HEAD_IP] = { "Pod-IP", "Invalid target IP address." },
	[HEAD_UID] = { "UID", "Invalid sandbox UID format." },
	[HEAD_TIMEOUT] = { "Timeout", NULL },
};

enum {
	PREFIX_LEN = 10, /* "X-Sandbox-" */
	MAX_TIMEOUT_S = 24 * 3600,
};

/* Which of heads[] a header is, or HEAD_MAX_. */
static int head_of(const char *name)
{
	if (strncasecmp(name, "X-Sandbox-", PREFIX_LEN) != 0)
		return HEAD_MAX_;
	for (int i = 0; i < HEAD_MAX_; i++) {
		if (str_eq_nocase(name + PREFIX_LEN, heads[i].name))
			return i;
	}
	return HEAD_MAX_;
}

bool route_has_id(const struct http_headers *h)
{
	for (size_t i = 0; i < h->n; i++) {
		if (head_of(h->list[i].name) == HEAD_ID)
			return true;
	}
	return false;
}

bool route_has_any(const struct http_headers *h)
{
	for (size_t i = 0; i < h->n; i++) {
		int which = head_of(h->list[i].name);

		if (which != HEAD_MAX_ && which != HEAD_TIMEOUT)
			return true;
	}
	return false;
}

static bool take_label(const char *text, char ret[64])
{
	size_t len = strlen(text);

	if (len > 63 || meta_bad_dns_label(text))
		return false;
	memcpy(ret, text, len + 1);
	return true;
}

/* False for addresses that no Pod can have. An IPv4 address is in its mapped form. */
static bool ip_usable(const struct in6_addr *ip, bool allow_loopback)
{
	const uint8_t *b = ip->s6_addr;

	if (!IN6_IS_ADDR_V4MAPPED(ip))
		return !IN6_IS_ADDR_UNSPECIFIED(ip) && !IN6_IS_ADDR_MULTICAST(ip) &&
		       !IN6_IS_ADDR_LINKLOCAL(ip) && (allow_loopback || !IN6_IS_ADDR_LOOPBACK(ip));
	if (b[12] == 127)
		return allow_loopback;
	return b[12] != 0 && b[12] < 224 && !(b[12] == 169 && b[13] == 254);
}

bool route_ip(const char *text, bool allow_loopback, struct in6_addr *ret)
{
	struct in6_addr ip = { 0 };

	if (inet_pton(AF_INET, text, &ip.s6_addr[12]) == 1) {
		ip.s6_addr[10] = ip.s6_addr[11] = 0xff;
	} else if (inet_pton(AF_INET6, text, &ip) != 1) {
		return false;
	}
	if (!ip_usable(&ip, allow_loopback))
		return false;
	*ret = ip;
	return true;
}

/* Positive seconds, with fractions; anything else counts as absent. */
static uint64_t take_timeout_ms(const char *text)
{
	char *end;
	double s = text ? strtod(text, &end) : 0;

	if (!text || end == text || *end || !isfinite(s) || s <= 0)
		return 0;
	return MAX((uint64_t)(MIN(s, (double)MAX_TIMEOUT_S) * 1000), (uint64_t)1);
}

static bool take_port(const char *text, uint16_t *ret)
{
	uint64_t port;
	struct err *e = parse_uint(text, 65535, &port);

	if (e || !port) {
		err_free(e);
		return false;
	}
	*ret = (uint16_t)port;
	return true;
}

static char *copy_of(struct span s)
{
	return xstrndup(s.p ? s.p : "", s.len);
}

bool route_names(struct span ns, struct span id, struct span port, struct route *ret,
		 const char **bad)
{
	autofree char *n = copy_of(ns), *i = copy_of(id), *p = copy_of(port);

	*bad = NULL;
	if (!take_label(i, ret->id))
		*bad = heads[HEAD_ID].bad;
	else if (!take_label(n, ret->ns))
		*bad = heads[HEAD_NS].bad;
	else if (!take_port(p, &ret->port))
		*bad = heads[HEAD_PORT].bad;
	return !*bad;
}

/* Any text may be sent; one that is too long is no object's uid. */
static void take_uid(const char *text, struct route *r)
{
	r->has_uid = !str_empty(text);
	if (r->has_uid && strlen(text) < sizeof(r->uid))
		memcpy(r->uid, text, strlen(text) + 1);
}

static bool take_value(int which, const char *text, bool allow_loopback, struct route *r)
{
	switch (which) {
	case HEAD_ID:
		return take_label(text, r->id);
	case HEAD_NS:
		return take_label(str_or(text, "default"), r->ns);
	case HEAD_PORT:
		if (!str_empty(text))
			return take_port(text, &r->port);
		r->port = RUNTIME_PORT;
		return true;
	case HEAD_IP:
		r->has_ip = !str_empty(text);
		return !r->has_ip || route_ip(text, allow_loopback, &r->ip);
	case HEAD_UID:
		take_uid(text, r);
		return true;
	}
	return false;
}

uint64_t route_timeout_ms(const struct http_headers *h)
{
	const char *text = NULL;

	for (size_t i = 0; i < h->n; i++) {
		if (head_of(h->list[i].name) != HEAD_TIMEOUT)
			continue;
		if (text)
			return 0;
		text = h->list[i].value;
	}
	return take_timeout_ms(text);
}

const char *route_parse(const struct http_headers *h, bool allow_loopback, struct route *ret)
{
	const char *values[HEAD_MAX_] = { 0 };
	unsigned twice = 0;

	for (size_t i = 0; i < h->n; i++) {
		int which = head_of(h->list[i].name);

		if (which == HEAD_MAX_)
			continue;
		if (values[which])
			twice |= B(which);
		values[which] = h->list[i].value;
	}
	if (str_empty(values[HEAD_ID]))
		return "X-Sandbox-ID header is required.";
	*ret = (struct route){ 0 };
	for (int i = 0; i < HEAD_MAX_; i++) {
		if (heads[i].bad &&
		    ((twice & B(i)) || !take_value(i, values[i], allow_loopback, ret)))
			return heads[i].bad;
	}
	ret->timeout_ms = route_timeout_ms(h);
	return NULL;
}
