/* SPDX-License-Identifier: Apache-2.0 */
#include "server/objects/objects.h"

#include <string.h>

#include "api/agents.h"
#include "api/cay/cay.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/rbac.h"
#include "api/registry.h"
#include "api/schema.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/str.h"
#include "json/json.h"
#include "store/store.h"

/*
 * Keys are PLURAL[.GROUP]/[NS/]NAME of the stored kind; values are the JSON
 * text; the tag of an entry is its struct object, or NULL while its kind is not served.
 */
#define RBAC_V1 GROUP_RBAC "/v1"

enum {
	RESOURCE_MAX = 512, /* of PLURAL.GROUP; longer than any that could be registered */
	KEY_FEW = 256,      /* longer keys than this are seldom looked up */
};

/*
 * Returns the length of the key; if that is less than room, the key is in to, with a NUL. Without a
 * name it is the prefix of all keys of the namespace, without that too the one of all of the kind.
 */
static size_t key_write(char *to, size_t room, const struct kind *k, const char *ns,
			const char *name)
{
	const struct kind *stored = kind_storage(k);
	bool inside = (stored->flags & KIND_NAMESPACED) && !str_empty(ns);
	const char *const parts[] = {
		stored->plural,   *stored->group ? "." : "", stored->group,    "/",
		inside ? ns : "", inside ? "/" : "",         str_or(name, ""),
	};
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		size_t n = strlen(parts[i]);

		if (len + n < room)
			memcpy(to + len, parts[i], n);
		len += n;
	}
	if (len < room)
		to[len] = '\0';
	return len;
}

void key_prefix(struct buf *b, const struct kind *k, const char *ns)
{
	size_t len = key_write(NULL, 0, k, ns, NULL);

	(void)key_write(buf_reserve(b, len + 1), len + 1, k, ns, NULL);
	buf_wrote(b, len);
}

char *key_of(const struct kind *k, const char *ns, const char *name)
{
	size_t room = key_write(NULL, 0, k, ns, name) + 1;
	char *key = xmalloc(room);

	(void)key_write(key, room, k, ns, name);
	return key;
}

static struct span resource_of(const char *key)
{
	struct span rest;

	return span_cut(SPAN(key), '/', &rest);
}

const struct kind *key_kind(const struct kinds *ks, const char *key)
{
	struct span resource = resource_of(key);
	char text[RESOURCE_MAX];

	if (resource.len >= sizeof(text))
		return NULL;
	memcpy(text, resource.p, resource.len);
	text[resource.len] = '\0';
	return kinds_stored(ks, text);
}

/* A custom resource may have been stored when its definition was another: it is shown as the one
 * of today describes it. True: that changed it. */
static bool settle_custom(const struct kind *k, struct json_doc *d)
{
	autoptr(json_doc) was = json_doc_new();

	json_set_root(was, json_copy(was, json_root(d)));
	err_free(k->from_storage(k, d));
	return !json_equal(json_root(was), json_root(d));
}

/* NULL: its kind is not served. */
static struct err *parse_value(const struct objects *os, const char *key, struct bytes *value,
			       struct json_doc **ret, bool *ret_same)
{
	const struct kind *k = key_kind(os->kinds, key);
	autoptr(json_doc) d = NULL;
	struct err *e;

	*ret = NULL;
	*ret_same = true; /* as its text */
	if (!k)
		return NULL;
	e = json_parse(value->data, value->len, NULL, &d);
	if (e)
		return err_wrap(e, "decode %s", key);
	if (!json_is(json_root(d), JSON_OBJ))
		return err_new(ERR_CORRUPT, "decode %s: the value is not a JSON object", key);
	if (k->type->custom && settle_custom(k, d))
		*ret_same = false;
	*ret = take(d);
	return NULL;
}

/* Takes d over. value NULL: d is not what its text says. */
static struct object *object_of(const struct objects *os, const char *key, struct bytes *value,
				struct json_doc *d)
{
	struct object *o = object_new(key_kind(os->kinds, key), d);

	if (value)
		o->text = bytes_ref(value);
	return o;
}

/* For struct store_tags: a form that stays. */
static struct err *decode_value(void *arg, const char *key, struct bytes *value,
				uint64_t rev unused, void **ret_tag)
{
	const struct objects *os = arg;
	struct json_doc *d;
	bool same;
	struct err *e = parse_value(os, key, value, &d, &same);

	if (!e && d)
		*ret_tag =
			object_of(os, key, same ? value : NULL, json_freeze_shelved(d, os->specs));
	return e;
}

struct object *objects_of_entry(const struct objects *os, struct store_entry *e)
{
	struct json_doc *d = NULL;
	bool same;

	if (e->tag)
		return object_ref(e->tag);
	/* We encoded it, so it decodes unless its kind is no longer served. */
	err_free(parse_value(os, e->key, e->value, &d, &same));
	return d ? object_of(os, e->key, same ? e->value : NULL, d) : NULL;
}

