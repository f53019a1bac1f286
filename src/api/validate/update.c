/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* Which fields of a Pod may change once it is there. */

enum {
	MANY = 1000, /* lists that are longer are not compared with each other */
};

static bool same_toleration(const struct json *a, const struct json *b)
{
	static const char *const members[] = { "key", "operator", "value", "effect" };

	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (!str_eq(str_or(json_get_str(a, members[i]), ""),
			    str_or(json_get_str(b, members[i]), "")))
			return false;
	return true;
}

static bool tolerates(const struct json *list, const struct json *v)
{
	json_each(it, list)
		if (same_toleration(it.val, v))
			return true;
	return false;
}

static void check_tolerations_kept(const struct json *spec, const struct json *old,
				   struct causes *c)
{
	const struct json *now = json_get(spec, "tolerations");
	const struct json *was = json_get(old, "tolerations");
	const struct path *p = IN(IN(NULL, "spec"), "tolerations");

	if (json_len(now) > MANY && json_len(was) > MANY && !json_equal(now, was)) {
		bad_forbidden(c, p, "too many to compare");
		return;
	}
	json_each(it, json_same(now, was) ? NULL : was)
		if (!tolerates(now, it.val)) {
			bad_forbidden(c, p,
				      "existing toleration can not be modified except its "
				      "tolerationSeconds");
			return;
		}
	check_tolerations(c, now, p);
}

static void check_gates_kept(const struct json *spec, const struct json *old, struct causes *c)
{
	const struct json *now = json_get(spec, "schedulingGates");
	const struct path *p = IN(IN(NULL, "spec"), "schedulingGates");
	autoptr(map) had = json_len(now) ? map_new(NULL) : NULL;
	size_t i = 0;

	if (!had)
		return;
	json_each(it, json_get(old, "schedulingGates"))
		map_put(had, str_or(json_get_str(it.val, "name"), ""), had);
	json_each(it, now) {
		const char *name = str_or(json_get_str(it.val, "name"), "");
		const struct path *at = AT(p, i++);
		autofree char *why = NULL;

		if (map_has(had, name))
			continue;
		why = xasprintf("only deletion is allowed, but found new scheduling gate '%.256s'",
				name);
		bad_forbidden(c, IN(at, "name"), why);
	}
}

/* False: nothing more can be compared. */
static bool check_containers_kept(const struct json *spec, const struct json *old, const char *name,
				  struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), name);
	size_t i = 0;

	if (json_len(json_get(spec, name)) != json_len(json_get(old, name))) {
		bad_forbidden(c, p, "pod updates may not add or remove containers");
		return false;
	}
	json_each(it, json_get(spec, name)) {
		const char *image = str_or(json_get_str(it.val, "image"), "");
		const struct path *at = IN(AT(p, i++), "image");

		if (!*image)
			bad_required(c, at, NULL);
		else if (isspace((unsigned char)image[0]) ||
			 isspace((unsigned char)image[strlen(image) - 1]))
			bad_text(c, at, image, "must not have leading or trailing whitespace");
	}
	return true;
}

/* False: nothing more is compared. */
static bool check_deadline_kept(const struct json *spec, const struct json *old, struct causes *c)
{
	const struct json *now = json_get(spec, "activeDeadlineSeconds");
	const struct json *was = json_get(old, "activeDeadlineSeconds");
	const struct path *p = IN(IN(NULL, "spec"), "activeDeadlineSeconds");
	int64_t s = json_int(now, 0);

	if (was && !now)
		bad_invalid(c, p, NULL, "must not update from a positive integer to nil value");
	if (now && (s < 0 || s > INT32_MAX)) {
		bad_invalid(c, p, now, "must be between 0 and 2147483647, inclusive");
		return false;
	}
	if (now && was && s > json_int(was, 0)) {
		bad_invalid(c, p, now, "must be less than or equal to previous value");
		return false;
	}
	return true;
}

