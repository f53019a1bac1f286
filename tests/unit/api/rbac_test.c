/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rbac.h"

#include "api/kind.h"
#include "api/meta.h"
#include "api/schema.h"
#include "api_test.h"
#include "kinds.h"

/* Roles and bindings: what is wrong with them, in Kubernetes' words. */

TEST(a_role_or_binding_that_is_wrong_is_told_by_field)
{
	static const struct {
		const char *kind, *body;
		const char *field, *message; /* NULL: fine */
	} rows[] = {
		{ "Role", "{'rules':[]}", NULL, NULL },
		{ "Role", "{'rules':[{'apiGroups':[''],'resources':['pods'],'verbs':['get']}]}",
		  NULL, NULL },
		{ "Role", "{'rules':[{'apiGroups':[''],'resources':['pods'],'verbs':[]}]}",
		  "rules[0].verbs", "Required value: verbs must contain at least one value" },
		{ "Role", "{'rules':[{'resources':['pods'],'verbs':['get']}]}",
		  "rules[0].apiGroups",
		  "Required value: resource rules must supply at least one api group" },
		{ "ClusterRole", "{'rules':[{'apiGroups':[''],'verbs':['get']}]}",
		  "rules[0].resources",
		  "Required value: resource rules must supply at least one resource" },
		{ "ClusterRole", "{'rules':[{'nonResourceURLs':['/a'],'verbs':['get']}]}", NULL,
		  NULL },
		{ "Role", "{'rules':[{'nonResourceURLs':['/a'],'verbs':['get']}]}",
		  "rules[0].nonResourceURLs",
		  "Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs" },
		{ "ClusterRole",
		  "{'rules':[{'apiGroups':[''],'nonResourceURLs':['/a'],'verbs':['get']}]}",
		  "rules[0].nonResourceURLs",
		  "Invalid value: [\"/a\"]: rules cannot apply to both regular resources and "
		  "non-resource URLs" },
		{ "ClusterRole", "{'aggregationRule':{}}", "aggregationRule.clusterRoleSelectors",
		  "Required value: at least one clusterRoleSelector required if aggregationRule is "
		  "non-nil" },
		{ "ClusterRole",
		  "{'aggregationRule':{'clusterRoleSelectors':[{'matchExpressions':[{'key':'a',"
		  "'operator':'Is'}]}]}}",
		  "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator",
		  "Invalid value: \"Is\": not a valid selector operator" },
		{ "RoleBinding", "{'roleRef':{'kind':'Thing','name':'r'}}", "roleRef.kind",
		  "Unsupported value: \"Thing\": supported values: \"Role\", \"ClusterRole\"" },
		{ "ClusterRoleBinding", "{'roleRef':{'kind':'Role','name':'r'}}", "roleRef.kind",
		  "Unsupported value: \"Role\": supported values: \"ClusterRole\"" },
		{ "RoleBinding", "{'roleRef':{'kind':'Role','name':''}}", "roleRef.name",
		  "Required value" },
		{ "RoleBinding", "{'roleRef':{'kind':'Role','name':'a/b'}}", "roleRef.name",
		  "Invalid value: \"a/b\": may not contain '/'" },
		{ "RoleBinding", "{'roleRef':{'apiGroup':'x','kind':'Role','name':'r'}}",
		  "roleRef.apiGroup",
		  "Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"" },
		{ "RoleBinding",
		  "{'roleRef':{'kind':'Role','name':'r'},'subjects':[{'kind':'User','name':'u'},"
		  "{'kind':'ServiceAccount','name':'s'}]}",
		  NULL, NULL },
		{ "ClusterRoleBinding",
		  "{'roleRef':{'kind':'ClusterRole','name':'r'},'subjects':[{'kind':"
		  "'ServiceAccount','name':'s'}]}",
		  "subjects[0].namespace", "Required value" },
		{ "RoleBinding",
		  "{'roleRef':{'kind':'Role','name':'r'},'subjects':[{'kind':'Robot','name':'u'}]}",
		  "subjects[0].kind",
		  "Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", "
		  "\"Group\"" },
		{ "RoleBinding",
		  "{'roleRef':{'kind':'Role','name':'r'},'subjects':[{'kind':'Group'}]}",
		  "subjects[0].name", "Required value" },
		{ "RoleBinding",
		  "{'roleRef':{'kind':'Role','name':'r'},'subjects':[{'kind':'ServiceAccount',"
		  "'name':'s','apiGroup':'rbac.authorization.k8s.io'}]}",
		  "subjects[0].apiGroup",
		  "Unsupported value: \"rbac.authorization.k8s.io\": supported values: \"\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct kind *k = kind_named(rows[i].kind);
		autoptr(json_doc) d = doc(rows[i].body);
		struct causes c = { 0 };

		if (k->defaults)
			k->defaults(d, NULL);
		k->validate(json_root(d), NULL, &c);
		eq_str(c.n ? c.list[0].field : NULL, rows[i].field);
		eq_str(c.n ? c.list[0].message : NULL, rows[i].message);
		causes_done(&c);
	}
}

TEST(the_role_of_a_binding_cannot_change)
{
	autoptr(json_doc) old = doc("{'roleRef':{'kind':'ClusterRole','name':'view'}}");
	autoptr(json_doc) new = doc("{'roleRef':{'kind':'ClusterRole','name':'admin'}}");
	const struct kind *k = kind_named("ClusterRoleBinding");
	struct causes c = { 0 };

	k->defaults(old, NULL);
	k->defaults(new, NULL);
	k->validate(json_root(old), json_root(old), &c);
	eq_int(c.n, 0);
	k->validate(json_root(new), json_root(old), &c);
	eq_int(c.n, 1);
	eq_str(c.list[0].field, "roleRef");
	eq_str(c.list[0].message,
	       "Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":"
	       "\"ClusterRole\",\"Name\":\"admin\"}: cannot change roleRef");
	causes_done(&c);
}

TEST(roles_have_names_that_other_objects_cannot_have)
{
	static const struct {
		const char *name;
		bool role, other;
	} rows[] = { { "reader", true, true },
		     { "system:basic-user", true, false },
		     { "Reader of everything", true, false },
		     { "a/b", false, false },
		     { "50%", false, false },
		     { "..", false, false } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		eq_int(!meta_bad_path_name(rows[i].name), rows[i].role);
		for (int role = 0; role < 2; role++) {
			autofree char *text = xasprintf("{'name':'%s'}", rows[i].name);
			autoptr(json_doc) d = doc(text);
			struct causes c = { 0 };

			meta_validate(json_root(d), role ? KIND_PATH_NAMES : 0, NULL, &c);
			eq_int(!c.n, role ? rows[i].role : rows[i].other);
			causes_done(&c);
		}
	}
}
