/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"
#include "kinds.h"

/* Stored roles over HTTP: who gets which rights, gives them away, and acts as another. */

#define RBAC         "/apis/rbac.authorization.k8s.io/v1"
#define ROLES        RBAC "/namespaces/default/roles"
#define BINDINGS     RBAC "/namespaces/default/rolebindings"
#define CLUSTER      RBAC "/clusterroles"
#define CLUSTER_BIND RBAC "/clusterrolebindings"
#define PODS         "/api/v1/namespaces/default/pods"
#define AUTHZ        "/apis/authorization.k8s.io/v1"

static void start(struct fixture *f)
{
	fixture_init(f);
	fixture_listen(f);
}

/* Single quotes stand for double ones. */
static struct answer tell(struct fixture *f, const char *method, const char *path, const char *text)
{
	autoptr(json_doc) d = parse(text);
	autofree char *body = json_to_text(json_root(d));

	return ask(f, method, path, body);
}

static void must(struct fixture *f, const char *path, const char *text)
{
	autoanswer a = tell(f, "POST", path, text);

	if (a.status != 201)
		print_message("%s\n", a.text);
	eq_int(a.status, 201);
}

#define BIND(name, kind, role, subject)                                                    \
	"{'metadata':{'name':'" name "'},'roleRef':{'kind':'" kind "','name':'" role "'}," \
	"'subjects':[{'kind':'User','name':'" subject "'}]}"
#define ROLE(name, rules) "{'metadata':{'name':'" name "'},'rules':[" rules "]}"
#define PODS_GET          "{'apiGroups':[''],'resources':['pods'],'verbs':['get']}"
#define ANYTHING          "{'apiGroups':['*'],'resources':['*'],'verbs':['*']}"
#define AS_ALICE          "Impersonate-User: alice\r\n"

TEST(the_roles_of_kubernetes_are_there_and_cover_the_agent_kinds)
{
	static const struct {
		const char *role, *method, *path;
		int status;
	} rows[] = {
		{ "view", "GET", PODS, 200 },
		{ "view", "GET", "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes",
		  200 },
		{ "view", "GET",
		  "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxclaims",
		  200 },
		{ "view", "GET", "/api/v1/namespaces/default/secrets", 403 },
		{ "view", "DELETE", PODS "/p", 403 },
		{ "view", "GET", ROLES, 403 },
		{ "view", "POST", PODS "/p/exec", 403 },
		{ "edit", "GET", "/api/v1/namespaces/default/secrets", 200 },
		{ "edit", "DELETE", PODS "/p", 404 },
		{ "edit", "DELETE", "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes/s",
		  404 },
		{ "edit", "POST", PODS "/p/exec", 404 },
		{ "edit", "GET", ROLES, 403 },
		{ "edit", "PATCH", PODS "/p/status", 403 },
		{ "admin", "GET", ROLES, 200 },
		{ "admin", "GET", "/api/v1/nodes", 403 },
		{ "admin", "GET", "/api/v1/namespaces/kube-system/pods", 403 },
		{ "admin", "DELETE", "/api/v1/namespaces/default", 403 },
		{ "cluster-admin", "GET", PODS, 200 },
		{ "cluster-admin", "PATCH", PODS "/p/status", 415 },
	};
	struct fixture f;

	start(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *body =
			xasprintf(BIND("b", "ClusterRole", "%s", "alice"), rows[i].role);

		f.headers = "";
		must(&f, BINDINGS, body);
		f.headers = AS_ALICE;
		autoanswer a = ask(&f, rows[i].method, rows[i].path,
				   str_eq(rows[i].method, "GET") ? NULL : "{}");
		if (a.status != rows[i].status)
			print_message("%s: %s %s\n", rows[i].role, rows[i].method, rows[i].path);
		eq_int(a.status, rows[i].status);
		f.headers = "";
		autoanswer gone = ask(&f, "DELETE", BINDINGS "/b", NULL);
		eq_int(gone.status, 200);
	}
	fixture_done(&f);
}

