/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/crd/crd_priv.h"
#include "api/meta.h"
#include "base/str.h"

/*
 * What is wrong with a definition, apart from its schemas, in the words and at the paths of a
 * kube-apiserver. It reports what all versions have in common under spec itself (spec.validation,
 * spec.subresources), where an earlier version of the API had it.
 */
static const char *bad_dns1035(const char *s)
{
	bool fine = *s >= 'a' && *s <= 'z';

	if (strlen(s) > 63)
		return "must be no more than 63 characters";
	for (const char *p = s; *p; p++)
		fine &= (*p >= 'a' && *p <= 'z') || isdigit((unsigned char)*p) ||
			(*p == '-' && p[1]);
	return fine ? NULL
		    : "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
		      "start with an alphabetic character, and end with an alphanumeric character "
		      "(e.g. 'my-name',  or 'abc-123', regex used for validation is "
		      "'[a-z]([-a-z0-9]*[a-z0-9])?')";
}

static const char *text_of(const struct json *o, const char *name)
{
	return str_or(json_get_str(o, name), "");
}

static void check_group(const char *group, struct causes *c)
{
	const char *bad = *group ? meta_bad_dns_subdomain(group) : NULL;

	if (!*group)
		causes_required(c, "spec.group", NULL);
	else if (bad)
		causes_invalid_str(c, "spec.group", group, bad);
	else if (!strchr(group, '.'))
		causes_invalid_str(c, "spec.group", group,
				   "should be a domain with at least one dot");
}

static void check_kind(const char *field, const char *v, struct causes *c)
{
	autofree char *lower = xstrdup(v), *text = NULL;
	const char *bad;

	for (char *p = lower; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	bad = *v ? bad_dns1035(lower) : NULL;
	if (!bad)
		return;
	text = xasprintf("may have mixed case, but should otherwise match: %s", bad);
	causes_invalid_str(c, field, v, text);
}

static void check_label(const char *field, const char *v, struct causes *c)
{
	const char *bad = *v ? bad_dns1035(v) : NULL;

	if (bad)
		causes_invalid_str(c, field, v, bad);
}

static void check_labels(const struct json *list, const char *field, struct causes *c)
{
	size_t i = 0;

	json_each(it, list) {
		autofree char *at = xasprintf("%s[%zu]", field, i++);

		check_label(at, str_or(json_str(it.val), ""), c);
	}
	if (json_len(list) > CRD_NAMES_MAX)
		causes_add(c, CAUSE_INVALID, field, "Too many: %zu: must have at most %d items",
			   json_len(list), CRD_NAMES_MAX);
}

static void check_names(const struct json *names, struct causes *c)
{
	static const char *const all[] = { "plural", "singular", "kind", "listKind" };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		autofree char *field = xasprintf("spec.names.%s", all[i]);

		if (!*text_of(names, all[i]))
			causes_required(c, field, NULL);
		(i < 2 ? check_label : check_kind)(field, text_of(names, all[i]), c);
	}
	check_labels(json_get(names, "shortNames"), "spec.names.shortNames", c);
	check_labels(json_get(names, "categories"), "spec.names.categories", c);
	if (str_eq(text_of(names, "kind"), text_of(names, "listKind")) && *text_of(names, "kind"))
		causes_invalid_str(c, "spec.names.listKind", text_of(names, "listKind"),
				   "kind and listKind may not be the same");
}

static void check_scope(const char *scope, struct causes *c)
{
	static const char *const scopes[] = { "Cluster", "Namespaced", NULL };

	if (!*scope)
		causes_required(c, "spec.scope", NULL);
	else if (!str_in(scope, scopes))
		causes_unsupported(c, "spec.scope", scope, scopes);
}

static void check_conversion(const struct json *conversion, struct causes *c)
{
	static const char *const strategies[] = { "None", "Webhook", NULL };
	const char *strategy = text_of(conversion, "strategy");

	if (!conversion)
		return;
	if (!*strategy)
		causes_required(c, "spec.conversion.strategy", NULL);
	else if (!str_in(strategy, strategies))
		causes_unsupported(c, "spec.conversion.strategy", strategy, strategies);
	else if (str_eq(strategy, "Webhook"))
		causes_invalid_str(c, "spec.conversion.strategy", strategy,
				   "conversion by a webhook is not supported by this server; use "
				   "None, and versions that differ in what is optional");
	else if (json_get(conversion, "webhook"))
		causes_forbidden(c, "spec.conversion.webhookClientConfig",
				 "should not be set when strategy is not set to Webhook");
}

