/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/service.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "kinds.h"
#include "node/host/conntrack.h"
#include "node/host/instance.h"
#include "node/network/policy.h"
#include "test.h"

/* Pods p (.2, ready) and q (.3) in "a" and p (.4) in "b"; a Service of "a" in front of them. */
#define POD(ns, name, ip)                                                                   \
	"{'metadata':{'name':'" name "','namespace':'" ns "'},'status':{'phase':'Running'," \
	"'podIPs':[{'ip':'" ip "'}]}}"
#define ENDPOINT(ip, pod, ready)                                                              \
	"{'addresses':['" ip "'],'conditions':{'ready':" ready "},'targetRef':{'kind':'Pod'," \
	"'name':'" pod "'}}"
#define SLICE(ends)                                                                                  \
	"{'metadata':{'name':'s','namespace':'a','labels':{'kubernetes.io/service-name':'web'}},"    \
	"'addressType':'IPv4','ports':[{'name':'','port':8080,'protocol':'TCP'}],'endpoints':[" ends \
	"]}"
#define SERVICE(more)                                                                      \
	"{'metadata':{'name':'web','namespace':'a'},'spec':{'clusterIP':'10.96.0.7'," more \
	"'clusterIPs':['10.96.0.7'],'ports':[{'port':80,'protocol':'TCP'}]}}"

enum {
	PODS = 3,
};

static const struct instance instance = { .id = "abcde", .pool = 100u << 24 | 64 << 16 };

static struct object *object_of(const char *kind, const char *text)
{
	struct json_doc *d = NULL;
	autofree char *json = xstrdup(text);

	for (char *c = json; *c; c++)
		if (*c == '\'')
			*c = '"';
	works(json_parse(json, strlen(json), NULL, &d));
	return object_new(kind_named(kind), d);
}

struct town {
	struct object *services[1], *slices[1], *pods[PODS];
	struct arena *arena;
	struct service_plan *plan;
};

static void town_init(struct town *t, const char *service, const char *slice)
{
	struct service_world w = { .services = t->services,
				   .n_services = 1,
				   .slices = t->slices,
				   .n_slices = 1,
				   .pods = t->pods,
				   .n_pods = PODS,
				   .instance = &instance };

	t->arena = arena_new();
	t->services[0] = object_of("Service", service);
	t->slices[0] = object_of("EndpointSlice", slice);
	t->pods[0] = object_of("Pod", POD("a", "p", "100.64.0.2"));
	t->pods[1] = object_of("Pod", POD("a", "q", "100.64.0.3"));
	t->pods[2] = object_of("Pod", POD("b", "p", "100.64.0.4"));
	t->plan = service_plan_new(t->arena, &w);
}

static void town_done(struct town *t)
{
	object_unref(t->services[0]);
	object_unref(t->slices[0]);
	for (size_t i = 0; i < PODS; i++)
		object_unref(t->pods[i]);
	arena_free(t->arena);
}

/* "100.64.0.2:8080 100.64.0.3:8080 of 2": where it leads, and how many Pods there are. */
static void leads_to(const char *slice, const char *want)
{
	struct town t;
	autobuf text = { 0 };
	char ip[IP_TEXT_MAX];

	town_init(&t, SERVICE(""), slice);
	eq_int(t.plan->n_ports, 1);
	for (size_t i = 0; i < t.plan->ports[0].n_ends; i++) {
		ip_text(&t.plan->ports[0].ends[i].ip, ip);
		buf_printf(&text, "%s:%u ", ip, t.plan->ports[0].ends[i].port);
	}
	buf_printf(&text, "of %zu", t.plan->ports[0].n_places);
	eq_str(buf_str(&text), want);
	town_done(&t);
}

TEST(a_service_leads_to_pods_of_its_namespace_that_are_ready)
{
	leads_to(SLICE(ENDPOINT("100.64.0.2", "p", "true") "," ENDPOINT("100.64.0.3", "q", "true")),
		 "100.64.0.2:8080 100.64.0.3:8080 of 2");
	leads_to(
		SLICE(ENDPOINT("100.64.0.2", "p", "true") "," ENDPOINT("100.64.0.3", "q", "false")),
		"100.64.0.2:8080 of 2");
	leads_to(SLICE(""), "of 0");
}

TEST(a_slice_aims_at_nothing_but_the_pods_that_it_names)
{
	static const char *const aims[] = {
		SLICE(ENDPOINT("100.64.0.4", "p", "true")),  /* the Pod of another namespace */
		SLICE(ENDPOINT("100.64.0.1", "p", "true")),  /* the gateway */
		SLICE(ENDPOINT("127.0.0.1", "p", "true")),   /* the host */
		SLICE(ENDPOINT("192.168.1.1", "q", "true")), /* its network */
		SLICE(ENDPOINT("100.64.0.3", "p", "true")),  /* another Pod's */
		SLICE(ENDPOINT("100.64.0.2", "gone", "true")),
		SLICE("{'addresses':['100.64.0.2']}"), /* that of nobody in particular */
		SLICE("{'addresses':['100.64.0.2'],'targetRef':{'kind':'Node','name':'p'}}"),
		SLICE("{'addresses':['nonsense'],'targetRef':{'kind':'Pod','name':'p'}}"),
	};

	for (size_t i = 0; i < ARRAY_LEN(aims); i++)
		leads_to(aims[i], "of 0");
}

