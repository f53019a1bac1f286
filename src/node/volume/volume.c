/* SPDX-License-Identifier: Apache-2.0 */
#include "node/volume/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "api/registry.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "node/host/instance.h"
#include "node/volume/payload.h"
#include "node/volume/volume_priv.h"

/*
 * What comes from objects (configMap, secret, projected, downwardAPI) is written by us alone and
 * mounted read-only; what a sandbox writes to (emptyDir, persistentVolumeClaim) is never entered
 * from here.
 */
struct files { /* where the files of one volume go */
	struct volumes *volumes;
	const struct volume_pod *pod;
	const struct pod_volume_view *volume;
	struct payload *payload;
	bool secret; /* the source is a Secret */
};

static char *objects_dir(const struct volumes *v, const char *uid)
{
	return xasprintf("%s/%s/%s", v->spec.run_dir, instance_dir_name(INSTANCE_OBJECTS), uid);
}

bool volumes_on_disk(const struct pod_view *p)
{
	for (size_t i = 0; i < p->n_volumes; i++)
		if (p->volumes[i].type == POD_VOLUME_EMPTY_DIR)
			return true;
	return false;
}

void volumes_forget(struct volumes *v, const char *uid)
{
	autofree char *dir = objects_dir(v, uid);
	struct err *e = file_remove_tree(AT_FDCWD, dir);

	follow_stop(v, uid);
	tokens_forget(v, uid);
	group_forget(v, uid);
	once_forget(v, uid);
	if (e)
		log_warn("cannot remove the volumes of a Pod, leaving them to the next start",
			 KV("err", e));
	err_free(e);
}

static struct err *add_file(const struct files *f, const struct pod_volume_item *to,
			    const void *data, size_t len)
{
	int64_t mode = to->mode >= 0 ? to->mode : f->volume->mode;

	return payload_add(f->payload, to->path, (mode_t)mode, data, len);
}

static struct err *add_key(const struct files *f, const struct object *o,
			   const struct pod_volume_item *item)
{
	autofree char *text = NULL;
	autofree void *binary = NULL;
	size_t len = 0;
	struct err *e = source_value(o, f->secret, item->key, &text, &len);

	if (!e && !text)
		e = source_binary(o, item->key, &binary, &len);
	if (!e && !text && !binary)
		e = err_new(ERR_UNAVAILABLE, "%s \"%s\" has no key \"%s\"", source_noun(f->secret),
			    o->name, item->key);
	return e ? e : add_file(f, item, text ? text : binary, len);
}

static struct err *add_every_key(const struct files *f, const struct object *o, const char *member)
{
	json_each(d, json_get(o->root, member)) {
		const struct pod_volume_item item = { .key = d.key, .path = d.key, .mode = -1 };
		struct err *e = add_key(f, o, &item);

		if (e)
			return e;
	}
	return NULL;
}

static struct err *add_object(const struct files *f, const struct pod_volume_source *s)
{
	autoptr(object) o = source_object(f->volumes, f->pod->view->ns, s->object, f->secret);
	struct err *e = NULL;

	if (!o)
		return s->optional ? NULL
				   : err_new(ERR_UNAVAILABLE, "%s \"%s\" not found",
					     source_noun(f->secret), str_or(s->object, ""));
	for (size_t i = 0; i < s->n_items && !e; i++)
		e = add_key(f, o, &s->items[i]);
	if (s->n_items)
		return e;
	e = add_every_key(f, o, "data");
	return e ? e : add_every_key(f, o, "binaryData");
}

static struct err *add_downward(const struct files *f, const struct pod_volume_source *s)
{
	for (size_t i = 0; i < s->n_items; i++) {
		const struct pod_volume_item *item = &s->items[i];
		const struct pod_container_view *c =
			item->field.container
				? pod_view_container(f->pod->view, item->field.container)
				: NULL;
		autofree char *value = downward_value(f->pod, c, &item->field);
		struct err *e = add_file(f, item, str_or(value, ""), value ? strlen(value) : 0);

		if (e)
			return e;
	}
	return NULL;
}

