/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/kind.h"
#include "api/meta.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/pod/pod_priv.h"

/*
 * Volumes as directories of the host. What comes from objects (configMap, secret, projected,
 * downwardAPI) is written by us alone and mounted read-only; what a sandbox writes to (emptyDir,
 * persistentVolumeClaim) is never walked into from here.
 */
struct files { /* where the files of one volume go */
	struct pod *pod;
	char *dir;
	int64_t mode;
};

/* emptyDirs are on disk; what is made from objects is in memory, as secrets should be. */
static char *volume_dir(const struct pod *p, const struct json *volume)
{
	autofree char *dir = json_get(volume, "emptyDir") ? pod_dir(p) : pod_objects_dir(p);

	return xasprintf("%s/%s", dir, str_or(json_get_str(volume, "name"), ""));
}

/* The directories of a key's path, open to all that may look into the volume. */
static struct err *make_parents(const char *dir, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		autofree char *at = xasprintf("%s/%.*s", dir, (int)(slash - path), path);

		if ((mkdir(at, 0755) < 0 && errno != EEXIST) || chmod(at, 0755) < 0)
			return err_sys(errno, "make %s", at);
	}
	return NULL;
}

static struct err *write_file(const struct files *f, const char *path, const void *data, size_t len,
			      int64_t mode)
{
	autofree char *full = xasprintf("%s/%s", f->dir, path);
	autoclose fd = -1;
	struct err *e;

	if (*path == '/' || strstr(path, "..") || !*path)
		return err_new(ERR_INVALID, "write file %s: not a path inside the volume", path);
	e = make_parents(f->dir, path);
	if (e)
		return e;
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fchmod(fd, (mode_t)(mode >= 0 ? mode : f->mode) & 0777) < 0)
		return err_sys(errno, "write %s", full);
	return fd_write_all(fd, data, len);
}

static struct err *write_key(const struct files *f, const struct object *o, const char *key,
			     const char *path, int64_t mode)
{
	bool secret = o->kind == f->pod->node->kinds.secret;
	const char *text = json_str(json_get(json_get(o->root, "data"), key));
	const char *binary = json_str(json_get(json_get(o->root, "binaryData"), key));
	autofree void *bytes = NULL;
	size_t len;
	struct err *e;

	if (!text && !binary)
		return err_new(ERR_UNAVAILABLE, "%s \"%s\" has no key \"%s\"",
			       secret ? "secret" : "configmap", o->name, key);
	if (text && !secret)
		return write_file(f, path, text, strlen(text), mode);
	e = base64_decode(text ? text : binary, false, &bytes, &len);
	return e ? e : write_file(f, path, bytes, len, mode);
}

static struct err *write_object(const struct files *f, const struct json *source, const char *name,
				const struct kind *k)
{
	autoptr(object) o =
		name ? client_get(f->pod->node->client, k, f->pod->obj->ns, name) : NULL;
	const struct json *items = json_get(source, "items");
	bool optional = json_get_bool(source, "optional", false);
	struct err *e = NULL;

	if (!o)
		return optional ? NULL
				: err_new(ERR_UNAVAILABLE, "%s \"%s\" not found", k->singular,
					  str_or(name, ""));
	json_each(i, items)
		if (!e)
			e = write_key(f, o, str_or(json_get_str(i.val, "key"), ""),
				      str_or(json_get_str(i.val, "path"), ""),
				      json_get_int(i.val, "mode", -1));
	if (json_len(items))
		return e;
	json_each(d, json_get(o->root, "data"))
		if (!e)
			e = write_key(f, o, d.key, d.key, -1);
	json_each(d, json_get(o->root, "binaryData"))
		if (!e)
			e = write_key(f, o, d.key, d.key, -1);
	return e;
}

