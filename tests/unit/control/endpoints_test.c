/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "kinds.h"
#include "world.h"

/* EndpointSlices, on a real server. */

#define POD(name, more)                                                                           \
	"{'metadata':{'name':'" name "','labels':{'app':'web','tier':'a'}},"                      \
	"'spec':{'nodeName':'node'," more "'containers':[{'name':'c','image':'i','ports':["       \
	"{'name':'http','containerPort':8080},{'name':'dns','containerPort':53,'protocol':'UDP'}" \
	"]}]}}"
#define SERVICE(name, more)                                                 \
	"{'metadata':{'name':'" name                                        \
	"','labels':{'mine':'yes'}},'spec':{'selector':{'app':'web'}," more \
	"'ports':[{'name':'a','port':80,'targetPort':'http'}]}}"

static const struct kind *slice_kind(void)
{
	return kind_named("EndpointSlice");
}

static void settle(struct world *w)
{
	for (int i = 0; i < 3; i++) {
		step(w, 20);
		turn(w);
	}
}

static void pod_has(struct world *w, const char *name, const char *ip, const char *ready)
{
	autofree char *text = xasprintf(
		"{'status':{'phase':'Running','podIP':'%s','podIPs':[{'ip':'%s'}],'conditions':["
		"{'type':'Ready','status':'%s'}]}}",
		ip, ip, ready);

	patch(w, kind_named("Pod"), name, "status", text);
}

struct summary {
	struct buf text;
};

/* "web-1234abcd IPv4 8080: 10.0.0.1=rs 10.0.0.2=st; " with the conditions that are true. */
static bool add(void *arg, struct object *o)
{
	struct summary *s = arg;

	buf_printf(&s->text, "%s", json_get_str(o->root, "addressType"));
	json_each(p, json_get(o->root, "ports"))
		buf_printf(&s->text, " %s/%lld", json_get_str(p.val, "protocol"),
			   (long long)json_get_int(p.val, "port", 0));
	buf_printf(&s->text, ":");
	json_each(e, json_get(o->root, "endpoints")) {
		const struct json *c = json_get(e.val, "conditions");

		buf_printf(&s->text, " %s=%s%s%s", json_str(json_at_path(e.val, "addresses.0")),
			   json_get_bool(c, "ready", false) ? "r" : "",
			   json_get_bool(c, "serving", false) ? "s" : "",
			   json_get_bool(c, "terminating", false) ? "t" : "");
	}
	buf_printf(&s->text, "; ");
	return true;
}

static void eq_slices(struct world *w, const char *want)
{
	struct summary s = { 0 };

	settle(w);
	client_each(w->client, slice_kind(), NS, add, &s);
	eq_str(buf_str(&s.text), want);
	buf_done(&s.text);
}

struct first {
	struct object *o;
};

static bool take_first(void *arg, struct object *o)
{
	((struct first *)arg)->o = object_ref(o);
	return false;
}

static struct object *only_slice(struct world *w)
{
	struct first f = { 0 };

	eq_int(count(w, slice_kind()), 1);
	client_each(w->client, slice_kind(), NS, take_first, &f);
	return f.o;
}

TEST(slices_follow_the_readiness_of_pods)
{
	const struct client_delete_spec slowly = { .grace_s = 30 };
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"), SERVICE("web", ""));
	eq_slices(&w, "IPv4:; ");
	create(&w, kind_named("Pod"), POD("p", ""));
	eq_slices(&w, "IPv4:; ");
	pod_has(&w, "p", "10.0.0.1", "False");
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=; ");
	pod_has(&w, "p", "10.0.0.1", "True");
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=rs; ");
	create(&w, kind_named("Pod"), POD("q", ""));
	pod_has(&w, "q", "10.0.0.2", "True");
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=rs 10.0.0.2=rs; ");
	client_delete(w.client, &(struct client_ref){ kind_named("Pod"), NS, "q" }, &slowly, NULL);
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=rs 10.0.0.2=st; ");
	delete_now(&w, kind_named("Pod"), "q");
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=rs; ");
	patch(&w, kind_named("Pod"), "p", NULL, "{'metadata':{'labels':{'app':'other'}}}");
	eq_slices(&w, "IPv4:; ");
	delete_now(&w, kind_named("Service"), "web");
	eq_slices(&w, "");
	world_done(&w);
}