/* The id that all containers run with; -1: there is no such id, or the images say. */
static int64_t only_user(const struct pod_view *p)
{
	int64_t user = p->n_containers ? p->containers[0].user : -1;

	for (size_t i = 1; i < p->n_containers; i++)
		if (p->containers[i].user != user)
			return -1;
	return user;
}

/* Where it is known who is to read a token, nobody else can: the rule of Kubernetes. */
static struct err *add_token(const struct files *f, const struct pod_volume_source *s)
{
	const struct pod_view *p = f->pod->view;
	autofree char *key = xasprintf("%s/%zu", f->volume->name, (size_t)(s - f->volume->sources));
	int64_t user = only_user(p), mode = user >= 0 || p->fs_group >= 0 ? 0600 : f->volume->mode;
	const char *text = NULL;
	struct err *e = token_need(f->volumes, p, key, s, &text);

	if (!e)
		e = payload_add(f->payload, s->path, (mode_t)mode, text, strlen(text));
	if (!e && user > 0)
		payload_own(f->payload, (uid_t)user);
	return e;
}

static struct err *add_source(struct files f, const struct pod_volume_source *s)
{
	f.secret = s->type == POD_VOLUME_SECRET;
	switch (s->type) {
	case POD_VOLUME_CONFIG_MAP:
	case POD_VOLUME_SECRET:
		return add_object(&f, s);
	case POD_VOLUME_DOWNWARD:
		return add_downward(&f, s);
	case POD_VOLUME_TOKEN:
		return add_token(&f, s);
	case POD_VOLUME_OTHER:
	case POD_VOLUME_EMPTY_DIR:
	case POD_VOLUME_PVC:
	case POD_VOLUME_PROJECTED:
	case POD_VOLUME_HOST_PATH:
	case POD_VOLUME_TYPE_MAX_:
		break;
	}
	return NULL;
}

static struct err *prepare_pvc(struct volumes *v, const struct volume_pod *p,
			       const struct pod_volume_view *volume)
{
	autoptr(object) pvc = NULL;
	autoptr(object) bound = NULL;
	autoptr(object) pv = NULL;
	struct err *e = claim_need(v, p, volume, &pvc);

	if (e)
		return e;
	e = pvc_ready(v, pvc);
	if (e)
		return e;
	bound = pvc_of(v, p->view->ns, volume); /* as it is now */
	e = bound ? pvc_volume(v, bound, &pv) : NULL;
	if (!e && pv)
		e = pvc_moves(v, bound, pv);
	if (!e && pv)
		e = once_take(v, p, bound, pv);
	return e || !pv ? e : group_apply(v, p, volume, pv);
}

static bool from_objects(const struct pod_volume_view *volume)
{
	return volume->type != POD_VOLUME_PVC && volume->type != POD_VOLUME_EMPTY_DIR &&
	       volume->type != POD_VOLUME_HOST_PATH;
}

static struct err *write_volume(struct volumes *v, const struct volume_pod *p,
				const struct pod_volume_view *volume)
{
	autofree char *base = objects_dir(v, p->view->uid);
	autofree char *dir = xasprintf("%s/%s", base, volume->name);
	autofree char *sum = xasprintf("%s/.%s.sum", base, volume->name);
	autopayload payload = { 0 };
	const struct files f = { .volumes = v, .pod = p, .payload = &payload, .volume = volume };
	struct err *e = NULL;

	for (size_t i = 0; i < volume->n_sources && !e; i++)
		e = add_source(f, &volume->sources[i]);
	if (e)
		return e;
	if (p->view->fs_group >= 0)
		payload_share(&payload, (gid_t)p->view->fs_group);
	if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chmod(dir, 0755) < 0)
		return err_sys(errno, "create %s", dir);
	return payload_write(&payload, dir, sum);
}