static struct err *write_downward(const struct files *f, const struct json *source)
{
	json_each(i, json_get(source, "items")) {
		const char *name = json_str(json_at_path(i.val, "resourceFieldRef.containerName"));
		autofree char *value = field_value(f->pod, pod_container(f->pod, name), i.val);
		struct err *e =
			write_file(f, str_or(json_get_str(i.val, "path"), ""), str_or(value, ""),
				   value ? strlen(value) : 0, json_get_int(i.val, "mode", -1));

		if (e)
			return e;
	}
	return NULL;
}

static struct err *write_projected(const struct files *f, const struct json *sources)
{
	json_each(s, sources) {
		const struct json *v;
		struct err *e = NULL;

		if ((v = json_get(s.val, "configMap")))
			e = write_object(f, v, json_get_str(v, "name"),
					 f->pod->node->kinds.config_map);
		else if ((v = json_get(s.val, "secret")))
			e = write_object(f, v, json_get_str(v, "name"), f->pod->node->kinds.secret);
		else if ((v = json_get(s.val, "downwardAPI")))
			e = write_downward(f, v);
		if (e)
			return e;
	}
	return NULL;
}

static struct object *claim_of(const struct pod *p, const struct json *volume)
{
	const char *name = json_str(json_at_path(volume, "persistentVolumeClaim.claimName"));

	return name ? client_get(p->node->client, p->node->kinds.pvc, p->obj->ns, name) : NULL;
}

static struct err *prepare_claim(const struct pod *p, const struct json *volume)
{
	autoptr(object) claim = claim_of(p, volume);

	if (!claim)
		return err_new(
			ERR_UNAVAILABLE, "persistentvolumeclaim \"%s\" not found",
			str_or(json_str(json_at_path(volume, "persistentVolumeClaim.claimName")),
			       ""));
	return NULL;
}

static struct err *prepare_one(struct pod *p, const struct json *volume)
{
	autofree char *dir = volume_dir(p, volume);
	struct files f = { .pod = p, .dir = dir, .mode = 0644 };
	const struct json *v;
	struct err *e;

	if (json_get(volume, "persistentVolumeClaim"))
		return prepare_claim(p, volume);
	if (json_get(volume, "emptyDir"))
		return NULL; /* the launcher makes it */
	if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chmod(dir, 0755) < 0)
		return err_sys(errno, "make %s", dir);
	if ((v = json_get(volume, "configMap"))) {
		f.mode = json_get_int(v, "defaultMode", f.mode);
		e = write_object(&f, v, json_get_str(v, "name"), f.pod->node->kinds.config_map);
	} else if ((v = json_get(volume, "secret"))) {
		f.mode = json_get_int(v, "defaultMode", f.mode);
		e = write_object(&f, v, json_get_str(v, "secretName"), f.pod->node->kinds.secret);
	} else if ((v = json_get(volume, "projected"))) {
		f.mode = json_get_int(v, "defaultMode", f.mode);
		e = write_projected(&f, json_get(v, "sources"));
	} else {
		e = write_downward(&f, json_get(volume, "downwardAPI"));
	}
	return e;
}

struct err *volumes_prepare(struct pod *p)
{
	const struct json *volumes = json_get(pod_spec(p), "volumes");
	autofree char *dir = pod_objects_dir(p);

	if (json_len(volumes) && mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "make %s", dir);
	json_each(v, volumes) {
		struct err *e = prepare_one(p, v.val);

		if (e)
			return err_wrap(e, "prepare volume %s",
					str_or(json_get_str(v.val, "name"), ""));
	}
	return NULL;
}

static const struct json *find_volume(const struct pod *p, const char *name)
{
	json_each(v, json_get(pod_spec(p), "volumes"))
		if (str_eq(json_get_str(v.val, "name"), name))
			return v.val;
	return NULL;
}

bool volumes_use_claim(const struct pod *p, const char *claim_name)
{
	json_each(v, json_get(pod_spec(p), "volumes"))
		if (str_eq(json_str(json_at_path(v.val, "persistentVolumeClaim.claimName")),
			   claim_name))
			return true;
	return false;
}

