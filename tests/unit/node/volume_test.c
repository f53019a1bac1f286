/* SPDX-License-Identifier: Apache-2.0 */
#include "node/volume/volume.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "kinds.h"
#include "loop/jobs.h"
#include "node/disk/disk.h"
#include "node/launch/plan.h"
#include "rig.h"

/* Volumes by themselves: the rig's Pods have their own. */
struct bench {
	struct rig rig;
	struct jobs jobs;
	struct volumes *volumes;
	struct arena *arena;
	struct object *obj;
	struct volume_pod pod;
	bool in_use;
	struct client_write sync;
	bool synced;
	struct diskpool *disk;
};

static bool in_use(void *arg, unused const char *pvc_uid)
{
	return ((struct bench *)arg)->in_use;
}

static void changed(unused void *arg, unused const struct object *o)
{
}

static void bench_open(struct bench *b)
{
	struct volumes_spec spec = { .jobs = &b->jobs, .in_use = in_use, .changed = changed };
	autofree char *dir = NULL;

	*b = (struct bench){ .arena = arena_new() };
	rig_open(&b->rig);
	jobs_init(&b->jobs, b->rig.loop, NULL, NULL);
	spec.loop = b->rig.loop;
	spec.client = b->rig.client;
	dir = xasprintf("%s/other", b->rig.dir);
	b->disk = diskpool_open_plain(dir);
	spec.disk = b->disk;
	spec.run_dir = b->rig.run_dir;
	spec.arg = b;
	b->volumes = volumes_new(&spec);
	volumes_start(b->volumes);
}

static void bench_pod(struct bench *b, const char *spec)
{
	autofree char *text = xasprintf("{'metadata':{'name':'p','namespace':'" NS "','uid':'u',"
					"'labels':{'l':'1'}},'spec':{%s}}",
					spec);

	object_unref(b->obj);
	b->obj = object_new(kind_named("Pod"), doc_of(text));
	b->pod.view = pod_view_new(b->obj, b->arena);
}

static void bench_done(struct bench *b)
{
	jobs_wait(&b->jobs);
	volumes_free(b->volumes);
	diskpool_free(b->disk);
	object_unref(b->obj);
	arena_free(b->arena);
	rig_done(&b->rig);
}

static void on_synced(struct client_write *w, struct err *e, unused struct object *obj)
{
	works(e);
	container_of(w, struct bench, sync)->synced = true;
}

/* All that was written and asked for before is durable, and known to be so. */
static void bench_sync(struct bench *b)
{
	turn(&b->rig);
	b->sync.done = on_synced;
	client_sync(b->rig.client, &b->sync);
	until(&b->rig, b->synced);
	turn(&b->rig);
	jobs_wait(&b->jobs);
}

static char *content(struct bench *b, const char *path)
{
	autofree char *full = xasprintf("%s/volumes/u/%s", b->rig.run_dir, path);
	char *text = NULL;

	err_free(file_read(AT_FDCWD, full, 1000, &text, NULL));
	return text;
}

TEST(objects_become_files)
{
	struct bench b;
	autofree char *one = NULL, *two = NULL, *three = NULL, *none = NULL;

	bench_open(&b);
	bench_pod(&b, "'volumes':[{'name':'v','projected':{'sources':[{'configMap':{'name':'c',"
		      "'items':[{'key':'k','path':'d/f'}]}},{'secret':{'name':'s'}},"
		      "{'downwardAPI':{'items':[{'path':'n','fieldRef':{'fieldPath':"
		      "'metadata.labels'}}]}}]}}]");
	fails(volumes_prepare(b.volumes, &b.pod), ERR_UNAVAILABLE);
	create(&b.rig, kind_named("ConfigMap"),
	       "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c'},'data':{'k':'v','x':'y'}}");
	create(&b.rig, kind_named("Secret"),
	       "{'apiVersion':'v1','kind':'Secret','metadata':{'name':'s'},'data':{'t':'aGk='}}");
	works(volumes_prepare(b.volumes, &b.pod));
	eq_str(one = content(&b, "v/d/f"), "v");
	eq_str(two = content(&b, "v/t"), "hi");
	eq_str(three = content(&b, "v/n"), "l=\"1\"");
	eq_str(none = content(&b, "v/x"), NULL);
	volumes_forget(b.volumes, "u");
	is_true(!content(&b, "v/t"));
	bench_done(&b);
}