/* Versions */

/* Where something that versions have is reported: once if it is the same in all of them. */
static bool all_alike(const struct json *versions, const char *name)
{
	const struct json *first = json_get(json_at(versions, 0), name);

	json_each(it, versions)
		if (!json_equal(json_get(it.val, name), first))
			return false;
	return true;
}

static void check_simple_path(const char *path, const struct path *at, struct causes *c)
{
	if (!*path)
		wrong(c, CAUSE_REQUIRED, at, "Required value");
	else if (*path != '.')
		wrong_text(c, at, path, "must be a simple json path starting with .");
}

static void check_scale_path(const struct json *scale, const char *name, const char *under,
			     const struct path *subs, struct causes *c)
{
	const char *path = text_of(scale, name);
	struct path scale_at = { .up = subs, .name = "scale" };
	struct path at = { .up = &scale_at, .name = name };
	autofree char *prefix = xasprintf(".%s.", under);
	autofree char *must = xasprintf("should be a json path under .%s", under);

	check_simple_path(path, &at, c);
	if (*path == '.' && !str_starts(path, prefix))
		wrong_text(c, &at, path, must);
}

static void check_subresources(const struct json *subs, const struct path *at, struct causes *c)
{
	const struct json *scale = json_get(subs, "scale");
	const char *selector = text_of(scale, "labelSelectorPath");
	struct path scale_at = { .up = at, .name = "scale" };
	struct path selector_at = { .up = &scale_at, .name = "labelSelectorPath" };

	if (!scale)
		return;
	check_scale_path(scale, "specReplicasPath", "spec", at, c);
	check_scale_path(scale, "statusReplicasPath", "status", at, c);
	if (*selector && !str_starts(selector, ".spec.") && !str_starts(selector, ".status."))
		wrong_text(c, &selector_at, selector,
			   *selector == '.' ? "should be a json path under either .spec or .status"
					    : "must be a simple json path starting with .");
}

static void check_column(const struct json *col, const struct path *at, struct causes *c)
{
	static const char *const types[] = {
		"boolean", "date", "integer", "number", "string", NULL
	};
	static const char *const formats[] = { "byte",  "date",  "date-time", "double", "float",
					       "int32", "int64", "password",  NULL };
	const char *type = text_of(col, "type"), *format = text_of(col, "format");
	struct path name_at = { .up = at, .name = "name" }, type_at = { .up = at, .name = "type" };
	struct path path_at = { .up = at, .name = "JSONPath" };
	struct path format_at = { .up = at, .name = "format" };

	if (!*text_of(col, "name"))
		wrong(c, CAUSE_REQUIRED, &name_at, "Required value");
	if (!*type)
		wrong(c, CAUSE_REQUIRED, &type_at,
		      "Required value: must be one of boolean,date,integer,number,string");
	else if (!str_in(type, types))
		wrong_text(c, &type_at, type, "must be one of boolean,date,integer,number,string");
	if (*format && !str_in(format, formats))
		wrong_text(c, &format_at, format,
			   "must be one of byte,date,date-time,double,float,int32,int64,password");
	check_simple_path(text_of(col, "jsonPath"), &path_at, c);
}

static void check_columns(const struct json *list, const struct path *up, struct causes *c)
{
	size_t i = 0;

	json_each(it, list) {
		struct path at = { .up = up, .index = i++ };

		check_column(it.val, &at, c);
	}
}

/* The schema of what a path leads to: .spec.color. NULL: nothing. */
static const struct json *schema_at(const struct json *schema, const char *path)
{
	struct span rest = SPAN(*path == '.' ? path + 1 : path);

	while (rest.p && schema) {
		struct span part = span_cut(rest, '.', &rest);
		autofree char *name = xstrndup(part.p, part.len);

		schema = json_get(json_get(schema, "properties"), name);
	}
	return schema;
}

