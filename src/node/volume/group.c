/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "api/object.h"
#include "api/storage.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "loop/jobs.h"
#include "node/disk/disk.h"
#include "node/disk/regroup.h"
#include "node/volume/volume_priv.h"

/*
 * fsGroup for volumes that have contents already: they are given to the group before the Pod
 * starts, by a job. The Pod waits, and its pass asks again. A volume that is not there yet is made
 * for the group by the launcher. What a Pod has mounted before a restart of the daemon is not
 * touched again.
 */
enum {
	JOBS_MAX = 2, /* removals, clones and pulls need threads as well */
};

struct grouping {
	struct volumes *volumes;
	char *key;
	char *ns, *pvc, *what;
	int fd;
	struct regroup regroup;
	bool running, left; /* left: nobody waits; freed at its end */
	struct err *err;
	usec began, told;
};

static void grouping_free(struct grouping *g)
{
	err_free(g->err);
	if (g->fd >= 0)
		close(g->fd);
	free(g->key);
	free(g->ns);
	free(g->pvc);
	free(g->what);
	free(g);
}

/* The map's: one that is under way is freed by its job. */
static void grouping_drop(void *arg)
{
	struct grouping *g = arg;

	g->left = true;
	atomic_store(&g->regroup.stop, true);
	if (!g->running)
		grouping_free(g);
}

static void work(void *arg)
{
	struct grouping *g = arg;

	g->err = regroup(g->fd, &g->regroup);
}

static void done(void *arg)
{
	struct grouping *g = arg;
	struct volumes *v = g->volumes;
	autoptr(object) pvc = NULL;

	g->running = false;
	v->n_grouping--;
	if (g->left) {
		grouping_free(g);
		return;
	}
	pvc = client_get(v->spec.client, v->pvc, g->ns, g->pvc);
	if (pvc)
		v->spec.changed(v->spec.arg, pvc);
}

static struct err *under_way(struct grouping *g, const struct volume_pod *p)
{
	struct volumes *v = g->volumes;
	usec now = clock_mono();
	autofree char *text = NULL;

	if (p->obj && now - (g->told ? g->told : g->began) > v->group_report) {
		g->told = now;
		text = xasprintf("Setting volume ownership for %s, processed %llu files.", g->what,
				 (unsigned long long)atomic_load(&g->regroup.n));
		v->spec.event(v->spec.arg, p->obj, true, "VolumePermissionChangeInProgress", text);
	}
	return err_new(ERR_TIMEOUT, "its files are being given to group %u (fsGroup)",
		       g->regroup.gid);
}

/* Takes fd over. */
static struct err *begin(struct volumes *v, const struct volume_pod *p,
			 const struct pod_volume_view *volume, char *key, int fd)
{
	struct grouping *g = xnew(struct grouping);

	*g = (struct grouping){ .volumes = v,
				.key = key,
				.ns = xstrdup(p->view->ns),
				.pvc = xstrdup(volume->pvc),
				.what = xasprintf("%s of Pod %s", volume->name, p->view->name),
				.fd = fd,
				.running = true,
				.began = clock_mono(),
				.regroup = { .gid = (gid_t)p->view->fs_group,
					     .readonly = volume->readonly } };
	map_put(v->groups, key, g);
	v->n_grouping++;
	jobs_run(v->spec.jobs, work, done, g);
	return under_way(g, p);
}

static struct err *outcome(struct volumes *v, struct grouping *g, const struct volume_pod *p)
{
	struct err *e;

	if (g->running)
		return under_way(g, p);
	if (!g->err)
		return NULL; /* until the Pod is forgotten */
	e = err_wrap(take(g->err), "give its files to group %u (fsGroup)", g->regroup.gid);
	(void)map_del(v->groups, g->key); /* the next pass tries again */
	return e;
}

struct err *group_apply(struct volumes *v, const struct volume_pod *p,
			const struct pod_volume_view *volume, const struct object *pv)
{
	const struct regroup want = { .gid = (gid_t)p->view->fs_group,
				      .readonly = volume->readonly };
	const char *handle = storage_handle(pv->root);
	autofree char *key = NULL, *path = NULL;
	autoclose fd = -1;
	struct grouping *g;

	if (p->view->fs_group < 0 || (p->mounted && map_has(p->mounted, handle)))
		return NULL;
	key = xasprintf("%s/%s", p->view->uid, volume->name);
	g = map_get(v->groups, key);
	if (g)
		return outcome(v, g, p);
	path = diskpool_path(v->spec.disk, INSTANCE_VOLUMES, handle);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (p->view->fs_group_on_mismatch && regroup_done(fd, &want)))
		return NULL; /* without a directory, one is made */
	if (v->n_grouping >= JOBS_MAX)
		return err_new(ERR_TIMEOUT, "its files wait to be given to group %u (fsGroup)",
			       want.gid);
	return begin(v, p, volume, take(key), take_fd(fd));
}

static bool is_of(const char *key, const char *uid)
{
	return str_starts(key, uid) && key[strlen(uid)] == '/';
}

void group_forget(struct volumes *v, const char *uid)
{
	for (;;) {
		const char *found = NULL;

		map_each(it, v->groups)
			if (!found && is_of(it.key, uid))
				found = it.key;
		if (!found)
			return;
		(void)map_del(v->groups, found);
	}
}

void groups_open(struct volumes *v)
{
	v->groups = map_new(grouping_drop);
	v->group_report = INT64_C(30) * 1000 * 1000;
}

/* Those that are under way end soon, and are freed then. */
void groups_close(struct volumes *v)
{
	map_free(take(v->groups));
}
