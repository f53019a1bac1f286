/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "api/kind.h"
#include "api/registry.h"
#include "base/arena.h"
#include "base/parse.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/call/accept.h"
#include "server/call/call.h"
#include "server/pages/pages_priv.h"

/*
 * Discovery: which groups, versions, kinds and verbs there are, derived from the registry with each
 * request, in the old form (one page per group and version) and aggregated (one page for all).
 */
enum {
	HASH_LEN = 8, /* bytes of a digest */
};

static const char *const object_verbs[] = { "create", "delete", "deletecollection", "get",
					    "list",   "patch",  "update",           "watch" };

static void push_strs(struct json_doc *d, struct json *o, const char *key, const char *const *list)
{
	struct json *arr;

	if (!list[0])
		return;
	arr = json_set(d, o, key, json_arr(d));
	for (size_t i = 0; list[i]; i++)
		json_push_str(d, arr, list[i]);
}

static void push_verbs(struct json_doc *d, struct json *o, unsigned verbs)
{
	struct json *arr = json_set(d, o, "verbs", json_arr(d));

	for (unsigned v = 0; v < VERB_MAX_; v++)
		if (verbs & B(v))
			json_push_str(d, arr, verb_name(v));
}

static void push_object_verbs(struct json_doc *d, struct json *o, const struct kind *k)
{
	struct json *arr;

	if (k->flags & KIND_MEASURED) {
		push_verbs(d, o, KIND_MEASURED_VERBS);
		return;
	}
	arr = json_set(d, o, "verbs", json_arr(d));
	for (size_t i = 0; i < ARRAY_LEN(object_verbs); i++)
		if (!(k->flags & KIND_CONTENTS) || !str_eq(object_verbs[i], "deletecollection"))
			json_push_str(d, arr, object_verbs[i]);
}

/* Changes when objects are stored in another form; clients compare it, no more. */
static void push_hash(struct json_doc *d, struct json *o, const struct kind *k)
{
	const struct kind *stored = kind_storage(k);
	autofree char *name = xasprintf("%s/%s/%s", stored->group, stored->version, stored->kind);
	unsigned char digest[SHA256_LEN];
	autofree char *text = NULL;

	if (k->flags & KIND_MEASURED)
		return;
	sha256(name, strlen(name), digest);
	text = base64_encode(digest, HASH_LEN, false);
	json_set_str(d, o, "storageVersionHash", text);
}

static bool has_group(const struct kind *const *all, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (str_eq(all[k]->group, all[i]->group))
			return true;
	return false;
}

static bool has_version(const struct kind *const *list, size_t n, const struct kind *like)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(list[i]->version, like->version))
			return true;
	return false;
}

/* v2 before v1, v1 before v1beta2, v1beta1 before v1alpha1; other names come last. */
struct rank {
	int level; /* 3: stable, 2: beta, 1: alpha, 0: a name of another form */
	unsigned long major, minor;
};

static unsigned long read_number(const char **p)
{
	unsigned long n = 0;

	while (**p >= '0' && **p <= '9' && n < 1000000)
		n = n * 10 + (unsigned long)(*(*p)++ - '0');
	return n;
}

static struct rank rank_of(const char *version)
{
	const char *p = version + (*version == 'v');
	struct rank r = { .level = 3 };

	r.major = read_number(&p);
	if (str_starts(p, "alpha") || str_starts(p, "beta")) {
		r.level = *p == 'a' ? 1 : 2;
		p += strlen(*p == 'a' ? "alpha" : "beta");
		r.minor = read_number(&p);
	}
	return *version == 'v' && r.major && !*p ? r : (struct rank){ 0 };
}

static bool comes_before(const char *a, const char *b)
{
	struct rank x = rank_of(a), y = rank_of(b);

	if (x.level != y.level)
		return x.level > y.level;
	if (!x.level)
		return strcmp(a, b) < 0;
	return x.major != y.major ? x.major > y.major : x.minor > y.minor;
}

/* One kind for each version of the group, in order. The caller frees the list, which ends with
 * NULL. */
static const struct kind **versions_of(const struct kinds *ks, const char *group)
{
	size_t n, len = 0;
	const struct kind *const *all = kinds_served(ks, &n);
	const struct kind **list = xnew_n(const struct kind *, n + 1);

	for (size_t i = 0; i < n; i++) {
		size_t at = len;

		if (!str_eq(all[i]->group, group) || has_version(list, len, all[i]))
			continue;
		for (; at && comes_before(all[i]->version, list[at - 1]->version); at--)
			list[at] = list[at - 1];
		list[at] = all[i];
		len++;
	}
	return list;
}

/* The old form */

