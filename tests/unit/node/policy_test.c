/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/policy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "kinds.h"
#include "node/host/firewall.h"
#include "node/host/instance.h"
#include "node/host/reserved.h"
#include "node/network/policy_priv.h"
#include "policy_asks.h"
#include "policy_oracle.h"
#include "test.h"

/*
 * Pods: web (app=web, tier=front) and db (app=db) in "a", web (app=web) in "b". The namespace "a"
 * has the label team=red, "b" has team=blue. The port "http" is 8080 of web and 80 of the others;
 * db also has "sync" 7000 of UDP.
 */
#define WEB      "100.64.0.2"
#define DB       "100.64.0.3"
#define OTHER    "100.64.0.4"
#define GATEWAY  "100.64.0.1"
#define NOBODY   "100.64.9.9"
#define PUBLIC   "203.0.113.7"
#define WEB6     "fdca:7abc:de00::2"
#define DB6      "fdca:7abc:de00::3"
#define OTHER6   "fdca:7abc:de00::4"
#define GATEWAY6 "fdca:7abc:de00::1"
#define PUBLIC6  "2001:db8:1::7"

enum {
	POLICIES_MAX = 3,
	PODS = 3,
	NAMESPACES = 2,
};

static const struct instance instance = { .id = "abcde", .pool = 100u << 24 | 64 << 16 };

static struct ip addr_of(const char *text)
{
	struct ip ip;

	is_true(ip_parse(text, &ip));
	return ip;
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
static struct object *policy_of(const char *spec, size_t n)
{
	bool b = str_starts(spec, "b:");
	autofree char *text = xasprintf("{'metadata':{'name':'p%zu','namespace':'%s'},'spec':%s}",
					n, b ? "b" : "a", b ? spec + 2 : spec);

	return object_of("NetworkPolicy", text);
}

#define HTTP(port) "[{'ports':[{'name':'http','containerPort':" port "}]}]"
#define HTTP_AND_SYNC \
	"[{'ports':[{'name':'http','containerPort':80},{'name':'sync','protocol':'UDP','containerPort':7000}]}]"

static struct object *pod_of(const char *ns, const char *labels, const char *status,
			     const char *containers)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'x','namespace':'%s','labels':%s},'spec':{'nodeName':'here',"
		"'containers':%s},'status':%s}",
		ns, labels, containers, status);

	return object_of("Pod", text);
}

struct world {
	struct object *policies[POLICIES_MAX], *pods[PODS], *namespaces[NAMESPACES];
	struct policy_world w;
	struct policy_may_open may_open;
	struct arena *arena;
	struct policy_plan *plan;
};

static void world_init(struct world *w, const char *const policies[POLICIES_MAX])
{
	*w = (struct world){ .arena = arena_new() };
	w->pods[0] = pod_of("a", "{'app':'web','tier':'front'}",
			    "{'podIP':'" WEB "','phase':'Running'}", HTTP("8080"));
	w->pods[1] =
		pod_of("a", "{'app':'db'}", "{'podIP':'" DB "','phase':'Pending'}", HTTP_AND_SYNC);
	w->pods[2] =
		pod_of("b", "{'app':'web'}", "{'podIP':'" OTHER "','phase':'Running'}", HTTP("80"));
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
				      .instance = &instance,
				      .may_open = &w->may_open,
				      .numbers = policy_numbers_new() };
	for (size_t i = 0; i < POLICIES_MAX && policies[i]; i++)
		w->policies[w->w.n_policies++] = policy_of(policies[i], i);
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
	policy_numbers_free(w->w.numbers);
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

struct row {
	const char *policies[POLICIES_MAX];
	const char *from, *to;
	uint8_t protocol;
	uint16_t port;
	bool allowed;
};

/* By the plan, and by the text of the API. */
static void check_row(const struct row *r, size_t i)
{
	struct world w;
	struct policy_packet packet = { .from = addr_of(r->from),
					.to = addr_of(r->to),
					.protocol = r->protocol,
					.port = r->port };

	world_init(&w, r->policies);
	if (policy_allows(w.plan, &packet) != r->allowed)
		print_message("row %zu: %s, %s\n", i, r->policies[0], r->policies[1]);
	eq_int(policy_allows(w.plan, &packet), r->allowed);
	if (!str_eq(r->from, NOBODY) && !str_eq(r->to, NOBODY))
		eq_int(oracle_allows(&w.w, &packet), r->allowed);
	world_done(&w);
}

