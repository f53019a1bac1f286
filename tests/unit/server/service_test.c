/* SPDX-License-Identifier: Apache-2.0 */
#include "api/service.h"

#include "api/meta.h"
#include "base/map.h"
#include "fixture.h"
#include "kinds.h"
#include "server/admit/ranges.h"

/* Addresses and node ports of Services: each is given once, and comes back. */

#define SERVICE(name, spec) \
	"{'metadata':{'name':'" name "'},'spec':{" spec "'ports':[{'port':80}]}}"

static void begin(struct fixture *f, const char *cidr)
{
	fixture_init(f);
	if (!cidr)
		return;
	fixture_close(f);
	f->service_cidr = cidr;
	works(fixture_open(f));
}

static struct err *make_service(struct fixture *f, const char *text, char ret_ip[IP_TEXT_MAX])
{
	autoptr(object) o = NULL;
	struct err *e = make(f, kind_named("Service"), "default", text, &o);

	if (!e && ret_ip)
		(void)snprintf(ret_ip, IP_TEXT_MAX, "%s",
			       str_or(json_get_str(object_spec(o), "clusterIP"), ""));
	return e;
}

static struct err *drop_service(struct fixture *f, const char *name)
{
	return drop(f, kind_named("Service"), "default", name, NULL);
}

static struct err *change(struct fixture *f, const char *name, const char *text)
{
	const struct client_ref to = { kind_named("Service"), "default", name, NULL };

	return merge(f, &to, text);
}

TEST(every_address_is_given_once_and_then_the_range_is_full)
{
	autoptr(map) seen = map_new(NULL);
	char ip[IP_TEXT_MAX];
	struct fixture f;

	begin(&f, "10.7.0.0/29"); /* 8 without the network, the broadcast and the first */
	for (int i = 0; i < 5; i++) {
		autofree char *text =
			xasprintf("{'metadata':{'name':'s%d'},'spec':{'ports':[{'port':80}]}}", i);

		works(make_service(&f, text, ip));
		is_true(str_starts(ip, "10.7.0."));
		is_true(!str_eq(ip, "10.7.0.1"));
		is_true(!map_has(seen, ip));
		map_put(seen, ip, seen);
	}
	fails(make_service(&f, SERVICE("more", ""), NULL), ERR_INTERNAL);
	works(make_service(&f, SERVICE("none", "'clusterIP':'None',"), NULL));
	works(drop_service(&f, "s3"));
	works(make_service(&f, SERVICE("more", ""), ip));
	is_true(map_has(seen, ip));
	fixture_done(&f);
}

TEST(addresses_and_ports_are_still_taken_after_a_restart)
{
	struct fixture f;

	begin(&f, NULL);
	works(make_service(&f,
			   "{'metadata':{'name':'a'},'spec':{'type':'NodePort','clusterIP':"
			   "'10.96.3.3','ports':[{'port':80,'nodePort':30033}]}}",
			   NULL));
	fixture_close(&f);
	works(fixture_open(&f));
	fails(make_service(&f, SERVICE("b", "'clusterIP':'10.96.3.3',"), NULL), ERR_INVALID);
	fails(make_service(&f,
			   "{'metadata':{'name':'b'},'spec':{'type':'NodePort','ports':[{'port':80,"
			   "'nodePort':30033}]}}",
			   NULL),
	      ERR_INVALID);
	works(drop_service(&f, "a"));
	works(make_service(&f, SERVICE("b", "'clusterIP':'10.96.3.3',"), NULL));
	fixture_done(&f);
}

TEST(what_is_refused_or_only_tried_takes_nothing)
{
	struct fixture f;

	begin(&f, NULL);
	/* The second port is out of range: neither the address nor the first port is kept. */
	fails(make_service(&f,
			   "{'metadata':{'name':'a'},'spec':{'type':'NodePort','clusterIP':"
			   "'10.96.3.3','ports':[{'name':'a','port':80,'nodePort':30033},"
			   "{'name':'b','port':81,'nodePort':99}]}}",
			   NULL),
	      ERR_INVALID);
	works(make_service(&f,
			   "{'metadata':{'name':'a'},'spec':{'type':'NodePort','clusterIP':"
			   "'10.96.3.3','ports':[{'port':80,'nodePort':30033}]}}",
			   NULL));
	fails(make_service(&f, SERVICE("a", ""), NULL), ERR_EXISTS);
	works(change(&f, "a", "{'spec':{'type':'ClusterIP'}}"));
	works(make_service(&f,
			   "{'metadata':{'name':'b'},'spec':{'type':'NodePort','ports':[{'port':80,"
			   "'nodePort':30033}]}}",
			   NULL));
	works(change(&f, "a", "{'spec':{'type':'ExternalName','externalName':'a.b'}}"));
	works(make_service(&f, SERVICE("c", "'clusterIP':'10.96.3.3',"), NULL));
	fixture_done(&f);
}

