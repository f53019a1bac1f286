/* SPDX-License-Identifier: Apache-2.0 */
#include "server/policy/priority.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "server/objects/objects.h"
#include "store/store.h"

/* The default class, a new reference; NULL: there is none. Of several, the lowest: an older server
 * may have let them in. */
static struct object *default_class(const struct objects *os)
{
	struct object *best = NULL;
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, os->priority_class, NULL);
	while ((en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL))) {
		struct object *o = objects_of_entry(os, en);

		if (o && json_get_bool(o->root, "globalDefault", false) &&
		    (!best ||
		     json_get_int(o->root, "value", 0) < json_get_int(best->root, "value", 0))) {
			object_unref(best);
			best = object_ref(o);
		}
		object_unref(o);
	}
	return best;
}

char *priority_settle(const struct objects *os, struct json_doc *pod)
{
	struct json *spec = json_need_obj(pod, json_root(pod), "spec");
	const char *name = json_get_str(spec, "priorityClassName");
	const struct json *priority = json_get(spec, "priority");
	const char *policy = json_get_str(spec, "preemptionPolicy"), *want;
	autoptr(object) class =
		str_empty(name) ? default_class(os)
				: object_ref(objects_find(os, os->priority_class, "", name));
	int64_t value = class ? json_get_int(class->root, "value", 0) : 0;

	if (!str_empty(name) && !class)
		return xasprintf("no PriorityClass with name %s was found", name);
	if (priority && json_int(priority, 0) != value)
		return xasprintf("the integer value of priority (%lld) must not be provided in pod "
				 "spec; priority admission controller computed %lld from the given "
				 "PriorityClass name",
				 (long long)json_int(priority, 0), (long long)value);
	want = class ? json_get_str(class->root, "preemptionPolicy") : "PreemptLowerPriority";
	if (want && policy && !str_eq(policy, want))
		return xasprintf(
			"the string value of PreemptionPolicy (%s) must not be provided in "
			"pod spec; priority admission controller computed %s from the "
			"given PriorityClass name",
			policy, want);
	if (class)
		json_set_str(pod, spec, "priorityClassName", class->name);
	json_set_int(pod, spec, "priority", value);
	if (want)
		json_set_str(pod, spec, "preemptionPolicy", want);
	return NULL;
}

char *priority_refuse(const struct objects *os, const struct json *class, const struct json *old)
{
	autoptr(object) o = NULL;

	if (!json_get_bool(class, "globalDefault", false))
		return NULL;
	o = default_class(os);
	if (!o || (old && str_eq(o->name, json_get_str(json_get(class, "metadata"), "name"))))
		return NULL;
	return xasprintf(
		"PriorityClass %s is already marked as default. Only one default can exist",
		o->name);
}
