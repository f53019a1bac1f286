/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/* The columns of `kubectl get` for roles and bindings. */

/* Kubernetes has no columns of its own for roles, and shows when they were created. */
const struct column columns_role[] = {
	{ "Created At", "date", ".metadata.creationTimestamp", "When the object was created",
	  .plain = true },
	{ 0 },
};

static struct json *binding_role(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *ref = json_get(obj, "roleRef");

	return json_new_strf(d, "%s/%s", str_or(json_get_str(ref, "kind"), ""),
			     str_or(json_get_str(ref, "name"), ""));
}

static struct json *subjects(struct json_doc *d, const struct json *obj, const char *kind)
{
	bool account = str_eq(kind, "ServiceAccount");
	autobuf out = { 0 };

	json_each(it, json_get(obj, "subjects")) {
		if (!str_eq(json_get_str(it.val, "kind"), kind))
			continue;
		buf_add_str(&out, out.len ? ", " : "");
		if (account)
			buf_printf(&out, "%s/", str_or(json_get_str(it.val, "namespace"), ""));
		buf_add_str(&out, str_or(json_get_str(it.val, "name"), ""));
	}
	return json_new_str(d, buf_str(&out));
}

static struct json *binding_users(struct json_doc *d, const struct json *obj, unused usec now)
{
	return subjects(d, obj, "User");
}

static struct json *binding_groups(struct json_doc *d, const struct json *obj, unused usec now)
{
	return subjects(d, obj, "Group");
}

static struct json *binding_accounts(struct json_doc *d, const struct json *obj, unused usec now)
{
	return subjects(d, obj, "ServiceAccount");
}

const struct column columns_binding[] = {
	{ "Role", "string", NULL, "Role that the subjects get", 0, binding_role },
	{ "Age", "date", ".metadata.creationTimestamp", "Time since the object was created" },
	{ "Users", "string", NULL, "Users that get the role", 1, binding_users },
	{ "Groups", "string", NULL, "Groups that get the role", 1, binding_groups },
	{ "ServiceAccounts", "string", NULL, "Service accounts that get the role", 1,
	  binding_accounts },
	{ 0 },
};
