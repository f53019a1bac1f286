/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/str.h"

/* The rules of Pods: what surrounds the containers, and what may change. */

static void check_volume(struct causes *c, const struct json *v, const struct path *p)
{
	static const struct {
		const char *source, *member;
	} needed[] = { { "persistentVolumeClaim", "claimName" },
		       { "configMap", "name" },
		       { "secret", "secretName" },
		       { "hostPath", "path" } };
	size_t n = 0;

	json_each(it, json_is(v, JSON_OBJ) ? v : NULL) {
		if (str_eq(it.key, "name"))
			continue;
		if (n++) {
			bad_forbidden(c, IN(p, it.key), "may not specify more than 1 volume type");
			continue;
		}
		for (size_t i = 0; i < ARRAY_LEN(needed); i++)
			if (str_eq(it.key, needed[i].source))
				need_text(c, IN(p, it.key), it.val, needed[i].member);
	}
	if (!n)
		bad_required(c, p, "must specify a volume type");
	if (json_is(json_get(v, "ephemeral"), JSON_OBJ) &&
	    !json_at_path(v, "ephemeral.volumeClaimTemplate"))
		bad_required(c, IN(IN(p, "ephemeral"), "volumeClaimTemplate"), "");
}

void validate_volumes(const struct json *spec, const struct path *p, struct causes *c)
{
	autoptr(map) names = map_new(NULL);
	size_t i = 0;

	json_each(it, json_get(spec, "volumes")) {
		const struct path *at = AT(IN(p, "volumes"), i++);
		const char *name = need_text(c, at, it.val, "name");

		check_volume(c, it.val, at);
		if (!name)
			continue;
		check_text(c, at, it.val, "name", meta_bad_dns_label);
		if (map_has(names, name))
			bad_duplicate(c, IN(at, "name"), name);
		map_put(names, name, names);
	}
}

static void check_toleration(struct causes *c, const struct json *t, const struct path *p)
{
	static const char *const ops[] = { "Equal", "Exists", NULL };
	static const char *const effects[] = { "NoSchedule", "PreferNoSchedule", "NoExecute",
					       NULL };
	const char *op = str_or(json_get_str(t, "operator"), "Equal");

	check_text(c, p, t, "key", meta_bad_qualified_name);
	check_values(c, p, t, "operator", ops);
	check_values(c, p, t, "effect", effects);
	if (str_empty(json_get_str(t, "key")) && !str_eq(op, "Exists"))
		bad_text(
			c, IN(p, "operator"), json_get_str(t, "operator"),
			"operator must be Exists when `key` is empty, which means \"match all values "
			"and all keys\"");
	if (str_eq(op, "Exists") && !str_empty(json_get_str(t, "value")))
		bad_text(c, IN(p, "operator"), json_get_str(t, "value"),
			 "value must be empty when `operator` is 'Exists'");
}

static void check_spec(const struct json *spec, const struct path *p, struct causes *c)
{
	static const char *const restarts[] = { "Always", "OnFailure", "Never", NULL };
	static const char *const dns[] = { "ClusterFirstWithHostNet", "ClusterFirst", "Default",
					   "None", NULL };
	const struct json *deadline = json_get(spec, "activeDeadlineSeconds");
	autofree char *labels = path_text(IN(p, "nodeSelector"));
	size_t i = 0;

	validate_volumes(spec, p, c);
	validate_containers(spec, p, c);
	check_values(c, p, spec, "restartPolicy", restarts);
	check_values(c, p, spec, "dnsPolicy", dns);
	if (deadline && (json_int(deadline, 1) < 1 || json_int(deadline, 1) > INT32_MAX))
		bad_invalid(c, IN(p, "activeDeadlineSeconds"), deadline,
			    "must be between 1 and 2147483647, inclusive");
	check_text(c, p, spec, "serviceAccountName", meta_bad_dns_subdomain);
	check_text(c, p, spec, "nodeName", meta_bad_dns_subdomain);
	check_text(c, p, spec, "runtimeClassName", meta_bad_dns_subdomain);
	check_text(c, p, spec, "hostname", meta_bad_dns_label);
	check_text(c, p, spec, "subdomain", meta_bad_dns_label);
	meta_validate_labels(json_get(spec, "nodeSelector"), labels, c);
	json_each(it, json_get(spec, "tolerations"))
		check_toleration(c, it.val, AT(IN(p, "tolerations"), i++));
}

