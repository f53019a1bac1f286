/* SPDX-License-Identifier: Apache-2.0 */
#include "api/sandbox_pod.h"

#include "api/agents.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/view_sandbox.h"
#include "base/str.h"
#include "json/json.h"

const char *sandbox_created_by(const char *label)
{
	static const char *const known[] = { "go-client", "python-client", "controller" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(label, known[i]))
			return known[i];
	return "unknown";
}

bool sandbox_label_reserved(const char *key)
{
	return str_starts(key, GROUP_AGENTS "/") || str_starts(key, GROUP_EXTENSIONS "/");
}

void sandbox_system_labels(struct json_doc *d, struct json *labels, const struct object *sandbox)
{
	const struct sandbox_view *v = sandbox_view(sandbox);
	const char *ref_hash = v->owner.extension ? str_or(v->template_ref_hash, NULL) : NULL;
	const char *pool = v->in_pool ? str_or(v->pool_hash, NULL) : NULL;
	char hash[9];

	name_hash(sandbox->name, hash);
	json_set_str(d, labels, KEY_NAME_HASH, hash);
	json_set_str(d, labels, KEY_TEMPLATE_REF_HASH, ref_hash);
	json_set_str(d, labels, KEY_POOL, pool);
	json_set_str(d, labels, KEY_CREATED_BY,
		     str_empty(v->created_by) ? NULL : sandbox_created_by(v->created_by));
}

void sandbox_pod_labels(struct json_doc *d, struct json *labels, const struct object *sandbox)
{
	json_each(it, json_get(sandbox_view(sandbox)->blueprint.pod_metadata, "labels"))
		if (!sandbox_label_reserved(it.key))
			json_set(d, labels, it.key, json_copy(d, it.val));
	sandbox_system_labels(d, labels, sandbox);
}
