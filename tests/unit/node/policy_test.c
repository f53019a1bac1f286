/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "kinds.h"
#include "test.h"

/*
 * Pods: web (app=web, tier=front) and db (app=db) in "a", web (app=web) in "b". The namespace "a"
 * has the label team=red, "b" has team=blue.
 */
#define WEB     "100.64.0.2"
#define DB      "100.64.0.3"
#define OTHER   "100.64.0.4"
#define GATEWAY "100.64.0.1"
#define PUBLIC  "203.0.113.7"

enum {
	POLICIES_MAX = 3,
	PODS = 3,
	NAMESPACES = 2,
};

static uint32_t addr_of(const char *text)
{
	struct in_addr in;

	is_true(inet_pton(AF_INET, text, &in) == 1);
	return ntohl(in.s_addr);
}

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

/* In namespace "a" unless it begins with "b:". */
static struct object *policy_of(const char *spec)
{
	bool b = str_starts(spec, "b:");
	autofree char *text = xasprintf("{'metadata':{'name':'p','namespace':'%s'},'spec':%s}",
					b ? "b" : "a", b ? spec + 2 : spec);

	return object_of("NetworkPolicy", text);
}

static struct object *pod_of(const char *ns, const char *labels, const char *status)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'x','namespace':'%s','labels':%s},'spec':{'nodeName':'here'},"
		"'status':%s}",
		ns, labels, status);

	return object_of("Pod", text);
}

struct world {
	struct object *policies[POLICIES_MAX], *pods[PODS], *namespaces[NAMESPACES];
	struct policy_world w;
	struct arena *arena;
	struct policy_plan *plan;
};

static void world_init(struct world *w, const char *const policies[POLICIES_MAX])
{
	*w = (struct world){ .arena = arena_new() };
	w->pods[0] = pod_of("a", "{'app':'web','tier':'front'}",
			    "{'podIP':'" WEB "','phase':'Running'}");
	w->pods[1] = pod_of("a", "{'app':'db'}", "{'podIP':'" DB "','phase':'Pending'}");
	w->pods[2] = pod_of("b", "{'app':'web'}", "{'podIP':'" OTHER "','phase':'Running'}");
	w->namespaces[0] = object_of("Namespace", "{'metadata':{'name':'a','labels':{'team':'red',"
						  "'kubernetes.io/metadata.name':'a'}}}");
	w->namespaces[1] = object_of("Namespace", "{'metadata':{'name':'b','labels':{'team':'blue',"
						  "'kubernetes.io/metadata.name':'b'}}}");
	w->w = (struct policy_world){ .policies = w->policies,
				      .pods = w->pods,
				      .n_pods = PODS,
				      .namespaces = w->namespaces,
				      .n_namespaces = NAMESPACES,
				      .node = "here",
				      .gateway = addr_of(GATEWAY) };
	for (size_t i = 0; i < POLICIES_MAX && policies[i]; i++)
		w->policies[w->w.n_policies++] = policy_of(policies[i]);
	w->plan = policy_plan_new(w->arena, &w->w);
}

static void world_done(struct world *w)
{
	for (size_t i = 0; i < w->w.n_policies; i++)
		object_unref(w->policies[i]);
	for (size_t i = 0; i < PODS; i++)
		object_unref(w->pods[i]);
	for (size_t i = 0; i < NAMESPACES; i++)
		object_unref(w->namespaces[i]);
	arena_free(w->arena);
}