TEST(a_slice_says_whose_it_is_and_what_its_pods_are)
{
	autoptr(object) slice = NULL;
	autofree char *pod = NULL, *meta = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"), SERVICE("web", "'clusterIP':'None',"));
	create(&w, kind_named("Pod"), POD("p", "'hostname':'h','subdomain':'web',"));
	pod_has(&w, "p", "10.0.0.1", "True");
	settle(&w);
	slice = only_slice(&w);
	is_true(str_starts(slice->name, "web-"));
	eq_json(json_at_path(slice->root, "metadata.labels"),
		"{'mine':'yes','kubernetes.io/service-name':'web',"
		"'endpointslice.kubernetes.io/managed-by':'endpointslice-controller.k8s.io',"
		"'service.kubernetes.io/headless':''}");
	eq_str(json_str(json_at_path(slice->root, "metadata.ownerReferences.0.kind")), "Service");
	eq_json(json_get(slice->root, "ports"), "[{'name':'a','protocol':'TCP','port':8080}]");
	eq_str(json_str(json_at_path(slice->root, "endpoints.0.hostname")), "h");
	eq_str(json_str(json_at_path(slice->root, "endpoints.0.nodeName")), "node");
	eq_str(json_str(json_at_path(slice->root, "endpoints.0.targetRef.name")), "p");
	world_done(&w);
}

TEST(all_addresses_are_ready_if_the_service_says_so)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"), SERVICE("web", "'publishNotReadyAddresses':true,"));
	create(&w, kind_named("Pod"), POD("p", ""));
	pod_has(&w, "p", "10.0.0.1", "False");
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=r; ");
	world_done(&w);
}

TEST(pods_with_other_ports_or_families_are_in_slices_of_their_own)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Pod"), POD("p", ""));
	create(&w, kind_named("Pod"),
	       "{'metadata':{'name':'q','labels':{'app':'web'}},'spec':{'containers':[{'name':'c',"
	       "'image':'i','ports':[{'name':'http','containerPort':9090}]}]}}");
	pod_has(&w, "p", "10.0.0.1", "True");
	pod_has(&w, "q", "10.0.0.2", "True");
	create(&w, kind_named("Service"), SERVICE("web", ""));
	settle(&w);
	eq_int(count(&w, slice_kind()), 2);
	delete_now(&w, kind_named("Pod"), "q");
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=rs; ");
	patch(&w, kind_named("Pod"), "p", "status",
	      "{'status':{'podIPs':[{'ip':'10.0.0.1'},{'ip':'fd00::1'}]}}");
	patch(&w, kind_named("Service"), "web", NULL,
	      "{'spec':{'ipFamilyPolicy':'PreferDualStack'}}");
	settle(&w);
	eq_int(count(&w, slice_kind()), 2);
	world_done(&w);
}

TEST(a_slice_holds_a_hundred_endpoints)
{
	autoptr(object) one = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"), SERVICE("web", ""));
	for (int i = 0; i < 101; i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'name':'p%03d','labels':{'app':'web'}},'spec':{'containers':["
			"{'name':'c','image':'i','ports':[{'name':'http','containerPort':8080}]}]}}",
			i);
		autofree char *name = xasprintf("p%03d", i), *ip = xasprintf("10.0.1.%d", i);

		create(&w, kind_named("Pod"), text);
		pod_has(&w, name, ip, "True");
	}
	settle(&w);
	eq_int(count(&w, slice_kind()), 2);
	delete_now(&w, kind_named("Pod"), "p050");
	settle(&w);
	one = only_slice(&w);
	eq_int(json_len(json_get(one->root, "endpoints")), 100);
	world_done(&w);
}

