/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/object.h"
#include "api/storage.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/launch/plan.h"
#include "node/volume/host_path.h"
#include "node/volume/volume_priv.h"

/* From a container's volumeMounts to what the launcher mounts. */

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

/* emptyDirs are on disk; what is made from objects is in memory, as secrets should be. */
static struct err *source_dir(struct volumes *v, const struct volume_pod *pod,
			      const struct pod_volume_view *volume, char **ret)
{
	const struct pod_view *p = pod->view;
	autofree char *name = xasprintf("%s/%s", p->uid, volume->name);
	autoptr(object) pvc = NULL;
	autoptr(object) pv = NULL;
	struct err *e;

	if (volume->type == POD_VOLUME_EMPTY_DIR) {
		*ret = diskpool_path(v->spec.disk, INSTANCE_PODS, name);
		return NULL;
	}
	if (volume->type != POD_VOLUME_PVC) {
		*ret = xasprintf("%s/%s/%s", v->spec.run_dir, instance_dir_name(INSTANCE_OBJECTS),
				 name);
		return NULL;
	}
	e = claim_of(v, pod, volume, &pvc);
	if (e)
		return e;
	e = pvc_volume(v, pvc, &pv);
	if (!e)
		e = pvc_moves(v, pvc, pv);
	if (!e)
		*ret = diskpool_path(v->spec.disk, INSTANCE_VOLUMES, storage_handle(pv->root));
	return e;
}

/* What the Pod may write to its emptyDirs if they have no limit of their own: as much as all of its
 * containers together, or what the node gives a sandbox. */
static int64_t pod_limit(const struct volumes *v, const struct pod_view *p)
{
	int64_t sum = 0;

	for (size_t i = p->n_init; i < p->n_containers - p->n_ephemeral; i++) {
		int64_t limit =
			pod_container_quantity(&p->containers[i], "limits.ephemeral-storage");

		if (!limit)
			return diskpool_sandbox_limit(v->spec.disk);
		sum += limit / 1000;
	}
	return sum;
}

/* What a mount of a volume may hold, in bytes (0: there is no limit), and whether it may be written
 * to at all. */
static void limit_mount(struct volumes *v, const struct pod_view *p,
			const struct pod_volume_view *volume, struct plan_mount *m)
{
	autoptr(object) pvc = NULL;
	autoptr(object) pv = NULL;

	if (volume->type == POD_VOLUME_EMPTY_DIR)
		m->size = volume->size ? volume->size : pod_limit(v, p);
	pvc = volume->type == POD_VOLUME_PVC ? pvc_of(v, p->ns, volume) : NULL;
	pv = pvc ? pv_of(v, pvc) : NULL;
	if (!pv)
		return;
	m->size = pv_size(pv);
	m->readonly |= json_get_bool(json_at_path(object_spec(pv), "csi"), "readOnly", false);
}

/* Whether no other Pod ever sees it. What is not listed is shared, also a type that is new. */
static bool is_own(enum pod_volume_type type)
{
	switch (type) {
	case POD_VOLUME_EMPTY_DIR:
	case POD_VOLUME_CONFIG_MAP:
	case POD_VOLUME_SECRET:
	case POD_VOLUME_DOWNWARD:
	case POD_VOLUME_PROJECTED:
		return true;
	case POD_VOLUME_PVC:
	case POD_VOLUME_HOST_PATH:
	case POD_VOLUME_TOKEN:
	case POD_VOLUME_OTHER:
	case POD_VOLUME_TYPE_MAX_:
		break;
	}
	return false;
}

/* The value of "name" in a list of "name=value"; NULL: there is none. */
static const char *env_value(const char *const *env, struct span name)
{
	for (; env && *env; env++)
		if (!strncmp(*env, name.p, name.len) && (*env)[name.len] == '=')
			return *env + name.len + 1;
	return NULL;
}

/* Replaces each $(NAME); $$ is a dollar. Unlike in a command, a name that is not there is an error:
 * two Pods could end up in one directory. */
static struct err *expand(const char *text, const char *const *env, struct buf *out)
{
	while (*text) {
		struct span name = { text + 2, 0 };
		const char *value;

		if (text[0] == '$' && text[1] == '$') {
			buf_add_char(out, '$');
			text += 2;
			continue;
		}
		if (text[0] != '$' || text[1] != '(' || !strchr(text, ')')) {
			buf_add_char(out, *text++);
			continue;
		}
		name.len = strcspn(name.p, ")");
		value = env_value(env, name);
		if (!value)
			return err_new(ERR_UNAVAILABLE,
				       "subPathExpr names $(%.*s), which is not in the environment",
				       (int)name.len, name.p);
		buf_add_str(out, value);
		text = name.p + name.len + 1;
	}
	return NULL;
}

static bool is_relative(const char *path)
{
	struct span rest = SPAN(path);

	while (rest.p)
		if (span_eq(span_cut(rest, '/', &rest), ".."))
			return false;
	return *path && *path != '/';
}