/* Gives the containers of spec the images that those of old have. */
static void take_images(struct json_doc *d, struct json *spec, const struct json *old,
			const char *name)
{
	struct json_iter was = { .of = json_get(old, name) };

	json_each(it, json_get(spec, name))
		if (json_next(&was) && json_is(it.val, JSON_OBJ))
			json_set(d, it.val, "image", json_copy(d, json_get(was.val, "image")));
}

static void take_member(struct json_doc *d, struct json *spec, const struct json *old,
			const char *name)
{
	if (json_get(old, name))
		json_set(d, spec, name, json_copy(d, json_get(old, name)));
	else
		json_del(spec, name);
}

/* What holds a Pod back from being scheduled may be narrowed while it waits. */
static void check_selector_kept(struct json_doc *d, struct json *munged, const struct json *old,
				struct causes *c)
{
	const struct json *now = json_get(munged, "nodeSelector");
	const struct json *was = json_get(old, "nodeSelector");
	bool kept = json_len(was) <= MANY || json_len(now) <= MANY;

	json_each(it, kept ? was : NULL)
		kept &= json_get(now, it.key) && json_equal(json_get(now, it.key), it.val);
	if (!kept)
		bad_invalid(c, IN(IN(NULL, "spec"), "nodeSelector"), now,
			    "only additions to spec.nodeSelector are allowed (no mutations or "
			    "deletions)");
	take_member(d, munged, old, "nodeSelector");
}

static bool only_more(const struct json *now, const struct json *was)
{
	struct json_iter it = { .of = now };

	json_each(old, was)
		if (!json_next(&it) || !json_equal(it.val, old.val))
			return false;
	return true;
}

static bool term_grows(const struct json *now, const struct json *was)
{
	if (!json_len(json_get(was, "matchExpressions")) && !json_len(json_get(was, "matchFields")))
		return !json_len(json_get(now, "matchExpressions")) &&
		       !json_len(json_get(now, "matchFields"));
	return only_more(json_get(now, "matchExpressions"), json_get(was, "matchExpressions")) &&
	       only_more(json_get(now, "matchFields"), json_get(was, "matchFields"));
}

#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"

static void check_affinity_kept(struct json_doc *d, struct json *munged, const struct json *old,
				struct causes *c)
{
	static const struct go_member expression[] = {
		{ "Key", "key" }, { "Operator", "operator" }, { "Values", "values" }, { 0 }
	};
	static const struct go_member term[] = { { "MatchExpressions", "matchExpressions",
						   expression },
						 { "MatchFields", "matchFields", expression },
						 { 0 } };
	static const char terms[] = "affinity.nodeAffinity." REQUIRED ".nodeSelectorTerms";
	const struct json *now = json_at_path(munged, terms), *was = json_at_path(old, terms);
	const struct path *p = IN(IN(IN(IN(NULL, "spec"), "affinity"), "nodeAffinity"), REQUIRED);
	struct json_iter next = { .of = now };
	size_t i = 0;

	p = IN(p, "nodeSelectorTerms");
	if (json_len(was) && json_len(was) != json_len(now))
		bad_struct(c, p, now, term,
			   "no additions/deletions to non-empty NodeSelectorTerms list are "
			   "allowed");
	else
		json_each(it, was) {
			const struct path *at = AT(p, i++);

			if (json_next(&next) && !term_grows(next.val, it.val))
				bad_struct(
					c, at, next.val, term,
					"only additions are allowed (no mutations or deletions)");
		}
	if (!json_at_path(munged, "affinity.podAffinity") &&
	    !json_at_path(munged, "affinity.podAntiAffinity") &&
	    !json_at_path(old, "affinity.podAffinity") &&
	    !json_at_path(old, "affinity.podAntiAffinity"))
		take_member(d, munged, old, "affinity");
	else if (json_is(json_get(munged, "affinity"), JSON_OBJ))
		take_member(d, json_get(munged, "affinity"), json_get(old, "affinity"),
			    "nodeAffinity");
}

