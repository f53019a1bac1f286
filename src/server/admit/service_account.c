/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/random.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"

/*
 * The service account of a new Pod, as the admission plugin of Kubernetes sees to it: it must
 * exist, its imagePullSecrets are the Pod's if that names none, and a volume with a token of it is
 * mounted in every container. There is one difference: a token is mounted where the Pod or the
 * account asks for it, and not where both are silent (docs/decisions/0085).
 */
#define MOUNT_PATH    "/var/run/secrets/kubernetes.io/serviceaccount"
#define VOLUME_PREFIX "kube-api-access-"

enum {
	TOKEN_S = 3607, /* the odd number by which such tokens are recognised */
};

static const char *const lists[] = { "initContainers", "containers" };

static const char *account_of(const struct json *spec)
{
	const char *name = json_get_str(spec, "serviceAccountName");

	if (str_empty(name))
		name = json_get_str(spec, "serviceAccount"); /* the old name of the field */
	return str_empty(name) ? "default" : name;
}

static bool asks_for_token(const struct json *spec, const struct object *account)
{
	const struct json *pods = json_get(spec, "automountServiceAccountToken");

	return json_get_bool(json_is(pods, JSON_BOOL) ? spec : account->root,
			     "automountServiceAccountToken", false);
}

static bool has_mount(const struct json *container)
{
	json_each(it, json_get(container, "volumeMounts"))
		if (str_eq(json_get_str(it.val, "mountPath"), MOUNT_PATH))
			return true;
	return false;
}

static bool lacks_mount(const struct json *spec)
{
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(spec, lists[i]))
			if (json_is(it.val, JSON_OBJ) && !has_mount(it.val))
				return true;
	return false;
}

/* One of such a name counts as ours: the Pod was copied from another. NULL: there is none. */
static const char *volume_of(const struct json *spec)
{
	json_each(it, json_get(spec, "volumes"))
		if (str_starts(str_or(json_get_str(it.val, "name"), ""), VOLUME_PREFIX))
			return json_get_str(it.val, "name");
	return NULL;
}

static struct json *push_obj(struct json_doc *d, struct json *list, const char *member)
{
	struct json *o = json_obj(d);

	json_push(d, list, o);
	return json_set(d, o, member, json_obj(d));
}

/* With what defaults would fill in: all of it is the server's, and no field the client's. */
static void add_volume(struct json_doc *d, struct json *spec, const char *name)
{
	struct json *v = json_obj(d), *projected, *sources, *s, *item;

	json_push(d, json_need_arr(d, spec, "volumes"), v);
	json_set_str(d, v, "name", name);
	projected = json_need_obj(d, v, "projected");
	sources = json_need_arr(d, projected, "sources");
	json_set_int(d, projected, "defaultMode", POD_FILE_MODE);
	s = push_obj(d, sources, "serviceAccountToken");
	json_set_int(d, s, "expirationSeconds", TOKEN_S);
	json_set_str(d, s, "path", "token");
	s = push_obj(d, sources, "configMap");
	json_set_str(d, s, "name", "kube-root-ca.crt");
	item = json_obj(d);
	json_push(d, json_need_arr(d, s, "items"), item);
	json_set_str(d, item, "key", "ca.crt");
	json_set_str(d, item, "path", "ca.crt");
	s = push_obj(d, sources, "downwardAPI");
	item = json_obj(d);
	json_push(d, json_need_arr(d, s, "items"), item);
	json_set_str(d, item, "path", "namespace");
	s = json_need_obj(d, item, "fieldRef");
	json_set_str(d, s, "apiVersion", "v1");
	json_set_str(d, s, "fieldPath", "metadata.namespace");
}

static void add_mounts(struct json_doc *d, struct json *spec, const char *volume)
{
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(spec, lists[i])) {
			struct json *m;

			if (!json_is(it.val, JSON_OBJ) || has_mount(it.val))
				continue;
			m = json_obj(d);
			json_push(d, json_need_arr(d, it.val, "volumeMounts"), m);
			json_set_str(d, m, "name", volume);
			json_set_bool(d, m, "readOnly", true);
			json_set_str(d, m, "mountPath", MOUNT_PATH);
		}
}

static void mount_token(struct json_doc *d, struct json *spec)
{
	char name[sizeof(VOLUME_PREFIX) + 5] = VOLUME_PREFIX;
	const char *there = volume_of(spec);

	if (!there) {
		random_suffix(name + sizeof(VOLUME_PREFIX) - 1, 5);
		add_volume(d, spec, name);
	}
	add_mounts(d, spec, there ? there : name);
}

struct err *service_account_admit(struct op *op, struct json_doc *d)
{
	const struct objects *os = op->admit->objects;
	struct json *root = json_root(d), *spec = json_get(root, "spec");
	const struct json *secrets;
	const struct object *account;
	autofree char *why = NULL;
	struct json_doc *before;
	const char *name;
	bool token;

	if (kind_storage(op->kind) != os->pod || !json_is(spec, JSON_OBJ))
		return NULL;
	name = account_of(spec);
	account = objects_find(os, os->service_account, op->ns, name);
	if (!account) {
		why = xasprintf(
			"error looking up service account %s/%s: serviceaccount \"%s\" not found",
			op->ns, name, name);
		return err_forbidden(op->kind, json_get_str(json_get(root, "metadata"), "name"),
				     why);
	}
	secrets = json_get(account->root, "imagePullSecrets");
	if (json_len(json_get(spec, "imagePullSecrets")))
		secrets = NULL;
	token = asks_for_token(spec, account) && lacks_mount(spec);
	if (!token && !json_len(secrets))
		return NULL; /* as nearly always: nothing is copied */
	before = track_before(op, d);
	if (json_len(secrets))
		(void)json_set(d, spec, "imagePullSecrets", json_copy(d, secrets));
	if (token)
		mount_token(d, spec);
	track_after(op, before, d);
	return NULL;
}