static unsigned count_users(const struct pod *p, const char *volume)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->n_containers; i++)
		json_each(m, json_get(p->containers[i].spec, "volumeMounts"))
			if (str_eq(json_get_str(m.val, "name"), volume))
				n++;
	return n;
}

/* A memory volume is a tmpfs of its one user; several users share a directory instead. */
static bool add_memory(struct container *c, struct json_doc *d, struct json *m,
		       const struct json *volume)
{
	const struct json *e = json_get(volume, "emptyDir"), *size = json_get(e, "sizeLimit");
	const char *name = json_get_str(volume, "name");
	int64_t milli = 0;

	if (!str_eq(json_get_str(e, "medium"), "Memory") || count_users(c->pod, name) > 1)
		return false;
	if (size)
		err_free(quantity_parse_milli(size, &milli));
	json_set_bool(d, m, "memory", true);
	json_set_int(d, m, "size", milli / 1000);
	return true;
}

/* Whether the source (below dir, never outside it) is there and is not a directory. */
static bool is_file(const char *dir, const char *sub)
{
	autoclose root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct stat st;

	if (root < 0 || str_empty(sub))
		return false;
	err_free(file_open_in_root(root, sub, O_PATH, 0, &fd));
	return fd >= 0 && !fstat(fd, &st) && !S_ISDIR(st.st_mode);
}

static struct err *source_dir(struct container *c, const struct json *volume, char **ret)
{
	autoptr(object) claim = NULL;

	if (!json_get(volume, "persistentVolumeClaim")) {
		*ret = volume_dir(c->pod, volume);
		return NULL;
	}
	claim = claim_of(c->pod, volume);
	if (!claim)
		return err_new(ERR_UNAVAILABLE, "find the claim of volume %s",
			       json_get_str(volume, "name"));
	*ret = claim_dir(c->pod->node, claim->uid);
	return NULL;
}

static struct err *add_mount(struct container *c, struct json_doc *d, struct json *mounts,
			     const struct json *vm)
{
	const char *name = json_get_str(vm, "name"), *sub = json_get_str(vm, "subPath");
	const struct json *volume = find_volume(c->pod, name);
	bool made = !json_get(volume, "emptyDir") && !json_get(volume, "persistentVolumeClaim");
	autofree char *from = NULL;
	struct json *m = json_obj(d);
	struct err *e;

	if (!volume)
		return err_new(ERR_INVALID, "mount volume %s: there is none", str_or(name, ""));
	json_set_str(d, m, "to", json_get_str(vm, "mountPath"));
	json_push(d, mounts, m);
	if (add_memory(c, d, m, volume))
		return NULL;
	e = source_dir(c, volume, &from);
	if (e)
		return e;
	json_set_str(d, m, "from", from);
	json_set_str(d, m, "sub", sub);
	json_set_bool(d, m, "file", is_file(from, sub));
	json_set_bool(d, m, "make", !made); /* with fsGroup, for that group too */
	json_set_int(d, m, "group",
		     json_int(json_at_path(pod_spec(c->pod), "securityContext.fsGroup"), 0));
	json_set_bool(
		d, m, "readonly",
		made || json_get_bool(vm, "readOnly", false) ||
			json_bool(json_at_path(volume, "persistentVolumeClaim.readOnly"), false));
	return NULL;
}

/* Shorter paths first, so that a mount inside another comes after it. */
struct err *volumes_mounts(struct container *c, struct json_doc *d, struct json *mounts)
{
	const struct json *list = json_get(c->spec, "volumeMounts");
	size_t n = json_len(list), longest = 0;

	json_each(m, list)
		longest = MAX(longest, json_str_len(json_get(m.val, "mountPath")));
	for (size_t len = 1; n && len <= longest; len++)
		json_each(m, list) {
			struct err *e = NULL;

			if (json_str_len(json_get(m.val, "mountPath")) == len)
				e = add_mount(c, d, mounts, m.val);
			if (e)
				return e;
		}
	return NULL;
}