TEST(an_update_that_creates_takes_both_rights)
{
	static const char leases[] = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
	static const struct {
		const char *verbs;
		int status;
	} rows[] = {
		{ "'update'", 403 },
		{ "'create'", 403 },
		{ "'update','create'", 201 },
	};
	struct fixture f;

	start(&f);
	must(&f, BINDINGS, BIND("b", "Role", "r", "alice"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *role = xasprintf(
			ROLE("r", "{'apiGroups':['coordination.k8s.io'],'resources':['leases'],"
				  "'verbs':[%s]}"),
			rows[i].verbs);
		autofree char *one = xasprintf("%s/a", leases);

		f.headers = "";
		must(&f, ROLES, role);
		f.headers = AS_ALICE;
		autoanswer a = tell(&f, "PUT", one, "{'metadata':{'name':'a'}}");
		eq_int(a.status, rows[i].status);
		f.headers = "";
		autoanswer gone = ask(&f, "DELETE", ROLES "/r", NULL);
		eq_int(gone.status, 200);
	}
	fixture_done(&f);
}

TEST(a_refusal_is_worded_as_in_kubernetes)
{
	static const struct {
		const char *path, *message;
	} rows[] = {
		{ PODS,
		  "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" "
		  "in the namespace \"default\"" },
		{ PODS "/p/log",
		  "pods \"p\" is forbidden: User \"alice\" cannot get resource \"pods/log\" in API group "
		  "\"\" in the namespace \"default\"" },
		{ "/apis/storage.k8s.io/v1/storageclasses/x",
		  "storageclasses.storage.k8s.io \"x\" is forbidden: User \"alice\" cannot get resource "
		  "\"storageclasses\" in API group \"storage.k8s.io\" at the cluster scope" },
		{ "/metrics", "forbidden: User \"alice\" cannot get path \"/metrics\"" },
	};
	struct fixture f;

	start(&f);
	f.headers = AS_ALICE;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoanswer a = ask(&f, "GET", rows[i].path, NULL);
		eq_int(a.status, 403);
		eq_str(at(&a, "message"), rows[i].message);
	}
	fixture_done(&f);
}

/* Over WebSocket a stream into a Pod is opened with GET. */
TEST(reading_is_not_a_way_into_a_pod)
{
	static const char *const subs[] = { "exec", "attach", "portforward" };
	struct fixture f;

	start(&f);
	must(&f, ROLES,
	     ROLE("r", "{'apiGroups':[''],'resources':['pods/*','pods/exec','pods/attach',"
		       "'pods/portforward'],'verbs':['get']}"));
	must(&f, BINDINGS, BIND("b", "Role", "r", "alice"));
	f.headers = AS_ALICE;
	for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
		autofree char *path = xasprintf(PODS "/p/%s", subs[i]);
		autoanswer a = ask(&f, "GET", path, NULL);
		eq_int(a.status, 403);
		is_true(strstr(at(&a, "message"), "cannot create resource") != NULL);
	}
	fixture_done(&f);
}

/* alice is admin of default, and may write ClusterRoles and bind them, as far as the verbs go. */
static void let_alice_write_roles(struct fixture *f)
{
	must(f, BINDINGS, BIND("alice", "ClusterRole", "admin", "alice"));
	must(f, CLUSTER,
	     ROLE("writer",
		  "{'apiGroups':['rbac.authorization.k8s.io'],'resources':['clusterroles',"
		  "'clusterrolebindings'],'verbs':['get','create','update','patch','delete']},"
		  "{'apiGroups':[''],'resources':['configmaps'],'verbs':['get']}"));
	must(f, CLUSTER_BIND, BIND("writer", "ClusterRole", "writer", "alice"));
	must(f, ROLES, ROLE("small", PODS_GET));
	must(f, ROLES, ROLE("big", ANYTHING));
	must(f, BINDINGS, BIND("small", "Role", "small", "bob"));
	must(f, BINDINGS, BIND("big", "Role", "big", "carol"));
	must(f, CLUSTER, ROLE("labelled", PODS_GET));
}

