/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "base/str.h"

/* Conditions: a list of objects, found by type. */

struct json *conditions_get(const struct json *conditions, const char *type)
{
	json_each(it, conditions)
		if (str_eq(json_get_str(it.val, "type"), type))
			return it.val;
	return NULL;
}

bool conditions_true(const struct json *conditions, const char *type)
{
	return str_eq(json_get_str(conditions_get(conditions, type), "status"), "True");
}

void conditions_upsert(struct json_doc *d, struct json *conditions, const struct condition *c,
		       usec now)
{
	struct json *at = conditions_get(conditions, c->type);
	char stamp[CLOCK_TEXT_MAX];
	bool moved;

	if (!at) {
		at = json_obj(d);
		json_set_str(d, at, "type", c->type);
		json_push(d, conditions, at);
	}
	moved = !str_eq(json_get_str(at, "status"), c->status);
	clock_format(now, stamp);
	json_set_str(d, at, "status", c->status);
	if (c->observed_generation)
		json_set_int(d, at, "observedGeneration", c->observed_generation);
	else
		json_del(at, "observedGeneration");
	if (moved)
		json_set_str(d, at, "lastTransitionTime", str_or(c->transition, stamp));
	json_set_str(d, at, "reason", str_or(c->reason, ""));
	json_set_str(d, at, "message", str_or(c->message, ""));
}

void conditions_remove(struct json *conditions, const char *type)
{
	size_t i = 0;

	while (i < json_len(conditions))
		if (str_eq(json_get_str(json_at(conditions, i), "type"), type))
			json_remove(conditions, i);
		else
			i++;
}
