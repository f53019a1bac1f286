/* SPDX-License-Identifier: Apache-2.0 */
#include "api/members_priv.h"
#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"

/* The rules of the core kinds other than Pods, Services and volumes. */
enum {
	MAX_DATA = 1024 * 1024
};

static const char name_path[] = "metadata.name";

void validate_namespace(const struct json *obj, unused const struct json *old, struct causes *c)
{
	const char *name = json_get_str(json_get(obj, "metadata"), "name");
	const char *bad = str_empty(name) ? NULL : meta_bad_dns_label(name);

	if (bad)
		causes_invalid_str(c, name_path, name, bad);
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
