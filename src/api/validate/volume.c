/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/meta.h"
#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* The volumes of a Pod, by type. */

enum {
	MANY_NAMES = 3,
	PARTITION_MAX = 255,
	DRIVER_MAX = 63,
};

/* What is checked of one type beyond the texts that it needs. */
struct volume_type {
	const char *name;
	const char *path;               /* in messages; NULL: the name */
	const char *needed[MANY_NAMES]; /* texts; lists are checked by check */
	void (*check)(struct pod_rules *r, const struct json *v, const struct path *p);
};

void check_mode(struct causes *c, const struct json *obj, const char *name, const struct path *p)
{
	const struct json *mode = json_get(obj, name);

	if (mode && (json_int(mode, 0) < 0 || json_int(mode, 0) > 0777))
		bad_invalid(c, IN(p, name), mode,
			    "must be a number between 0 and 0777 (octal), both inclusive");
}

static void check_host_path(struct pod_rules *r, const struct json *v, const struct path *p)
{
	static const char *const types[] = {
		"",     "BlockDevice",  "CharDevice", "Directory", "DirectoryOrCreate",
		"File", "FileOrCreate", "Socket",     NULL
	};
	const char *path = need_text(r->causes, p, v, "path");

	if (!path)
		return;
	if (has_backstep(path))
		bad_text(r->causes, IN(p, "path"), path, "must not contain '..'");
	if (json_get(v, "type"))
		check_supported(r->causes, p, v, "type", types);
}

static void check_git(struct pod_rules *r, const struct json *v, const struct path *p)
{
	check_descending(r->causes, str_or(json_get_str(v, "directory"), ""), IN(p, "directory"));
}

static void check_partition(struct pod_rules *r, const struct json *v, const struct path *p)
{
	int64_t n = json_get_int(v, "partition", 0);

	if (n < 0 || n > PARTITION_MAX)
		bad_invalid(r->causes, IN(p, "partition"), json_get(v, "partition"),
			    "must be between 1 and 255, inclusive");
}

static void check_keys(struct pod_rules *r, const struct json *v, const struct path *p)
{
	check_mode(r->causes, v, "defaultMode", p);
	spec_key_paths(r->causes, v, p);
}

static void check_nfs(struct pod_rules *r, const struct json *v, const struct path *p)
{
	const char *path = str_or(json_get_str(v, "path"), "");

	if (*path != '/')
		bad_text(r->causes, IN(p, "path"), path, "must be an absolute path");
}

static const char *bad_iqn(const char *s)
{
	static const char *const starts[] = { "iqn", "eui", "naa" };

	for (size_t i = 0; i < ARRAY_LEN(starts); i++)
		if (str_starts(s, starts[i]))
			return s[3] == '.' ? NULL : "must be valid format";
	return "must be valid format starting with iqn, eui, or naa";
}

static void check_iscsi(struct pod_rules *r, const struct json *v, const struct path *p)
{
	int64_t lun = json_get_int(v, "lun", 0);

	check_text(r->causes, p, v, "iqn", bad_iqn);
	if (lun < 0 || lun > PARTITION_MAX)
		bad_int(r->causes, IN(p, "lun"), lun, "must be between 0 and 255, inclusive");
	if ((json_get_bool(v, "chapAuthDiscovery", false) ||
	     json_get_bool(v, "chapAuthSession", false)) &&
	    !json_get(v, "secretRef"))
		bad_required(r->causes, IN(p, "secretRef"), NULL);
}

static void check_monitors(struct pod_rules *r, const struct json *v, const struct path *p)
{
	if (!json_len(json_get(v, "monitors")))
		bad_required(r->causes, IN(p, "monitors"), NULL);
}

static void check_rbd(struct pod_rules *r, const struct json *v, const struct path *p)
{
	check_monitors(r, v, p);
	(void)need_text(r->causes, p, v, "image");
}

static void check_secret_ref(struct pod_rules *r, const struct json *v, const struct path *p)
{
	const struct json *ref = json_get(v, "secretRef");

	if (ref)
		(void)need_text(r->causes, IN(p, "secretRef"), ref, "name");
}

static void check_downward(struct pod_rules *r, const struct json *v, const struct path *p)
{
	check_mode(r->causes, v, "defaultMode", p);
	json_each(it, json_get(v, "items"))
		spec_downward_item(r->causes, it.val, p);
}