static void text_is(const char *service, const char *slice, const char *part, bool there)
{
	struct town t;
	autobuf text = { 0 };

	town_init(&t, service, slice);
	service_text(t.plan, false, &text);
	if ((strstr(buf_str(&text), part) != NULL) != there) {
		print_error("%s\n%s: %s\n", buf_str(&text), there ? "lacks" : "has", part);
		fail();
	}
	town_done(&t);
}

TEST(rules_choose_at_random_or_by_who_asks)
{
#define TWO SLICE(ENDPOINT("100.64.0.2", "p", "true") "," ENDPOINT("100.64.0.3", "q", "true"))
	text_is(SERVICE(""), TWO, "{ 10.96.0.7 . tcp . 80 : goto service0 }", true);
	text_is(SERVICE(""), TWO,
		"meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { 0 : 100.64.0.2 . 8080, "
		"1 : 100.64.0.3 . 8080 }",
		true);
	text_is(SERVICE("'sessionAffinity':'ClientIP',"), TWO,
		"dnat ip addr . port to jhash ip saddr mod 2 seed", true);
	text_is(SERVICE(""), SLICE(""), "dnat", false);
	text_is(SERVICE(""), SLICE(""),
		"	set unserved {\n		type ipv4_addr . inet_proto . "
		"inet_service\n		elements = { 10.96.0.7 . tcp . 80 }",
		true);
}

TEST(only_datagrams_have_ways_that_are_kept)
{
	static const char dns[] = "{'metadata':{'name':'web','namespace':'a'},'spec':{'clusterIP':"
				  "'10.96.0.7','clusterIPs':['10.96.0.7'],'ports':[{'port':53,"
				  "'protocol':'UDP'}]}}";
	static const char slice[] =
		"{'metadata':{'name':'s','namespace':'a','labels':{'kubernetes.io/service-name':"
		"'web'}},'addressType':'IPv4','ports':[{'name':'','port':5353,'protocol':'UDP'}],"
		"'endpoints':[" ENDPOINT("100.64.0.3", "q", "true") "," ENDPOINT("100.64.0.2", "p",
										 "true") "]}";
	autoptr(bytes) ways = NULL;
	const struct conntrack_way *way;
	struct town t;

	town_init(&t, dns, slice);
	ways = service_ways(t.plan);
	is_true(ways);
	eq_int(ways->len, 2 * sizeof(*way));
	way = (const void *)ways->data;
	eq_int(way[0].end.octet[15], 2); /* in order */
	eq_int(way[1].end_port, 5353);
	eq_int(way[1].to_port, 53);
	town_done(&t);
	town_init(&t, SERVICE(""), TWO);
	is_true(!service_ways(t.plan));
	town_done(&t);
}

TEST(a_pod_is_behind_each_service_once)
{
	static const char two_ports[] =
		"{'metadata':{'name':'web','namespace':'a'},'spec':{'clusterIP':'10.96.0.7',"
		"'clusterIPs':['10.96.0.7'],'ports':[{'port':80},{'port':81}]}}";
	struct town t;
	char **own;

	town_init(&t, two_ports, TWO);
	eq_int(t.plan->n_ports, 2);
	own = service_own(t.plan, t.arena);
	eq_str(own[2], "10.96.0.7");
	eq_str(own[3], "10.96.0.7");
	is_true(!own[4]);
	town_done(&t);
}

TEST(services_without_addresses_have_no_rules)
{
	struct town t;
	autobuf text = { 0 };

	town_init(&t,
		  "{'metadata':{'name':'web','namespace':'a'},'spec':{'clusterIP':'None',"
		  "'clusterIPs':['None'],'ports':[{'port':80}]}}",
		  TWO);
	service_text(t.plan, true, &text);
	eq_int(text.len, 0);
	town_done(&t);
}

TEST(rules_have_a_bound)
{
	struct town t;
	autobuf many = { 0 };

	buf_add_str(&many, ENDPOINT("100.64.0.2", "p", "true"));
	for (int i = 0; i < 2 * SERVICE_ENDS_MAX; i++)
		buf_add_str(&many, "," ENDPOINT("100.64.0.3", "q", "true"));
	{
		autofree char *slice = xasprintf(
			"{'metadata':{'name':'s','namespace':'a','labels':{"
			"'kubernetes.io/service-name':'web'}},'addressType':'IPv4','ports':[{"
			"'name':'','port':8080}],'endpoints':[%s]}",
			buf_str(&many));

		town_init(&t, SERVICE(""), slice);
	}
	eq_int(t.plan->ports[0].n_ends, SERVICE_ENDS_MAX);
	eq_int(t.plan->left_out, SERVICE_ENDS_MAX + 1);
	town_done(&t);
}