static void add_resource(struct json_doc *d, struct json *list, const struct kind *k)
{
	struct json *o = json_obj(d);
	bool namespaced = k->flags & KIND_NAMESPACED;

	json_set_str(d, o, "name", k->plural);
	json_set_str(d, o, "singularName", k->singular);
	json_set_bool(d, o, "namespaced", namespaced);
	json_set_str(d, o, "kind", k->kind);
	push_object_verbs(d, o, k);
	push_strs(d, o, "shortNames", k->short_names);
	push_strs(d, o, "categories", k->categories);
	push_hash(d, o, k);
	json_push(d, list, o);
	for (const struct subresource *s = subresources; s < subresources + SUB_MAX_; s++) {
		autofree char *kind = subresource_kind(s, k);

		if (!kind_has_subresource(k, s->name))
			continue;
		o = json_obj(d);
		(void)json_set(d, o, "name", json_new_strf(d, "%s/%s", k->plural, s->name));
		json_set_str(d, o, "singularName", "");
		json_set_bool(d, o, "namespaced", namespaced);
		if (s->group && !str_eq(s->group, k->group)) {
			json_set_str(d, o, "group", s->group);
			json_set_str(d, o, "version", s->version);
		}
		json_set_str(d, o, "kind", kind);
		push_verbs(d, o, s->verbs);
		json_push(d, list, o);
	}
}

static struct json *page_new(struct json_doc *d, const char *kind, const char *version)
{
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "kind", kind);
	json_set_str(d, o, "apiVersion", version);
	return o;
}

/* NULL: no such group and version. */
static struct json_doc *resource_list(const struct kinds *ks, const char *group,
				      const char *version)
{
	struct json_doc *d = json_doc_new();
	struct json *o = page_new(d, "APIResourceList", "v1"), *list;
	const struct kind *const *all;
	size_t n, found = 0;

	if (!*group)
		(void)json_del(o, "apiVersion"); /* older than the others, and still without */
	json_set_str(d, o, "groupVersion", "");
	list = json_set(d, o, "resources", json_arr(d));
	all = kinds_served(ks, &n);
	for (size_t i = 0; i < n; i++) {
		if (!str_eq(all[i]->group, group) || !str_eq(all[i]->version, version))
			continue;
		json_set_str(d, o, "groupVersion", kind_api_version(all[i]));
		add_resource(d, list, all[i]);
		found++;
	}
	if (found)
		return d;
	json_doc_free(d);
	return NULL;
}

static struct json *version_of(struct json_doc *d, const struct kind *k)
{
	struct json *o = json_obj(d);

	json_set_str(d, o, "groupVersion", kind_api_version(k));
	json_set_str(d, o, "version", k->version);
	return o;
}

/* The first version is the preferred one. */
static void fill_group(const struct kinds *ks, struct json_doc *d, struct json *o,
		       const char *group)
{
	autofree const struct kind **list = versions_of(ks, group);
	struct json *versions;

	json_set_str(d, o, "name", group);
	versions = json_set(d, o, "versions", json_arr(d));
	for (size_t i = 0; list[i]; i++)
		json_push(d, versions, version_of(d, list[i]));
	if (list[0])
		(void)json_set(d, o, "preferredVersion", version_of(d, list[0]));
}

static struct json_doc *group_list(const struct kinds *ks)
{
	struct json_doc *d = json_doc_new();
	struct json *o = page_new(d, "APIGroupList", "v1"), *groups, *one;
	const struct kind *const *all;
	size_t n;

	groups = json_set(d, o, "groups", json_arr(d));
	all = kinds_served(ks, &n);
	for (size_t i = 0; i < n; i++) {
		if (!*all[i]->group || has_group(all, i))
			continue;
		one = json_obj(d);
		fill_group(ks, d, one, all[i]->group);
		json_push(d, groups, one);
	}
	return d;
}

static struct json_doc *group_page(const struct kinds *ks, const char *group)
{
	struct json_doc *d = json_doc_new();
	struct json *o = page_new(d, "APIGroup", "v1");

	fill_group(ks, d, o, group);
	if (*group && json_len(json_get(o, "versions")))
		return d;
	json_doc_free(d);
	return NULL;
}

static struct json_doc *core_versions(const struct pages *ps)
{
	struct json_doc *d = json_doc_new();
	struct json *o = page_new(d, "APIVersions", "v1"), *where;

	json_set_str(d, o, "apiVersion", NULL);
	json_push_str(d, json_set(d, o, "versions", json_arr(d)), "v1");
	where = json_obj(d);
	json_set_str(d, where, "clientCIDR", "0.0.0.0/0");
	json_set_str(d, where, "serverAddress", ps->address ? ps->address : "");
	json_push(d, json_set(d, o, "serverAddressByClientCIDRs", json_arr(d)), where);
	return d;
}

/* The aggregated form */

static struct json *gvk(struct json_doc *d, const char *group, const char *version,
			const char *kind)
{
	struct json *o = json_obj(d);

	json_set_str(d, o, "group", group);
	json_set_str(d, o, "version", version);
	json_set_str(d, o, "kind", kind);
	return o;
}

