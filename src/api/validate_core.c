/* SPDX-License-Identifier: Apache-2.0 */
#include "api/members_priv.h"
#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"

/* The rules of the core kinds other than Pods and Services. */
enum {
	MAX_DATA = 1024 * 1024
};

/* What a volume may ask for. Less holds no file system worth the name, and more is a slip of the
 * pen. */
static const int64_t volume_min = INT64_C(1) << 20, volume_max = INT64_C(64) << 40;

static const char name_path[] = "metadata.name";

void validate_namespace(const struct json *obj, unused const struct json *old, struct causes *c)
{
	const char *name = json_get_str(json_get(obj, "metadata"), "name");
	const char *bad = str_empty(name) ? NULL : meta_bad_dns_label(name);

	if (bad)
		causes_invalid_str(c, name_path, name, bad);
}

/* PersistentVolumeClaim */
static void check_storage(const struct json *spec, struct causes *c)
{
	const struct json *size = json_at_path(spec, "resources.requests.storage");
	const struct path *p = KEY(IN(IN(NULL, "spec"), "resources"), "storage");
	int64_t milli = 1;

	if (!size) {
		bad_required(c, p, NULL);
		return;
	}
	err_free(quantity_parse_milli(size, &milli)); /* the schema reports it */
	if (milli <= 0)
		bad_invalid(c, p, size, "must be greater than zero");
}

/* A claim that was stored before there were bounds can still be changed in all other ways. */
static void check_bounds(const struct json *spec, const struct json *was, struct causes *c)
{
	const struct json *size = json_at_path(spec, "resources.requests.storage");
	const struct json *old = json_at_path(was, "resources.requests.storage");
	int64_t milli = 0;

	if (!size || (old && quantity_equal(size, old)))
		return;
	err_free(quantity_parse_milli(size, &milli)); /* the schema reports it */
	if (milli / 1000 > volume_max)
		causes_invalid(c, "spec.resources.requests.storage", size, "must be at most 64Ti");
	else if (milli > 0 && milli / 1000 < volume_min)
		causes_invalid(c, "spec.resources.requests.storage", size, "must be at least 1Mi");
}

static void check_source(const struct json *spec, const char *member, struct causes *c)
{
	static const char *const kinds[] = { "PersistentVolumeClaim", NULL };
	const struct json *source = json_get(spec, member);
	autofree char *kind = xasprintf("spec.%s.kind", member);
	autofree char *ns = xasprintf("spec.%s.namespace", member);
	autofree char *name = xasprintf("spec.%s.name", member);

	if (!json_is(source, JSON_OBJ))
		return;
	if (!str_eq(json_get_str(source, "kind"), kinds[0]) ||
	    !str_empty(json_get_str(source, "apiGroup")))
		causes_unsupported(c, kind, str_or(json_get_str(source, "kind"), ""), kinds);
	if (str_empty(json_get_str(source, "name")))
		causes_required(c, name, "");
	if (!str_empty(json_get_str(source, "namespace")))
		causes_forbidden(c, ns, "a volume is cloned within its namespace");
}

/* What this server's node does not do is refused when it is asked for, not when a Pod waits. */
static void check_new_claim(const struct json *spec, struct causes *c)
{
	static const char *const modes[] = { "Filesystem", NULL };

	if (str_eq(json_get_str(spec, "volumeMode"), "Block"))
		causes_unsupported(c, "spec.volumeMode", "Block", modes);
	if (json_len(json_get(spec, "selector")))
		causes_forbidden(c, "spec.selector", "there are no volumes to select from");
	check_source(spec, "dataSource", c);
	check_source(spec, "dataSourceRef", c);
}

static void check_modes(const struct json *spec, struct causes *c)
{
	static const char *const modes[] = { "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
					     "ReadWriteOncePod", NULL };
	const struct json *list = json_get(spec, "accessModes");

	if (!json_len(list))
		causes_required(c, "spec.accessModes", "at least 1 access mode is required");
	json_each(it, list)
		if (json_str(it.val) && !str_in(json_str(it.val), modes))
			causes_unsupported(c, "spec.accessModes", json_str(it.val), modes);
}

static void check_claim_update(const struct json *obj, const struct json *old, struct causes *c)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *now = json_copy(d, json_get(obj, "spec"));
	const struct json *was = json_get(old, "spec");
	struct json *requests = json_at_path(now, "resources.requests");
	const struct json *was_size = json_at_path(was, "resources.requests.storage");
	bool bound = str_eq(json_str(json_at_path(old, "status.phase")), "Bound");

	if (str_empty(json_get_str(was, "volumeName")))
		json_set(d, now, "volumeName", json_copy(d, json_get(was, "volumeName")));
	if (!json_get(was, "storageClassName"))
		json_del(now, "storageClassName");
	if (bound && json_is(requests, JSON_OBJ) && was_size) {
		int64_t a = 0, b = 0;

		err_free(quantity_parse_milli(json_get(requests, "storage"), &a));
		err_free(quantity_parse_milli(was_size, &b));
		if (a < b)
			causes_forbidden(c, "spec.resources.requests.storage",
					 "field can not be less than status.capacity");
		json_set(d, requests, "storage", json_copy(d, was_size));
	}
	if (!json_equal(now, was))
		causes_forbidden(c, "spec",
				 "spec is immutable after creation except resources.requests and "
				 "volumeAttributesClassName for bound claims");
}

void validate_persistent_volume_claim(const struct json *obj, const struct json *old,
				      struct causes *c)
{
	static const char *const modes[] = { "Block", "Filesystem", NULL };
	const struct json *spec = json_get(obj, "spec");
	const struct path *p = IN(NULL, "spec");

