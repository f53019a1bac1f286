/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/instance.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/pools.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"
#include "node/host/netlink.h"

enum {
	N_POOLS = 1 << (POOL_PREFIX - SANDBOX_NET4_PREFIX),
};

struct used {
	bool pool[N_POOLS];
};

static void note_route(void *arg, const struct netlink_route *r)
{
	struct used *u = arg;
	uint32_t dst = ip_to4(&r->dst);
	unsigned first, n;

	if (!ip_is4(&r->dst) || r->prefix < SANDBOX_NET4_PREFIX ||
	    (dst ^ SANDBOX_NET4_HEAD) >> (32 - SANDBOX_NET4_PREFIX))
		return;
	first = (dst - SANDBOX_NET4_HEAD) >> (32 - POOL_PREFIX);
	n = r->prefix >= POOL_PREFIX ? 1 : 1u << (POOL_PREFIX - r->prefix);
	for (unsigned i = first; i < first + n && i < N_POOLS; i++)
		u->pool[i] = true;
}

/* A part of the shared address space that no route of this machine mentions. */
static struct err *choose_pool(struct instance *i)
{
	autoptr(netlink) nl = NULL;
	struct used used = { 0 };
	unsigned first = (unsigned)(random_u64() % N_POOLS);
	struct err *e = netlink_open(&nl);

	if (!e)
		e = netlink_each_route(nl, note_route, &used);
	if (e)
		return e;
	for (unsigned n = 0; n < N_POOLS; n++) {
		unsigned p = (first + n) % N_POOLS;

		if (used.pool[p])
			continue;
		i->pool = SANDBOX_NET4_HEAD + (p << (32 - POOL_PREFIX));
		return NULL;
	}
	return err_new(ERR_EXHAUSTED,
		       "routes of this machine use all of " SANDBOX_NET4 "; a /%d of it "
		       "must be free",
		       POOL_PREFIX);
}

static struct err *save(const struct instance *i, const char *path)
{
	autoptr(json_doc) d = json_doc_new();
	autobuf text = { 0 };
	char pool[16];

	instance_addr_text(i, 0, pool);
	json_set_root(d, json_obj(d));
	json_set_str(d, json_root(d), "id", i->id);
	json_set(d, json_root(d), "pool", json_new_strf(d, "%s/%d", pool, POOL_PREFIX));
	json_set_str(d, json_root(d), "runDir", i->run_dir);
	json_write_pretty(json_root(d), &text);
	return file_write_atomic(AT_FDCWD, path, buf_head(&text), text.len, 0600);
}

static struct err *load(struct instance *i, const char *path)
{
	autofree char *text = NULL;
	autoptr(json_doc) d = NULL;
	const char *id, *pool;
	struct in_addr a;
	size_t len;
	struct err *e = file_read(AT_FDCWD, path, 65536, &text, &len);

	if (!e)
		e = json_parse(text, len, NULL, &d);
	if (e)
		return e;
	id = json_get_str(json_root(d), "id");
	pool = json_get_str(json_root(d), "pool");
	if (!id || strlen(id) != INSTANCE_ID_LEN || !pool)
		return err_new(ERR_CORRUPT, "%s has no id or no pool", path);
	memcpy(i->id, id, sizeof(i->id));
	free(text);
	text = xstrndup(pool, strcspn(pool, "/"));
	if (inet_pton(AF_INET, text, &a) != 1)
		return err_new(ERR_CORRUPT, "pool \"%s\" in %s is not an address", pool, path);
	i->pool = ntohl(a.s_addr);
	if (!i->run_dir)
		i->run_dir = xstrdup(json_get_str(json_root(d), "runDir"));
	return NULL;
}

static struct err *take_lock(struct instance *i, const char *dir)
{
	autofree char *path = xasprintf("%s/lock", dir);

	i->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (i->lock < 0)
		return err_sys(errno, "open %s", path);
	if (flock(i->lock, LOCK_EX | LOCK_NB) < 0)
		return err_new(ERR_CONFLICT,
			       "another node runs on this data directory (%s is locked)", path);
	return NULL;
}

