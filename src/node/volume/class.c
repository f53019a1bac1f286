/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "api/storage.h"
#include "base/log.h"
#include "base/str.h"
#include "client/client.h"
#include "node/volume/volume_priv.h"

/*
 * StorageClasses. One that is made by default is there from the start: it comes back with a start
 * that finds none of this node's provisioner.
 */
static bool lead(void *arg, struct object *o)
{
	struct object **best = arg;

	if (!storage_class_leads(o->root, *best ? (*best)->root : NULL))
		return true;
	object_unref(*best);
	*best = object_ref(o);
	return true;
}

struct object *class_default(struct volumes *v)
{
	struct object *best = NULL;

	client_each(v->spec.client, v->class, NULL, lead, &best);
	return best;
}

struct object *class_get(struct volumes *v, const char *name)
{
	return str_empty(name) ? NULL : client_get(v->spec.client, v->class, NULL, name);
}

bool class_is_ours(const struct object *class)
{
	return str_eq(json_get_str(class->root, "provisioner"), STORAGE_PROVISIONER);
}

bool class_waits(const struct object *class)
{
	return class &&
	       str_eq(json_get_str(class->root, "volumeBindingMode"), "WaitForFirstConsumer");
}

char *class_refuses(const struct object *class)
{
	static const char *const fields[] = { "parameters", "mountOptions", "allowedTopologies" };

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (json_len(json_get(class->root, fields[i])))
			return xasprintf(
				"storageclass.storage.k8s.io \"%s\": %s: " STORAGE_PROVISIONER
				" has none",
				class->name, fields[i]);
	return NULL;
}

static void on_made(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e && !err_is(e, ERR_EXISTS))
		log_warn("there is no default StorageClass until the next start", KV("err", e));
	err_free(e);
}

static bool find_ours(void *arg, struct object *o)
{
	bool *found = arg;

	*found |= class_is_ours(o);
	return !*found;
}

void class_make_default(struct volumes *v)
{
	const struct client_ref ref = { .kind = v->class };
	struct json_doc *d;
	struct json *root, *meta;
	bool found = false;

	client_each(v->spec.client, v->class, NULL, find_ours, &found);
	if (found)
		return;
	d = json_doc_new();
	root = json_obj(d);
	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", STORAGE_CLASS);
	json_set_str(d, json_need_obj(d, meta, "annotations"), STORAGE_DEFAULT_CLASS, "true");
	json_set_str(d, root, "provisioner", STORAGE_PROVISIONER);
	json_set(d, root, "allowVolumeExpansion", json_new_bool(d, true));
	v->class_write.done = on_made;
	client_create(v->spec.client, &ref, d, &v->class_write);
}

static void class_changed(void *arg, unused struct object *was, unused struct object *now)
{
	pvcs_wake(arg);
}

void classes_start(struct volumes *v)
{
	static const struct client_watch_events events = { .changed = class_changed,
							   .synced = volumes_known };
	const struct client_watch_spec watch = { .kind = v->class };

	v->watch_classes = client_watch(v->spec.client, &watch, &events, v);
}

void classes_stop(struct volumes *v)
{
	client_cancel(&v->class_write);
	client_watch_free(take(v->watch_classes));
}