TEST(every_node_port_is_given_once)
{
	struct ranges r = { 0 };
	size_t n = 0, number;

	works(ranges_init(&r, "10.96.0.0/16"));
	while (supply_pick(&r.ports, &number)) {
		is_true(number <= NODE_PORT_LAST - NODE_PORT_FIRST);
		n++;
	}
	eq_int(n, NODE_PORT_LAST - NODE_PORT_FIRST + 1);
	supply_release(&r.ports, 7);
	is_true(supply_pick(&r.ports, &number));
	eq_int(number, 7);
	ranges_done(&r);
}

/* Those at the beginning are for who chooses, as on a cluster. */
TEST(addresses_of_choice_are_the_last_to_go)
{
	struct ranges r = { 0 };
	size_t number;

	works(ranges_init(&r, "10.96.0.0/24,fd00::/120"));
	for (size_t i = r.ip[0].ips.band; i < r.ip[0].ips.n; i++) {
		is_true(supply_pick(&r.ip[0].ips, &number));
		is_true(number >= r.ip[0].ips.band);
	}
	is_true(supply_pick(&r.ip[0].ips, &number));
	is_true(number < r.ip[0].ips.band);
	ranges_done(&r);
}

TEST(a_range_is_a_private_block_of_a_bounded_size)
{
	static const char *const bad[] = { "",
					   "10.96.0.0",
					   "10.0.0.0/8",
					   "10.96.0.0/31",
					   "8.8.8.0/24",
					   "100.64.0.0/18",
					   "127.0.0.0/16",
					   "fdca:7::/112",
					   "fd00::/64",
					   "2001:db8::/112",
					   "10.96.0.0/16,10.97.0.0/16",
					   "10.96.0.0/16,fd00::/112,10.97.0.0/16",
					   "10.96.0.0/16;fd00::/112" };
	struct ranges r;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		fails(ranges_init(&r, bad[i]), ERR_INVALID);
		ranges_done(&r);
	}
	works(ranges_init(&r, "fd00::/112,192.168.0.0/20"));
	is_true(r.ip[0].v6 && !r.ip[1].v6);
	ranges_done(&r);
}

TEST(a_service_has_a_bounded_number_of_ports)
{
	autobuf text = { 0 };
	struct fixture f;

	begin(&f, NULL);
	buf_printf(&text, "{'metadata':{'name':'many'},'spec':{'type':'NodePort','ports':[");
	for (int i = 1; i <= 251; i++)
		buf_printf(&text, "%s{'name':'p%d','port':%d}", i > 1 ? "," : "", i, i);
	buf_printf(&text, "]}}");
	fails(make_service(&f, buf_str(&text), NULL), ERR_INVALID);
	fixture_done(&f);
}

/* IPAddresses */

static const struct object *address(struct fixture *f, const char *ip)
{
	autofree char *key = xasprintf("ipaddresses.networking.k8s.io/%s", ip);
	const struct store_entry *e = store_get(server_store(f->server), key);

	return e ? e->tag : NULL;
}

static const char *owner(struct fixture *f, const char *ip)
{
	const struct object *o = address(f, ip);

	return o ? json_str(json_at_path(o->root, "spec.parentRef.name")) : NULL;
}

static uint64_t commits(struct fixture *f)
{
	struct store_stats stats;

	works(store_commit_now(server_store(f->server)));
	store_stats(server_store(f->server), &stats);
	return stats.commits;
}

static void reopen(struct fixture *f)
{
	fixture_close(f);
	works(fixture_open(f));
}

TEST(an_address_comes_and_goes_with_its_service_in_one_commit)
{
	struct fixture f;
	uint64_t before;

	begin(&f, NULL);
	before = commits(&f);
	works(make_service(&f,
			   SERVICE("s", "'ipFamilyPolicy':'RequireDualStack',"
					"'clusterIP':'10.96.3.4','clusterIPs':"
					"['10.96.3.4','fd00:10:96:0:0:0:0:7'],"),
			   NULL));
	eq_int(commits(&f), before + 1);
	is_true(address(&f, "10.96.3.4") && address(&f, "fd00:10:96::7"));
	eq_str(owner(&f, "10.96.3.4"), "s");
	works(change(&f, "s", "{'spec':{'ipFamilyPolicy':'SingleStack'}}"));
	is_true(address(&f, "10.96.3.4") && !address(&f, "fd00:10:96::7"));
	before = commits(&f);
	works(drop_service(&f, "s"));
	eq_int(commits(&f), before + 1);
	is_true(!address(&f, "10.96.3.4"));
	fixture_done(&f);
}

TEST(a_headless_service_costs_one_write)
{
	struct fixture f;
	uint64_t before;

	begin(&f, NULL);
	before = store_rev(server_store(f.server));
	works(make_service(&f, SERVICE("h", "'clusterIP':'None',"), NULL));
	eq_int(store_rev(server_store(f.server)), before + 1);
	works(drop_service(&f, "h"));
	eq_int(store_rev(server_store(f.server)), before + 2);
	fixture_done(&f);
}