TEST(nobody_gives_away_what_they_do_not_hold)
{
	static const char merge[] = "application/merge-patch+json";
	static const char json_patch[] = "application/json-patch+json";
	static const struct {
		const char *method, *path, *body, *type;
		int status;
	} rows[] = {
		{ "POST", ROLES, ROLE("a", PODS_GET), NULL, 201 },
		{ "POST", ROLES, ROLE("b", ANYTHING), NULL, 403 },
		{ "POST", ROLES "?dryRun=All", ROLE("b", ANYTHING), NULL, 403 },
		{ "POST", ROLES, ROLE("b", "{'apiGroups':[''],'resources':['*'],'verbs':['get']}"),
		  NULL, 403 },
		{ "POST", ROLES, ROLE("b", "{'apiGroups':[''],'resources':['pods'],'verbs':['*']}"),
		  NULL, 403 },
		{ "POST", ROLES,
		  ROLE("b", "{'apiGroups':[''],'resources':['nodes'],'resourceNames':['n'],"
			    "'verbs':['get']}"),
		  NULL, 403 },
		{ "PUT", ROLES "/small", ROLE("small", ANYTHING), NULL, 403 },
		{ "PATCH", ROLES "/small", "{'rules':[" ANYTHING "]}", merge, 403 },
		{ "PATCH", ROLES "/small", "{'rules':[" ANYTHING "]}",
		  "application/strategic-merge-patch+json", 403 },
		{ "PATCH", ROLES "/small", "[{'op':'add','path':'/rules/-','value':" ANYTHING "}]",
		  json_patch, 403 },
		{ "PATCH", ROLES "/small", "{'metadata':{'labels':{'a':'b'}}}", merge, 200 },
		/* An object that holds more than one's own may be let go, and not be touched. */
		{ "PATCH", ROLES "/big", "{'metadata':{'finalizers':['a/b']}}", merge, 200 },
		{ "PATCH", ROLES "/big", "{'metadata':{'finalizers':null}}", merge, 200 },
		{ "PATCH", ROLES "/big", "{'metadata':{'labels':{'a':'b'}}}", merge, 403 },
		{ "POST", BINDINGS, BIND("x", "Role", "small", "bob"), NULL, 201 },
		{ "POST", BINDINGS, BIND("y", "Role", "big", "bob"), NULL, 403 },
		{ "POST", BINDINGS, BIND("y", "ClusterRole", "cluster-admin", "alice"), NULL, 403 },
		{ "POST", BINDINGS, BIND("y", "ClusterRole", "none", "alice"), NULL, 404 },
		{ "PATCH", BINDINGS "/big", "{'subjects':[{'kind':'User','name':'alice'}]}", merge,
		  403 },
		{ "PATCH", BINDINGS "/big",
		  "[{'op':'add','path':'/subjects/-','value':{'kind':'User','name':'alice'}}]",
		  json_patch, 403 },
		{ "PATCH", BINDINGS "/small", "{'roleRef':{'name':'big'}}", merge, 422 },
		{ "PATCH", BINDINGS "/small", "{'roleRef':{'kind':'ClusterRole','name':'admin'}}",
		  merge, 422 },
		/* The cluster: alice holds pods in default alone. */
		{ "POST", CLUSTER, ROLE("c", PODS_GET), NULL, 403 },
		{ "POST", CLUSTER,
		  ROLE("c", "{'apiGroups':[''],'resources':['configmaps'],'verbs':['get']}"), NULL,
		  201 },
		{ "POST", CLUSTER, ROLE("d", "{'nonResourceURLs':['/metrics'],'verbs':['get']}"),
		  NULL, 403 },
		{ "POST", CLUSTER_BIND, BIND("z", "ClusterRole", "cluster-admin", "alice"), NULL,
		  403 },
		{ "POST", CLUSTER_BIND, BIND("z", "ClusterRole", "view", "alice"), NULL, 403 },
		{ "POST", CLUSTER_BIND, BIND("z", "ClusterRole", "c", "bob"), NULL, 201 },
		/* Aggregation gathers what is not known yet. */
		{ "POST", CLUSTER,
		  "{'metadata':{'name':'all'},'rules':[],'aggregationRule':{'clusterRoleSelectors':"
		  "[{'matchLabels':{'kubernetes.io/bootstrapping':'rbac-defaults'}}]}}",
		  NULL, 403 },
		{ "PATCH", CLUSTER "/c",
		  "{'aggregationRule':{'clusterRoleSelectors':[{'matchLabels':{}}]}}", merge, 403 },
		/* A label makes others have these rights, which alice does not hold everywhere. */
		{ "PATCH", CLUSTER "/labelled",
		  "{'metadata':{'labels':{'rbac.authorization.k8s.io/aggregate-to-view':'true'}}}",
		  merge, 403 },
		{ "PATCH", CLUSTER "/admin", "{'aggregationRule':null}", merge, 403 },
		{ "PATCH", CLUSTER "/view/status", "{'rules':[" ANYTHING "]}", merge, 403 },
	};
	struct fixture f;

	start(&f);
	let_alice_write_roles(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *headers =
			xasprintf(AS_ALICE "%s%s%s", rows[i].type ? "Content-Type: " : "",
				  rows[i].type ? rows[i].type : "", rows[i].type ? "\r\n" : "");

		f.headers = headers;
		autoanswer a = tell(&f, rows[i].method, rows[i].path, rows[i].body);
		f.headers = "";
		if (a.status != rows[i].status)
			print_message("%zu: %s %s %s: %s\n", i, rows[i].method, rows[i].path,
				      rows[i].body, a.text);
		eq_int(a.status, rows[i].status);
	}
	fixture_done(&f);
}