static void check_fc(struct pod_rules *r, const struct json *v, const struct path *p)
{
	const struct json *names = json_get(v, "targetWWNs"), *ids = json_get(v, "wwids");
	const struct json *lun = json_get(v, "lun");

	if (!json_len(names) && !json_len(ids))
		bad_required(r->causes, IN(p, "targetWWNs"),
			     "must specify either targetWWNs or wwids, but not both");
	if (json_len(names) && json_len(ids))
		bad_invalid(r->causes, IN(p, "targetWWNs"), names,
			    "targetWWNs and wwids can not be specified simultaneously");
	if (json_len(names) && !lun)
		bad_required(r->causes, IN(p, "lun"), "lun is required if targetWWNs is specified");
	else if (json_len(names) && (json_int(lun, 0) < 0 || json_int(lun, 0) > PARTITION_MAX))
		bad_invalid(r->causes, IN(p, "lun"), lun, "must be between 0 and 255, inclusive");
}

static void check_azure_disk(struct pod_rules *r, const struct json *v, const struct path *p)
{
	static const char *const caches[] = { "None", "ReadOnly", "ReadWrite", NULL };
	static const char *const kinds[] = { "Dedicated", "Managed", "Shared", NULL };
	static const char *const managed[] = {
		"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/"
		"disks/{disk-id}",
		NULL
	};
	static const char *const blob[] = {
		"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
		NULL
	};
	const char *kind = json_get_str(v, "kind"), *uri = str_or(json_get_str(v, "diskURI"), "");
	bool is_managed = str_eq(kind, "Managed");

	if (json_get(v, "cachingMode"))
		check_supported(r->causes, p, v, "cachingMode", caches);
	if (kind)
		check_supported(r->causes, p, v, "kind", kinds);
	if (kind && !str_starts(uri, is_managed ? "/subscriptions/" : "https://"))
		bad_unsupported(r->causes, IN(p, "diskURI"), uri, is_managed ? managed : blob);
}

static void check_projected(struct pod_rules *r, const struct json *v, const struct path *p)
{
	check_mode(r->causes, v, "defaultMode", p);
	spec_projected(r->causes, v, p);
}

static void check_csi(struct pod_rules *r, const struct json *v, const struct path *p)
{
	const char *driver = need_text(r->causes, p, v, "driver"), *bad;
	const struct json *ref = json_get(v, "nodePublishSecretRef");
	autofree char *low = xstrdup(str_or(driver, ""));

	if (strlen(low) > DRIVER_MAX)
		bad_too_long(r->causes, IN(p, "driver"), DRIVER_MAX);
	for (char *s = low; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	bad = *low ? meta_bad_dns_subdomain(low) : NULL;
	if (bad)
		bad_text(r->causes, IN(p, "driver"), driver, bad);
	bad = ref && need_text(r->causes, IN(p, "nodePublishSecretRef"), ref, "name")
		      ? meta_bad_dns_subdomain(json_get_str(ref, "name"))
		      : NULL;
	if (bad)
		bad_text(r->causes, IN(p, "name"), json_get_str(ref, "name"), bad);
}

static void check_ephemeral(struct pod_rules *r, const struct json *v, const struct path *p)
{
	const struct json *template = json_get(v, "volumeClaimTemplate");

	if (!template)
		bad_required(r->causes, IN(p, "volumeClaimTemplate"), NULL);
	else
		validate_claim_template(template, IN(p, "volumeClaimTemplate"), r->causes);
}

static void check_image(struct pod_rules *r, const struct json *v, const struct path *p)
{
	(void)need_text(r->causes, p, v, "reference");
	check_pull_policy(r->causes, v, "pullPolicy", p);
}

/* In the order in which a kube-apiserver looks at them. */
static const struct volume_type types[] = {
	{ "hostPath", .check = check_host_path },
	{ "gitRepo", .needed = { "repository" }, .check = check_git },
	{ "gcePersistentDisk", "persistentDisk", { "pdName" }, check_partition },
	{ "awsElasticBlockStore", .needed = { "volumeID" }, .check = check_partition },
	{ "secret", .needed = { "secretName" }, .check = check_keys },
	{ "nfs", .needed = { "server", "path" }, .check = check_nfs },
	{ "iscsi", .needed = { "targetPortal", "iqn" }, .check = check_iscsi },
	{ "glusterfs", .needed = { "endpoints", "path" } },
	{ "flocker" },
	{ "persistentVolumeClaim", .needed = { "claimName" } },
	{ "rbd", .check = check_rbd },
	{ "cinder", .needed = { "volumeID" }, .check = check_secret_ref },
	{ "cephfs", .check = check_monitors },
	{ "quobyte", .needed = { "volume" } },
	{ "downwardAPI", .check = check_downward },
	{ "fc", .check = check_fc },
	{ "flexVolume", .needed = { "driver" } },
	{ "configMap", .needed = { "name" }, .check = check_keys },
	{ "azureFile", .needed = { "secretName", "shareName" } },
	{ "vsphereVolume", .needed = { "volumePath" } },
	{ "photonPersistentDisk", .needed = { "pdID" } },
	{ "portworxVolume", .needed = { "volumeID" } },
	{ "azureDisk", .needed = { "diskName", "diskURI" }, .check = check_azure_disk },
	{ "storageos", .needed = { "volumeName" }, .check = check_secret_ref },
	{ "projected", .check = check_projected },
	{ "scaleIO", .needed = { "gateway", "system", "volumeName" } },
	{ "csi", .check = check_csi },
	{ "ephemeral", .check = check_ephemeral },
	{ "image", .check = check_image },
};

static void check_type(struct pod_rules *r, const struct volume_type *t, const struct json *v,
		       const struct path *up)
{
	const struct path *p = IN(up, t->path ? t->path : t->name);

	for (size_t i = 0; i < MANY_NAMES && t->needed[i]; i++)
		(void)need_text(r->causes, p, v, t->needed[i]);
	if (t->check)
		t->check(r, v, p);
}

void validate_volume_source(const char *type, const struct json *v, const struct path *p,
			    struct causes *c)
{
	struct pod_rules r = { .causes = c };

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eq(types[i].name, type))
			check_type(&r, &types[i], v, p);
}