struct object *objects_find(const struct objects *os, const struct kind *k, const char *ns,
			    const char *name)
{
	char few[KEY_FEW];
	bool fits = key_write(few, sizeof(few), k, ns, name) < sizeof(few);
	autofree char *many = fits ? NULL : key_of(k, ns, name);
	struct store_entry *e = store_get(os->store, fits ? few : many);

	if (e && !e->tag)
		e->tag =
			objects_of_entry(os, e); /* stays: it is about to be changed, most likely */
	return e ? e->tag : NULL;
}

/* Kinds that come and go */

/* Stored objects of one kind that is not served. */
struct unknown {
	char *resource;
	size_t n;
};

static void unknown_report(struct unknown *u)
{
	if (u->resource)
		log_warn("stored objects of an unknown kind are kept, but not served",
			 KV("resource", u->resource), KV("objects", u->n));
	free(u->resource);
	*u = (struct unknown){ 0 };
}

/* Keys come in order, so those of one kind follow each other. */
void objects_report_unknown(const struct objects *os)
{
	struct unknown u = { 0 };
	struct store_entry *en = NULL;

	while ((en = store_next(os->store, "", en ? en->key : NULL))) {
		struct span resource = resource_of(en->key);

		if (key_kind(os->kinds, en->key))
			continue;
		if (u.resource && !span_eq(resource, u.resource))
			unknown_report(&u);
		if (!u.resource)
			u.resource = xstrndup(resource.p, resource.len);
		u.n++;
	}
	unknown_report(&u);
}

static void retag(struct objects *os, struct store_entry *en, bool known)
{
	void *tag = NULL;
	struct err *e = known ? decode_value(os, en->key, en->value, en->rev, &tag) : NULL;

	if (e)
		log_warn("stored object cannot be decoded, it is kept but not served",
			 KV("key", en->key), KV("err", e));
	err_free(e);
	object_unref(en->tag);
	en->tag = tag;
}

void objects_kind_changed(struct objects *os, const struct kind *k, bool added)
{
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	if (k->storage)
		return;
	key_prefix(&prefix, k, NULL);
	while ((en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL)))
		retag(os, en, added);
}

static void tag_free(void *tag)
{
	object_unref(tag);
}

static size_t tag_bytes(const void *tag)
{
	return object_mem(tag);
}

static bool tag_seldom(const void *tag)
{
	const struct object *o = tag;

	return o->kind->flags & KIND_SELDOM;
}

static const struct store_tags tags = { decode_value, tag_free, tag_bytes, tag_seldom };

struct err *objects_open(struct objects *os, struct loop *l, struct kinds *kinds,
			 const struct store_spec *file)
{
	struct store_spec spec = *file;

	spec.tags = &tags;
	spec.arg = os;

	*os = (struct objects){
		.kinds = kinds,
		.specs = json_shelf_new("spec"),
		.namespace = kinds_need(kinds, "v1", "Namespace"),
		.service_account = kinds_need(kinds, "v1", "ServiceAccount"),
		.runtime_class = kinds_need(kinds, "node.k8s.io/v1", "RuntimeClass"),
		.pod = kinds_need(kinds, "v1", "Pod"),
		.node = kinds_need(kinds, "v1", "Node"),
		.storage_class = kinds_need(kinds, "storage.k8s.io/v1", "StorageClass"),
		.service = kinds_need(kinds, "v1", "Service"),
		.definition =
			kinds_need(kinds, "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
		.ip_address = kinds_need(kinds, "networking.k8s.io/v1", "IPAddress"),
		.service_cidr = kinds_need(kinds, "networking.k8s.io/v1", "ServiceCIDR"),
		.secret = kinds_need(kinds, "v1", "Secret"),
		.claim = kinds_need(kinds, "v1", "PersistentVolumeClaim"),
		.quota = kinds_need(kinds, "v1", "ResourceQuota"),
		.limit_range = kinds_need(kinds, "v1", "LimitRange"),
		.priority_class = kinds_need(kinds, "scheduling.k8s.io/v1", "PriorityClass"),
		.agent = kinds_need(kinds, API_CAY, "Agent"),
		.session = kinds_need(kinds, API_CAY, "Session"),
		.approval = kinds_need(kinds, API_CAY, "Approval"),
		.team_policy = kinds_need(kinds, API_CAY, "TeamPolicy"),
		.trigger = kinds_need(kinds, API_CAY, "Trigger"),
		.role = kinds_need(kinds, RBAC_V1, "Role"),
		.cluster_role = kinds_need(kinds, RBAC_V1, "ClusterRole"),
		.role_binding = kinds_need(kinds, RBAC_V1, "RoleBinding"),
		.cluster_role_binding = kinds_need(kinds, RBAC_V1, "ClusterRoleBinding"),
		.sandbox = kinds_need(kinds, API_SANDBOX, "Sandbox"),
		.sandbox_claim = kinds_need(kinds, API_EXTENSIONS, "SandboxClaim"),
		.sandbox_template = kinds_need(kinds, API_EXTENSIONS, "SandboxTemplate"),
		.sandbox_pool = kinds_need(kinds, API_EXTENSIONS, "SandboxWarmPool"),
		.attachment = kinds_need(kinds, API_CAY, "Attachment"),
	};
	return store_open(l, &spec, &os->store);
}

void objects_done(struct objects *os)
{
	store_free(take(os->store));
	json_shelf_free(take(os->specs));
}