TEST(escalate_and_bind_are_rights_of_their_own)
{
	struct fixture f;

	start(&f);
	let_alice_write_roles(&f);
	must(&f, ROLES,
	     ROLE("may", "{'apiGroups':['rbac.authorization.k8s.io'],'resources':['roles'],'verbs':"
			 "['escalate']},{'apiGroups':['rbac.authorization.k8s.io'],'resources':"
			 "['clusterroles'],'resourceNames':['cluster-admin'],'verbs':['bind']}"));
	must(&f, BINDINGS, BIND("may", "Role", "may", "alice"));
	f.headers = AS_ALICE;
	must(&f, ROLES, ROLE("all", ANYTHING));
	must(&f, BINDINGS, BIND("ca", "ClusterRole", "cluster-admin", "bob"));
	autoanswer a = tell(&f, "POST", BINDINGS, BIND("no", "Role", "big", "bob"));
	eq_int(a.status, 403);
	autoanswer b =
		tell(&f, "POST", CLUSTER_BIND, BIND("no", "ClusterRole", "cluster-admin", "bob"));
	eq_int(b.status, 403); /* bind was given in one namespace */
	fixture_done(&f);
}

TEST(an_aggregated_role_follows_the_labels)
{
	struct fixture f;

	start(&f);
	must(&f, BINDINGS, BIND("b", "ClusterRole", "view", "alice"));
	f.headers = AS_ALICE;
	autoanswer a = ask(&f, "GET", "/api/v1/namespaces/default/things", NULL);
	eq_int(a.status, 403);
	f.headers = "";
	must(&f, CLUSTER,
	     "{'metadata':{'name':'things','labels':{'rbac.authorization.k8s.io/aggregate-to-view':"
	     "'true'}},'rules':[{'apiGroups':[''],'resources':['things'],'verbs':['list']}]}");
	f.headers = AS_ALICE;
	autoanswer b = ask(&f, "GET", "/api/v1/namespaces/default/things", NULL);
	eq_int(b.status, 404); /* it may, and there are none */
	f.headers = "";
	autoanswer admin = ask(&f, "GET", CLUSTER "/admin", NULL);
	is_true(strstr(admin.text, "\"things\"") != NULL); /* through edit and view */
	autoanswer gone = ask(&f, "DELETE", CLUSTER "/things", NULL);
	eq_int(gone.status, 200);
	f.headers = AS_ALICE;
	autoanswer c = ask(&f, "GET", "/api/v1/namespaces/default/things", NULL);
	eq_int(c.status, 403);
	fixture_done(&f);
}