static void check_selectable(const struct json *version, const struct path *up, struct causes *c)
{
	static const char *const types[] = { "string", "boolean", "integer", NULL };
	const struct json *list = json_get(version, "selectableFields");
	const struct json *schema = json_get(json_get(version, "schema"), "openAPIV3Schema");
	size_t i = 0;

	if (json_len(list) > 8)
		wrong(c, CAUSE_INVALID, up, "Too many: %zu: must have at most 8 items",
		      json_len(list));
	json_each(it, list) {
		struct path item = { .up = up, .index = i++ };
		struct path at = { .up = &item, .name = "jsonPath" };
		const char *path = text_of(it.val, "jsonPath");
		const struct json *found = *path == '.' ? schema_at(schema, path) : NULL;

		if (!*path)
			wrong(c, CAUSE_REQUIRED, &at, "Required value");
		else if (!found)
			wrong_text(c, &at, path,
				   "is an invalid path: does not refer to a field of "
				   "the schema");
		else if (str_starts(path, ".metadata"))
			wrong_text(c, &at, path, "must not point to fields in metadata");
		else if (!str_in(text_of(found, "type"), types))
			wrong_text(c, &at, path,
				   "must point to a field of type string, boolean or integer. Enum "
				   "string fields and strings with formats are allowed.");
	}
}

static void check_deprecation(const struct json *version, const struct path *up, struct causes *c)
{
	const char *text = json_get_str(version, "deprecationWarning");
	struct path at = { .up = up, .name = "deprecationWarning" };

	if (!text)
		return;
	if (!json_get_bool(version, "deprecated", false))
		wrong_text(c, &at, text, "can only be set for deprecated versions");
	else if (!*text)
		wrong_text(c, &at, text, "must not be an empty string");
	else if (strlen(text) > 256)
		wrong_text(c, &at, text, "must be <= 256 characters long");
	for (const char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p)) {
			wrong_text(c, &at, text,
				   "must only contain printable UTF-8 characters; "
				   "control character found");
			break;
		}
}

/* What the versions have in common is at common, the rest at own. */
struct places {
	struct path own;                 /* spec.versions[i] */
	bool schema, subs, cols, fields; /* all versions have the same */
	bool first;
};

static void check_schema(const struct json *version, const struct places *at, struct causes *c)
{
	static const struct path common = { .name = "spec.validation" };
	struct path schema = { .up = &at->own, .name = "schema" };
	struct path own = { .up = &schema, .name = "openAPIV3Schema" };
	struct path shared = { .up = &common, .name = "openAPIV3Schema" };
	const struct json *s = json_get(json_get(version, "schema"), "openAPIV3Schema");
	bool status = json_get(json_get(version, "subresources"), "status");

	if (!s)
		wrong(c, CAUSE_REQUIRED, &own, "Required value");
	else if (!at->schema || at->first)
		structural_validate(s, status, at->schema ? &shared : &own, c);
}

static void check_version(const struct json *version, const struct places *at, struct causes *c)
{
	static const struct path common_subs = { .name = "spec.subresources" };
	static const struct path common_cols = { .name = "spec.additionalPrinterColumns" };
	static const struct path common_fields = { .name = "spec.selectableFields" };
	struct path subs = { .up = &at->own, .name = "subresources" };
	struct path cols = { .up = &at->own, .name = "additionalPrinterColumns" };
	struct path fields = { .up = &at->own, .name = "selectableFields" };
	struct path name = { .up = &at->own, .name = "name" };
	const char *bad = bad_dns1035(text_of(version, "name"));

	if (bad)
		wrong_text(c, &name, text_of(version, "name"), bad);
	if (bad && at->first) /* where an earlier version of the API had it */
		causes_invalid_str(c, "spec.version", text_of(version, "name"), bad);
	check_deprecation(version, &at->own, c);
	check_schema(version, at, c);
	if (!at->subs || at->first)
		check_subresources(json_get(version, "subresources"),
				   at->subs ? &common_subs : &subs, c);
	if (!at->cols || at->first)
		check_columns(json_get(version, "additionalPrinterColumns"),
			      at->cols ? &common_cols : &cols, c);
	if (!at->fields || at->first)
		check_selectable(version, at->fields ? &common_fields : &fields, c);
}

static bool is_twice(const struct json *versions, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (str_eq(text_of(json_at(versions, k), "name"),
			   text_of(json_at(versions, i), "name")))
			return true;
	return false;
}