#define ADDRESS(ip, labels, name)                                                  \
	"{'metadata':{'name':'" ip "','labels':{" labels "}},'spec':{'parentRef':" \
	"{'resource':'services','namespace':'default','name':'" name "'}}}"
#define OURS "'ipaddress.kubernetes.io/managed-by':'ipallocator.k8s.io'"

TEST(a_start_puts_addresses_in_order)
{
	const struct object *o;
	struct fixture f;

	begin(&f, NULL);
	works(make_service(&f, SERVICE("s", "'clusterIP':'10.96.3.4',"), NULL));
	works(make(&f, kind_named("IPAddress"), "", ADDRESS("10.96.3.5", OURS, "gone"), NULL));
	works(make(&f, kind_named("IPAddress"), "", ADDRESS("10.96.3.6", "", "mine"), NULL));
	o = object_ref((struct object *)address(&f, "10.96.3.4"));
	works(store_delete(server_store(f.server), "ipaddresses.networking.k8s.io/10.96.3.4",
			   object_text((struct object *)o), (void *)o, STORE_ANY));
	reopen(&f);
	is_true(address(&f, "10.96.3.4"));  /* missing */
	is_true(!address(&f, "10.96.3.5")); /* left over */
	is_true(address(&f, "10.96.3.6"));  /* somebody's own */
	fails(make_service(&f, SERVICE("t", "'clusterIP':'10.96.3.4',"), NULL), ERR_INVALID);
	works(make_service(&f, SERVICE("u", "'clusterIP':'10.96.3.5',"), NULL));
	fails(make_service(&f, SERVICE("v", "'clusterIP':'10.96.3.6',"), NULL), ERR_INVALID);
	fixture_done(&f);
}

TEST(an_address_belongs_to_its_service)
{
	const struct kind *k = kind_named("IPAddress");
	struct fixture f;

	begin(&f, NULL);
	works(make_service(&f, SERVICE("s", "'clusterIP':'10.96.3.4',"), NULL));
	fails(drop(&f, k, "", "10.96.3.4", NULL), ERR_FORBIDDEN);
	works(make(&f, k, "", ADDRESS("10.96.3.5", "", "mine"), NULL));
	fails(make_service(&f, SERVICE("t", "'clusterIP':'10.96.3.5',"), NULL), ERR_INVALID);
	works(drop(&f, k, "", "10.96.3.5", NULL));
	works(make_service(&f, SERVICE("t", "'clusterIP':'10.96.3.5',"), NULL));
	fixture_done(&f);
}

/* What a finalizer holds is still taken, as on a cluster. */
TEST(an_address_that_something_holds_stays_taken)
{
	const struct client_ref to = { kind_named("IPAddress"), "", "10.96.3.4", NULL };
	struct fixture f;

	begin(&f, NULL);
	works(make_service(&f, SERVICE("s", "'clusterIP':'10.96.3.4',"), NULL));
	works(merge(&f, &to, "{'metadata':{'finalizers':['example.com/x']}}"));
	works(drop_service(&f, "s"));
	is_true(address(&f, "10.96.3.4"));
	fails(make_service(&f, SERVICE("t", "'clusterIP':'10.96.3.4',"), NULL), ERR_INVALID);
	works(merge(&f, &to, "{'metadata':{'finalizers':null}}"));
	works(make_service(&f, SERVICE("t", "'clusterIP':'10.96.3.4',"), NULL));
	fixture_done(&f);
}

static const char *block(struct fixture *f, size_t i)
{
	const struct store_entry *e =
		store_get(server_store(f->server), "servicecidrs.networking.k8s.io/kubernetes");
	const struct object *o = e ? e->tag : NULL;

	is_true(o && conditions_true(json_get(object_status(o), "conditions"), "Ready"));
	return str_or(json_str(json_at(json_get(object_spec(o), "cidrs"), i)), "");
}

TEST(a_service_cidr_shows_the_blocks_of_this_server)
{
	const struct kind *k = kind_named("ServiceCIDR");
	const struct client_ref to = { k, "", "kubernetes", NULL };
	struct fixture f;
	uint64_t rev;

	begin(&f, "10.7.0.0/29");
	eq_str(block(&f, 0), "10.7.0.0/29");
	eq_str(block(&f, 1), "");
	fails(make(&f, k, "", "{'metadata':{'name':'more'},'spec':{'cidrs':['10.8.0.0/24']}}",
		   NULL),
	      ERR_FORBIDDEN);
	fails(merge(&f, &to, "{'spec':{'cidrs':['10.7.0.0/29','fd00:1::/112']}}"), ERR_FORBIDDEN);
	fails(drop(&f, k, "", "kubernetes", NULL), ERR_FORBIDDEN);
	f.service_cidr = "10.8.0.9/24,fd00:1:0::/112";
	reopen(&f);
	eq_str(block(&f, 0), "10.8.0.0/24");
	eq_str(block(&f, 1), "fd00:1::/112");
	rev = store_rev(server_store(f.server));
	reopen(&f);
	eq_int(store_rev(server_store(f.server)), rev); /* nothing has changed */
	fixture_done(&f);
}