TEST(what_goes_out_is_what_the_policies_allow)
{
	static const struct row rows[] = {
		/* none, and those that say nothing about what goes out */
		{ { NULL }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { NULL }, NOBODY, PUBLIC, IPPROTO_TCP, 443, true },
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
		{ { DENY }, NOBODY, PUBLIC, IPPROTO_TCP, 443, false },
		{ { TO("{}") }, NOBODY, PUBLIC, IPPROTO_TCP, 443, true },
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
		/* IPv6 */
		{ { NULL }, WEB6, PUBLIC6, IPPROTO_TCP, 443, true },
		{ { DENY }, WEB6, PUBLIC6, IPPROTO_TCP, 443, false },
		{ { DENY }, OTHER6, PUBLIC6, IPPROTO_TCP, 443, true },
		{ { DENY }, WEB6, GATEWAY6, IPPROTO_UDP, 53, false },
		{ { TO("{}") }, WEB6, PUBLIC6, IPPROTO_TCP, 443, true },
		{ { TO(CIDR("0.0.0.0/0")) }, WEB6, PUBLIC6, IPPROTO_TCP, 443, false },
		{ { TO(CIDR("::/0")) }, WEB6, PUBLIC6, IPPROTO_TCP, 443, true },
		{ { TO(CIDR("::/0")) }, WEB6, PUBLIC6, IPPROTO_ICMPV6, 0, true },
		{ { TO(CIDR("2001:db8:1::/48")) }, WEB6, PUBLIC6, IPPROTO_TCP, 443, true },
		{ { TO(CIDR("2001:db8:1::7/128")) }, WEB6, PUBLIC6, IPPROTO_TCP, 443, true },
		{ { TO(CIDR("2001:db8:1::6/128")) }, WEB6, PUBLIC6, IPPROTO_TCP, 443, false },
		{ { TO(CIDR("2001:db8:1::/48")) }, WEB6, "2001:db8:2::", IPPROTO_TCP, 443, false },
		{ { TO(CIDR("2001:db8:1::/48")) },
		  WEB6,
		  "2001:db8:0:ffff:ffff:ffff:ffff:ffff",
		  IPPROTO_TCP,
		  443,
		  false },
		{ { TO(EXCEPT("2001:db8::/32", "'2001:db8:1::/48'")) },
		  WEB6,
		  PUBLIC6,
		  IPPROTO_TCP,
		  443,
		  false },
		{ { TO(EXCEPT("2001:db8::/32", "'2001:db8:1::/48'")) },
		  WEB6,
		  "2001:db8:2::",
		  IPPROTO_TCP,
		  443,
		  true },
		{ { TO(EXCEPT("::/0", "'8000::/1'")) }, WEB6, "ffff::1", IPPROTO_TCP, 443, false },
		{ { TO("{'to':[{'ipBlock':{'cidr':'2001:db8::/32'}}],'ports':[{'port':80,'endPort':90}]}") },
		  WEB6,
		  PUBLIC6,
		  IPPROTO_TCP,
		  85,
		  true },
		{ { TO("{'to':[{'ipBlock':{'cidr':'2001:db8::/32'}}],'ports':[{'port':80,'endPort':90}]}") },
		  WEB6,
		  PUBLIC6,
		  IPPROTO_UDP,
		  85,
		  false },
		{ { TO(PEER(KUBE_DNS)) }, WEB6, GATEWAY6, IPPROTO_UDP, 53, true },
		{ { TO(PEER(KUBE_DNS)) }, WEB6, PUBLIC6, IPPROTO_UDP, 53, false },
		{ { TO(CIDR("0.0.0.0/0")) }, WEB6, GATEWAY6, IPPROTO_UDP, 53, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_row(&rows[i], i);
}

#define IN            "'policyTypes':['Ingress']"
#define IN_ALL        "{" ALL "," IN ",'ingress':[{}]}"
#define BOTH_ALL      "{" ALL ",'policyTypes':['Ingress','Egress'],'ingress':[{}],'egress':[{}]}"
#define IN_RULE(rule) "{" ALL "," IN ",'ingress':[" rule "]}"
#define FROM(peer)    IN_RULE("{'from':[" peer "]}")
#define TO_PEER(peer) TO("{'to':[" peer "]}")
#define APP(app)      "{'podSelector':{'matchLabels':{'app':'" app "'}}}"
#define TEAM(team)    "{'namespaceSelector':{'matchLabels':{'team':'" team "'}}}"
#define TEAM_APP(team, app)                                  \
	"{'namespaceSelector':{'matchLabels':{'team':'" team \
	"'}},'podSelector':{'matchLabels':{'app':'" app "'}}}"

TEST(between_sandboxes_passes_what_both_sides_allow)
{
	static const struct row rows[] = {
		/* one side is not enough, and the default is shut */
		{ { NULL }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { TO("{}") }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { IN_ALL }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { DENY, IN_ALL }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { TO("{}"), "{" ALL "," IN "}" }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { BOTH_ALL }, WEB, DB, IPPROTO_TCP, 80, true },
		{ { BOTH_ALL }, WEB, DB, IPPROTO_UDP, 9, true },
		{ { BOTH_ALL }, WEB, DB, IPPROTO_ICMP, 0, true },
		{ { BOTH_ALL }, DB, WEB, IPPROTO_TCP, 80, true },
		{ { BOTH_ALL }, WEB6, DB6, IPPROTO_TCP, 80, true },
		{ { BOTH_ALL }, WEB, OTHER, IPPROTO_TCP, 80, false },
		{ { BOTH_ALL }, OTHER, WEB, IPPROTO_TCP, 80, false },
		{ { BOTH_ALL, "b:" IN_ALL }, WEB, OTHER, IPPROTO_TCP, 80, true },
		{ { BOTH_ALL, "b:" IN_ALL }, OTHER, WEB, IPPROTO_TCP, 80, false },
		{ { BOTH_ALL, "b:" BOTH_ALL }, OTHER6, WEB6, IPPROTO_TCP, 80, true },
		{ { BOTH_ALL }, NOBODY, WEB, IPPROTO_TCP, 80, false },
		{ { BOTH_ALL }, WEB, NOBODY, IPPROTO_TCP, 80, false },
		/* blocks are addresses outside */
		{ { TO(CIDR("0.0.0.0/0")), IN_ALL }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { TO(CIDR("100.64.0.3/32")), IN_ALL }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { TO(CIDR("::/0")), IN_ALL }, WEB6, DB6, IPPROTO_TCP, 80, false },
		{ { TO("{}"), FROM("{'ipBlock':{'cidr':'0.0.0.0/0'}}") },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		/* who sends, by its labels */
		{ { TO("{}"), FROM(APP("web")) }, WEB, DB, IPPROTO_TCP, 80, true },
		{ { TO("{}"), FROM(APP("web")) }, DB, WEB, IPPROTO_TCP, 80, false },
		{ { TO("{}"), FROM(APP("web")) }, WEB6, DB6, IPPROTO_TCP, 80, true },
		{ { TO("{}"), FROM(APP("web")), "b:" TO("{}") },
		  OTHER,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO("{}"), FROM("{'podSelector':{}}"), "b:" TO("{}") },
		  OTHER,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO("{}"), FROM("{'podSelector':{}}") }, DB, WEB, IPPROTO_TCP, 80, true },
		{ { TO("{}"),
		    FROM("{'podSelector':{'matchExpressions':[{'key':'tier','operator':'Exists'}]}}") },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { TO("{}"),
		    FROM("{'podSelector':{'matchExpressions':[{'key':'tier','operator':'Like'}]}}") },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		/* and by those of its namespace */
		{ { "b:" TO("{}"), FROM(TEAM("blue")) }, OTHER, DB, IPPROTO_TCP, 80, true },
		{ { "b:" TO("{}"), FROM(TEAM("red")) }, OTHER, DB, IPPROTO_TCP, 80, false },
		{ { "b:" TO("{}"), FROM("{'namespaceSelector':{}}") },
		  OTHER,
		  DB,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { "b:" TO("{}"), FROM(TEAM_APP("blue", "web")) },
		  OTHER,
		  DB,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { "b:" TO("{}"), FROM(TEAM_APP("blue", "db")) },
		  OTHER,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { "b:" TO("{}"), FROM(TEAM("red") "," APP("web")) },
		  OTHER,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO("{}"), FROM(TEAM("blue") "," APP("web")) }, WEB, DB, IPPROTO_TCP, 80, true },
		{ { "b:" TO("{}"),
		    FROM("{'namespaceSelector':{'matchLabels':{'kubernetes.io/metadata.name':'b'}}}") },
		  OTHER,
		  WEB,
		  IPPROTO_TCP,
		  80,
		  true },
		/* who receives */
		{ { TO_PEER(APP("db")), IN_ALL }, WEB, DB, IPPROTO_TCP, 80, true },
		{ { TO_PEER(APP("web")), IN_ALL }, WEB, DB, IPPROTO_TCP, 80, false },
		{ { TO_PEER(APP("db")), IN_ALL }, WEB6, DB6, IPPROTO_UDP, 80, true },
		{ { TO_PEER(APP("web")), "b:" IN_ALL }, WEB, OTHER, IPPROTO_TCP, 80, false },
		{ { TO_PEER(TEAM("blue")), "b:" IN_ALL }, WEB, OTHER, IPPROTO_TCP, 80, true },
		{ { TO_PEER(TEAM_APP("blue", "db")), "b:" IN_ALL },
		  WEB,
		  OTHER,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO_PEER(TEAM("blue")), "b:" IN_ALL }, WEB, PUBLIC, IPPROTO_TCP, 80, false },
		{ { TO_PEER(APP("db")), IN_ALL }, WEB, GATEWAY, IPPROTO_UDP, 53, false },
		{ { "{'podSelector':{'matchLabels':{'app':'db'}}," OUT ",'egress':[{}]}", IN_ALL },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO("{}"),
		    "{'podSelector':{'matchLabels':{'app':'db'}}," IN ",'ingress':[{}]}" },
		  DB,
		  WEB,
		  IPPROTO_TCP,
		  80,
		  false },
		/* ports */
		{ { TO("{}"), IN_RULE(PORTS("{'port':80}")) }, WEB, DB, IPPROTO_TCP, 80, true },
		{ { TO("{}"), IN_RULE(PORTS("{'port':80}")) }, WEB, DB, IPPROTO_TCP, 81, false },
		{ { TO("{}"), IN_RULE(PORTS("{'port':80}")) }, WEB, DB, IPPROTO_UDP, 80, false },
		{ { TO("{}"), IN_RULE(PORTS("{'port':80}")) }, WEB, DB, IPPROTO_ICMP, 0, false },
		{ { TO("{}"), IN_RULE(PORTS("{'port':80,'endPort':90}")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  90,
		  true },
		{ { TO("{}"), IN_RULE(PORTS("{'port':80,'endPort':90}")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  91,
		  false },
		{ { TO("{}"), IN_RULE(PORTS("{'protocol':'UDP'}")) },
		  WEB,
		  DB,
		  IPPROTO_UDP,
		  7,
		  true },
		{ { TO(PORTS("{'port':80}")), IN_RULE(PORTS("{'port':81}")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO(PORTS("{'port':80}")), IN_RULE(PORTS("{'port':80},{'port':81}")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { TO("{}"), IN_RULE("{'from':[" APP("web") "],'ports':[{'port':80}]}") },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  443,
		  false },
		/* ports by their names, which are those of the receiver */
		{ { TO("{}"), IN_RULE(PORTS("{'port':'http'}")) }, WEB, DB, IPPROTO_TCP, 80, true },
		{ { TO("{}"), IN_RULE(PORTS("{'port':'http'}")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  8080,
		  false },
		{ { TO("{}"), IN_RULE(PORTS("{'port':'http'}")) },
		  DB,
		  WEB,
		  IPPROTO_TCP,
		  8080,
		  true },
		{ { TO("{}"), IN_RULE(PORTS("{'port':'http'}")) },
		  DB,
		  WEB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO("{}"), IN_RULE(PORTS("{'port':'http'}")) },
		  WEB6,
		  DB6,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { TO("{}"), IN_RULE(PORTS("{'port':'sync'}")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  7000,
		  false },
		{ { TO("{}"), IN_RULE(PORTS("{'protocol':'UDP','port':'sync'}")) },
		  WEB,
		  DB,
		  IPPROTO_UDP,
		  7000,
		  true },
		{ { TO("{}"), IN_RULE(PORTS("{'protocol':'UDP','port':'sync'}")) },
		  DB,
		  WEB,
		  IPPROTO_UDP,
		  7000,
		  false },
		{ { TO(PORTS("{'port':'http'}")), IN_ALL }, WEB, DB, IPPROTO_TCP, 80, true },
		{ { TO(PORTS("{'port':'http'}")), IN_ALL }, DB, WEB, IPPROTO_TCP, 80, false },
		{ { TO(PORTS("{'port':'http'}")), IN_ALL }, DB, WEB, IPPROTO_TCP, 8080, true },
		{ { TO(PORTS("{'port':'http'}")), IN_ALL }, WEB, PUBLIC, IPPROTO_TCP, 80, false },
		{ { TO("{'to':[" APP("web") "],'ports':[{'port':'http'}]}"), IN_ALL },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO("{}"), IN_RULE("{'from':[" APP("db") "],'ports':[{'port':'http'}]}") },
		  DB,
		  WEB,
		  IPPROTO_TCP,
		  8080,
		  true },
		{ { TO("{}"), IN_RULE("{'from':[" APP("web") "],'ports':[{'port':'http'}]}") },
		  DB,
		  WEB,
		  IPPROTO_TCP,
		  8080,
		  false },
		/* the union of several */
		{ { TO("{}"), "{" ALL "," IN "}", FROM(APP("web")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { TO("{}"), IN_RULE(PORTS("{'port':1}")), FROM(APP("web")) },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  80,
		  true },
		{ { TO(PORTS("{'port':1}")), TO_PEER(APP("db")), IN_ALL },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  2,
		  true },
		{ { TO(PORTS("{'port':1}")), TO_PEER(APP("web")), IN_ALL },
		  WEB,
		  DB,
		  IPPROTO_TCP,
		  2,
		  false },
		/* what comes in says nothing of what goes out to addresses outside */
		{ { BOTH_ALL }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { "{" ALL "," IN "}" }, WEB, PUBLIC, IPPROTO_TCP, 443, true },
		{ { TO_PEER(APP("db")), IN_ALL }, WEB, PUBLIC6, IPPROTO_TCP, 443, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_row(&rows[i], i);
}

/* -- at random ------------------------------------------------------------------------------- */

static uint32_t dice_state;

static unsigned dice(unsigned sides)
{
	dice_state = dice_state * 1664525 + 1013904223;
	return (dice_state >> 16) % sides;
}

static const char *pick(const char *const *list, unsigned n)
{
	return list[dice(n)];
}

#define PICK(...)                                  \
	pick((const char *const[]){ __VA_ARGS__ }, \
	     sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static const char *any_selector(void)
{
	return PICK("{}", "{'matchLabels':{'app':'web'}}", "{'matchLabels':{'app':'db'}}",
		    "{'matchLabels':{'app':'web','tier':'front'}}",
		    "{'matchExpressions':[{'key':'tier','operator':'DoesNotExist'}]}",
		    "{'matchExpressions':[{'key':'app','operator':'NotIn','values':['web']}]}");
}

static void add_peers(struct buf *b)
{
	for (unsigned n = dice(3), i = 0; i < n; i++) {
		buf_add_str(b, i ? "," : "");
		switch (dice(4)) {
		case 0:
			buf_printf(b, "{'podSelector':%s}", any_selector());
			break;
		case 1:
			buf_printf(b, "{'namespaceSelector':%s}",
				   PICK("{}", "{'matchLabels':{'team':'red'}}",
					"{'matchLabels':{'team':'blue'}}"));
			break;
		case 2:
			buf_printf(b, "{'namespaceSelector':%s,'podSelector':%s}",
				   PICK("{}", "{'matchLabels':{'team':'blue'}}"), any_selector());
			break;
		default:
			buf_add_str(
				b,
				PICK("{'ipBlock':{'cidr':'0.0.0.0/0'}}",
				     "{'ipBlock':{'cidr':'::/0','except':['2001:db8::/32']}}",
				     "{'ipBlock':{'cidr':'203.0.113.0/24','except':['203.0.113.4/30']}}",
				     "{'ipBlock':{'cidr':'2001:db8::/32'}}",
				     "{'ipBlock':{'cidr':'100.64.0.0/10'}}"));
		}
	}
}

static void add_rules(struct buf *b, const char *peers)
{
	for (unsigned n = dice(3), i = 0; i < n; i++) {
		buf_printf(b, "%s{'%s':[", i ? "," : "", peers);
		add_peers(b);
		buf_printf(b, "],'ports':[%s]}",
			   PICK("", "", "{'port':80}", "{'port':'http'}",
				"{'port':80,'endPort':8080}", "{'protocol':'UDP','port':'sync'}",
				"{'protocol':'UDP'},{'port':8080}",
				"{'protocol':'UDP','port':53}"));
	}
}

static char *any_policy(void)
{
	autobuf b = { 0 };

	buf_printf(&b, "%s{'podSelector':%s,'policyTypes':[%s],'egress':[",
		   dice(3) ? "" : "b:", any_selector(),
		   PICK("'Egress'", "'Ingress'", "'Ingress','Egress'", ""));
	add_rules(&b, "to");
	buf_add_str(&b, "],'ingress':[");
	add_rules(&b, "from");
	buf_add_str(&b, "]}");
	return xstrdup(buf_str(&b));
}

static const char *const ends[] = { WEB, DB, OTHER, PUBLIC, GATEWAY };
static const char *const ends6[] = { WEB6, DB6, OTHER6, PUBLIC6, GATEWAY6 };

/* Who connects on behalf of a sandbox is told the same, but for what no sandbox reaches by itself.
 */
static void compare_with_outlet(const struct policy_plan *p, const struct policy_packet *packet,
				bool allowed)
{
	bool reserved = reserved_holds_ip(&packet->to, ip_is4(&packet->to) ? 32 : 128);
	unsigned place;

	if (packet->protocol != IPPROTO_TCP ||
	    !instance_ip_place(p->instance, &packet->from, &place))
		return;
	if (reserved && !policy_may_open(p->may_open, &packet->to))
		allowed = false;
	eq_int(policy_lets_out(p, place, &packet->to, packet->port), allowed);
}

static size_t compare_with_oracle(const struct world *w, const char *const policies[POLICIES_MAX])
{
	static const struct {
		uint8_t protocol;
		uint16_t port;
	} kinds[] = { { IPPROTO_TCP, 80 }, { IPPROTO_TCP, 8080 }, { IPPROTO_UDP, 7000 },
		      { IPPROTO_UDP, 53 }, { IPPROTO_TCP, 443 },  { IPPROTO_ICMP, 0 } };
	size_t n_allowed = 0;

	for (size_t i = 0; i < 2 * PODS * ARRAY_LEN(ends) * ARRAY_LEN(kinds); i++) {
		const char *const *list = i % 2 ? ends6 : ends;
		size_t from = i / 2 % PODS, to = i / 2 / PODS % ARRAY_LEN(ends);
		size_t kind = i / 2 / PODS / ARRAY_LEN(ends);
		const struct policy_packet packet = { .from = addr_of(list[from]),
						      .to = addr_of(list[to]),
						      .protocol = kinds[kind].protocol,
						      .port = kinds[kind].port };
		bool allowed = policy_allows(w->plan, &packet);

		if (from == to)
			continue;
		n_allowed += allowed;
		if (allowed != oracle_allows(&w->w, &packet))
			print_message("%s to %s, %u %u: %s\n%s\n%s\n", list[from], list[to],
				      packet.protocol, packet.port, policies[0], policies[1],
				      policies[2]);
		eq_int(allowed, oracle_allows(&w->w, &packet));
		compare_with_outlet(w->plan, &packet, allowed);
	}
	return n_allowed;
}

TEST(policies_at_random_mean_what_the_text_of_the_api_says)
{
	size_t n_allowed = 0, n_between = 0;

	dice_state = 9;
	for (unsigned round = 0; round < 400; round++) {
		autofree char *a = any_policy(), *b = any_policy(), *c = any_policy();
		const char *const policies[POLICIES_MAX] = { a, b, c };
		struct world w;

		world_init(&w, policies);
		n_allowed += compare_with_oracle(&w, policies);
		n_between += w.plan->opens;
		world_done(&w);
	}
	is_true(n_allowed > 1000 && n_between > 50);
}

/* -- in the kernel --------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The blocks of a listing in the order of their texts: the kernel lists chains as they were made.
 */
static char *sorted(char *text)
{
	autobuf out = { 0 };
	char *blocks[512], *at = text;
	size_t n = 0;

	for (char *end; n < ARRAY_LEN(blocks) && (end = strstr(at, "\n\t}\n")); at = end + 4) {
		end[3] = '\0';
		blocks[n++] = at + strspn(at, "\n");
	}
	is_true(n > 0 && n < ARRAY_LEN(blocks));
	blocks[0] = strchr(blocks[0], '\n'); /* without the line of the table */
	qsort(blocks, n, sizeof(*blocks), by_text);
	for (size_t i = 0; i < n; i++)
		buf_printf(&out, "%s\n", blocks[i] + strspn(blocks[i], "\n"));
	return xstrdup(buf_str(&out));
}

static char *table_now(void)
{
	autofree char *text = NULL;

	firewall_text(&instance, &text);
	is_true(text);
	return sorted(text);
}

static struct bytes *any_rules(struct policy_numbers *numbers, size_t pods)
{
	autofree char *a = any_policy(), *b = any_policy(), *c = any_policy();
	const char *const policies[POLICIES_MAX] = { a, b, c };
	autobuf text = { 0 };
	struct world w;

	world_init(&w, policies);
	policy_numbers_free(w.w.numbers);
	w.w.numbers = numbers;
	w.w.n_pods = pods;
	works(policy_may_open_read(dice(2) ? "10.20.0.0/16,fd12::/32" : "", &w.may_open));
	w.plan = policy_plan_new(w.arena, &w.w);
	policy_text(w.plan, &text);
	w.w.numbers = NULL;
	w.w.n_pods = PODS;
	world_done(&w);
	return text.len ? bytes_from_buf(&text) : NULL;
}

static bool own_network(void)
{
	if (geteuid() == 0 && !unshare(CLONE_NEWNET))
		return true;
	skip_because("needs root: it makes a network namespace");
	return false;
}

TEST(a_table_that_is_changed_is_the_same_as_one_that_is_loaded)
{
	struct policy_numbers *numbers = policy_numbers_new();
	struct firewall_rules was = { .egress = true }, now = { .egress = true };
	unsigned n_changed = 0;
	autoclose outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (!own_network())
		return;
	dice_state = 4;
	for (unsigned round = 0; round < 120; round++) {
		autofree char *changed = NULL, *loaded = NULL;

		now.policies = any_rules(numbers, dice(PODS + 1));
		if (was.policies && now.policies) {
			works(firewall_change(&instance, &was, &now));
			changed = table_now();
			n_changed++;
		}
		works(firewall_load(&instance, &now));
		loaded = table_now();
		if (changed)
			eq_str(changed, loaded);
		bytes_unref(was.policies);
		was.policies = now.policies;
	}
	is_true(n_changed > 40);
	bytes_unref(was.policies);
	policy_numbers_free(numbers);
	is_true(!setns(outside, CLONE_NEWNET));
}

TEST(a_policy_that_takes_nothing_changes_nothing)
{
	static const struct {
		const char *policy;
		bool narrows;
	} rows[] = {
		{ TO("{}"), false },
		{ TO("{'to':[{'ipBlock':{'cidr':'0.0.0.0/0','except':['10.0.0.0/8','172.16.0.0/12',"
		     "'192.168.0.0/16','169.254.0.0/16']}},{'ipBlock':{'cidr':'::/0','except':['fc00::/7']}}]}"),
		  false },
		{ TO(CIDR("0.0.0.0/0")), true }, /* IPv6 */
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
		{ TO(CIDR("fd00::/16")), "spec.egress[0]" },
		{ TO(CIDR("2001:db8::/32")), NULL },
		{ TO(PEER("{'namespaceSelector':{},'podSelector':{'matchLabels':{'k8s-app':'kube-dns'}}}")),
		  NULL },
		{ TO(EXCEPT("0.0.0.0/0", "'10.0.0.0/8'")), NULL },
		{ TO("{}," CIDR("10.1.0.0/16")), "spec.egress[1]" },
		{ TO(CIDR("169.254.169.254/32")), "spec.egress[0]" },
		{ TO(EXCEPT("0.0.0.0/0", "'nonsense'")), "spec.egress[0]" },
		{ TO("{},{'to':[{'podSelector':{}}]}"), "spec.egress[1]" },
		{ TO(PEER("{'namespaceSelector':{}}")), "spec.egress[0]" },
		{ TO(PEER("{'namespaceSelector':{'matchLabels':{'team':'blue'}}}")),
		  "spec.egress[0]" },
		{ TO(PEER("{'namespaceSelector':{'matchLabels':{'team':'green'}}}")), NULL },
		{ IN_FROM("{'namespaceSelector':{'matchLabels':{'kubernetes.io/metadata.name':'agent-sandbox-system'}},"
			  "'podSelector':{'matchLabels':{'app':'sandbox-router'}}}"),
		  NULL },
		{ IN_FROM("{'podSelector':{'matchLabels':{'app':'web'}}}"), "spec.ingress[0]" },
		{ IN_FROM("{'ipBlock':{'cidr':'0.0.0.0/0'}}"), "spec.ingress[0]" },
		{ "{" ALL
		  ",'policyTypes':['Ingress','Egress'],'ingress':[{'from':[{'podSelector':{}}]}],"
		  "'egress':[{'to':[{'podSelector':{}}]}]}",
		  NULL },
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

/* 10.20.0.0/16 and fd12::/32 are those that policies may open. */
TEST(private_addresses_are_open_where_policies_open_them_and_may)
{
	static const struct row rows[] = {
		{ { NULL }, WEB, "10.20.1.1", IPPROTO_TCP, 80, false },
		{ { DENY }, WEB, "10.20.1.1", IPPROTO_TCP, 80, false },
		{ { TO(CIDR("10.20.1.0/24")) }, WEB, "10.20.1.1", IPPROTO_TCP, 80, true },
		{ { TO(CIDR("10.20.1.0/24")) }, WEB, "10.20.2.1", IPPROTO_TCP, 80, false },
		{ { TO(CIDR("10.20.1.0/24")) }, OTHER, "10.20.1.1", IPPROTO_TCP, 80, false },
		{ { TO(CIDR("10.0.0.0/8")) }, WEB, "10.20.255.255", IPPROTO_UDP, 80, true },
		{ { TO("{}") }, WEB, "10.20.1.1", IPPROTO_TCP, 80, true },
		{ { TO(EXCEPT("0.0.0.0/0", "'10.0.0.0/8'")) },
		  WEB,
		  "10.20.1.1",
		  IPPROTO_TCP,
		  80,
		  false },
		{ { TO(CIDR("fd12::/32")) }, WEB6, "fd12::1", IPPROTO_TCP, 80, true },
		{ { TO(CIDR("fd12::/32")) }, WEB, "10.20.1.1", IPPROTO_TCP, 80, false },
		{ { TO("{'to':[{'ipBlock':{'cidr':'10.20.0.0/16'}}],'ports':[{'port':80}]}") },
		  WEB,
		  "10.20.1.1",
		  IPPROTO_TCP,
		  81,
		  false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct policy_packet packet = { .from = addr_of(rows[i].from),
						      .to = addr_of(rows[i].to),
						      .protocol = rows[i].protocol,
						      .port = rows[i].port };
		struct world w;

		world_init(&w, rows[i].policies);
		works(policy_may_open_read("10.20.0.0/16,fd12::/32", &w.may_open));
		w.plan = policy_plan_new(w.arena, &w.w);
		if (policy_allows(w.plan, &packet) != rows[i].allowed)
			print_message("row %zu\n", i);
		eq_int(policy_allows(w.plan, &packet), rows[i].allowed);
		compare_with_outlet(w.plan, &packet, rows[i].allowed);
		world_done(&w);
	}
}

TEST(a_sandbox_is_told_the_peers_that_its_policies_open)
{
	static const char *const policies[POLICIES_MAX] = {
		TO("{'to':[{'podSelector':{}},{'ipBlock':{'cidr':'10.20.1.0/24','except':['10.20.1.8/29']}},"
		   "{'ipBlock':{'cidr':'10.21.0.0/16'}}]}"),
		IN_ALL
	};
	struct world w;
	autobuf out = { 0 }, in = { 0 };

	world_init(&w, policies);
	works(policy_may_open_read("10.20.0.0/16", &w.may_open));
	w.plan = policy_plan_new(w.arena, &w.w);
	policy_peers(w.plan, POLICY_OUT, w.plan->pods[0].group[POLICY_OUT], &out);
	policy_peers(w.plan, POLICY_IN, w.plan->pods[0].group[POLICY_IN], &in);
	eq_str(buf_str(&out),
	       WEB "-" DB "," WEB6 "-" DB6 ",10.20.1.0-10.20.1.7,10.20.1.16-10.20.1.255");
	eq_str(buf_str(&in), WEB "-" OTHER "," WEB6 "-" OTHER6);
	world_done(&w);
}

TEST(what_no_sandbox_may_reach_is_never_opened)
{
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{ "", true },
		{ "10.20.0.0/16", true },
		{ "10.0.0.0/8,172.16.0.0/12,192.168.7.1/32,fd12::/32", true },
		{ "10.20.0.0", false },
		{ "nonsense", false },
		{ "10.20.0.0/16,0.0.0.0/0", false },
		{ "8.8.8.0/24", false },
		{ "8.0.0.0/6", false },
		{ "2001:db8::/32", false },
		{ "127.0.0.0/8", false },
		{ "169.254.169.254/32", false },
		{ "168.63.129.16/32", false },
		{ "100.64.0.0/10", false },
		{ "100.127.255.0/24", false },
		{ "224.0.0.0/4", false },
		{ "fc00::/7", false }, /* sandboxes are in it */
		{ "fdca:7123::/32", false },
		{ "fe80::/10", false },
		{ "::1/128", false },
		{ "fd00:ec2::254/128", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct policy_may_open m;

		if (rows[i].good)
			works(policy_may_open_read(rows[i].text, &m));
		else
			fails(policy_may_open_read(rows[i].text, &m), ERR_INVALID);
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

/* Many policies of "b" before one of "a" that lets web go to port 80 of 8.0.0.0. */
struct crowd {
	struct world w;
	struct object **policies;
	size_t n;
	bool allows;
	struct buf text;
};

static void crowd_init(struct crowd *c, size_t n, const char *select, unsigned n_blocks)
{
	static const char *const none[POLICIES_MAX] = { NULL };
	const struct policy_packet packet = { addr_of(WEB), addr_of("8.0.0.0"), IPPROTO_TCP, 80 };
	autobuf spec = { 0 };

	*c = (struct crowd){ .policies = xnew_n(struct object *, n + 1), .n = n + 1 };
	buf_printf(&spec, "b:{%s," OUT ",'egress':[{'to':[", select);
	for (unsigned i = 0; i < n_blocks; i++)
		buf_printf(&spec, "%s{'ipBlock':{'cidr':'8.0.%u.%u/32'}}", i ? "," : "", 2 * i >> 8,
			   2 * i & 0xff);
	buf_add_str(&spec, "]}]}");
	for (size_t i = 0; i < n; i++)
		c->policies[i] = policy_of(buf_str(&spec), i);
	c->policies[n] = policy_of("{" ALL "," OUT ",'egress':[{'ports':[{'port':80}]}]}", n);
	world_init(&c->w, none);
	c->w.w.policies = c->policies;
	c->w.w.n_policies = n + 1;
	c->w.plan = policy_plan_new(c->w.arena, &c->w.w);
	c->allows = policy_allows(c->w.plan, &packet);
	policy_text(c->w.plan, &c->text);
}

static void crowd_done(struct crowd *c)
{
	for (size_t i = 0; i < c->n; i++)
		object_unref(c->policies[i]);
	free(c->policies);
	c->w.w.n_policies = 0;
	world_done(&c->w);
	buf_done(&c->text);
}

TEST(a_namespace_with_too_many_rules_shuts_its_own_policies_alone)
{
	struct crowd c;

	crowd_init(&c, 40, ALL, 3000);
	is_false(c.w.plan->policies[0].unenforceable);
	is_true(c.w.plan->policies[39].unenforceable);
	is_false(c.w.plan->policies[40].unenforceable);
	is_true(c.allows);
	crowd_done(&c);
}

TEST(a_policy_that_selects_no_pod_costs_nothing)
{
	struct crowd c;

	crowd_init(&c, 40, "'podSelector':{'matchLabels':{'x':'y'}}", 3000);
	is_false(c.w.plan->policies[39].unenforceable);
	is_true(c.allows);
	is_true(strstr(buf_str(&c.text), "chain policy40 {"));
	is_true(!strstr(buf_str(&c.text), "chain policy39 {"));
	crowd_done(&c);
}

TEST(a_namespace_has_a_number_of_policies)
{
	struct crowd c;

	crowd_init(&c, 300, ALL, 1);
	is_false(c.w.plan->policies[255].unenforceable);
	is_true(c.w.plan->policies[256].unenforceable);
	is_true(c.w.plan->policies[256].notice);
	is_false(c.w.plan->policies[300].unenforceable);
	is_true(c.allows);
	is_true(!strstr(buf_str(&c.text), "policy256"));
	crowd_done(&c);
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
	w.pods[1] = pod_of("a", "{}", "{'podIP':'" WEB "','phase':'Running'}", "[]");
	w.plan = policy_plan_new(w.arena, &w.w);
	is_false(policy_allows(w.plan, &packet));
	object_unref(w.pods[1]);
	w.pods[1] = pod_of("a", "{}", "{'podIP':'" WEB "','phase':'Failed'}", "[]");
	w.plan = policy_plan_new(w.arena, &w.w);
	is_true(policy_allows(w.plan, &packet));
	world_done(&w);
}