	if (!json_is(spec, JSON_OBJ))
		return;
	check_modes(spec, c);
	check_storage(spec, c);
	check_selector(c, IN(p, "selector"), json_get(spec, "selector"));
	check_text(c, p, spec, "storageClassName", meta_bad_dns_subdomain);
	check_values(c, p, spec, "volumeMode", modes);
	check_bounds(spec, json_get(old, "spec"), c);
	if (old)
		check_claim_update(obj, old, c);
	else
		check_new_claim(spec, c);
}

/* Secret and ConfigMap */
static size_t check_entries(const struct json *obj, const char *name, bool coded, struct causes *c)
{
	size_t total = 0;

	json_each(it, members(json_get(obj, name))) {
		const char *bad = bad_config_key(it.key);

		if (bad)
			bad_text(c, KEY(IN(NULL, name), it.key), it.key, bad);
		total += coded ? json_str_len(it.val) / 4 * 3 : json_str_len(it.val);
	}
	return total;
}

static void check_size(size_t total, const char *path, struct causes *c)
{
	if (total > MAX_DATA)
		causes_add(c, CAUSE_TOO_LONG, path, "Too long: may not be more than %d bytes",
			   MAX_DATA);
}

static void check_frozen(const struct json *obj, const struct json *old, const char *name,
			 struct causes *c)
{
	const struct json *now = json_get(obj, name), *was = json_get(old, name);

	if (!json_equal(now, was) && (json_len(now) || json_len(was)))
		causes_forbidden(c, name, "field is immutable when `immutable` is set");
}

static void check_immutable(const struct json *obj, const struct json *old, struct causes *c)
{
	if (!json_get_bool(old, "immutable", false))
		return;
	if (!json_get_bool(obj, "immutable", false))
		causes_forbidden(c, "immutable", "field is immutable when `immutable` is set");
	check_frozen(obj, old, "data", c);
	check_frozen(obj, old, "binaryData", c);
}

static void check_secret_type(const struct json *obj, struct causes *c)
{
	static const struct {
		const char *type, *keys[2];
	} needed[] = {
		{ "kubernetes.io/tls", { "tls.crt", "tls.key" } },
		{ "kubernetes.io/dockerconfigjson", { ".dockerconfigjson" } },
		{ "kubernetes.io/dockercfg", { ".dockercfg" } },
		{ "kubernetes.io/ssh-auth", { "ssh-privatekey" } },
	};
	const char *type = json_get_str(obj, "type");
	const struct json *data = json_get(obj, "data"), *notes;

	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		for (size_t k = 0; str_eq(type, needed[i].type) && k < 2; k++)
			if (needed[i].keys[k] && !json_get(data, needed[i].keys[k]))
				bad_required(c, KEY(IN(NULL, "data"), needed[i].keys[k]), NULL);
	notes = json_at_path(obj, "metadata.annotations");
	if (str_eq(type, "kubernetes.io/service-account-token") &&
	    str_empty(json_get_str(notes, "kubernetes.io/service-account.name")))
		causes_required(c, "metadata.annotations[kubernetes.io/service-account.name]",
				NULL);
}

void validate_secret(const struct json *obj, const struct json *old, struct causes *c)
{
	check_size(check_entries(obj, "data", true, c), "data", c);
	check_secret_type(obj, c);
	if (!old)
		return;
	if (!json_equal(json_get(obj, "type"), json_get(old, "type")))
		causes_invalid(c, "type", json_get(obj, "type"), "field is immutable");
	check_immutable(obj, old, c);
}

void validate_config_map(const struct json *obj, const struct json *old, struct causes *c)
{
	size_t total = check_entries(obj, "data", false, c);
	const struct json *binary = members(json_get(obj, "binaryData"));
	autoptr(map) seen = NULL;

	total += check_entries(obj, "binaryData", true, c);
	check_size(total, "", c);
	if (json_len(binary)) {
		seen = map_new(NULL);
		json_each(it, binary)
			map_put(seen, it.key, seen);
		json_each(it, members(json_get(obj, "data")))
			if (map_has(seen, it.key))
				bad_text(c, KEY(IN(NULL, "data"), it.key), it.key,
					 "duplicate of key present in binaryData");
	}
	if (old)
		check_immutable(obj, old, c);
}

/* Event, Lease, RuntimeClass */
void validate_event(const struct json *obj, unused const struct json *old, struct causes *c)
{
	const char *ns = json_get_str(json_get(obj, "metadata"), "namespace");
	const char *about = json_get_str(json_get(obj, "involvedObject"), "namespace");

	if (!str_empty(about) && !str_eq(about, ns))
		causes_invalid_str(c, "involvedObject.namespace", about,
				   "does not match event.namespace");
}

void validate_lease(const struct json *obj, unused const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	const struct json *seconds = json_get(spec, "leaseDurationSeconds");

	if (seconds && json_int(seconds, 1) <= 0)
		causes_invalid(c, "spec.leaseDurationSeconds", seconds, "must be greater than 0");
	check_not_negative(c, IN(NULL, "spec"), spec, "leaseTransitions");
}

/* What is spent on a runtime itself is not counted, and there is one node: both would be wishes
 * that nobody grants. */
void validate_runtime_class(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const refused[] = { "overhead", "scheduling" };

	if (need_text(c, NULL, obj, "handler"))
		check_text(c, NULL, obj, "handler", meta_bad_dns_label);
	if (old && !json_equal(json_get(obj, "handler"), json_get(old, "handler")))
		causes_invalid(c, "handler", json_get(obj, "handler"), "field is immutable");
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (json_get(obj, refused[i]))
			bad_forbidden(c, IN(NULL, refused[i]), "not supported by this server");
}
