/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"

#include <ctype.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/schema.h"
#include "base/str.h"

/*
 * The rules of metadata, with the texts of Kubernetes, because people and tools know those.
 */
enum {
	MAX_LABEL = 63,
	MAX_SUBDOMAIN = 253,
	MAX_ANNOTATIONS = 256 * 1024,
};

#define LABEL_REGEX     "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define SUBDOMAIN_REGEX LABEL_REGEX "(\\." LABEL_REGEX ")*"
#define REGEX_USED(r)   "regex used for validation is '" r "')"

static const char bad_label[] =
	"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
	"must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', " REGEX_USED(
		LABEL_REGEX);
static const char bad_subdomain[] =
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
	"'.', and must start and end with an alphanumeric character (e.g. 'example.com', " REGEX_USED(
		SUBDOMAIN_REGEX);
static const char bad_qualified[] =
	"name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
	"with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', " REGEX_USED(
		"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]");
static const char bad_value[] =
	"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
	"'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
	"'my_value',  or '12345', " REGEX_USED("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?");

static const char empty_name[] = "name part must be non-empty";

static bool is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_dns_label(const char *s, size_t len)
{
	if (!len || !is_lower_alnum(s[0]) || !is_lower_alnum(s[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_lower_alnum(s[i]) && s[i] != '-')
			return false;
	return true;
}

const char *meta_bad_dns_label(const char *s)
{
	if (strlen(s) > MAX_LABEL)
		return "must be no more than 63 characters";
	if (is_dns_label(s, strlen(s)))
		return NULL;
	return strchr(s, '.') && !meta_bad_dns_subdomain(s) ? "must not contain dots" : bad_label;
}

const char *meta_bad_dns_subdomain(const char *s)
{
	struct span rest = SPAN(s);

	if (rest.len > MAX_SUBDOMAIN)
		return "must be no more than 253 characters";
	while (rest.p) {
		struct span part = span_cut(rest, '.', &rest);

		if (!is_dns_label(part.p, part.len))
			return bad_subdomain;
	}
	return NULL;
}

/* Letters, digits and -_. with a letter or digit at both ends. */
static bool is_name_text(const char *s, size_t len)
{
	if (!len || !isalnum((unsigned char)s[0]) || !isalnum((unsigned char)s[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("-_.", s[i]))
			return false;
	return true;
}

static const char *bad_prefix(const char *s, size_t len)
{
	char prefix[MAX_SUBDOMAIN + 1];

	if (!len)
		return "prefix part must be non-empty";
	if (len > MAX_SUBDOMAIN)
		return "prefix part must be no more than 253 bytes";
	memcpy(prefix, s, len);
	prefix[len] = 0;
	if (meta_bad_dns_subdomain(prefix))
		return "prefix part a lowercase RFC 1123 subdomain must consist of lower case "
		       "alphanumeric characters, '-' or '.', and must start and end with an "
		       "alphanumeric character (e.g. 'example.com', " REGEX_USED(SUBDOMAIN_REGEX);
	return NULL;
}

size_t meta_qualified_name_faults(const char *s, const char *ret[META_FAULTS_MAX])
{
	const char *slash = strchr(s, '/'), *name = slash ? slash + 1 : s, *bad;
	size_t n = 0;

	if (strchr(name, '/')) {
		ret[0] =
			"a valid label key must consist of alphanumeric characters, '-', '_' or '.', "
			"and must start and end with an alphanumeric character (e.g. 'MyName',  or "
			"'my.name',  or '123-abc', regex used for validation is "
			"'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain "
			"prefix and '/' (e.g. 'example.com/MyName')";
		return 1;
	}
	bad = slash ? bad_prefix(s, (size_t)(slash - s)) : NULL;
	if (bad)
		ret[n++] = bad;
	if (!*name)
		ret[n++] = empty_name;
	else if (strlen(name) > MAX_LABEL)
		ret[n++] = "name part must be no more than 63 bytes";
	if (!is_name_text(name, strlen(name)))
		ret[n++] = bad_qualified;
	return n;
}

const char *meta_bad_qualified_name(const char *s)
{
	const char *why[META_FAULTS_MAX];

	return meta_qualified_name_faults(s, why) ? why[0] : NULL;
}

const char *meta_bad_label_value(const char *s)
{
	if (strlen(s) > MAX_LABEL)
		return "must be no more than 63 bytes";
	return !*s || is_name_text(s, strlen(s)) ? NULL : bad_value;
}

const char *meta_bad_segment(const char *s)
{
	if (str_eq(s, ".") || str_eq(s, ".."))
		return s[1] ? "may not be '..'" : "may not be '.'";
	return strchr(s, '/')   ? "may not contain '/'"
	       : strchr(s, '%') ? "may not contain '%'"
				: NULL;
}

const char *meta_bad_path_name(const char *s)
{
	if (strlen(s) > MAX_SUBDOMAIN)
		return "must be no more than 253 characters"; /* keys in the store have a limit */
	return meta_bad_segment(s);
}

static const char *bad_name(const char *name, unsigned flags)
{
	if (flags & KIND_OWN_NAMES)
		return NULL;
	if (flags & KIND_PATH_NAMES)
		return meta_bad_path_name(name);
	return flags & KIND_LABEL_NAMES ? meta_bad_dns_label(name) : meta_bad_dns_subdomain(name);
}

/* What it begins with; a dash at its end is not the end of the name. */
static void check_prefix(const char *prefix, unsigned flags, struct causes *c)
{
	autofree char *text = xstrdup(str_or(prefix, ""));
	size_t len = strlen(text);
	const char *bad;

	if (len > 1 && text[len - 1] == '-')
		text[len - 1] = 'a';
	bad = len ? bad_name(text, flags) : NULL;
	if (bad)
		causes_invalid_str(c, "metadata.generateName", prefix, bad);
}

static void check_names(const struct json *meta, unsigned flags, struct causes *c)
{
	bool namespaced = flags & KIND_NAMESPACED;
	const char *name = json_get_str(meta, "name"), *ns = json_get_str(meta, "namespace");
	const char *bad;

	check_prefix(json_get_str(meta, "generateName"), flags, c);
	if (str_empty(name)) {
		causes_required(c, "metadata.name", "name or generateName is required");
	} else {
		bad = bad_name(name, flags);
		if (bad)
			causes_invalid_str(c, "metadata.name", name, bad);
	}
	if (!namespaced && !str_empty(ns))
		causes_forbidden(c, "metadata.namespace", "not allowed on this type");
	if (namespaced && str_empty(ns))
		causes_required(c, "metadata.namespace", NULL);
	bad = namespaced && !str_empty(ns) ? meta_bad_dns_label(ns) : NULL;
	if (bad)
		causes_invalid_str(c, "metadata.namespace", ns, bad);
}

/* A key that lacks its last part is wrong in two ways. */
static void check_key(struct causes *c, const char *path, const char *key, const char *bad)
{
	if (bad)
		causes_invalid_str(c, path, key, bad);
	if (bad == empty_name)
		causes_invalid_str(c, path, key, bad_qualified);
}

void meta_validate_key(const char *key, const char *path, struct causes *c)
{
	check_key(c, path, key, meta_bad_qualified_name(key));
}

void meta_validate_labels(const struct json *labels, const char *path, struct causes *c)
{
	const char *bad;

	json_each(it, json_is(labels, JSON_OBJ) ? labels : NULL) {
		check_key(c, path, it.key, meta_bad_qualified_name(it.key));
		bad = json_str(it.val) ? meta_bad_label_value(json_str(it.val)) : NULL;
		if (bad)
			causes_invalid(c, path, it.val, bad);
	}
}

/* Keys may have capitals anywhere, unlike label keys. */
static const char *bad_annotation_key(const char *key)
{
	autofree char *lower = xstrdup(key);

	for (char *p = lower; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return meta_bad_qualified_name(lower);
}

void meta_validate_annotations(const struct json *annotations, const char *path, struct causes *c)
{
	size_t total = 0;

	json_each(it, json_is(annotations, JSON_OBJ) ? annotations : NULL) {
		check_key(c, path, it.key, bad_annotation_key(it.key));
		total += strlen(it.key) + json_str_len(it.val);
	}
	if (total > MAX_ANNOTATIONS)
		causes_add(c, CAUSE_TOO_LONG, path, "Too long: may not be more than %d bytes",
			   MAX_ANNOTATIONS);
}

static void check_owner(const struct json *ref, struct causes *c)
{
	static const char *const needed[] = { "kind", "name", "uid" };
	const char *version = json_get_str(ref, "apiVersion");
	char path[64];

	if (str_empty(version) || str_ends(version, "/") ||
	    strchr(version, '/') != strrchr(version, '/'))
		causes_invalid_str(c, "metadata.ownerReferences.apiVersion", version,
				   "version must not be empty");
	for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
		const char *v = json_get_str(ref, needed[i]);

		if (!str_empty(v))
			continue;
		(void)snprintf(path, sizeof(path), "metadata.ownerReferences.%s", needed[i]);
		causes_invalid_str(c, path, "", "must not be empty");
	}
	if (str_eq(version, "v1") && str_eq(json_get_str(ref, "kind"), "Event"))
		causes_invalid(c, "metadata.ownerReferences", ref,
			       "/v1, Kind=Event is disallowed from being an owner");
}

static void tell_two_controllers(const struct json *refs, const struct json *a,
				 const struct json *b, struct causes *c)
{
	autofree char *text = xasprintf(
		"Only one reference can have Controller set to true. Found \"true\" in references for "
		"%s/%s and %s/%s",
		str_or(json_get_str(a, "kind"), ""), str_or(json_get_str(a, "name"), ""),
		str_or(json_get_str(b, "kind"), ""), str_or(json_get_str(b, "name"), ""));

	causes_invalid(c, "metadata.ownerReferences", refs, text);
}

static void check_owners(const struct json *refs, struct causes *c)
{
	const struct json *first = NULL;

	json_each(it, refs) {
		check_owner(it.val, c);
		if (!json_get_bool(it.val, "controller", false))
			continue;
		if (first)
			tell_two_controllers(refs, first, it.val, c);
		else
			first = it.val;
	}
}

/* Built-in kinds know three finalizers that need no domain. */
static void check_standard(const struct json *finalizers, struct causes *c)
{
	static const char *const standard[] = { "kubernetes", FINALIZER_ORPHAN,
						FINALIZER_FOREGROUND, NULL };
	size_t i = 0;

	json_each(it, finalizers) {
		const char *name = str_or(json_str(it.val), "");
		autofree char *path = xasprintf("metadata.finalizers[%zu]", i++);

		if (!strchr(name, '/') && !str_in(name, standard))
			causes_invalid_str(c, path, name,
					   "name is neither a standard finalizer name nor is it "
					   "fully qualified");
	}
}

static void check_finalizers(const struct json *finalizers, unsigned flags, struct causes *c)
{
	static const char path[] = "metadata.finalizers";
	bool orphan = false, foreground = false;

	json_each(it, finalizers) {
		const char *name = str_or(json_str(it.val), "");

		check_key(c, path, name, meta_bad_qualified_name(name));
		orphan |= str_eq(name, FINALIZER_ORPHAN);
		foreground |= str_eq(name, FINALIZER_FOREGROUND);
	}
	if (orphan && foreground)
		causes_invalid(c, path, finalizers,
			       "finalizer orphan and foregroundDeletion cannot be both set");
	if (!(flags & (KIND_CRD | KIND_DEFINES)))
		check_standard(finalizers, c);
}

/* The member, unless the settled object has the very same one. */
static const struct json *news(const struct json *metadata, const struct json *was,
			       const char *name)
{
	const struct json *v = json_get(metadata, name);

	return json_same(v, json_get(was, name)) ? NULL : v;
}

void meta_validate(const struct json *metadata, unsigned flags, const struct json *was,
		   struct causes *c)
{
	if (!was || news(metadata, was, "name") || news(metadata, was, "namespace") ||
	    news(metadata, was, "generateName"))
		check_names(metadata, flags, c);
	meta_validate_labels(news(metadata, was, "labels"), "metadata.labels", c);
	meta_validate_annotations(news(metadata, was, "annotations"), "metadata.annotations", c);
	check_owners(news(metadata, was, "ownerReferences"), c);
	check_finalizers(news(metadata, was, "finalizers"), flags, c);
}

struct json *meta_controller_ref(struct json_doc *d, const struct object *owner)
{
	struct json *ref = json_obj(d);

	json_set_str(d, ref, "apiVersion", kind_api_version(owner->kind));
	json_set_str(d, ref, "kind", owner->kind->kind);
	json_set_str(d, ref, "name", owner->name);
	json_set_str(d, ref, "uid", owner->uid);
	json_set_bool(d, ref, "controller", true);
	json_set_bool(d, ref, "blockOwnerDeletion", true);
	return ref;
}