void validate_pod_update(const struct json *spec, const struct json *old, struct causes *c)
{
	static const char *const lists[] = { "containers", "initContainers" };
	static const char *const free_members[] = { "activeDeadlineSeconds", "schedulingGates",
						    "tolerations" };
	autoptr(json_doc) d = NULL;
	struct json *munged;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (!check_containers_kept(spec, old, lists[i], c))
			return;
	if (!check_deadline_kept(spec, old, c))
		return;
	check_tolerations_kept(spec, old, c);
	check_gates_kept(spec, old, c);
	if (json_equal(spec, old))
		return;
	d = json_doc_new();
	munged = json_copy(d, spec);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		take_images(d, munged, old, lists[i]);
	for (size_t i = 0; i < ARRAY_LEN(free_members); i++)
		take_member(d, munged, old, free_members[i]);
	if (json_get_int(old, "terminationGracePeriodSeconds", 0) < 0 &&
	    json_get_int(spec, "terminationGracePeriodSeconds", 0) == 1)
		take_member(d, munged, old, "terminationGracePeriodSeconds");
	if (json_len(json_get(old, "schedulingGates"))) {
		check_selector_kept(d, munged, old, c);
		check_affinity_kept(d, munged, old, c);
		if (!json_len(json_get(spec, "schedulingGates")))
			take_member(d, munged, old, "nodeName"); /* see prepare_update_pod() */
	}
	if (!json_equal(munged, old))
		bad_forbidden(
			c, IN(NULL, "spec"),
			"pod updates may not change fields other than "
			"`spec.containers[*].image`,`spec.initContainers[*].image`,"
			"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
			"existing tolerations),`spec.terminationGracePeriodSeconds` (allow it "
			"to be set to 1 if it was previously negative)");
}

/* Status */

static void check_ips(const struct json *status, const struct json *was, const char *name,
		      struct causes *c)
{
	const struct json *list = json_get(status, name);
	const struct path *p = IN(IN(NULL, "status"), name);
	size_t i = 0;

	if (json_equal(list, json_get(was, name)))
		return;
	json_each(it, list)
		check_ip(c, str_or(json_get_str(it.val, "ip"), ""), AT(p, i++));
	if (json_len(list) > 2 ||
	    (json_len(list) == 2 &&
	     !strchr(str_or(json_get_str(json_at(list, 0), "ip"), ""), ':') ==
		     !strchr(str_or(json_get_str(json_at(list, 1), "ip"), ""), ':')))
		bad_invalid(c, p, list, "may specify no more than one IP for each IP family");
}

static void check_host_ip(const struct json *status, struct causes *c)
{
	const struct json *first = json_at(json_get(status, "hostIPs"), 0);
	const char *ip = str_or(json_get_str(first, "ip"), "");
	const struct path *at = AT(IN(IN(NULL, "status"), "hostIPs"), 0);

	if (first && !str_eq(ip, str_or(json_get_str(status, "hostIP"), "")))
		bad_text(c, IN(at, "ip"), ip, "must be equal to `hostIP`");
}

void validate_pod_status(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *status = json_get(obj, "status"), *was = json_get(old, "status");
	const char *node = str_or(json_get_str(status, "nominatedNodeName"), "");
	const struct path *p = IN(NULL, "status");

	if (*node && !str_eq(node, json_get_str(was, "nominatedNodeName"))) {
		check_text(c, p, status, "nominatedNodeName", meta_bad_dns_subdomain);
		if (!str_empty(json_get_str(json_get(old, "spec"), "nodeName")))
			bad_forbidden(c, IN(p, "nominatedNodeName"),
				      "may not be set on pods that are already bound to a node");
	}
	if (!json_equal(json_get(status, "qosClass"), json_get(was, "qosClass")))
		bad_invalid(c, IN(p, "qosClass"), json_get(status, "qosClass"),
			    "field is immutable");
	check_ips(status, was, "podIPs", c);
	check_host_ip(status, c);
	check_ips(status, was, "hostIPs", c);
}