static struct err *sub_path_of(const struct volume_pod *p, const struct pod_mount_view *vm,
			       struct arena *a, const char **ret)
{
	autobuf path = { 0 };
	struct err *e;

	*ret = vm->sub_path;
	if (!vm->sub_path_expr)
		return NULL;
	e = expand(vm->sub_path_expr, p->env, &path);
	if (!e && !is_relative(buf_str(&path)))
		e = err_new(ERR_UNAVAILABLE,
			    "subPathExpr becomes \"%.256s\", which is not a path below the volume",
			    buf_str(&path));
	if (!e)
		*ret = arena_strdup(a, buf_str(&path));
	return e;
}

static enum plan_host host_kind(const char *type)
{
	static const struct {
		const char *type;
		enum plan_host kind;
	} kinds[] = {
		{ "Directory", PLAN_HOST_DIR },
		{ "File", PLAN_HOST_FILE },
		{ "DirectoryOrCreate", PLAN_HOST_DIR_MADE },
		{ "FileOrCreate", PLAN_HOST_FILE_MADE },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eq(type, kinds[i].type))
			return kinds[i].kind;
	return PLAN_HOST_ANY;
}

/* What it leads to is looked at by the slot, where nobody else waits for the host's disks. ret->sub
 * is the subPath. */
static struct err *host_mount_of(struct volumes *v, const struct pod_volume_view *volume,
				 bool readonly, struct arena *a, struct plan_mount *ret)
{
	struct host_path found = { 0 };
	autofree char *below = NULL;

	if (!host_paths_find(v->spec.host_paths, str_or(volume->host_path, ""), &found))
		return err_new(ERR_UNAVAILABLE, "hostPath %s is not allowed by --host-path",
			       str_or(volume->host_path, ""));
	below = found.below;
	ret->from = arena_strdup(a, found.prefix);
	ret->host = str_empty(ret->sub) ? host_kind(volume->host_type) : PLAN_HOST_ANY;
	if (below)
		ret->sub = str_empty(ret->sub) ? arena_strdup(a, below)
					       : arena_printf(a, "%s/%s", below, ret->sub);
	ret->readonly = readonly || !found.writable;
	return NULL;
}

static struct err *mount_of(struct volumes *v, const struct volume_pod *pod,
			    const struct pod_mount_view *vm, struct arena *a,
			    struct plan_mount *ret)
{
	const struct pod_view *p = pod->view;
	const struct pod_volume_view *volume = pod_view_volume(p, vm->volume);
	autofree char *from = NULL;
	const char *sub = NULL;
	bool made;
	struct err *e;

	if (!volume)
		return err_new(ERR_INVALID,
			       "volumeMounts names volume \"%s\", which the Pod does "
			       "not have",
			       vm->volume);
	*ret = (struct plan_mount){ .to = vm->path, .own = is_own(volume->type) };
	/* A memory volume is a tmpfs of its one user; several users share a directory instead. */
	if (volume->memory && pod_view_count_mounts(p, vm->volume) <= 1) {
		ret->memory = true;
		ret->size = volume->size;
		ret->readonly = vm->readonly;
		return NULL;
	}
	e = sub_path_of(pod, vm, a, &sub);
	ret->sub = sub;
	if (!e && volume->type == POD_VOLUME_HOST_PATH)
		return host_mount_of(v, volume, vm->readonly, a, ret);
	if (!e)
		e = source_dir(v, pod, volume, &from);
	if (e)
		return e;
	made = volume->type != POD_VOLUME_EMPTY_DIR && volume->type != POD_VOLUME_PVC;
	ret->from = arena_strdup(a, from);
	ret->file = is_file(from, sub);
	ret->make = !made; /* with fsGroup, for that group too */
	ret->group = MAX(p->fs_group, (int64_t)0);
	ret->readonly = made || vm->readonly || volume->readonly;
	limit_mount(v, p, volume, ret);
	return NULL;
}

/* Shorter paths come first, so that a mount inside another follows it. */
struct err *volumes_mounts(struct volumes *v, const struct volume_pod *p,
			   const struct pod_container_view *c, struct arena *a, struct plan *plan)
{
	size_t longest = 0;

	plan->mounts = arena_new_n(a, struct plan_mount, c->n_mounts + 1);
	plan->n_mounts = 0;
	for (size_t i = 0; i < c->n_mounts; i++)
		longest = MAX(longest, strlen(c->mounts[i].path));
	for (size_t len = 1; c->n_mounts && len <= longest; len++)
		for (size_t i = 0; i < c->n_mounts; i++) {
			struct err *e;

			if (strlen(c->mounts[i].path) != len)
				continue;
			e = mount_of(v, p, &c->mounts[i], a, &plan->mounts[plan->n_mounts++]);
			if (e)
				return e;
		}
	return NULL;
}