static void add_subresources(struct json_doc *d, struct json *o, const struct kind *k)
{
	struct json *list = NULL, *one;

	for (const struct subresource *s = subresources; s < subresources + SUB_MAX_; s++) {
		autofree char *kind = subresource_kind(s, k);

		if (!kind_has_subresource(k, s->name))
			continue;
		if (!list)
			list = json_set(d, o, "subresources", json_arr(d));
		one = json_obj(d);
		json_set_str(d, one, "subresource", s->name);
		(void)json_set(d, one, "responseKind",
			       gvk(d, s->kind ? s->group : k->group,
				   s->kind ? s->version : k->version, kind));
		push_verbs(d, one, s->verbs);
		json_push(d, list, one);
	}
}

static struct json *aggregated_resource(struct json_doc *d, const struct kind *k)
{
	struct json *o = json_obj(d);

	json_set_str(d, o, "resource", k->plural);
	(void)json_set(d, o, "responseKind", gvk(d, k->group, k->version, k->kind));
	json_set_str(d, o, "scope", k->flags & KIND_NAMESPACED ? "Namespaced" : "Cluster");
	json_set_str(d, o, "singularResource", k->singular);
	push_object_verbs(d, o, k);
	push_strs(d, o, "shortNames", k->short_names);
	push_strs(d, o, "categories", k->categories);
	add_subresources(d, o, k);
	return o;
}

static struct json *aggregated_version(const struct kinds *ks, struct json_doc *d,
				       const struct kind *like)
{
	struct json *o = json_obj(d), *list;
	const struct kind *const *all;
	size_t n;

	json_set_str(d, o, "version", like->version);
	list = json_set(d, o, "resources", json_arr(d));
	all = kinds_served(ks, &n);
	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i]->group, like->group) && str_eq(all[i]->version, like->version))
			json_push(d, list, aggregated_resource(d, all[i]));
	json_set_str(d, o, "freshness", "Current");
	return o;
}

static struct json *aggregated_group(const struct kinds *ks, struct json_doc *d, const char *group)
{
	autofree const struct kind **versions = versions_of(ks, group);
	struct json *o = json_obj(d), *meta, *list;

	meta = json_set(d, o, "metadata", json_obj(d));
	if (*group)
		json_set_str(d, meta, "name", group);
	list = json_set(d, o, "versions", json_arr(d));
	for (size_t i = 0; versions[i]; i++)
		json_push(d, list, aggregated_version(ks, d, versions[i]));
	return o;
}

static struct json_doc *aggregated(const struct kinds *ks, const char *api_version, bool core)
{
	struct json_doc *d = json_doc_new();
	struct json *o = page_new(d, "APIGroupDiscoveryList", api_version), *items;
	const struct kind *const *all;
	size_t n;

	(void)json_set(d, o, "metadata", json_obj(d));
	items = json_set(d, o, "items", json_arr(d));
	all = kinds_served(ks, &n);
	for (size_t i = 0; i < n; i++)
		if (!*all[i]->group == core && !has_group(all, i))
			json_push(d, items, aggregated_group(ks, d, all[i]->group));
	return d;
}

static bool wants_aggregated(void *arg, struct span type, struct span params)
{
	const char **ret = arg;

	if (!span_eq_nocase(type, "application/json"))
		return false;
	if (!accept_param(params, "as", NULL))
		return true; /* plain JSON comes first: the old form */
	if (!accept_param(params, "g", "apidiscovery.k8s.io") ||
	    !accept_param(params, "as", "APIGroupDiscoveryList"))
		return false;
	if (accept_param(params, "v", "v2"))
		*ret = "v2";
	else if (accept_param(params, "v", "v2beta1"))
		*ret = "v2beta1";
	return *ret != NULL;
}

/* Takes d over. */
static void reply(struct call *c, const char *type, struct json_doc *d)
{
	autofree char *text = json_to_text(json_root(d));

	json_doc_free(d);
	call_reply_document(c, type, text);
}

static void reply_top(const struct pages *ps, struct call *c, bool core)
{
	const char *accept = http_request_header(c->req, "accept"), *version = NULL;
	autofree char *type = NULL, *api_version = NULL;

	if (accept)
		(void)accept_each(accept, wants_aggregated, &version);
	if (!version) {
		reply(c, "application/json", core ? core_versions(ps) : group_list(ps->kinds));
		return;
	}
	api_version = xasprintf("apidiscovery.k8s.io/%s", version);
	type = xasprintf("application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList",
			 version);
	reply(c, type, aggregated(ps->kinds, api_version, core));
}

bool discovery_show(const struct pages *ps, struct call *c)
{
	const struct kinds *ks = ps->kinds;
	const char *path = c->route.path, *slash;
	struct json_doc *d = NULL;

	assert(path);
	if (str_eq(path, "/api") || str_eq(path, "/apis")) {
		reply_top(ps, c, str_eq(path, "/api"));
		return true;
	}
	if (str_starts(path, "/api/")) {
		d = resource_list(ks, "", path + strlen("/api/"));
	} else if (str_starts(path, "/apis/")) {
		path += strlen("/apis/");
		slash = strchr(path, '/');
		d = slash ? resource_list(ks, arena_strndup(c->arena, path, (size_t)(slash - path)),
					  slash + 1)
			  : group_page(ks, path);
	}
	if (!d)
		return false;
	reply(c, "application/json", d);
	return true;
}