TEST(the_data_of_a_secret_is_base64_and_that_of_a_config_map_is_text)
{
	static const struct {
		bool secret;
		const char *key, *want;
		enum err_code code;
	} rows[] = {
		{ true, "a", "hi" }, { false, "a", "aGk=" }, { true, "b", NULL, ERR_UNAVAILABLE },
		{ false, "b", "!" }, { true, "none", NULL },
	};
	autoptr(object) o =
		object_new(kind_named("Secret"), doc_of("{'metadata':{'name':'s','namespace':'" NS
							"'},'data':{'a':'aGk=','b':'!'}}"));

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *value = NULL;
		size_t len = 0;
		struct err *e = source_value(o, rows[i].secret, rows[i].key, &value, &len);

		if (rows[i].code) {
			fails(e, rows[i].code);
			continue;
		}
		works(e);
		eq_str(value, rows[i].want);
		eq_int(len, rows[i].want ? strlen(rows[i].want) : 0);
	}
}

TEST(a_path_cannot_leave_its_volume)
{
	static const struct {
		const char *path;
		bool ok;
	} rows[] = {
		{ "../x", false }, { "d/../../x", false }, { "d/..", false }, { "/x", false },
		{ "..", false },   { "a..b", true },       { "..a", true },   { "d/a../x", true },
	};
	struct bench b;

	bench_open(&b);
	create(&b.rig, kind_named("ConfigMap"),
	       "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c'},'data':{'k':'v'}}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *spec = xasprintf("'volumes':[{'name':'v','configMap':{'name':'c',"
						"'items':[{'key':'k','path':'%s'}]}}]",
						rows[i].path);

		bench_pod(&b, spec);
		if (rows[i].ok)
			works(volumes_prepare(b.volumes, &b.pod));
		else
			fails(volumes_prepare(b.volumes, &b.pod), ERR_INVALID);
	}
	bench_done(&b);
}

TEST(mounts_are_ordered_and_read_only_where_they_must_be)
{
	struct bench b;
	struct plan plan = { 0 };

	bench_open(&b);
	bench_pod(&b,
		  "'volumes':[{'name':'e','emptyDir':{}},{'name':'s','secret':{}},"
		  "{'name':'m','emptyDir':{'medium':'Memory','sizeLimit':'1Mi'}}],"
		  "'securityContext':{'fsGroup':9},"
		  "'containers':[{'name':'a','volumeMounts':[{'name':'s','mountPath':'/d/inner'},"
		  "{'name':'e','mountPath':'/d'},{'name':'m','mountPath':'/memory'}]}]");
	works(volumes_mounts(b.volumes, &b.pod, &b.pod.view->containers[0], b.arena, &plan));
	eq_int(plan.n_mounts, 3);
	eq_str(plan.mounts[0].to, "/d");
	is_true(plan.mounts[0].make && !plan.mounts[0].readonly);
	eq_int(plan.mounts[0].group, 9);
	is_true(str_ends(plan.mounts[0].from, "/other/pods/u/e"));
	eq_str(plan.mounts[1].to, "/memory");
	is_true(plan.mounts[1].memory);
	eq_int(plan.mounts[1].size, 1 << 20);
	eq_str(plan.mounts[2].to, "/d/inner");
	is_true(plan.mounts[2].readonly && !plan.mounts[2].make);
	for (size_t i = 0; i < plan.n_mounts; i++)
		is_true(plan.mounts[i].own);
	bench_done(&b);
}

TEST(a_deleted_volumes_directory_goes_after_its_last_user)
{
	static const char pvc[] =
		"{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':{'name':'q'},'spec':"
		"{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'1Gi'}}}}";
	struct bench b;
	struct plan plan = { 0 };
	const char *dir;
	struct stat st;

	bench_open(&b);
	b.in_use = true;
	bench_pod(&b, "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'q'}}],"
		      "'containers':[{'name':'a','volumeMounts':[{'name':'v','mountPath':'/v'}]}]");
	fails(volumes_prepare(b.volumes, &b.pod), ERR_UNAVAILABLE);
	create(&b.rig, kind_named("PersistentVolumeClaim"), pvc);
	works(volumes_prepare(b.volumes, &b.pod));
	works(volumes_mounts(b.volumes, &b.pod, &b.pod.view->containers[0], b.arena, &plan));
	dir = plan.mounts[0].from;
	works(file_mkdirs(dir, 0700));
	pvc_delete(&b.rig, "q");
	bench_sync(&b);
	is_true(!stat(dir, &st));
	b.in_use = false;
	volumes_sweep(b.volumes);
	until(&b.rig, stat(dir, &st) < 0);
	bench_done(&b);
}
