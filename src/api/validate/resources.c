/* SPDX-License-Identifier: Apache-2.0 */
#include "api/members_priv.h"
#include "api/meta.h"
#include "api/quota.h"
#include "api/validate/pod_priv.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

/* What containers, and Pods as a whole, ask for and are held to. */

enum {
	MANY = 1000, /* longer lists hold names that are no resources, which is reported */
	MILLI = 1000,
};

static bool is_huge(const char *name)
{
	return str_starts(name, "hugepages-");
}

static void check_container_name(struct causes *c, const char *name, const struct path *p)
{
	static const char *const standard[] = { "cpu", "memory", "ephemeral-storage", NULL };

	(void)resource_name_check(name, p, c);
	if (!strchr(name, '/')) {
		if (!str_in(name, standard) && !is_huge(name))
			bad_text(c, p, name, "must be a standard resource for containers");
	} else if (!resource_is_native(name) && !resource_is_extended(name)) {
		bad_text(c, p, name, "doesn't follow extended resource name standard");
	}
}

static void check_pod_name(struct causes *c, const char *name, const struct path *p)
{
	static const char *const supported[] = { "cpu", "hugepages-", "memory", NULL };

	if (resource_name_check(name, p, c) && !str_in(name, supported) && !is_huge(name))
		bad_unsupported(c, p, name, supported);
}

/* As it is stored: the defaults have made it canonical. */
static const char *amount_text(const struct json *v)
{
	return str_or(json_str(v), "");
}

static void check_huge(struct causes *c, const char *name, const struct json *v,
		       const struct path *p)
{
	autoptr(json_doc) d = json_doc_new();
	int64_t page = 0, milli = 0;
	autofree char *why = NULL;

	err_free(quantity_parse_milli(json_new_str(d, name + strlen("hugepages-")), &page));
	err_free(quantity_parse_milli(v, &milli));
	if (page > 0 && page % MILLI == 0 && milli % page == 0)
		return;
	why = xasprintf("%s is not positive integer multiple of %.256s", amount_text(v), name);
	bad_text(c, p, amount_text(v), why);
}

/* One walk over limits and requests. */
struct amounts {
	struct causes *causes;
	void (*check_name)(struct causes *c, const char *name, const struct path *p);
	bool huge, usual; /* there are huge pages; there is cpu or memory */
};

static int64_t check_amount(struct amounts *a, const char *name, const struct json *v,
			    const struct path *p)
{
	int64_t milli = 0;

	a->check_name(a->causes, name, p);
	err_free(quantity_parse_milli(v, &milli)); /* decoding has reported what is none */
	if (milli < 0)
		bad_text(a->causes, p, amount_text(v), "must be greater than or equal to 0");
	if (milli % MILLI && resource_is_extended(name))
		bad_invalid(a->causes, p, v, "must be an integer");
	a->usual |= str_eq(name, "cpu") || str_eq(name, "memory");
	return milli;
}

static void check_request(struct amounts *a, const char *name, const struct json *v,
			  const struct json *limits, const struct path *p)
{
	const struct json *limit = json_get(limits, name);
	bool rigid = !resource_is_native(name) || is_huge(name);
	int64_t asked = check_amount(a, name, v, KEY(IN(p, "requests"), name)), most = 0;

	err_free(limit ? quantity_parse_milli(limit, &most) : NULL);
	if (!limit && rigid)
		bad_required(a->causes, IN(p, "limits"),
			     "Limit must be set for non overcommitable resources");
	if (limit && (rigid ? asked != most : asked > most)) {
		autofree char *why = xasprintf("must be %s %s limit of %s",
					       rigid ? "equal to" : "less than or equal to", name,
					       amount_text(limit));

		bad_text(a->causes, IN(p, "requests"), amount_text(v), why);
	}
	if (is_huge(name))
		check_huge(a->causes, name, v, KEY(IN(p, "requests"), name));
	a->huge |= is_huge(name);
}

static void check_amounts(struct amounts *a, const struct json *resources, const struct path *p)
{
	const struct json *limits = members(json_get(resources, "limits"));
	const struct json *requests = members(json_get(resources, "requests"));

	json_each(it, limits) {
		(void)check_amount(a, it.key, it.val, KEY(IN(p, "limits"), it.key));
		if (is_huge(it.key))
			check_huge(a->causes, it.key, it.val, KEY(IN(p, "limits"), it.key));
		a->huge |= is_huge(it.key);
	}
	if (json_len(requests) > MANY && json_len(limits) > MANY)
		return;
	json_each(it, requests)
		check_request(a, it.key, it.val, limits, p);
	if (a->huge && !a->usual)
		bad_forbidden(a->causes, p, "HugePages require cpu or memory");
}

static void bad_claim(struct pod_rules *r, const char *name, const struct path *p)
{
	autofree char *path = path_text(p);
	autobuf names = { 0 };

	json_each(it, json_get(r->spec, "resourceClaims"))
		if (names.len < MANY)
			buf_printf(&names, "%s%s", names.len ? ", " : ": ",
				   str_or(json_get_str(it.val, "name"), ""));
	causes_add(r->causes, CAUSE_NOT_FOUND, path,
		   "Not found: \"%.256s\": must be one of the names in pod.spec.resourceClaims%s",
		   name, r->claims ? buf_str(&names) : " which is empty");
}

static void check_claims(struct pod_rules *r, const struct json *claims, const struct path *p)
{
	autoptr(map) seen = json_len(claims) ? map_new(NULL) : NULL;
	size_t i = 0;

	json_each(it, claims) {
		const struct path *at = AT(p, i++);
		const char *name = str_or(json_get_str(it.val, "name"), "");
		const char *request = str_or(json_get_str(it.val, "request"), "");
		autofree char *key = xasprintf("%s%s%s", name, *request ? "/" : "", request);

		if (!*name) {
			bad_required(r->causes, at, NULL);
			continue;
		}
		check_text(r->causes, at, it.val, "request", meta_bad_dns_label);
		if (map_has(seen, name) || map_has(seen, key))
			bad_duplicate(r->causes, at, map_has(seen, name) ? name : key);
		map_put(seen, key, r);
		if (!r->claims || !map_has(r->claims, name))
			bad_claim(r, name, at);
	}
}

void spec_resources(struct pod_rules *r, const struct json *resources, const struct path *p)
{
	struct amounts a = { r->causes, check_container_name, false, false };

	if (!json_len(resources))
		return;
	check_amounts(&a, resources, p);
	check_claims(r, json_get(resources, "claims"), IN(p, "claims"));
}

void spec_level_resources(struct pod_rules *r, const struct path *spec)
{
	const struct json *resources = json_get(r->spec, "resources");
	struct amounts a = { r->causes, check_pod_name, false, false };
	const struct path *p = IN(spec, "resources");

	if (!resources)
		return;
	if (str_eq(r->os, "windows")) {
		bad_forbidden(r->causes, p, "may not be set for a windows pod");
		return;
	}
	if (json_get(resources, "claims"))
		bad_forbidden(r->causes, IN(p, "claims"),
			      "claims may not be set for Resources at pod-level");
	check_amounts(&a, resources, p);
	check_claims(r, json_get(resources, "claims"), IN(p, "claims"));
}

/* As kube-apiserver: the amounts are said to be limits. */
void validate_overhead(const struct json *fixed, const struct path *p, struct causes *c)
{
	struct amounts a = { c, check_container_name, false, false };

	json_each(it, json_is(fixed, JSON_OBJ) ? fixed : NULL)
		(void)check_amount(&a, it.key, it.val, KEY(IN(p, "limits"), it.key));
}