static struct err *prepare_one(struct volumes *v, const struct volume_pod *p,
			       const struct pod_volume_view *volume)
{
	if (volume->type == POD_VOLUME_PVC)
		return prepare_pvc(v, p, volume);
	if (!from_objects(volume))
		return NULL; /* the launcher makes it */
	return write_volume(v, p, volume);
}

struct err *volumes_prepare(struct volumes *v, const struct volume_pod *p)
{
	autofree char *dir = objects_dir(v, p->view->uid);

	if (p->view->n_volumes && mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "create %s", dir);
	if (p->view->n_volumes)
		follow_start(v, p->view); /* first, or a change could be missed */
	for (size_t i = 0; i < p->view->n_volumes; i++) {
		struct err *e = prepare_one(v, p, &p->view->volumes[i]);

		if (e)
			return err_wrap(e, "prepare volume %s", p->view->volumes[i].name);
	}
	return NULL;
}

struct err *volumes_refresh(struct volumes *v, const struct volume_pod *p)
{
	struct err *first = NULL;

	for (size_t i = 0; i < p->view->n_volumes; i++) {
		const struct pod_volume_view *volume = &p->view->volumes[i];
		struct err *e = from_objects(volume) ? write_volume(v, p, volume) : NULL;

		if (e && first)
			err_free(e);
		else if (e)
			first = err_wrap(e, "update volume %s", volume->name);
	}
	return first;
}

static void source_changed(void *arg, struct object *was, struct object *now)
{
	struct volumes *v = arg;

	v->spec.changed(v->spec.arg, now ? now : was);
	follow_changed(v, was, now);
}

struct volumes *volumes_new(const struct volumes_spec *spec)
{
	const struct kinds *kinds = client_kinds(spec->client);
	struct volumes *v = xnew(struct volumes);

	v->spec = *spec;
	v->spec.run_dir = xstrdup(spec->run_dir);
	v->spec.node_name = xstrdup(spec->node_name);
	v->pv = kinds_need(kinds, "v1", "PersistentVolume");
	v->class = kinds_need(kinds, "storage.k8s.io/v1", "StorageClass");
	v->pvc = kinds_need(kinds, "v1", "PersistentVolumeClaim");
	v->secret = kinds_need(kinds, "v1", "Secret");
	v->moves = map_new(NULL);
	v->config_map = kinds_need(kinds, "v1", "ConfigMap");
	follow_open(v);
	tokens_open(v);
	return v;
}

enum {
	KINDS_TO_KNOW = 3, /* claims, volumes, classes */
};

bool volumes_are_known(const struct volumes *v)
{
	return v->n_known >= KINDS_TO_KNOW;
}

/* Before, a claim could be taken for lost, or the data of one for nobody's. */
void volumes_known(void *arg)
{
	struct volumes *v = arg;

	v->n_known++;
	if (!volumes_are_known(v))
		return;
	class_make_default(v);
	pvcs_known(v);
	dirs_known(v);
	volumes_sweep(v);
}

void volumes_start(struct volumes *v)
{
	static const struct client_watch_events events = { .changed = source_changed };
	struct client_watch_spec watch = { .kind = v->secret };

	v->watch_secrets = client_watch(v->spec.client, &watch, &events, v);
	watch.kind = v->config_map;
	v->watch_config_maps = client_watch(v->spec.client, &watch, &events, v);
	groups_open(v);
	once_open(v);
	dirs_start(v);
	v->n_known = 0;
	pvcs_start(v);
	pvs_start(v);
	classes_start(v);
}

void volumes_stop(struct volumes *v)
{
	client_watch_free(take(v->watch_secrets));
	client_watch_free(take(v->watch_config_maps));
	groups_close(v);
	once_close(v);
	classes_stop(v);
	pvcs_stop(v);
	pvs_stop(v);
	dirs_stop(v);
}

void volumes_free(struct volumes *v)
{
	if (!v)
		return;
	volumes_stop(v);
	follow_close(v);
	tokens_close(v);
	map_free(v->moves);
	free((char *)(uintptr_t)v->spec.run_dir);
	free((char *)(uintptr_t)v->spec.node_name);
	free(v);
}
