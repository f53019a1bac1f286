/* SPDX-License-Identifier: Apache-2.0 */
#include "api/members_priv.h"
#include "api/meta.h"
#include "api/storage.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/str.h"

/* The rules of volumes: PersistentVolumeClaim, PersistentVolume, StorageClass. */

static const char immutable[] = "field is immutable";

/* What a volume may ask for. Less holds no file system worth the name, and more is a slip of the
 * pen. */
static const int64_t volume_min = INT64_C(1) << 20, volume_max = INT64_C(64) << 40;

/* PersistentVolumeClaim */
static void check_storage(const struct json *spec, const struct path *up, struct causes *c)
{
	const struct json *size = json_at_path(spec, "resources.requests.storage");
	const struct path *p = KEY(IN(up, "resources"), "storage");
	int64_t milli = 1;

	if (!size) {
		bad_required(c, p, NULL);
		return;
	}
	err_free(quantity_parse_milli(size, &milli)); /* decoding has reported what is none */
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

static bool is_same(const struct json *a, const struct json *b, const char *member)
{
	return str_eq(str_or(json_get_str(a, member), ""), str_or(json_get_str(b, member), ""));
}

/* What this server's node does not do is refused when it is asked for, not when a Pod waits. */
static void check_new_claim(const struct json *spec, struct causes *c)
{
	static const char *const modes[] = { "Filesystem", NULL };

	if (str_eq(json_get_str(spec, "volumeMode"), "Block"))
		causes_unsupported(c, "spec.volumeMode", "Block", modes);
	check_source(spec, json_get(spec, "dataSource") ? "dataSource" : "dataSourceRef", c);
}

static void check_modes(const struct json *spec, const struct path *up, struct causes *c)
{
	static const char *const modes[] = { "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
					     "ReadWriteOncePod", NULL };
	const struct path *p = IN(up, "accessModes");
	size_t n_alone = 0, n_others = 0;

	json_each(it, json_get(spec, "accessModes")) {
		const char *mode = str_or(json_str(it.val), "");
		bool known = str_in(mode, modes);

		if (!known)
			bad_unsupported(c, p, mode, modes);
		if (str_eq(mode, "ReadWriteOncePod"))
			n_alone++;
		else
			n_others += known;
	}
	if (n_alone && n_others)
		bad_forbidden(c, p, "may not use ReadWriteOncePod with other access modes");
}

static void check_source_ref(const struct json *ref, const struct path *p, struct causes *c)
{
	const char *kind = str_or(json_get_str(ref, "kind"), "");

	if (!ref)
		return;
	(void)need_text(c, p, ref, "name");
	(void)need_text(c, p, ref, "kind");
	if (str_empty(json_get_str(ref, "apiGroup")) && !str_eq(kind, "PersistentVolumeClaim"))
		bad_text(c, p, kind,
			 "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
	check_text(c, p, ref, "apiGroup", meta_bad_dns_subdomain);
	check_text(c, p, ref, "namespace", meta_bad_dns_label);
}

/* The defaults fill in the one that is missing: two that differ were sent so. */
static void check_source_refs(const struct json *spec, const struct path *p, struct causes *c)
{
	const struct json *source = json_get(spec, "dataSource");
	const struct json *ref = json_get(spec, "dataSourceRef");

	check_source_ref(source, IN(p, "dataSource"), c);
	check_source_ref(ref, IN(p, "dataSourceRef"), c);
	if (!source || !ref)
		return;
	if (!str_empty(json_get_str(ref, "namespace")))
		causes_add(c, CAUSE_INVALID, "spec",
			   "Invalid value: {}: may not be specified when dataSourceRef.namespace "
			   "is specified");
	else if (!is_same(source, ref, "apiGroup") || !is_same(source, ref, "kind") ||
		 !is_same(source, ref, "name"))
		causes_add(c, CAUSE_INVALID, "spec", "Invalid value: {}: must match dataSourceRef");
}

static void check_claim_spec(const struct json *spec, const struct path *p, struct causes *c)
{
	static const char *const modes[] = { "Block", "Filesystem", NULL };

	if (!json_len(json_get(spec, "accessModes")))
		bad_required(c, IN(p, "accessModes"), "at least 1 access mode is required");
	check_selector(c, IN(p, "selector"), json_get(spec, "selector"));
	check_modes(spec, p, c);
	check_storage(spec, p, c);
	check_text(c, p, spec, "storageClassName", meta_bad_dns_subdomain);
	check_values(c, p, spec, "volumeMode", modes);
	check_source_refs(spec, p, c);
}

void validate_claim_template(const struct json *template, const struct path *p, struct causes *c)
{
	const struct json *meta = json_get(template, "metadata");
	autofree char *notes = path_text(IN(IN(p, "metadata"), "annotations"));

	meta_validate_annotations(json_get(meta, "annotations"), notes, c);
	check_labels(c, json_get(meta, "labels"), IN(IN(p, "metadata"), "labels"));
	json_each(it, meta)
		if (!str_eq(it.key, "annotations") && !str_eq(it.key, "labels"))
			bad_forbidden(c, IN(IN(p, "metadata"), it.key), "cannot be set");
	check_claim_spec(json_get(template, "spec"), IN(p, "spec"), c);
}

static void check_claim_update(const struct json *obj, const struct json *old, struct causes *c)
{
	/* What defaults have filled in since it was stored is no change. */
	static const char *const filled_in[] = { "storageClassName", "dataSource",
						 "dataSourceRef" };
	autoptr(json_doc) d = json_doc_new();
	struct json *now = json_copy(d, json_get(obj, "spec"));
	const struct json *was = json_get(old, "spec");
	struct json *requests = json_at_path(now, "resources.requests");
	const struct json *was_size = json_at_path(was, "resources.requests.storage");
	bool bound = str_eq(json_str(json_at_path(old, "status.phase")), "Bound");

	if (str_empty(json_get_str(was, "volumeName")))
		json_set(d, now, "volumeName", json_copy(d, json_get(was, "volumeName")));
	for (size_t i = 0; i < ARRAY_LEN(filled_in); i++)
		if (!json_get(was, filled_in[i]))
			json_del(now, filled_in[i]);
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
	const struct json *spec = json_get(obj, "spec");

	check_claim_spec(spec, IN(NULL, "spec"), c);
	if (c->n)
		return;
	check_bounds(spec, json_get(old, "spec"), c);
	if (old)
		check_claim_update(obj, old, c);
	else
		check_new_claim(spec, c);
}

/* PersistentVolume */

/* The members of spec of which there is exactly one, in the order in which they are reported. */
static const char *const sources[] = {
	"hostPath",
	"gcePersistentDisk",
	"awsElasticBlockStore",
	"glusterfs",
	"flocker",
	"nfs",
	"rbd",
	"quobyte",
	"cephfs",
	"iscsi",
	"cinder",
	"fc",
	"flexVolume",
	"azureFile",
	"vsphereVolume",
	"photonPersistentDisk",
	"azureDisk",
	"portworxVolume",
	"scaleIO",
	"local",
	"storageos",
	"csi",
	NULL,
};

static void check_capacity(const struct json *spec, struct causes *c)
{
	const struct json *capacity = json_get(spec, "capacity");
	const struct path *p = IN(IN(NULL, "spec"), "capacity"), *at = KEY(p, "storage");
	int64_t milli = 1;

	if (!json_len(capacity))
		bad_required(c, p, NULL);
	if (json_len(capacity) != 1 || !json_get(capacity, "storage")) {
		autofree char *text = json_to_text(capacity);

		causes_add(c, CAUSE_UNSUPPORTED, "spec.capacity",
			   "Unsupported value: %.256s: supported values: \"storage\"", text);
		return;
	}
	err_free(quantity_parse_milli(json_get(capacity, "storage"), &milli));
	if (milli < 0)
		bad_int(c, at, milli / 1000, "must be a valid resource quantity");
	if (milli <= 0)
		bad_invalid(c, at, json_get(capacity, "storage"), "must be greater than zero");
}

static void check_path(const struct json *source, const struct path *p, struct causes *c)
{
	const char *path = need_text(c, p, source, "path");
	struct span rest = SPAN(path ? path : "");

	while (rest.p)
		if (span_eq(span_cut(rest, '/', &rest), "..")) {
			bad_text(c, IN(p, "path"), path, "must not contain '..'");
			return;
		}
}

static void check_secret_refs(const struct json *csi, const struct path *up, struct causes *c)
{
	static const char *const names[] = { "controllerPublishSecretRef",
					     "controllerExpandSecretRef", "nodePublishSecretRef",
					     "nodeExpandSecretRef" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct json *ref = json_get(csi, names[i]);
		const struct path *p = IN(up, names[i]);

		if (!ref)
			continue;
		(void)need_text(c, p, ref, "name");
		check_text(c, p, ref, "name", meta_bad_dns_subdomain);
		(void)need_text(c, p, ref, "namespace");
		check_text(c, p, ref, "namespace", meta_bad_dns_label);
	}
}

static void check_csi(const struct json *csi, const struct path *p, struct causes *c)
{
	const char *driver = need_text(c, p, csi, "driver");
	const char *handle = need_text(c, p, csi, "volumeHandle"), *bad;

	check_text(c, p, csi, "driver", meta_bad_dns_subdomain);
	/* It is the name of a directory. */
	bad = handle && str_eq(driver, STORAGE_DRIVER) ? meta_bad_dns_label(handle) : NULL;
	if (bad)
		bad_text(c, IN(p, "volumeHandle"), handle, bad);
	check_secret_refs(csi, p, c);
}

static void check_one_source(const struct json *spec, const struct path *p, struct causes *c)
{
	const char *first = NULL;

	for (size_t i = 0; sources[i]; i++) {
		if (!json_get(spec, sources[i]))
			continue;
		if (first)
			bad_forbidden(c, IN(p, sources[i]),
				      "may not specify more than 1 volume type");
		else
			first = sources[i];
	}
	if (!first)
		bad_required(c, p, "must specify a volume type");
	else if (str_eq(first, "csi"))
		check_csi(json_get(spec, first), IN(p, first), c);
	else if (str_eq(first, "local"))
		check_path(json_get(spec, first), IN(p, first), c);
	else
		validate_volume_source(first, json_get(spec, first), p, c);
	if (json_get(spec, "local") && !json_get(spec, "nodeAffinity"))
		bad_required(c, IN(p, "nodeAffinity"), "Local volume requires node affinity");
}

static void check_affinity(const struct json *spec, const struct path *p, struct causes *c)
{
	const struct json *affinity = json_get(spec, "nodeAffinity");
	const struct json *required = json_get(affinity, "required");
	const struct path *at = IN(IN(p, "nodeAffinity"), "required");

	if (affinity && !required)
		bad_required(c, at, "must specify required node constraints");
	else if (affinity)
		check_node_selector(c, required, at);
}

static void check_volume_update(const struct json *spec, const struct json *was, struct causes *c)
{
	for (size_t i = 0; sources[i]; i++)
		if (!json_equal(json_get(spec, sources[i]), json_get(was, sources[i]))) {
			causes_forbidden(c, "spec.persistentvolumesource",
					 "spec.persistentvolumesource is immutable after creation");
			break;
		}
	if (!json_equal(json_get(spec, "volumeMode"), json_get(was, "volumeMode")))
		causes_invalid(c, "volumeMode", json_get(spec, "volumeMode"), immutable);
	if (json_get(was, "nodeAffinity") &&
	    !json_equal(json_get(spec, "nodeAffinity"), json_get(was, "nodeAffinity")))
		causes_invalid(c, "nodeAffinity", json_get(spec, "nodeAffinity"), immutable);
}

void validate_persistent_volume(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const modes[] = { "Block", "Filesystem", NULL };
	static const char *const policies[] = { "Delete", "Recycle", "Retain", NULL };
	const struct json *spec = json_get(obj, "spec");
	const struct path *p = IN(NULL, "spec");

	if (!json_len(json_get(spec, "accessModes")))
		bad_required(c, IN(p, "accessModes"), NULL);
	check_modes(spec, p, c);
	check_capacity(spec, c);
	check_values(c, p, spec, "persistentVolumeReclaimPolicy", policies);
	check_affinity(spec, p, c);
	check_one_source(spec, p, c);
	if (str_eq(json_str(json_at_path(spec, "hostPath.path")), "/") &&
	    str_eq(json_get_str(spec, "persistentVolumeReclaimPolicy"), "Recycle"))
		bad_forbidden(c, IN(p, "persistentVolumeReclaimPolicy"),
			      "may not be 'recycle' for a hostPath mount of '/'");
	check_text(c, p, spec, "storageClassName", meta_bad_dns_subdomain);
	check_values(c, p, spec, "volumeMode", modes);
	if (old)
		check_volume_update(spec, json_get(old, "spec"), c);
}

/* StorageClass */
static void check_parameters(const struct json *obj, struct causes *c)
{
	enum {
		PARAMETERS_MAX = 512,
		BYTES_MAX = 256 * 1024,
	};
	const struct json *list = members(json_get(obj, "parameters"));
	size_t total = 0;

	json_each(it, list) {
		if (!*it.key)
			causes_invalid_str(c, "parameters", "", "field can not be empty.");
		total += strlen(it.key) + json_str_len(it.val);
	}
	if (json_len(list) > PARAMETERS_MAX)
		causes_add(c, CAUSE_TOO_LONG, "parameters",
			   "Too long: may not be more than %d bytes", PARAMETERS_MAX);
	else if (total > BYTES_MAX)
		causes_add(c, CAUSE_TOO_LONG, "parameters",
			   "Too long: may not be more than %d bytes", BYTES_MAX);
}

static const char *bad_provisioner(const char *s)
{
	autofree char *low = xstrdup(s);

	for (char *p = low; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	return meta_bad_qualified_name(low);
}

static void check_topology(const struct json *term, const struct path *p, struct causes *c)
{
	autoptr(map) keys = map_new(NULL);
	size_t i = 0;

	json_each(it, json_get(term, "matchLabelExpressions")) {
		const struct path *at = AT(IN(p, "matchLabelExpressions"), i++);
		const char *key = str_or(json_get_str(it.val, "key"), "");
		autoptr(map) values = map_new(NULL);
		size_t k = 0;

		if (!json_len(json_get(it.val, "values")))
			bad_required(c, IN(at, "values"), NULL);
		json_each(v, json_get(it.val, "values")) {
			const char *value = str_or(json_str(v.val), "");

			if (map_has(values, value))
				bad_duplicate(c, AT(IN(at, "values"), k), value);
			map_put(values, value, values);
			k++;
		}
		check_qualified(c, key, IN(at, "key"));
		if (map_has(keys, key))
			bad_duplicate(c, IN(at, "key"), key);
		map_put(keys, key, keys);
	}
}

static void check_topologies(const struct json *obj, struct causes *c)
{
	size_t i = 0;

	json_each(it, json_get(obj, "allowedTopologies"))
		check_topology(it.val, AT(IN(NULL, "allowedTopologies"), i++), c);
}

void validate_storage_class(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const frozen[] = { "parameters", "provisioner", "reclaimPolicy",
					      "volumeBindingMode" };
	static const char *const policies[] = { "Delete", "Retain", NULL };
	static const char *const modes[] = { "Immediate", "WaitForFirstConsumer", NULL };

	(void)need_text(c, NULL, obj, "provisioner");
	check_text(c, NULL, obj, "provisioner", bad_provisioner);
	check_parameters(obj, c);
	check_values(c, NULL, obj, "reclaimPolicy", policies);
	check_supported(c, NULL, obj, "volumeBindingMode", modes);
	check_topologies(obj, c);
	for (size_t i = 0; old && i < ARRAY_LEN(frozen); i++) {
		const struct json *now = json_get(obj, frozen[i]), *was = json_get(old, frozen[i]);

		if (!json_equal(now, was) && (json_len(now) || json_len(was) || json_str(now)))
			causes_invalid(c, frozen[i], now, immutable);
	}
}
