/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_pool.h"

#include "api/agents.h"
#include "api/object.h"
#include "base/str.h"
#include "json/json.h"

static enum pool_refill refill_of(const char *text)
{
	if (str_eq(text, "off"))
		return POOL_REFILL_OFF;
	return str_eq(text, "returned") ? POOL_REFILL_RETURNED : POOL_REFILL_ON;
}

static void decode(const struct object *o, void *view)
{
	struct pool_view *v = view;
	const struct json *spec = object_spec(o);
	const struct json *strategy = json_get(spec, "updateStrategy");

	v->template = str_or(json_get_str(json_get(spec, "sandboxTemplateRef"), "name"), "");
	v->replicas = json_get_int(spec, "replicas", 1);
	v->generation = object_generation(o);
	v->refill = refill_of(object_annotation(o, KEY_REFILL));
	v->recreate = str_eq(json_get_str(strategy, "type"), "Recreate");
	v->deleting = object_deleting(o);
}

const struct view_type pool_view_type = { sizeof(struct pool_view), decode, NULL };

const struct pool_view *pool_view(const struct object *o)
{
	return object_view(o, &pool_view_type);
}
