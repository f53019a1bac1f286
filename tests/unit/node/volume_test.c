/* SPDX-License-Identifier: Apache-2.0 */
#include "node/volume/volume.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "kinds.h"
#include "loop/jobs.h"
#include "loop/queue.h"
#include "node/disk/disk.h"
#include "node/launch/plan.h"
#include "node/volume/payload.h"
#include "node/volume/volume_priv.h"
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
	unsigned n_stale, n_events;
	char event[256]; /* the last one */
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

static void stale(void *arg, unused const char *uid)
{
	((struct bench *)arg)->n_stale++;
}

static void event(void *arg, unused struct object *about, unused bool warning, const char *reason,
		  const char *message)
{
	struct bench *b = arg;

	b->n_events++;
	(void)snprintf(b->event, sizeof(b->event), "%s: %s", reason, message);
}

static void bench_open(struct bench *b)
{
	struct volumes_spec spec = { .jobs = &b->jobs,
				     .in_use = in_use,
				     .changed = changed,
				     .stale = stale,
				     .event = event,
				     .node_name = "n1" };
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

/* Versions of one volume, by themselves. */
struct version_bench {
	char *dir, *sum;
};

static void versions_open(struct version_bench *b, struct rig *r)
{
	rig_open(r);
	b->dir = xasprintf("%s/version", r->dir);
	b->sum = xasprintf("%s/version.sum", r->dir);
	eq_int(mkdir(b->dir, 0755), 0);
}

static void versions_done(struct version_bench *b, struct rig *r)
{
	free(b->dir);
	free(b->sum);
	rig_done(r);
}

/* files: "path=content path=content" */
static struct err *write_files(const struct version_bench *b, const char *files)
{
	autopayload p = { 0 };
	struct span rest = SPAN(files);

	while (rest.p && rest.len) {
		struct span data, path = span_cut(span_cut(rest, ' ', &rest), '=', &data);
		autofree char *name = xstrndup(path.p, path.len);

		works(payload_add(&p, name, 0640, data.p, data.len));
	}
	return payload_write(&p, b->dir, b->sum);
}

static void eq_file(const struct version_bench *b, const char *name, const char *want)
{
	autofree char *path = xasprintf("%s/%s", b->dir, name), *text = NULL;

	err_free(file_read(AT_FDCWD, path, 1000, &text, NULL));
	eq_str(text, want);
}

static void eq_link(const struct version_bench *b, const char *name, const char *want)
{
	autofree char *path = xasprintf("%s/%s", b->dir, name);
	char to[64] = "";
	ssize_t n = readlink(path, to, sizeof(to) - 1);

	is_true(n < (ssize_t)sizeof(to));
	eq_str(n < 0 ? NULL : to, want);
}

TEST(a_new_version_takes_the_place_of_the_last_in_one_step)
{
	struct version_bench b;
	struct rig r;
	autoclose old = -1;
	char text[8] = "";

	versions_open(&b, &r);
	works(write_files(&b, "a=1 d/b=2 gone=3"));
	eq_link(&b, "..data", "..1");
	eq_link(&b, "a", "..data/a");
	eq_link(&b, "d", "..data/d");
	eq_file(&b, "d/b", "2");
	works(write_files(&b, "a=1 d/b=2 gone=3"));
	eq_link(&b, "..data", "..1"); /* nothing has changed */
	old = open(b.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	works(write_files(&b, "a=one d/b=2 new=4"));
	eq_link(&b, "..data", "..2");
	eq_file(&b, "a", "one");
	eq_file(&b, "new", "4");
	eq_file(&b, "gone", NULL);
	eq_link(&b, "gone", NULL);
	eq_file(&b, "..1/a", "1"); /* for whoever has just opened it */
	works(write_files(&b, "a=again"));
	eq_file(&b, "..1/a", NULL);
	eq_link(&b, "d", NULL);
	eq_int(readlinkat(old, "a", text, sizeof(text)), sizeof(text)); /* the mount is the same */
	versions_done(&b, &r);
}

TEST(files_as_earlier_releases_wrote_them_become_versions)
{
	struct version_bench b;
	struct rig r;
	autofree char *file = NULL, *dir = NULL;

	versions_open(&b, &r);
	file = xasprintf("%s/a", b.dir);
	dir = xasprintf("%s/d", b.dir);
	works(file_write_atomic(AT_FDCWD, file, "old", 3, 0644));
	eq_int(mkdir(dir, 0755), 0);
	works(write_files(&b, "a=1 d/b=2"));
	eq_link(&b, "a", "..data/a");
	eq_file(&b, "d/b", "2");
	versions_done(&b, &r);
}

TEST(a_volume_of_objects_has_a_limit_of_bytes_and_files)
{
	autofree char *much = xnew_n(char, PAYLOAD_BYTES_MAX);
	autopayload bytes = { 0 }, files = { 0 };

	works(payload_add(&bytes, "a", 0644, much, PAYLOAD_BYTES_MAX));
	fails(payload_add(&bytes, "b", 0644, much, 1), ERR_UNAVAILABLE);
	for (size_t i = 0; i < PAYLOAD_FILES_MAX; i++)
		works(payload_add(&files, "a", 0644, much, 0));
	fails(payload_add(&files, "b", 0644, much, 0), ERR_UNAVAILABLE);
}

TEST(a_version_that_memory_is_short_for_is_not_written)
{
	struct version_bench b;
	struct rig r;
	autofree char *fill = NULL;
	char *much = xnew_n(char, 60 * 1024);

	if (geteuid() != 0) {
		free(much);
		skip_because("needs root: a file system is mounted");
		return;
	}
	versions_open(&b, &r);
	eq_int(mount("none", b.dir, "tmpfs", 0, "size=64k"), 0);
	works(write_files(&b, "a=1"));
	works(write_files(&b, "a=2"));
	fill = xasprintf("%s/..1/fill", b.dir);
	works(file_write_atomic(AT_FDCWD, fill, much, 44 * 1024, 0600));
	fails(write_files(&b, "a=3"), ERR_EXHAUSTED);
	eq_file(&b, "a", "2");
	eq_int(umount2(b.dir, MNT_DETACH), 0);
	free(much);
	versions_done(&b, &r);
}

static void pass_time(struct bench *b)
{
	queue_step(b->volumes->refresh, 1000);
	turn(&b->rig);
}

TEST(a_change_of_an_object_reaches_the_pods_that_show_it)
{
	static const char made[] = "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c'},"
				   "'data':{'k':'v'}}";
	struct bench b;
	autofree char *text = NULL;

	bench_open(&b);
	create(&b.rig, kind_named("ConfigMap"), made);
	create(&b.rig, kind_named("ConfigMap"),
	       "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'other'}}");
	bench_pod(&b, "'volumes':[{'name':'v','configMap':{'name':'c'}}]");
	works(volumes_prepare(b.volumes, &b.pod));
	pass_time(&b);
	b.n_stale = 0;
	patch_config_map(&b.rig, "other", "{'data':{'k':'x'}}");
	pass_time(&b);
	eq_int(b.n_stale, 0);
	patch_config_map(&b.rig, "c", "{'data':{'k':'x'}}");
	patch_config_map(&b.rig, "c", "{'data':{'k':'y'},'immutable':true}");
	pass_time(&b);
	eq_int(b.n_stale, 1);
	works(volumes_refresh(b.volumes, &b.pod));
	eq_str(text = content(&b, "v/k"), "y");
	patch_config_map(&b.rig, "c", "{'metadata':{'labels':{'a':'b'}}}");
	pass_time(&b);
	eq_int(b.n_stale, 1); /* what is immutable is not looked at again */
	volumes_pod_changed(b.volumes, "u");
	volumes_forget(b.volumes, "u");
	pass_time(&b);
	eq_int(b.n_stale, 1);
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
		{ "..", false },   { "a..b", true },       { "..a", false },  { "d/a../x", true },
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

#define CLAIM_SPEC "'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'1Gi'}}"

static void claim_create(struct rig *r, const char *name)
{
	autofree char *text = xasprintf("{'metadata':{'name':'%s'},'spec':{" CLAIM_SPEC "}}", name);

	create(r, kind_named("PersistentVolumeClaim"), text);
}

static struct object *claim_get(struct rig *r, const char *name)
{
	return client_get(r->client, kind_named("PersistentVolumeClaim"), NS, name);
}

static void claim_patch(struct rig *r, const char *name, const char *text)
{
	const struct client_ref ref = { .kind = kind_named("PersistentVolumeClaim"),
					.ns = NS,
					.name = name,
					.sub = CLIENT_WHOLE };

	client_patch(r->client, &ref, PATCH_MERGE, doc_of(text), NULL);
	turn(r);
}

static bool claim_is(struct rig *r, const char *name, const char *phase)
{
	autoptr(object) o = claim_get(r, name);

	return str_eq(json_get_str(object_status(o), "phase"), phase);
}

TEST(a_claim_is_bound_with_three_writes)
{
	struct rig r;
	uint64_t before;

	rig_open(&r);
	turn(&r);
	before = rev(&r);
	claim_create(&r, "q");
	turn(&r);
	is_true(claim_is(&r, "q", "Bound"));
	eq_int(rev(&r), before + 1 + 3); /* its own create; volume, claim, status of the volume */
	rig_done(&r);
}

/* A claim of an earlier version was bound and named no volume: its owner may set that once. */
TEST(a_claim_that_says_it_has_anothers_volume_gets_nothing_of_it)
{
	autoptr(object) theirs = NULL;
	autofree char *patch = NULL;
	struct rig r;

	rig_open(&r);
	claim_create(&r, "theirs");
	turn(&r);
	theirs = claim_get(&r, "theirs");
	rig_stop(&r);
	claim_create(&r, "mine");
	patch = xasprintf("{'spec':{'volumeName':'pvc-%s'},'status':{'phase':'Bound',"
			  "'capacity':{'storage':'1Gi'}}}",
			  theirs->uid);
	claim_patch(&r, "mine", patch);
	rig_start(&r);
	pod_create(&r, "p",
		   "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'mine'}}],"
		   "'containers':[{'name':'a','image':'img','volumeMounts':[{'name':'v',"
		   "'mountPath':'/v'}]}]");
	turn(&r);
	is_true(claim_is(&r, "mine", "Lost"));
	is_true(claim_is(&r, "theirs", "Bound"));
	eq_int(fake_count(&r.rt), 0);
	rig_done(&r);
}

TEST(a_volume_is_mounted_only_for_the_claim_that_it_names)
{
	autoptr(object) theirs = NULL;
	autoptr(object) mine = NULL;
	autoptr(object) pv = NULL;
	autofree char *text = NULL;
	struct bench b;

	bench_open(&b);
	claim_create(&b.rig, "theirs");
	turn(&b.rig);
	theirs = claim_get(&b.rig, "theirs");
	works(pvc_volume(b.volumes, theirs, &pv));
	text = xasprintf("{'metadata':{'name':'mine','namespace':'" NS "','uid':'u'},'spec':"
			 "{'volumeName':'%s'},'status':{'phase':'Bound'}}",
			 pv->name);
	mine = object_new(kind_named("PersistentVolumeClaim"), doc_of(text));
	object_unref(take(pv));
	fails(pvc_volume(b.volumes, mine, &pv), ERR_UNAVAILABLE);
	bench_done(&b);
}

/* A volume with contents, and a Pod with an fsGroup. */
static void grouped(struct bench *b, const char *policy)
{
	autofree char *spec = xasprintf(
		"'securityContext':{'fsGroup':%u%s},"
		"'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'q'}}],"
		"'containers':[{'name':'a','volumeMounts':[{'name':'v','mountPath':'/v'}]}]",
		(unsigned)getegid(), policy);

	bench_pod(b, spec);
}

TEST(what_is_in_a_volume_is_given_to_the_fs_group_once_for_each_pod)
{
	autoptr(object) q = NULL;
	autofree char *dir = NULL, *file = NULL;
	struct stat st;
	struct bench b;

	bench_open(&b);
	claim_create(&b.rig, "q");
	turn(&b.rig);
	q = claim_get(&b.rig, "q");
	grouped(&b, "");
	works(volumes_prepare(b.volumes, &b.pod)); /* there is nothing yet */
	dir = diskpool_path(b.disk, INSTANCE_VOLUMES, q->uid);
	file = xasprintf("%s/file", dir);
	works(file_mkdirs(dir, 0700));
	works(file_write_atomic(AT_FDCWD, file, "x", 1, 0600));
	fails(volumes_prepare(b.volumes, &b.pod), ERR_TIMEOUT);
	jobs_wait(&b.jobs);
	works(volumes_prepare(b.volumes, &b.pod));
	is_true(!stat(file, &st) && (st.st_mode & 07777) == 0660);
	is_true(!chmod(file, 0600));
	works(volumes_prepare(b.volumes, &b.pod)); /* it had that already */
	volumes_forget(b.volumes, "u");
	grouped(&b, ",'fsGroupChangePolicy':'OnRootMismatch'");
	works(volumes_prepare(b.volumes, &b.pod)); /* its top is right */
	is_true(!stat(file, &st) && (st.st_mode & 07777) == 0600);
	grouped(&b, ",'fsGroupChangePolicy':'Always'");
	b.volumes->group_report = 0;
	b.pod.obj = b.obj;
	fails(volumes_prepare(b.volumes, &b.pod), ERR_TIMEOUT);
	fails(volumes_prepare(b.volumes, &b.pod), ERR_TIMEOUT);
	is_true(str_starts(b.event, "VolumePermissionChangeInProgress: Setting volume ownership"));
	volumes_forget(b.volumes, "u"); /* the Pod is deleted meanwhile */
	bench_done(&b);
}

static void volume_create(struct rig *r, const char *name)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'%s'},'spec':{'accessModes':['ReadWriteOnce'],'capacity':"
		"{'storage':'1Gi'},'csi':{'driver':'disk-pool.cay.dev','volumeHandle':'h'}}}",
		name);

	create(r, kind_named("PersistentVolume"), text);
}

static void volume_delete(struct rig *r, const char *name)
{
	const struct client_ref ref = { .kind = kind_named("PersistentVolume"), .name = name };

	client_delete(r->client, &ref, NULL, NULL);
	rig_restart(r); /* waits for whatever is being removed */
	turn(r);
}

TEST(two_volumes_with_one_handle_keep_their_directory_until_both_are_gone)
{
	autofree char *dir = NULL;
	struct stat st;
	struct rig r;

	rig_open(&r);
	dir = xasprintf("%s/volumes/h", r.data_dir);
	works(file_mkdirs(dir, 0700));
	volume_create(&r, "one");
	volume_create(&r, "two");
	turn(&r);
	volume_delete(&r, "one");
	volume_delete(&r, "none");
	is_true(!stat(dir, &st));
	volume_delete(&r, "two");
	until(&r, stat(dir, &st) < 0);
	rig_done(&r);
}
