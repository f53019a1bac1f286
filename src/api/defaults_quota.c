/* SPDX-License-Identifier: Apache-2.0 */
#include "api/defaults_priv.h"
#include "api/kind_priv.h"
#include "api/members_priv.h"
#include "api/quota.h"
#include "base/str.h"

/* Defaults of what limits the use of a namespace. */

void defaults_resource_quota(struct json_doc *d, unused const struct json *old)
{
	struct json *root = json_root(d);

	defaults_quantities(d, json_at_path(root, "spec.hard"));
	defaults_quantities(d, json_at_path(root, "status.hard"));
	defaults_quantities(d, json_at_path(root, "status.used"));
}

/* What `to` lacks and `from` has. */
static void fill_in(struct json_doc *d, struct json *item, const char *to, const char *from)
{
	struct json *have;

	if (!json_len(members(json_get(item, from))) ||
	    json_len(json_get(item, from)) > RESOURCE_NAMES_MAX ||
	    json_len(json_get(item, to)) > RESOURCE_NAMES_MAX)
		return; /* too many are refused */
	have = defaults_need_obj(d, item, to);
	json_each(it, json_get(item, from))
		if (have && !json_get(have, it.key))
			json_set(d, have, it.key, json_copy(d, it.val));
}

static void defaults_limits(struct json_doc *d, struct json *item)
{
	static const char *const maps[] = { "max", "min", "default", "defaultRequest",
					    "maxLimitRequestRatio" };

	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		defaults_quantities(d, json_get(item, maps[i]));
	if (!str_eq(json_get_str(item, "type"), "Container"))
		return;
	fill_in(d, item, "default", "max");
	fill_in(d, item, "defaultRequest", "default");
	fill_in(d, item, "defaultRequest", "min");
}

void defaults_limit_range(struct json_doc *d, unused const struct json *old)
{
	json_each(it, json_at_path(json_root(d), "spec.limits"))
		if (json_is(it.val, JSON_OBJ))
			defaults_limits(d, it.val);
}

void defaults_priority_class(struct json_doc *d, unused const struct json *old)
{
	defaults_str(d, json_root(d), "preemptionPolicy", "PreemptLowerPriority");
}