TEST(a_start_completes_what_it_made_and_keeps_what_was_added)
{
	static const char *const notes[] = { "true", "false" };
	struct fixture f;

	for (size_t i = 0; i < ARRAY_LEN(notes); i++) {
		const struct client_ref role = { .kind = kind_named("ClusterRole"),
						 .ns = "",
						 .name = "system:basic-user" };
		const struct client_ref binding = { .kind = kind_named("ClusterRoleBinding"),
						    .ns = "",
						    .name = "system:basic-user" };
		autofree char *text = xasprintf(
			"{'metadata':{'annotations':{'rbac.authorization.kubernetes.io/autoupdate':'%s'}},"
			"'rules':[{'apiGroups':['mine'],'resources':['r'],'verbs':['get']}]}",
			notes[i]);

		fixture_init(&f);
		works(merge(&f, &role, text));
		works(merge(&f, &binding, "{'subjects':[]}"));
		works(drop(&f, kind_named("ClusterRole"), "", "system:discovery", NULL));
		fixture_close(&f);
		works(fixture_open(&f));
		autoptr(object) r = look(&f, role.kind, "", role.name);
		autoptr(object) b = look(&f, binding.kind, "", binding.name);
		autoptr(object) d = look(&f, role.kind, "", "system:discovery");
		eq_int(json_len(json_get(r->root, "rules")), i ? 1 : 3);
		eq_str(json_str(json_at_path(r->root, "rules.0.apiGroups.0")), "mine");
		eq_int(json_len(json_get(b->root, "subjects")), 1);
		is_true(d != NULL);
		fixture_done(&f);
	}
}