static struct err *make_new(struct instance *i, const char *path)
{
	struct err *e;

	random_hex(i->id, INSTANCE_ID_LEN);
	if (!i->run_dir)
		i->run_dir = xasprintf("/run/cay/%s", i->id);
	e = choose_pool(i);
	return e ? e : save(i, path);
}

/* Whether the host has it is found out by each start. */
static bool host_has_ip6(void)
{
	autofree char *text = NULL;

	err_free(file_read(AT_FDCWD, "/proc/sys/net/ipv6/conf/all/disable_ipv6", 16, &text, NULL));
	return text && *text == '0';
}

struct err *instance_open(const char *data_dir, const char *run_dir, bool make,
			  struct instance **ret)
{
	autofree char *dir = xasprintf("%s/node", data_dir);
	autofree char *path = xasprintf("%s/instance.json", dir);
	autoptr(instance) i = xnew(struct instance);
	struct err *e;

	i->lock = -1;
	i->ip6 = host_has_ip6();
	i->data_dir = xstrdup(data_dir);
	i->run_dir = xstrdup(run_dir);
	e = make ? file_mkdirs(dir, 0700) : NULL;
	if (!e && make)
		e = take_lock(i, dir);
	if (e)
		return e;
	e = load(i, path);
	if (err_is(e, ERR_NOT_FOUND) && make) {
		err_free(e);
		e = make_new(i, path);
	} else if (!e && make && run_dir) {
		e = save(i, path);
	}
	if (e)
		return err_wrap(e, "open instance");
	*ret = take(i);
	return NULL;
}

void instance_free(struct instance *i)
{
	if (!i)
		return;
	if (i->lock >= 0)
		(void)close(i->lock);
	free(i->data_dir);
	free(i->run_dir);
	free(i);
}