TEST(what_others_do_to_a_slice_is_put_right)
{
	autoptr(object) slice = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"), SERVICE("web", ""));
	create(&w, kind_named("Pod"), POD("p", ""));
	pod_has(&w, "p", "10.0.0.1", "True");
	settle(&w);
	slice = only_slice(&w);
	patch(&w, slice_kind(), slice->name, NULL, "{'endpoints':[{'addresses':['192.0.2.1']}]}");
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=rs; ");
	delete_now(&w, slice_kind(), slice->name);
	eq_slices(&w, "IPv4 TCP/8080: 10.0.0.1=rs; ");
	/* One of somebody's own is left alone. */
	create(&w, slice_kind(),
	       "{'metadata':{'name':'mine','labels':{'kubernetes.io/service-name':'web'}},"
	       "'addressType':'IPv4','endpoints':[]}");
	eq_slices(&w, "IPv4:; IPv4 TCP/8080: 10.0.0.1=rs; ");
	world_done(&w);
}

TEST(services_without_a_selector_have_no_slices_made)
{
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"),
	       "{'metadata':{'name':'a'},'spec':{'ports':[{'port':80}]}}");
	create(&w, kind_named("Service"),
	       "{'metadata':{'name':'b'},'spec':{'type':'ExternalName','externalName':'x.y',"
	       "'selector':{'app':'web'}}}");
	eq_slices(&w, "");
	world_done(&w);
}

#define BOX                                                                                       \
	"{'metadata':{'name':'box'},'spec':{'service':true,'podTemplate':{'spec':{'containers':[" \
	"{'name':'c','image':'i','ports':[{'containerPort':80}]}]}}}}"

TEST(a_pass_that_finds_all_well_writes_nothing)
{
	struct world w;
	uint64_t rev;

	world_open(&w, NULL);
	create(&w, kind_named("Service"), SERVICE("web", ""));
	create(&w, kind_named("Pod"), POD("p", ""));
	pod_has(&w, "p", "10.0.0.1", "True");
	settle(&w);
	rev = world_rev(&w);
	world_stop(&w);
	world_start(&w, NULL);
	settle(&w);
	eq_int(world_rev(&w), rev);
	world_done(&w);
}

TEST(the_service_of_a_sandbox_has_slices_only_if_asked_for)
{
	const struct control_options asked = { .cluster_services = true, .sandbox_slices = true };
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Sandbox"), BOX);
	settle(&w);
	pod_runs(&w, "box");
	eq_slices(&w, "");
	eq_int(count(&w, kind_named("Service")), 1);
	world_stop(&w);
	world_start(&w, &asked);
	eq_slices(&w, "IPv4 TCP/80: 10.0.0.1=rs; ");
	world_done(&w);
}

TEST(the_older_kind_follows_too_and_has_no_pods_that_end)
{
	const struct client_delete_spec slowly = { .grace_s = 30 };
	autoptr(object) o = NULL;
	struct world w;

	world_open(&w, NULL);
	create(&w, kind_named("Service"), SERVICE("web", ""));
	settle(&w);
	o = get(&w, kind_named("Endpoints"), "web");
	is_true(o && !json_get(o->root, "subsets"));
	eq_str(object_label(o, "endpoints.kubernetes.io/managed-by"), "endpoint-controller");
	eq_str(object_label(o, "mine"), "yes");
	create(&w, kind_named("Pod"), POD("p", ""));
	pod_has(&w, "p", "10.0.0.1", "True");
	create(&w, kind_named("Pod"), POD("q", ""));
	pod_has(&w, "q", "10.0.0.2", "False");
	settle(&w);
	object_unref(o);
	o = get(&w, kind_named("Endpoints"), "web");
	eq_json(json_at_path(o->root, "subsets.0.ports"),
		"[{'name':'a','protocol':'TCP','port':8080}]");
	eq_str(json_str(json_at_path(o->root, "subsets.0.addresses.0.ip")), "10.0.0.1");
	eq_str(json_str(json_at_path(o->root, "subsets.0.addresses.0.targetRef.name")), "p");
	eq_str(json_str(json_at_path(o->root, "subsets.0.notReadyAddresses.0.ip")), "10.0.0.2");
	client_delete(w.client, &(struct client_ref){ kind_named("Pod"), NS, "q" }, &slowly, NULL);
	delete_now(&w, kind_named("Pod"), "p");
	settle(&w);
	object_unref(o);
	o = get(&w, kind_named("Endpoints"), "web");
	is_true(!json_get(o->root, "subsets"));
	delete_now(&w, kind_named("Service"), "web");
	settle(&w);
	eq_int(count(&w, kind_named("Endpoints")), 0);
	world_done(&w);
}