/* The claim of an ephemeral volume is named after the Pod and the volume. */
static void check_claim_name(struct pod_rules *r, const char *name, const struct path *at)
{
	autofree char *claim = NULL, *why = NULL;
	const char *bad;

	if (str_empty(r->name) || str_empty(name))
		return;
	claim = xasprintf("%s-%s", r->name, name);
	bad = meta_bad_dns_subdomain(claim);
	if (!bad)
		return;
	why = xasprintf("PVC name \"%s\": %s", claim, bad);
	bad_text(r->causes, IN(at, "name"), name, why);
}

static void check_source(struct pod_rules *r, const struct json *v, const struct path *at)
{
	const struct json *dir = json_get(v, "emptyDir");
	size_t n = dir != NULL;
	int64_t size = 0;

	if (json_get(dir, "sizeLimit"))
		err_free(quantity_parse_milli(json_get(dir, "sizeLimit"), &size));
	if (size < 0)
		bad_forbidden(r->causes, IN(IN(at, "emptyDir"), "sizeLimit"),
			      "SizeLimit field must be a valid resource quantity");
	for (size_t i = 0; json_len(v) > 1 + (dir != NULL) && i < ARRAY_LEN(types); i++) {
		const struct json *source = json_get(v, types[i].name);

		if (!source)
			continue;
		if (n++) {
			bad_forbidden(r->causes, IN(at, types[i].name),
				      "may not specify more than 1 volume type");
			continue;
		}
		check_type(r, &types[i], source, at);
		if (str_eq(types[i].name, "ephemeral"))
			check_claim_name(r, json_get_str(v, "name"), at);
	}
	if (!n)
		bad_required(r->causes, at, "must specify a volume type");
}

void spec_volumes(struct pod_rules *r, const struct path *spec)
{
	const struct json *list = json_get(r->spec, "volumes");
	size_t i = 0;

	if (!json_len(list))
		return;
	r->volumes = map_new_borrowing(NULL);
	json_each(it, list) {
		const struct path *at = AT(IN(spec, "volumes"), i++);
		size_t faults = r->causes->n;
		const char *name;

		check_source(r, it.val, at);
		name = need_text(r->causes, at, it.val, "name");
		check_text(r->causes, at, it.val, "name", meta_bad_dns_label);
		if (name && map_has(r->volumes, name))
			bad_duplicate(r->causes, IN(at, "name"), name);
		if (name && r->causes->n == faults)
			map_put(r->volumes, name, it.val);
	}
}