#define ALL                "'podSelector':{}"
#define OUT                "'policyTypes':['Egress']"
#define DENY               "{" ALL "," OUT "}"
#define TO(rule)           "{" ALL "," OUT ",'egress':[" rule "]}"
#define CIDR(ip)           "{'to':[{'ipBlock':{'cidr':'" ip "'}}]}"
#define EXCEPT(ip, except) "{'to':[{'ipBlock':{'cidr':'" ip "','except':[" except "]}}]}"
#define PORTS(list)        "{'ports':[" list "]}"
#define SELECT(selector)   "{'podSelector':" selector "," OUT "}"
#define PEER(peer)         "{'to':[" peer "],'ports':[{'protocol':'UDP','port':53}]}"
#define KUBE_DNS                                                                              \
	"{'namespaceSelector':{'matchLabels':{'kubernetes.io/metadata.name':'kube-system'}}," \
	"'podSelector':{'matchLabels':{'k8s-app':'kube-dns'}}}"

TEST(what_goes_out_is_what_the_policies_allow)
{
	static const struct row {
		const char *policies[POLICIES_MAX];
		const char *from, *to;
		uint8_t protocol;
		uint16_t port;
		bool allowed;
	} rows[] = {
		/* none, and those that say nothing about what goes out */
		{ { NULL }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { NULL }, "100.64.9.9", PUBLIC, IPPROTO_TCP, 443, true },
		{ { "{" ALL "}" }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { "{" ALL ",'policyTypes':['Ingress']}" }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { "{" ALL ",'policyTypes':['Ingress'],'egress':[]}" },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { "{" ALL ",'egress':[]}" }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		/* nothing goes out, names neither */
		{ { DENY }, WEB, PUBLIC, IPPROTO_TCP, 443, false },
		{ { DENY }, DB, PUBLIC, IPPROTO_UDP, 443, false },
		{ { DENY }, WEB, PUBLIC, IPPROTO_ICMP, 0, false },
		{ { DENY }, WEB, GATEWAY, IPPROTO_UDP, 53, false },
		{ { DENY }, OTHER, PUBLIC, IPPROTO_TCP, 443, true },
		{ { "{" ALL ",'policyTypes':['Ingress','Egress']}" },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { "{" ALL ",'egress':[" CIDR("198.51.100.0/24") "]}" },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { "b:" DENY }, OTHER, PUBLIC, IPPROTO_TCP, 443, false },
		{ { "b:" DENY }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		/* an address of nobody that is known */
		{ { DENY }, "100.64.9.9", PUBLIC, IPPROTO_TCP, 443, false },
		{ { TO("{}") }, "100.64.9.9", PUBLIC, IPPROTO_TCP, 443, true },
		/* which Pods */
		{ { SELECT("{'matchLabels':{'app':'web'}}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { SELECT("{'matchLabels':{'app':'web'}}") }, DB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { SELECT("{'matchLabels':{'app':'web','tier':'back'}}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { SELECT(
			  "{'matchExpressions':[{'key':'app','operator':'In','values':['x','db']}]}") },
		  DB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { SELECT(
			  "{'matchExpressions':[{'key':'app','operator':'In','values':['x','db']}]}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { SELECT(
			  "{'matchExpressions':[{'key':'app','operator':'NotIn','values':['db']}]}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { SELECT(
			  "{'matchExpressions':[{'key':'app','operator':'NotIn','values':['db']}]}") },
		  DB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { SELECT(
			  "{'matchExpressions':[{'key':'tier','operator':'NotIn','values':['x']}]}") },
		  DB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { SELECT("{'matchExpressions':[{'key':'tier','operator':'Exists'}]}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { SELECT("{'matchExpressions':[{'key':'tier','operator':'Exists'}]}") },
		  DB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { SELECT("{'matchExpressions':[{'key':'tier','operator':'DoesNotExist'}]}") },
		  DB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { SELECT("{'matchExpressions':[{'key':'tier','operator':'DoesNotExist'}]}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { SELECT("{'matchExpressions':[{'key':'tier','operator':'Like'}]}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { SELECT(
			  "{'matchLabels':{'app':'web'},'matchExpressions':[{'key':'tier','operator':'DoesNotExist'}]}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		/* blocks of addresses */
		{ { TO("{}") }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { TO("{'to':[]}") }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { TO(CIDR("0.0.0.0/0")) }, WEB, PUBLIC, IPPROTO_UDP, 9, true },
		{ { TO(CIDR("203.0.113.0/24")) }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { TO(CIDR("203.0.113.99/24")) }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { TO(CIDR("203.0.113.7/32")) }, WEB, PUBLIC, IPPROTO_ICMP, 0, true },
		{ { TO(CIDR("203.0.113.6/32")) }, WEB, PUBLIC, IPPROTO_TCP, 443, false },
		{ { TO(CIDR("203.0.113.0/24")) }, WEB, "203.0.112.255", IPPROTO_TCP, 443, false },
		{ { TO(CIDR("203.0.113.0/24")) }, WEB, "203.0.114.0", IPPROTO_TCP, 443, false },
		{ { TO(CIDR("203.0.113.0/24")) }, WEB, GATEWAY, IPPROTO_UDP, 53, false },
		{ { TO(CIDR("::/0")) }, WEB, PUBLIC, IPPROTO_TCP, 443, false },
		{ { TO(CIDR("nonsense")) }, WEB, PUBLIC, IPPROTO_TCP, 443, false },
		{ { TO(CIDR("128.0.0.0/1")) }, WEB, "255.255.255.255", IPPROTO_TCP, 443, true },
		{ { TO(EXCEPT("203.0.113.0/24", "'203.0.113.4/30'")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { TO(EXCEPT("203.0.113.0/24", "'203.0.113.4/30'")) },
		  WEB,
		  "203.0.113.3",
		  IPPROTO_TCP,
		  443,
		  true },
		{ { TO(EXCEPT("203.0.113.0/24", "'203.0.113.4/30'")) },
		  WEB,
		  "203.0.113.8",
		  IPPROTO_TCP,
		  443,
		  true },
		{ { TO(EXCEPT("203.0.113.0/24",
			      "'203.0.113.8/29','203.0.113.0/30','203.0.113.4/31'")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { TO(EXCEPT("203.0.113.0/24", "'203.0.113.0/24'")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { TO(EXCEPT("203.0.113.0/24", "'203.0.112.0/20'")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { TO(EXCEPT("203.0.113.0/24", "'203.0.113.128/25','10.0.0.0/8'")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		{ { TO(EXCEPT("128.0.0.0/1", "'255.255.255.255/32'")) },
		  WEB,
		  "255.255.255.255",
		  IPPROTO_TCP,
		  443,
		  false },
		{ { TO(EXCEPT("203.0.113.0/24", "'nonsense'")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  false },
		/* an exception holds for its own block only */
		{ { TO(EXCEPT("203.0.113.0/24", "'203.0.113.7/32'") "," CIDR("203.0.113.7/32")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  443,
		  true },
		/* ports */
		{ { TO(PORTS("{'port':443}")) }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { TO(PORTS("{'port':443}")) }, WEB, PUBLIC, IPPROTO_UDP, 443, false },
		{ { TO(PORTS("{'port':443}")) }, WEB, PUBLIC, IPPROTO_TCP, 444, false },
		{ { TO(PORTS("{'port':443}")) }, WEB, PUBLIC, IPPROTO_ICMP, 0, false },
		{ { TO(PORTS("{'port':443}")) }, WEB, GATEWAY, IPPROTO_UDP, 53, false },
		{ { TO(PORTS("{'protocol':'SCTP','port':9}")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_SCTP,
		  9,
		  true },
		{ { TO(PORTS("{'protocol':'UDP'}")) }, WEB, PUBLIC, IPPROTO_UDP, 1, true },
		{ { TO(PORTS("{'protocol':'UDP'}")) }, WEB, PUBLIC, IPPROTO_TCP, 1, false },
		{ { TO(PORTS("{}")) }, WEB, PUBLIC, IPPROTO_TCP, 65535, true },
		{ { TO(PORTS("{'port':8000,'endPort':8010}")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  8000,
		  true },
		{ { TO(PORTS("{'port':8000,'endPort':8010}")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  8010,
		  true },
		{ { TO(PORTS("{'port':8000,'endPort':8010}")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  8011,
		  false },
		{ { TO(PORTS("{'port':8000,'endPort':8010}")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  7999,
		  false },
		{ { TO(PORTS("{'port':8000,'endPort':7000}")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  8000,
		  false },
		{ { TO(PORTS("{'port':80},{'protocol':'UDP','port':443}")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_UDP,
		  443,
		  true },
		{ { TO(PORTS("{'port':'http'}")) }, WEB, PUBLIC, IPPROTO_TCP, 80, false },
		{ { TO(PORTS("{'protocol':'GRE'}")) }, WEB, PUBLIC, IPPROTO_TCP, 80, false },
		{ { TO("{'to':[{'ipBlock':{'cidr':'203.0.113.0/24'}}],'ports':[{'port':80}]}") },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { TO("{'to':[{'ipBlock':{'cidr':'203.0.113.0/24'}}],'ports':[{'port':80}]}") },
		  WEB,
		  "198.51.100.1",
		  IPPROTO_TCP,
		  80,
		  false },
		/* what one rule or policy allows, no other takes */
		{ { TO(CIDR("198.51.100.0/24") "," CIDR("203.0.113.0/24")) },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  1,
		  true },
		{ { DENY, TO(CIDR("203.0.113.0/24")) }, WEB, PUBLIC, IPPROTO_TCP, 1, true },
		{ { DENY, TO(CIDR("203.0.113.0/24")) },
		  WEB,
		  "198.51.100.1",
		  IPPROTO_TCP,
		  1,
		  false },
		{ { DENY, TO("{}") }, WEB, PUBLIC, IPPROTO_TCP, 1, true },
		{ { DENY, "b:" TO("{}") }, WEB, PUBLIC, IPPROTO_TCP, 1, false },
		{ { SELECT("{'matchLabels':{'app':'db'}}"), TO(PORTS("{'port':80}")) },
		  DB,
		  PUBLIC,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { TO(PORTS("{'port':80}")), TO(PORTS("{'port':81}")), DENY },
		  WEB,
		  PUBLIC,
		  IPPROTO_TCP,
		  81,
		  true },
		{ { TO(CIDR("203.0.113.0/25") "," PORTS("{'port':80}")) },
		  WEB,
		  "203.0.113.200",
		  IPPROTO_TCP,
		  81,
		  false },
		/* the name server */
		{ { TO("{}") }, WEB, GATEWAY, IPPROTO_UDP, 53, true },
		{ { TO(PORTS("{'protocol':'UDP','port':53}")) },
		  WEB,
		  GATEWAY,
		  IPPROTO_UDP,
		  53,
		  true },
		{ { TO(PORTS("{'protocol':'UDP','port':53}")) },
		  WEB,
		  GATEWAY,
		  IPPROTO_TCP,
		  53,
		  false },
		{ { TO(PEER(KUBE_DNS)) }, WEB, GATEWAY, IPPROTO_UDP, 53, true },
		{ { TO(PEER(KUBE_DNS)) }, WEB, GATEWAY, IPPROTO_TCP, 53, false },
		{ { TO(PEER(KUBE_DNS)) }, WEB, PUBLIC, IPPROTO_UDP, 53, false },
		{ { TO("{'to':[" KUBE_DNS "],'ports':[{'protocol':'UDP','port':'dns'}]}") },
		  WEB,
		  GATEWAY,
		  IPPROTO_UDP,
		  53,
		  true },
		{ { TO("{'to':[" KUBE_DNS "],'ports':[{'protocol':'TCP','port':'dns'}]}") },
		  WEB,
		  GATEWAY,
		  IPPROTO_TCP,
		  53,
		  false },
		{ { TO("{'to':[" KUBE_DNS "],'ports':[{'port':'dns-tcp'}]}") },
		  WEB,
		  GATEWAY,
		  IPPROTO_TCP,
		  53,
		  true },
		{ { TO(PEER("{'namespaceSelector':{}}")) }, WEB, GATEWAY, IPPROTO_UDP, 53, true },
		{ { TO(PEER("{'podSelector':{}}")) }, WEB, GATEWAY, IPPROTO_UDP, 53, false },
		{ { TO(PEER("{'namespaceSelector':{'matchLabels':{'team':'blue'}}}")) },
		  WEB,
		  GATEWAY,
		  IPPROTO_UDP,
		  53,
		  false },
		{ { TO(PEER("{'ipBlock':{'cidr':'100.64.0.1/32'}}")) },
		  WEB,
		  GATEWAY,
		  IPPROTO_UDP,
		  53,
		  true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *r = &rows[i];
		struct world w;
		struct policy_packet packet = { .protocol = r->protocol, .port = r->port };

		world_init(&w, r->policies);
		packet.from = addr_of(r->from);
		packet.to = addr_of(r->to);
		if (policy_allows(w.plan, &packet) != r->allowed)
			print_message("row %zu: %s, %s\n", i, r->policies[0], r->policies[1]);
		eq_int(policy_allows(w.plan, &packet), r->allowed);
		world_done(&w);
	}
}

TEST(a_policy_that_takes_nothing_changes_nothing)
{
	static const struct {
		const char *policy;
		bool narrows;
	} rows[] = {
		{ TO("{}"), false },
		{ TO(EXCEPT("0.0.0.0/0",
			    "'10.0.0.0/8','172.16.0.0/12','192.168.0.0/16','169.254.0.0/16'")),
		  false },
		{ "{" ALL ",'policyTypes':['Ingress']}", false },
		{ DENY, true },
		{ TO(EXCEPT("0.0.0.0/0", "'8.8.8.8/32'")), true },
		{ TO(EXCEPT("0.0.0.0/0", "'100.64.0.0/10'")), true }, /* names */
		{ TO(CIDR("0.0.0.0/1")), true },
		{ TO(PORTS("{'port':1,'endPort':65535}")), true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *const policies[POLICIES_MAX] = { rows[i].policy };
		struct world w;
		autobuf text = { 0 };

		world_init(&w, policies);
		policy_text(w.plan, &text);
		eq_int(w.plan->narrows, rows[i].narrows);
		eq_int(text.len > 0, rows[i].narrows);
		world_done(&w);
	}
}

#define IN_FROM(peers) "{" ALL ",'policyTypes':['Ingress'],'ingress':[{'from':[" peers "]}]}"

TEST(what_of_a_policy_has_no_effect_is_told)
{
	static const struct {
		const char *policy, *field;
	} rows[] = {
		{ DENY, NULL },
		{ "{" ALL "}", NULL },
		{ TO("{}"), NULL },
		{ TO(PEER(KUBE_DNS)), NULL },
		{ TO(CIDR("fc00::/7")), NULL },
		{ TO(PEER("{'namespaceSelector':{},'podSelector':{'matchLabels':{'k8s-app':'kube-dns'}}}")),
		  NULL },
		{ TO(EXCEPT("0.0.0.0/0", "'10.0.0.0/8'")), NULL },
		{ TO("{}," CIDR("10.1.0.0/16")), "spec.egress[1]" },
		{ TO(CIDR("169.254.169.254/32")), "spec.egress[0]" },
		{ TO(EXCEPT("0.0.0.0/0", "'nonsense'")), "spec.egress[0]" },
		{ TO("{'to':[{'podSelector':{}}]}"), "spec.egress[0]" },
		{ TO(PEER("{'namespaceSelector':{}}")), "spec.egress[0]" },
		{ TO(PEER("{'namespaceSelector':{'matchLabels':{'team':'blue'}}}")),
		  "spec.egress[0]" },
		{ IN_FROM("{'namespaceSelector':{'matchLabels':{'kubernetes.io/metadata.name':'agent-sandbox-system'}},"
			  "'podSelector':{'matchLabels':{'app':'sandbox-router'}}}"),
		  NULL },
		{ IN_FROM("{'podSelector':{'matchLabels':{'app':'web'}}}"), "spec.ingress[0]" },
		{ IN_FROM("{'namespaceSelector':{}}"), "spec.ingress[0]" },
		{ IN_FROM("{'ipBlock':{'cidr':'0.0.0.0/0'}}"), "spec.ingress[0]" },
		{ "{" ALL ",'policyTypes':['Ingress'],'ingress':[{}]}", "spec.ingress[0]" },
		{ "{" ALL ",'policyTypes':['Egress'],'ingress':[{}]}", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *const policies[POLICIES_MAX] = { rows[i].policy };
		struct world w;
		const char *notice;

		world_init(&w, policies);
		notice = w.plan->policies[0].notice;
		if (!notice != !rows[i].field)
			print_message("%s: %s\n", rows[i].policy, str_or(notice, "nothing"));
		is_true(!notice == !rows[i].field);
		if (notice)
			is_true(str_starts(notice, rows[i].field));
		world_done(&w);
	}
}

/* Every second address: nothing can be merged. */
TEST(a_policy_that_is_too_large_shuts_its_pods)
{
	autobuf spec = { 0 };
	const char *policies[POLICIES_MAX] = { NULL };
	struct world w;
	const struct policy_packet packet = { .from = addr_of(WEB), .to = addr_of("8.0.0.0") };

	buf_add_str(&spec, "{" ALL "," OUT ",'egress':[{'to':[");
	for (unsigned i = 0; i < 5000; i++)
		buf_printf(&spec, "%s{'ipBlock':{'cidr':'8.0.%u.%u/32'}}", i ? "," : "", 2 * i >> 8,
			   2 * i & 0xff);
	buf_add_str(&spec, "]}]}");
	policies[0] = buf_str(&spec);
	world_init(&w, policies);
	is_true(w.plan->policies[0].unenforceable);
	is_true(w.plan->policies[0].notice);
	is_false(policy_allows(w.plan, &packet));
	world_done(&w);
}

TEST(a_pod_of_another_node_does_not_count)
{
	static const char *const policies[POLICIES_MAX] = { SELECT("{'matchLabels':{'x':'y'}}") };
	const struct policy_packet packet = { .from = addr_of(WEB), .to = addr_of(PUBLIC) };
	struct world w;

	world_init(&w, policies);
	is_true(policy_allows(w.plan, &packet));
	w.w.node = "there";
	w.plan = policy_plan_new(w.arena, &w.w);
	eq_int(w.plan->n_pods, 0);
	is_false(policy_allows(w.plan, &packet));
	world_done(&w);
}

TEST(an_address_that_two_pods_claim_is_shut_and_one_of_a_pod_that_is_over_is_free)
{
	static const char *const policies[POLICIES_MAX] = { SELECT("{'matchLabels':{'x':'y'}}") };
	const struct policy_packet packet = { .from = addr_of(WEB), .to = addr_of(PUBLIC) };
	struct world w;

	world_init(&w, policies);
	is_true(policy_allows(w.plan, &packet));
	object_unref(w.pods[1]);
	w.pods[1] = pod_of("a", "{}", "{'podIP':'" WEB "','phase':'Running'}");
	w.plan = policy_plan_new(w.arena, &w.w);
	is_false(policy_allows(w.plan, &packet));
	object_unref(w.pods[1]);
	w.pods[1] = pod_of("a", "{}", "{'podIP':'" WEB "','phase':'Failed'}");
	w.plan = policy_plan_new(w.arena, &w.w);
	is_true(policy_allows(w.plan, &packet));
	world_done(&w);
}
