/* SPDX-License-Identifier: Apache-2.0 */
#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* Volumes whose files are made of keys of other objects, of fields of the Pod, and of tokens. */

enum {
	TOKEN_MIN_S = 600,
};
#define TOKEN_MAX_S (INT64_C(1) << 32)

static void check_key_path(struct causes *c, const struct json *item, const struct path *p)
{
	(void)need_text(c, p, item, "key");
	(void)need_text(c, p, item, "path");
	check_local(c, str_or(json_get_str(item, "path"), ""), IN(p, "path"));
	check_mode(c, item, "mode", p);
}

void spec_key_paths(struct causes *c, const struct json *source, const struct path *p)
{
	size_t i = 0;

	json_each(it, json_get(source, "items"))
		check_key_path(c, it.val, AT(IN(p, "items"), i++));
}

/* As kube-apiserver: p is the path of the volume, not that of the item. */
void spec_downward_item(struct causes *c, const struct json *item, const struct path *p)
{
	static const char *const fields[] = { "metadata.annotations", "metadata.labels",
					      "metadata.name",        "metadata.namespace",
					      "metadata.uid",         NULL };
	const struct json *field = json_get(item, "fieldRef");
	const struct json *resource = json_get(item, "resourceFieldRef");

	(void)need_text(c, p, item, "path");
	check_local(c, str_or(json_get_str(item, "path"), ""), IN(p, "path"));
	if (field) {
		spec_field_ref(c, field, fields, IN(p, "fieldRef"));
		if (resource)
			bad_text(c, p, "resource",
				 "fieldRef and resourceFieldRef can not be specified "
				 "simultaneously");
	} else if (resource) {
		spec_resource_ref(c, resource, true, IN(p, "resourceFieldRef"));
	} else {
		bad_required(c, p, "one of fieldRef and resourceFieldRef is required");
	}
	check_mode(c, item, "mode", p);
}

/* One walk over the sources of a volume. */
struct projection {
	struct causes *causes;
	struct map *paths;
	const struct path *volume;
};

static void take_path(struct projection *j, const char *path, const char *shown)
{
	if (str_empty(path))
		return;
	if (map_has(j->paths, path))
		bad_text(j->causes, j->volume, shown, "conflicting duplicate paths");
	map_put(j->paths, path, j);
}

static void check_keys(struct projection *j, const struct json *source, const struct path *p)
{
	const char *name = str_or(need_text(j->causes, p, source, "name"), "");
	size_t i = 0;

	json_each(it, json_get(source, "items")) {
		check_key_path(j->causes, it.val, AT(IN(p, "items"), i++));
		take_path(j, json_get_str(it.val, "path"), name);
	}
}

static void check_downward(struct projection *j, const struct json *source, const struct path *p)
{
	json_each(it, json_get(source, "items")) {
		const char *path = json_get_str(it.val, "path");

		spec_downward_item(j->causes, it.val, p);
		take_path(j, path, str_or(path, ""));
	}
}

static void check_token(struct projection *j, const struct json *token, const struct path *p)
{
	int64_t s = json_get_int(token, "expirationSeconds", 0);
	const char *path = json_get_str(token, "path");

	if (s < TOKEN_MIN_S)
		bad_int(j->causes, IN(p, "expirationSeconds"), s,
			"may not specify a duration less than 10 minutes");
	if (s > TOKEN_MAX_S)
		bad_int(j->causes, IN(p, "expirationSeconds"), s,
			"may not specify a duration larger than 2^32 seconds");
	if (str_empty(path))
		bad_required(j->causes, IN(j->volume, "path"), NULL);
	else
		check_local(j->causes, path, IN(j->volume, "path"));
}

static void check_bundle(struct projection *j, const struct json *bundle, const struct path *p)
{
	static const struct go_member members[] = { { "Name", "name" },
						    { "SignerName", "signerName" },
						    { "LabelSelector", "labelSelector" },
						    { "Optional", "optional" },
						    { "Path", "path" },
						    { 0 } };
	bool named = json_get(bundle, "name"), signer = json_get(bundle, "signerName");
	const char *path = str_or(json_get_str(bundle, "path"), "");

	if (named && signer)
		bad_struct(j->causes, p, bundle, members,
			   "only one of name and signerName may be used");
	else if (!named && !signer)
		bad_required(j->causes, p, "either name or signerName must be specified");
	(void)need_text(j->causes, p, bundle, "path");
	check_local(j->causes, path, IN(p, "path"));
	take_path(j, path, path);
}

void spec_projected(struct causes *c, const struct json *projected, const struct path *p)
{
	static const struct {
		const char *name;
		void (*check)(struct projection *j, const struct json *v, const struct path *p);
	} kinds[] = { { "secret", check_keys },
		      { "configMap", check_keys },
		      { "downwardAPI", check_downward },
		      { "serviceAccountToken", check_token },
		      { "clusterTrustBundle", check_bundle } };
	autoptr(map) paths = map_new(NULL);
	struct projection j = { c, paths, p };
	size_t i = 0;

	json_each(it, json_get(projected, "sources")) {
		const struct path *at = AT(IN(p, "sources"), i++);
		size_t n = 0;

		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			const struct json *source = json_get(it.val, kinds[k].name);

			if (source && ++n)
				kinds[k].check(&j, source, IN(at, kinds[k].name));
		}
		if (n > 1)
			bad_forbidden(c, at, "may not specify more than 1 volume type per source");
	}
}