bool instance_running(const struct instance *i)
{
	autofree char *path = xasprintf("%s/node/lock", i->data_dir);
	autoclose fd = open(path, O_RDWR | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static const struct {
	const char *name;
	bool run; /* below run_dir */
} dirs[INSTANCE_DIR_MAX_] = {
	[INSTANCE_SLOTS] = { "roots", false },      [INSTANCE_PODS] = { "pods", false },
	[INSTANCE_VOLUMES] = { "volumes", false },  [INSTANCE_STATE] = { "state", true },
	[INSTANCE_OBJECTS] = { "volumes", true },   [INSTANCE_STAGE] = { "stage", true },
	[INSTANCE_IDENTITY] = { "identity", true },
};

const char *instance_dir_name(enum instance_dir dir)
{
	return dirs[dir].name;
}

char *instance_dir(const struct instance *i, enum instance_dir dir)
{
	return xasprintf("%s/%s", dirs[dir].run ? i->run_dir : i->data_dir, dirs[dir].name);
}

static const char socket_end[] = ".sock";

char *instance_socket(const char *slot)
{
	return xasprintf("%s%s", slot, socket_end);
}

static const char seats_end[] = ".seats";

char *instance_seats(const char *slot)
{
	return xasprintf("%s%s", slot, seats_end);
}

char *instance_seats_slot(const char *name)
{
	return str_ends(name, seats_end) ? xstrndup(name, strlen(name) - strlen(seats_end)) : NULL;
}

char *instance_socket_slot(const char *name)
{
	return str_ends(name, socket_end) ? xstrndup(name, strlen(name) - strlen(socket_end))
					  : NULL;
}

/* The id is hexadecimal. An id that somebody wrote by hand and is not gets some mark as well. */
uint32_t instance_mark(const struct instance *i)
{
	static const char digits[] = "0123456789abcdef";
	uint32_t id = 0;

	for (const char *p = i->id; *p; p++) {
		const char *digit = strchr(digits, *p);

		id = id << 4 | (digit ? (uint32_t)(digit - digits) : (uint32_t)*p & 0xf);
	}
	return 0xca700000 | (id & 0xfffff);
}

char *instance_table(const struct instance *i)
{
	return xasprintf("inet cay_%s", i->id);
}

void instance_ifprefix(const struct instance *i, char ret[16])
{
	(void)snprintf(ret, 16, "cay%s", i->id);
}

void instance_ifname(const struct instance *i, unsigned n, char ret[16])
{
	(void)snprintf(ret, 16, "cay%s%x", i->id, n);
}

bool instance_owns_ifname(const struct instance *i, const char *name, unsigned *ret_n)
{
	char prefix[16];
	unsigned n = 0;

	instance_ifprefix(i, prefix);
	if (!str_starts(name, prefix))
		return false;
	for (const char *p = name + strlen(prefix); *p; p++) {
		const char *digit = strchr("0123456789abcdef", *p);

		if (!digit || n >= POOL_SIZE)
			return false;
		n = n * 16 + (unsigned)(digit - "0123456789abcdef");
	}
	*ret_n = n;
	return true;
}

uint32_t instance_addr(const struct instance *i, unsigned n)
{
	return htonl(i->pool + n);
}

void instance_addr_text(const struct instance *i, unsigned n, char ret[16])
{
	struct in_addr a = { instance_addr(i, n) };

	(void)inet_ntop(AF_INET, &a, ret, 16);
}

bool instance_addr_place(const struct instance *i, const char *text, unsigned *ret_n)
{
	struct in_addr a;

	if (!text || inet_pton(AF_INET, text, &a) != 1 || ntohl(a.s_addr) - i->pool >= POOL_SIZE)
		return false;
	*ret_n = ntohl(a.s_addr) - i->pool;
	return true;
}

struct ip instance_ip4(const struct instance *i, unsigned n)
{
	return ip_from4(i->pool + n);
}

/* Five digits of an id between "7" and "00": fdca:7xxx:xx00:: */
struct ip instance_ip6(const struct instance *i, unsigned n)
{
	uint32_t id = instance_mark(i) & 0xfffff, head = SANDBOX_NET6_HEAD | id >> 8;

	return (struct ip){ .octet = { (uint8_t)(head >> 24), (uint8_t)(head >> 16),
				       (uint8_t)(head >> 8), (uint8_t)head,
				       (uint8_t)id, [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n } };
}

bool instance_ip_place(const struct instance *i, const struct ip *a, unsigned *ret_n)
{
	unsigned n = ip_is4(a) ? ip_to4(a) - i->pool : (unsigned)(a->octet[14] << 8 | a->octet[15]);
	struct ip there = ip_is4(a) ? instance_ip4(i, n) : instance_ip6(i, n);

	if (n >= POOL_SIZE || ip_cmp(a, &there))
		return false;
	*ret_n = n;
	return true;
}

struct pool {
	struct ip gateway;
	struct netlink_route nowhere;
};

static unsigned pools(const struct instance *i, struct pool ret[2])
{
	ret[0] = (struct pool){
		.gateway = instance_ip4(i, POOL_GATEWAY),
		.nowhere = { .dst = instance_ip4(i, 0), .prefix = POOL_PREFIX, .unreachable = true }
	};
	ret[1] = (struct pool){ .gateway = instance_ip6(i, POOL_GATEWAY),
				.nowhere = { .dst = instance_ip6(i, 0),
					     .prefix = POOL6_PREFIX,
					     .unreachable = true } };
	return i->ip6 ? 2 : 1;
}

struct err *instance_net_up(const struct instance *i, struct netlink *nl)
{
	struct pool p[2];
	unsigned n_pools = pools(i, p);

	for (unsigned n = 0; n < n_pools; n++) {
		netlink_add_addr(nl, 1, &p[n].gateway);
		netlink_add_route(nl, &p[n].nowhere);
	}
	return err_wrap(netlink_commit(nl), "set up the address pool");
}

void instance_net_down(const struct instance *i, struct netlink *nl)
{
	struct pool p[2];

	(void)pools(i, p); /* an earlier start may have had both */
	for (size_t n = 0; n < ARRAY_LEN(p); n++) {
		netlink_del_addr(nl, 1, &p[n].gateway);
		netlink_del_route(nl, &p[n].nowhere);
		err_free(netlink_commit(nl)); /* fails where there is nothing to remove */
	}
}
