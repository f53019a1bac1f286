/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/members_priv.h"
#include "api/meta.h"
#include "api/quota.h"
#include "api/validate_priv.h"
#include "base/str.h"

/* The rules of LimitRange. */

static void check_name(const char *type, const char *name, const struct path *p, struct causes *c)
{
	bool compute = str_eq(type, "Pod") || str_eq(type, "Container");
	bool standard = str_eq(name, "cpu") || str_eq(name, "memory") ||
			str_eq(name, "ephemeral-storage") || str_starts(name, "hugepages-");

	(void)resource_name_check(name, p, c);
	if (!compute)
		return;
	if (!strchr(name, '/') && !standard)
		bad_text(c, p, name, "must be a standard resource for containers");
	else if (strchr(name, '/') && resource_overcommits(name) == false &&
		 !resource_is_extended(name))
		bad_text(c, p, name, "doesn't follow extended resource name standard");
}

static void check_names(const struct json *item, const char *map, const struct path *p,
			struct causes *c)
{
	json_each(it, members(json_get(item, map)))
		check_name(json_get_str(item, "type"), it.key, KEY(IN(p, map), it.key), c);
}

/* One rule: what is in `low` is at most what is in `high`. */
struct order {
	const char *low, *high;
	const char *at;    /* the member that is wrong, */
	const char *shown; /* and the one whose value is shown */
	const char *low_name, *high_name;
};

static const struct order orders[] = {
	{ "min", "max", "min", "min", "min value", "max value" },
	{ "min", "defaultRequest", "defaultRequest", "defaultRequest", "min value",
	  "default request value" },
	{ "defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value",
	  "max value" },
	{ "defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value",
	  "default limit value" },
	{ "min", "default", "default", "min", "min value", "default value" },
	{ "default", "max", "default", "max", "default value", "max value" },
};

static void check_order(const struct json *item, const struct order *o, const struct path *p,
			struct causes *c)
{
	struct quantity low, high;
	char a[QUANTITY_TEXT_MAX], b[QUANTITY_TEXT_MAX];

	json_each(it, members(json_get(item, o->low))) {
		autofree char *why = NULL;

		if (!quantity_read(it.val, &low) ||
		    !quantity_read(json_get(json_get(item, o->high), it.key), &high) ||
		    quantity_cmp(&low, &high) <= 0)
			continue;
		quantity_text(&low, a);
		quantity_text(&high, b);
		why = xasprintf("%s %s is greater than %s %s", o->low_name, a, o->high_name, b);
		bad_invalid(c, KEY(IN(p, o->at), it.key),
			    json_get(json_get(item, o->shown), it.key), why);
	}
}

static void check_ratios(const struct json *item, const struct path *p, struct causes *c)
{
	const struct json *mins = json_get(item, "min"), *maxes = json_get(item, "max");

	json_each(it, members(json_get(item, "maxLimitRequestRatio"))) {
		const struct path *at = KEY(IN(p, "maxLimitRequestRatio"), it.key);
		struct quantity ratio, one = quantity_of(1), min, max;
		autofree char *why = NULL;
		char text[QUANTITY_TEXT_MAX];
		double most;

		if (!quantity_read(it.val, &ratio))
			continue;
		quantity_text(&ratio, text);
		if (quantity_cmp(&ratio, &one) < 0) {
			why = xasprintf("ratio %s is less than 1", text);
			bad_invalid(c, at, it.val, why);
		}
		if (!quantity_read(json_get(mins, it.key), &min) ||
		    !quantity_read(json_get(maxes, it.key), &max) || min.nano <= 0)
			continue;
		most = (double)max.nano / (double)min.nano;
		if ((double)ratio.nano / 1e9 <= most)
			continue;
		free(why);
		why = xasprintf("ratio %s is greater than max/min = %f", text, most);
		bad_invalid(c, at, it.val, why);
	}
}

/* Of what cannot be promised twice, the limit is the request. */
static void check_overcommit(const struct json *item, const struct path *p, struct causes *c)
{
	json_each(it, members(json_get(item, "defaultRequest"))) {
		const struct json *limit = json_get(json_get(item, "default"), it.key);
		autofree char *why = NULL;

		if (!limit || resource_overcommits(it.key) || quantity_equal(limit, it.val))
			continue;
		why = xasprintf("default value %s must equal to defaultRequest value %s in %s",
				str_or(json_str(limit), ""), str_or(json_str(it.val), ""), it.key);
		bad_invalid(c, KEY(IN(p, "defaultRequest"), it.key), it.val, why);
	}
}

static void check_type(const struct json *item, const struct path *p, struct causes *c)
{
	static const char *const types[] = { "Pod", "Container", "PersistentVolumeClaim", NULL };
	const char *type = str_or(json_get_str(item, "type"), "");
	const char *bad = meta_bad_qualified_name(type);

	if (!bad && !strchr(type, '/') && !str_in(type, types))
		bad = "must be a standard limit type or fully qualified";
	if (bad)
		bad_text(c, IN(p, "type"), type, bad);
}

static bool check_sizes(const struct json *item, const struct path *p, struct causes *c)
{
	static const char *const maps[] = { "max", "min", "default", "defaultRequest",
					    "maxLimitRequestRatio" };
	bool good = true;

	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		good &= resource_number_check(json_get(item, maps[i]), IN(p, maps[i]), c);
	return good;
}

static void check_item(const struct json *item, const struct path *p, struct causes *c)
{
	const char *type = json_get_str(item, "type");
	bool pod = str_eq(type, "Pod");

	if (!check_sizes(item, p, c))
		return;
	check_names(item, "max", p, c);
	check_names(item, "min", p, c);
	if (pod && json_len(json_get(item, "default")))
		bad_forbidden(c, IN(p, "default"), "may not be specified when `type` is 'Pod'");
	if (pod && json_len(json_get(item, "defaultRequest")))
		bad_forbidden(c, IN(p, "defaultRequest"),
			      "may not be specified when `type` is 'Pod'");
	if (!pod) {
		check_names(item, "default", p, c);
		check_names(item, "defaultRequest", p, c);
	}
	if (str_eq(type, "PersistentVolumeClaim") && !json_at_path(item, "min.storage") &&
	    !json_at_path(item, "max.storage"))
		bad_required(c, IN(p, "limits"),
			     "either minimum or maximum storage value is required, but neither "
			     "was provided");
	check_names(item, "maxLimitRequestRatio", p, c);
	for (size_t i = 0; i < ARRAY_LEN(orders); i++)
		if (!pod || !strstr(orders[i].at, "default"))
			check_order(item, &orders[i], p, c);
	check_ratios(item, p, c);
	if (!pod)
		check_overcommit(item, p, c);
}

void validate_limit_range(const struct json *obj, unused const struct json *old, struct causes *c)
{
	const struct json *limits = json_at_path(obj, "spec.limits");
	const struct path *p = IN(IN(NULL, "spec"), "limits");

	if (!resource_number_check(limits, p, c))
		return;
	for (size_t i = 0; i < json_len(limits); i++) {
		const struct json *item = json_at(limits, i);
		const char *type = json_get_str(item, "type");
		bool twice = false;

		check_type(item, AT(p, i), c);
		for (size_t k = 0; k < i; k++)
			twice |= str_eq(json_get_str(json_at(limits, k), "type"), type);
		if (twice)
			bad_duplicate(c, IN(AT(p, i), "type"), str_or(type, ""));
		check_item(item, AT(p, i), c);
	}
}