static void check_versions(const struct json *versions, struct causes *c)
{
	static const struct path list = { .name = "spec.versions" };
	struct places at = { .schema = all_alike(versions, "schema"),
			     .subs = all_alike(versions, "subresources"),
			     .cols = all_alike(versions, "additionalPrinterColumns"),
			     .fields = all_alike(versions, "selectableFields") };
	size_t stored = 0, i = 0;
	bool twice = false;

	if (json_len(versions) > CRD_VERSIONS_MAX) {
		wrong(c, CAUSE_INVALID, &list, "Too many: %zu: must have at most %d items",
		      json_len(versions), CRD_VERSIONS_MAX);
		return;
	}
	json_each(it, versions) {
		at.own = (struct path){ .up = &list, .index = i };
		at.first = i == 0;
		check_version(it.val, &at, c);
		stored += json_get_bool(it.val, "storage", false);
		twice |= is_twice(versions, i++);
	}
	if (twice)
		wrong_value(c, &list, versions, "must contain unique version names");
	if (stored != 1)
		wrong_value(c, &list, versions,
			    "must have exactly one version marked as storage version");
}

/* Status */

static void check_stored(const struct json *obj, struct causes *c)
{
	const struct json *stored = json_get(json_get(obj, "status"), "storedVersions");
	size_t i = 0;

	if (!json_len(stored))
		causes_invalid(c, "status.storedVersions", NULL,
			       "must have at least one stored version");
	json_each(it, stored) {
		autofree char *at = xasprintf("status.storedVersions[%zu]", i++), *text = NULL;
		const char *name = str_or(json_str(it.val), "");
		bool known = false;

		json_each(v, json_get(json_get(obj, "spec"), "versions"))
			known |= str_eq(text_of(v.val, "name"), name);
		if (known)
			continue;
		text = xasprintf(
			"missing from spec.versions; %s was previously a storage version, "
			"and must remain in spec.versions until a storage migration ensures "
			"no data remains persisted in %s and removes %s from "
			"status.storedVersions",
			name, name, name);
		causes_invalid(c, at, it.val, text);
	}
}

static void check_fixed(const struct json *obj, const struct json *old, const char *path,
			struct causes *c)
{
	const struct json *v = json_at_path(obj, path);

	if (!json_equal(v, json_at_path(old, path)))
		causes_invalid(c, path, v, "field is immutable");
}

static void check_update(const struct json *obj, const struct json *old, struct causes *c)
{
	if (crd_established(old)) {
		check_fixed(obj, old, "spec.scope", c);
		check_fixed(obj, old, "spec.names.kind", c);
	}
	check_fixed(obj, old, "spec.group", c);
	check_fixed(obj, old, "spec.names.plural", c);
}

/* Groups under k8s.io belong to Kubernetes. */
static void check_approval(const struct json *meta, const char *group, struct causes *c)
{
	static const char key[] = "api-approved.kubernetes.io";
	static const char field[] = "metadata.annotations[api-approved.kubernetes.io]";
	const char *v = json_get_str(json_get(meta, "annotations"), key);

	if (!str_eq(group, "k8s.io") && !str_ends(group, ".k8s.io") &&
	    !str_eq(group, "kubernetes.io") && !str_ends(group, ".kubernetes.io"))
		return;
	if (str_empty(v))
		causes_required(c, field,
				"protected groups must have approval annotation "
				"\"api-approved.kubernetes.io\", see "
				"https://github.com/kubernetes/enhancements/pull/1111");
	else if (!str_starts(v, "unapproved") && !str_starts(v, "http://") &&
		 !str_starts(v, "https://"))
		causes_invalid_str(c, field, v,
				   "protected groups must have approval annotation "
				   "\"api-approved.kubernetes.io\" with either a URL or a reason "
				   "starting with \"unapproved\", see "
				   "https://github.com/kubernetes/enhancements/pull/1111");
}

void crd_validate(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *meta = json_get(obj, "metadata"), *spec = json_get(obj, "spec");
	const struct json *names = json_get(spec, "names");
	const char *group = text_of(spec, "group");
	autofree char *name = xasprintf("%s.%s", text_of(names, "plural"), group);

	if (!old && !str_eq(text_of(meta, "name"), name))
		causes_invalid_str(c, "metadata.name", text_of(meta, "name"),
				   "must be spec.names.plural+\".\"+spec.group");
	check_group(group, c);
	check_scope(text_of(spec, "scope"), c);
	check_versions(json_get(spec, "versions"), c);
	check_names(names, c);
	check_conversion(json_get(spec, "conversion"), c);
	if (json_get_bool(spec, "preserveUnknownFields", false))
		causes_invalid(c, "spec.preserveUnknownFields",
			       json_get(spec, "preserveUnknownFields"),
			       "cannot set to true, set x-kubernetes-preserve-unknown-fields to "
			       "true in spec.versions[*].schema instead");
	check_stored(obj, c);
	check_approval(meta, group, c);
	if (old)
		check_update(obj, old, c);
}
