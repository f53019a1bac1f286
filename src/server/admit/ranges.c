/* SPDX-License-Identifier: Apache-2.0 */
#include "server/admit/ranges.h"

#include <arpa/inet.h>
#include <string.h>

#include "api/pools.h"
#include "api/service.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"

enum {
	WORD = 64,
	IPS_MAX = 1 << 20, /* of a range */
	IPS_MIN = 4,
	TAIL = 4,      /* octets in which the addresses of a range differ */
	BAND_MIN = 16, /* the part for those who choose: a share of the range within bounds */
	IP_BAND_MAX = 256,
	IP_BAND_SHARE = 16,
	PORT_BAND_MAX = 128,
	PORT_BAND_SHARE = 32,
	N_PORTS = NODE_PORT_LAST - NODE_PORT_FIRST + 1,
};

/* Supplies */

static void supply_init(struct supply *s, size_t n, size_t band)
{
	*s = (struct supply){ .n = n, .band = band };
	s->used = xnew_n(uint64_t, (n + WORD - 1) / WORD);
}

bool supply_has(const struct supply *s, size_t i)
{
	return s->used[i / WORD] >> (i % WORD) & 1;
}

bool supply_take(struct supply *s, size_t i)
{
	if (supply_has(s, i))
		return false;
	s->used[i / WORD] |= UINT64_C(1) << (i % WORD);
	s->n_used++;
	return true;
}

void supply_release(struct supply *s, size_t i)
{
	if (!supply_has(s, i))
		return;
	s->used[i / WORD] &= ~(UINT64_C(1) << (i % WORD));
	s->n_used--;
}