TEST(impersonation_takes_a_right_for_each_thing)
{
	static const struct {
		const char *headers;
		int status;         /* for alice, who may impersonate a few */
		const char *denied; /* the resource that is lacking */
	} rows[] = {
		{ "Impersonate-User: bob\r\n", 200, NULL },
		{ "impersonate-user: carol\r\n", 403, "users" },
		{ "Impersonate-User: bob\r\nImpersonate-Group: devs\r\n", 200, NULL },
		{ "Impersonate-User: bob\r\nImpersonate-Group: system:masters\r\n", 403, "groups" },
		{ "Impersonate-User: bob\r\nImpersonate-Group: devs\r\nImpersonate-Group: "
		  "system:masters\r\n",
		  403, "groups" },
		{ "Impersonate-User: system:admin\r\n", 403, "users" },
		{ "Impersonate-User: system:serviceaccount:default:default\r\n", 200, NULL },
		{ "Impersonate-User: system:serviceaccount:kube-system:default\r\n", 403,
		  "serviceaccounts" },
		{ "Impersonate-User: system:serviceaccount:default\r\n", 403, "users" },
		{ "Impersonate-User: bob\r\nImpersonate-Uid: 1\r\n", 403, "uids" },
		{ "Impersonate-User: bob\r\nImpersonate-Extra-Scopes: all\r\n", 200, NULL },
		{ "Impersonate-User: bob\r\nImpersonate-Extra-Scopes: none\r\n", 403,
		  "userextras/scopes" },
		{ "Impersonate-User: bob\r\nImpersonate-Extra-Other: all\r\n", 403,
		  "userextras/other" },
		{ "Impersonate-Group: devs\r\n", 400, NULL },
		{ "Impersonate-User: \r\nImpersonate-Group: devs\r\n", 403, NULL },
		{ "Impersonate-Power: all\r\n", 403, NULL },
	};
	struct fixture f;

	start(&f);
	must(&f, CLUSTER,
	     ROLE("as", "{'apiGroups':[''],'resources':['users'],'resourceNames':['bob'],'verbs':"
			"['impersonate']},{'apiGroups':[''],'resources':['groups'],'resourceNames':"
			"['devs'],'verbs':['impersonate']},{'apiGroups':['authentication.k8s.io'],"
			"'resources':['userextras/scopes'],'resourceNames':['all'],'verbs':"
			"['impersonate']}"));
	must(&f, CLUSTER_BIND,
	     "{'metadata':{'name':'as'},'roleRef':{'kind':'ClusterRole','name':'as'},'subjects':"
	     "[{'kind':'ServiceAccount','name':'default','namespace':'default'}]}");
	must(&f, BINDINGS,
	     "{'metadata':{'name':'as'},'roleRef':{'kind':'ClusterRole','name':'edit'},'subjects':"
	     "[{'kind':'ServiceAccount','name':'default'}]}");
	autoanswer t =
		ask(&f, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "{}");
	f.token = xstrdup(at(&t, "status.token"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		f.headers = rows[i].headers;
		autoanswer a = ask(&f, "GET", "/api", NULL);
		autofree char *what =
			rows[i].denied
				? xasprintf("cannot impersonate resource \"%s\"", rows[i].denied)
				: NULL;

		if (a.status != rows[i].status)
			print_message("%s%s\n", rows[i].headers, a.text);
		eq_int(a.status, rows[i].status);
		is_true(!what || strstr(at(&a, "message"), what));
	}
	fixture_done(&f);
}

TEST(whoever_acts_as_another_has_the_rights_of_the_other)
{
	struct fixture f;

	start(&f);
	f.headers = "Impersonate-User: bob\r\nImpersonate-Group: devs\r\nImpersonate-Uid: 7\r\n"
		    "Impersonate-Extra-a%2Fb: c\r\n";
	autoanswer self =
		tell(&f, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}");
	eq_int(self.status, 201);
	eq_str(at(&self, "status.userInfo.username"), "bob");
	eq_str(at(&self, "status.userInfo.uid"), "7");
	eq_str(at(&self, "status.userInfo.groups.0"), "devs");
	eq_str(at(&self, "status.userInfo.groups.1"), "system:authenticated");
	is_true(strstr(self.text, "\"a/b\"") != NULL);
	autoanswer a = ask(&f, "GET", PODS, NULL);
	eq_int(a.status, 403);
	f.headers = "Impersonate-User: system:anonymous\r\n";
	autoanswer b = ask(&f, "GET", "/api", NULL);
	eq_int(b.status, 403); /* unauthenticated users see no discovery */
	f.headers = "Impersonate-User: bob\r\nImpersonate-Group: system:masters\r\n";
	autoanswer c = ask(&f, "GET", PODS, NULL);
	eq_int(c.status, 200); /* the administrator may be anybody */
	fixture_done(&f);
}

TEST(reviews_tell_the_truth)
{
	static const struct {
		const char *spec;
		bool allowed;
	} rows[] = {
		{ "{'namespace':'default','verb':'get','resource':'pods','name':'p'}", true },
		{ "{'namespace':'default','verb':'list','resource':'pods'}", false },
		{ "{'namespace':'other','verb':'get','resource':'pods'}", false },
		{ "{'namespace':'default','verb':'get','resource':'pods','group':'x'}", false },
		{ "{'namespace':'default','verb':'get','resource':'pods','subresource':'log'}",
		  false },
		{ "{'verb':'get','resource':'pods'}", false },
		{ "{'verb':'dance','resource':'pods','namespace':'default'}", false },
	};
	struct fixture f;

	start(&f);
	must(&f, ROLES, ROLE("r", PODS_GET));
	must(&f, BINDINGS, BIND("b", "Role", "r", "alice"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *own = xasprintf("{'spec':{'resourceAttributes':%s}}", rows[i].spec);
		autofree char *of = xasprintf("{'spec':{'user':'alice','resourceAttributes':%s}}",
					      rows[i].spec);

		f.headers = AS_ALICE;
		autoanswer a = tell(&f, "POST", AUTHZ "/selfsubjectaccessreviews", own);
		f.headers = "";
		autoanswer b = tell(&f, "POST", AUTHZ "/subjectaccessreviews", of);
		eq_int(a.status, 201);
		eq_int(b.status, 201);
		eq_int(json_bool(json_at_path(json_root(a.doc), "status.allowed"), false),
		       rows[i].allowed);
		eq_int(json_bool(json_at_path(json_root(b.doc), "status.allowed"), false),
		       rows[i].allowed);
		eq_str(at(&a, "status.reason"),
		       rows[i].allowed ? "RBAC: allowed by RoleBinding \"b/default\" of Role \"r\" "
					 "to User \"alice\""
				       : NULL);
	}
	f.headers = AS_ALICE;
	autoanswer rules = tell(&f, "POST", AUTHZ "/selfsubjectrulesreviews",
				"{'spec':{'namespace':'default'}}");
	eq_int(rules.status, 201);
	is_true(strstr(rules.text, "\"pods\"") != NULL);
	is_true(strstr(rules.text, "\"incomplete\":false") != NULL);
	autoanswer none = tell(&f, "POST", AUTHZ "/selfsubjectrulesreviews", "{}");
	eq_int(none.status, 400);
	autoanswer other =
		tell(&f, "POST", AUTHZ "/subjectaccessreviews", "{'spec':{'user':'bob'}}");
	eq_int(other.status, 403); /* about others one may not ask */
	fixture_done(&f);
}

TEST(reviews_that_ask_nothing_are_told_so)
{
	static const struct {
		const char *path, *spec, *field;
	} rows[] = {
		{ AUTHZ "/subjectaccessreviews", "{'user':'a'}", "spec.resourceAttributes" },
		{ AUTHZ "/subjectaccessreviews", "{'resourceAttributes':{'verb':'get'}}",
		  "spec.user" },
		{ AUTHZ "/selfsubjectaccessreviews",
		  "{'resourceAttributes':{},'nonResourceAttributes':{}}",
		  "spec.nonResourceAttributes" },
		{ AUTHZ "/namespaces/default/localsubjectaccessreviews",
		  "{'user':'a','resourceAttributes':{'namespace':'b'}}",
		  "spec.resourceAttributes.namespace" },
	};
	struct fixture f;

	start(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("{'spec':%s}", rows[i].spec);
		autoanswer a = tell(&f, "POST", rows[i].path, text);

		eq_int(a.status, 422);
		eq_str(at(&a, "details.causes.0.field"), rows[i].field);
	}
	autoanswer lost = tell(&f, "POST", AUTHZ "/localsubjectaccessreviews", "{}");
	eq_int(lost.status, 404);
	autoanswer local = tell(&f, "POST", AUTHZ "/namespaces/default/localsubjectaccessreviews",
				"{'spec':{'user':'a','groups':['system:masters'],"
				"'resourceAttributes':{'namespace':'default','verb':'get'}}}");
	eq_int(local.status, 201);
	fixture_done(&f);
}

TEST(a_watch_ends_with_the_right_to_open_it)
{
	struct stream_test *kept, *cut;
	struct fixture f;

	start(&f);
	must(&f, ROLES,
	     ROLE("r", "{'apiGroups':[''],'resources':['configmaps'],'verbs':['watch']}"));
	must(&f, BINDINGS, BIND("b", "Role", "r", "alice"));
	must(&f, BINDINGS, BIND("c", "Role", "r", "bob"));
	f.headers = AS_ALICE;
	cut = stream_open(&f, "GET", "/api/v1/namespaces/default/configmaps?watch=1", NULL);
	f.headers = "Impersonate-User: bob\r\n";
	kept = stream_open(&f, "GET", "/api/v1/namespaces/default/configmaps?watch=1", NULL);
	is_true(stream_until(cut, "200 OK"));
	is_true(stream_until(kept, "200 OK"));
	f.headers = "";
	autoanswer gone = ask(&f, "DELETE", BINDINGS "/b", NULL);
	eq_int(gone.status, 200);
	must(&f, "/api/v1/namespaces/default/configmaps", "{'metadata':{'name':'later'}}");
	is_true(stream_until(kept, "later"));
	is_true(stream_until(cut, "0\r\n\r\n")); /* the end of the answer */
	is_true(strstr(stream_text(cut), "later") == NULL);
	stream_test_free(cut);
	stream_test_free(kept);
	fixture_done(&f);
}