void validate_pod_spec(const struct json *spec, struct causes *c)
{
	check_spec(spec, IN(NULL, "spec"), c);
}

/* Update */
static bool list_contains(const struct json *list, const struct json *v)
{
	json_each(it, list)
		if (json_equal(it.val, v))
			return true;
	return false;
}

static void check_tolerations_kept(const struct json *spec, const struct json *old,
				   struct causes *c)
{
	const struct json *now = json_get(spec, "tolerations");

	if (json_len(now) > 1000 || json_len(json_get(old, "tolerations")) > 1000) {
		bad_forbidden(c, IN(IN(NULL, "spec"), "tolerations"), "too many to compare");
		return;
	}
	json_each(it, json_get(old, "tolerations"))
		if (!list_contains(now, it.val))
			bad_forbidden(c, IN(IN(NULL, "spec"), "tolerations"),
				      "existing toleration can not be modified except its "
				      "tolerationSeconds");
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
	json_set(d, spec, name, json_copy(d, json_get(old, name)));
}

static void check_deadline_kept(const struct json *spec, const struct json *old, struct causes *c)
{
	const struct json *now = json_get(spec, "activeDeadlineSeconds");
	const struct json *was = json_get(old, "activeDeadlineSeconds");
	const struct path *p = IN(IN(NULL, "spec"), "activeDeadlineSeconds");

	if (was && !now)
		bad_invalid(c, p, NULL, "must not update from a positive integer to nil value");
	else if (was && json_int(now, 0) > json_int(was, 0))
		bad_invalid(c, p, now, "must be less than or equal to previous value");
}

void validate_pod_update(const struct json *spec, const struct json *old, struct causes *c)
{
	static const char *const lists[] = { "containers", "initContainers" };
	autoptr(json_doc) d = json_doc_new();
	struct json *munged = json_copy(d, spec);

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		if (json_len(json_get(spec, lists[i])) != json_len(json_get(old, lists[i]))) {
			bad_forbidden(c, IN(IN(NULL, "spec"), lists[i]),
				      "pod updates may not add or remove containers");
			return;
		}
		take_images(d, munged, old, lists[i]);
	}
	check_deadline_kept(spec, old, c);
	check_tolerations_kept(spec, old, c);
	take_member(d, munged, old, "activeDeadlineSeconds");
	take_member(d, munged, old, "tolerations");
	if (json_get_int(old, "terminationGracePeriodSeconds", 0) < 0 &&
	    json_get_int(spec, "terminationGracePeriodSeconds", 0) == 1)
		take_member(d, munged, old, "terminationGracePeriodSeconds");
	if (json_len(json_get(spec, "schedulingGates")) <
	    json_len(json_get(old, "schedulingGates")))
		take_member(d, munged, old, "schedulingGates");
	if (!json_equal(munged, old))
		bad_forbidden(
			c, IN(NULL, "spec"),
			"pod updates may not change fields other than "
			"`spec.containers[*].image`,`spec.initContainers[*].image`,"
			"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
			"existing tolerations),`spec.terminationGracePeriodSeconds` (allow it "
			"to be set to 1 if it was previously negative)");
}

void validate_pod(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");

	if (!json_is(spec, JSON_OBJ))
		return; /* the schema reports it */
	validate_pod_spec(spec, c);
	if (!old && json_len(json_get(spec, "ephemeralContainers")))
		bad_forbidden(c, IN(IN(NULL, "spec"), "ephemeralContainers"),
			      "cannot be set on create");
	if (old)
		validate_pod_update(spec, json_get(old, "spec"), c);
}