/* Any between from and to, beginning anywhere. */
static bool pick(struct supply *s, size_t from, size_t to, size_t *ret)
{
	size_t n = to - from, at = n ? random_u64() % n : 0;

	for (size_t k = 0; k < n; k++) {
		size_t i = from + (at + k) % n;

		if (supply_take(s, i)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

bool supply_pick(struct supply *s, size_t *ret)
{
	if (s->n_used == s->n)
		return false;
	return pick(s, s->band, s->n, ret) || pick(s, 0, s->band, ret);
}

static size_t band_of(size_t n, size_t share, size_t most)
{
	return n <= BAND_MIN ? 0 : MIN(MAX(n / share, (size_t)BAND_MIN), most);
}

/* Ranges */

/* Where addresses may come from without getting in the way of anybody's: private ones, and those
 * not of the blocks that sandboxes have. */
static bool is_private(const struct ip *from, const struct ip *to)
{
	static const char *const blocks[] = { "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
					      "fc00::/7" };
	struct ip first, last;

	if (ip_parse_block(SANDBOX_NET6_AROUND, &first, &last) && ip_cmp(from, &last) <= 0 &&
	    ip_cmp(to, &first) >= 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
		if (ip_parse_block(blocks[i], &first, &last) && ip_cmp(from, &first) >= 0 &&
		    ip_cmp(to, &last) <= 0)
			return true;
	return false;
}

static uint32_t tail(const struct ip *a)
{
	uint32_t v;

	memcpy(&v, a->octet + sizeof(a->octet) - TAIL, TAIL);
	return ntohl(v);
}

static bool same_head(const struct ip *a, const struct ip *b)
{
	return !memcmp(a->octet, b->octet, sizeof(a->octet) - TAIL);
}

/* Without the block's own address, and in IPv4 without the last one, which means all of them. */
static struct err *range_read(struct ip_range *r, const char *text)
{
	struct ip to;
	size_t size;

	if (!ip_parse_block(text, &r->from, &to))
		return err_new(ERR_INVALID, "%s is not a block of addresses such as 10.96.0.0/16",
			       text);
	if (!is_private(&r->from, &to))
		return err_new(ERR_INVALID,
			       "%s is not in a private block (10.0.0.0/8, 172.16.0.0/12, "
			       "192.168.0.0/16, fc00::/7 without " SANDBOX_NET6_AROUND ")",
			       text);
	size = same_head(&r->from, &to) ? (size_t)(tail(&to) - tail(&r->from)) + 1 : IPS_MAX + 1;
	if (size < IPS_MIN || size > IPS_MAX)
		return err_new(ERR_INVALID, "%s has not %d to %d addresses", text, IPS_MIN,
			       IPS_MAX);
	r->v6 = !ip_is4(&r->from);
	r->text = xstrdup(text);
	(void)ip_next(&r->from);
	supply_init(&r->ips, size - (r->v6 ? 1 : 2), band_of(size, IP_BAND_SHARE, IP_BAND_MAX));
	/* On a cluster the first is the API server's, and clients take it for that. */
	(void)supply_take(&r->ips, 0);
	return NULL;
}

struct err *ranges_init(struct ranges *r, const char *cidrs)
{
	autofree char *text = xstrdup(cidrs);
	char *save = NULL;
	struct err *e = NULL;

	*r = (struct ranges){ 0 };
	supply_init(&r->ports, N_PORTS, band_of(N_PORTS, PORT_BAND_SHARE, PORT_BAND_MAX));
	for (char *w = strtok_r(text, ",", &save); w && !e; w = strtok_r(NULL, ",", &save)) {
		if (r->n_ip == ARRAY_LEN(r->ip))
			return err_new(ERR_INVALID, "%s has more than two blocks", cidrs);
		e = range_read(&r->ip[r->n_ip], w);
		if (!e)
			r->n_ip++;
	}
	if (e)
		return e;
	if (!r->n_ip)
		return err_new(ERR_INVALID, "no block of addresses is given");
	if (r->n_ip == 2 && r->ip[0].v6 == r->ip[1].v6)
		return err_new(ERR_INVALID, "%s has two blocks of one family", cidrs);
	return NULL;
}

void ranges_done(struct ranges *r)
{
	for (size_t i = 0; i < ARRAY_LEN(r->ip); i++) {
		free(r->ip[i].text);
		free(r->ip[i].ips.used);
	}
	free(r->ports.used);
	*r = (struct ranges){ 0 };
}

struct ip_range *ranges_of(struct ranges *r, bool v6)
{
	for (size_t i = 0; i < r->n_ip; i++)
		if (r->ip[i].v6 == v6)
			return &r->ip[i];
	return NULL;
}

bool ip_range_number(const struct ip_range *r, const char *ip, size_t *ret)
{
	struct ip a;

	if (!ip || !ip_parse(ip, &a) || !same_head(&a, &r->from) ||
	    tail(&a) - tail(&r->from) >= r->ips.n)
		return false;
	*ret = tail(&a) - tail(&r->from);
	return true;
}

void ip_range_text(const struct ip_range *r, size_t number, char ret[IP_TEXT_MAX])
{
	struct ip a = r->from;
	uint32_t v = htonl(tail(&r->from) + (uint32_t)number);

	memcpy(a.octet + sizeof(a.octet) - TAIL, &v, TAIL);
	ip_text(&a, ret);
}

bool ranges_port_number(int64_t port, size_t *ret)
{
	if (port < NODE_PORT_FIRST || port > NODE_PORT_LAST)
		return false;
	*ret = (size_t)(port - NODE_PORT_FIRST);
	return true;
}

/* What Services hold */

static void mark(struct supply *s, size_t i, bool used)
{
	if (used)
		(void)supply_take(s, i);
	else
		supply_release(s, i);
}

static void mark_port(struct ranges *r, int64_t port, bool used)
{
	size_t i;

	if (ranges_port_number(port, &i))
		mark(&r->ports, i, used);
}

static void mark_ports(struct ranges *r, const struct json *service, bool used)
{
	const struct json *spec = json_get(service, "spec");

	json_each(it, json_get(spec, "ports"))
		mark_port(r, json_get_int(it.val, "nodePort", 0), used);
	mark_port(r, json_get_int(spec, "healthCheckNodePort", 0), used);
}

void ranges_note_ports(struct ranges *r, const struct json *was, const struct json *now)
{
	if (was)
		mark_ports(r, was, false);
	if (now)
		mark_ports(r, now, true);
}

void ranges_note_ip(struct ranges *r, const char *ip, bool used)
{
	size_t i;

	for (size_t k = 0; k < r->n_ip; k++)
		if (ip_range_number(&r->ip[k], ip, &i) && (used || i))
			mark(&r->ip[k].ips, i, used);
}
