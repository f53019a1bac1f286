/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay manifests`: what a Kubernetes cluster needs before `cay controller` can serve it: the
 * CRDs from the schema tables, a namespace, a service account, and the fewest rights with which the
 * controllers can work. And `cay router` as a Deployment.
 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/openapi.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/manifests_priv.h"
#include "json/yaml_tree.h"

static const char *const formats[] = { "yaml", "json", NULL };
static const char *const parts[] = { "all", "crds", "rbac", "router", NULL };

const struct setting manifests_settings[] = {
	{ "part", SETTING_CHOICE, "all", "PART",
	  "What to print: all (crds and rbac), crds, rbac, or router", .choices = parts },
	{ "namespace", SETTING_TEXT, SYSTEM_NAMESPACE, "NAME",
	  "Namespace of the controller's service account, and of the router" },
	{ "image", SETTING_TEXT, "cay:" CAY_VERSION, "NAME",
	  "Image of the router's Pods; its entry point is this program" },
	{ "output", SETTING_CHOICE, "yaml", "FORMAT", "Output format: yaml or json (short: -o)",
	  .choices = formats },
	{ 0 },
};

#define NAME "cay-controller"

/* What the controllers do, and nothing else. */
static const struct {
	const char *group, *resources, *verbs; /* separated by spaces */
} rules[] = {
	{ GROUP_AGENTS, "sandboxes", "get list watch create update patch delete" },
	{ GROUP_AGENTS, "sandboxes/status", "get update patch" },
	{ GROUP_AGENTS, "sandboxes/finalizers", "update" },
	{ GROUP_EXTENSIONS, "sandboxtemplates sandboxclaims sandboxwarmpools",
	  "get list watch update patch delete" },
	{ GROUP_EXTENSIONS, "sandboxclaims/status sandboxwarmpools/status", "get update patch" },
	{ GROUP_EXTENSIONS,
	  "sandboxtemplates/finalizers sandboxclaims/finalizers sandboxwarmpools/finalizers",
	  "update" },
	{ GROUP_EXTENSIONS, "sandboxclaims", "create" }, /* for sessions */
	{ GROUP_CAY, "agents teampolicies budgets", "get list watch" },
	{ GROUP_CAY, "sessions", "get list watch update patch" },
	{ GROUP_CAY, "attachments", "get list watch create update patch delete" },
	{ GROUP_CAY, "approvals", "get list watch delete" },
	{ GROUP_CAY, "agents/status sessions/status attachments/status approvals/status",
	  "get update patch" },
	{ GROUP_CAY, "sessions/finalizers", "update" },
	{ "", "pods services persistentvolumeclaims", "get list watch create update patch delete" },
	{ "networking.k8s.io", "networkpolicies", "get list watch create update patch delete" },
	{ "events.k8s.io", "events", "create patch" },
	{ "coordination.k8s.io", "leases", "get list watch create update patch" },
};

static void push_words(struct json_doc *d, struct json *arr, const char *words)
{
	struct span rest = SPAN(words), word;

	do {
		word = span_cut(rest, ' ', &rest);
		json_push(d, arr, json_new_strn(d, word.p, word.len));
	} while (rest.p);
}

static struct json *object(struct json_doc *d, struct json *list, const char *api_version,
			   const char *kind)
{
	struct json *o = json_obj(d);

	json_set_str(d, o, "apiVersion", api_version);
	json_set_str(d, o, "kind", kind);
	json_push(d, list, o);
	return o;
}

static void add_role(struct json_doc *d, struct json *list)
{
	struct json *role = object(d, list, "rbac.authorization.k8s.io/v1", "ClusterRole");

	json_set_str(d, json_need_obj(d, role, "metadata"), "name", NAME);
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct json *rule = json_obj(d);

		json_push_str(d, json_need_arr(d, rule, "apiGroups"), rules[i].group);
		push_words(d, json_need_arr(d, rule, "resources"), rules[i].resources);
		push_words(d, json_need_arr(d, rule, "verbs"), rules[i].verbs);
		json_push(d, json_need_arr(d, role, "rules"), rule);
	}
}

static void add_rbac(struct json_doc *d, struct json *list, const char *ns)
{
	struct json *o = object(d, list, "v1", "Namespace");
	struct json *ref, *subject;

	json_set_str(d, json_need_obj(d, o, "metadata"), "name", ns);
	o = object(d, list, "v1", "ServiceAccount");
	json_set_str(d, json_need_obj(d, o, "metadata"), "name", NAME);
	json_set_str(d, json_need_obj(d, o, "metadata"), "namespace", ns);
	add_role(d, list);
	o = object(d, list, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
	json_set_str(d, json_need_obj(d, o, "metadata"), "name", NAME);
	ref = json_need_obj(d, o, "roleRef");
	json_set_str(d, ref, "apiGroup", "rbac.authorization.k8s.io");
	json_set_str(d, ref, "kind", "ClusterRole");
	json_set_str(d, ref, "name", NAME);
	subject = json_obj(d);
	json_set_str(d, subject, "kind", "ServiceAccount");
	json_set_str(d, subject, "name", NAME);
	json_set_str(d, subject, "namespace", ns);
	json_push(d, json_need_arr(d, o, "subjects"), subject);
}

static void add_crds(struct json_doc *d, struct json *list)
{
	autoptr(kinds) ks = kinds_new();
	size_t n;
	const struct kind *const *kinds = kinds_all(ks, &n);

	for (size_t i = 0; i < n; i++) {
		if (!(kinds[i]->flags & KIND_CRD) || kinds[i]->storage)
			continue;
		autoptr(json_doc) crd = openapi_crd(kinds[i]);

		json_push(d, list, json_copy(d, json_root(crd)));
	}
}

int manifests_run(const struct command *c unused, const struct settings *s)
{
	const char *part = settings_text(s, "part");
	autoptr(json_doc) d = json_doc_new();
	struct json *list = json_arr(d);
	const struct router_place router = { settings_text(s, "namespace"),
					     settings_text(s, "image") };
	bool all = str_eq(part, "all");
	autobuf out = { 0 };
	struct err *e = NULL;

	if (all || str_eq(part, "crds"))
		add_crds(d, list);
	if (all || str_eq(part, "rbac"))
		add_rbac(d, list, router.ns);
	if (str_eq(part, "router"))
		e = manifests_add_router(d, list, &router);
	if (e)
		return cli_fail(e);
	if (str_eq(settings_text(s, "output"), "json")) {
		struct json *root = json_obj(d);

		json_set_str(d, root, "apiVersion", "v1");
		json_set_str(d, root, "kind", "List");
		json_set(d, root, "items", list);
		cli_print(root, "json");
		return EXIT_OK;
	}
	json_each(it, list) {
		buf_add_str(&out, "---\n");
		yaml_write(it.val, &out);
	}
	cli_write(&out);
	return EXIT_OK;
}
