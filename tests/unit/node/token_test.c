/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "kinds.h"
#include "loop/jobs.h"
#include "loop/queue.h"
#include "node/disk/disk.h"
#include "node/volume/volume_priv.h"
#include "rig.h"

/* Volumes with an issuer whose tokens are numbered and live as long as the test says. */
struct bench {
	struct rig rig;
	struct jobs jobs;
	struct volumes *volumes;
	struct arena *arena;
	struct object *obj;
	struct volume_pod pod;
	struct diskpool *disk;
	unsigned n_stale, n_issued;
	int64_t life_s;
	bool refuses;
	char asked[128]; /* the last wish */
};

static struct err *issue(void *arg, const struct pod_token_wish *w, char **ret,
			 int64_t *ret_expires)
{
	struct bench *b = arg;

	(void)snprintf(b->asked, sizeof(b->asked), "%s/%s %s/%s %s %lld", w->ns, w->account, w->pod,
		       w->pod_uid, str_or(w->audience, "-"), (long long)w->expire_s);
	if (b->refuses)
		return err_new(ERR_NOT_FOUND, "no such account");
	*ret = xasprintf("token-%u", ++b->n_issued);
	*ret_expires = clock_wall() / 1000000 + b->life_s;
	return NULL;
}

/* As pods.c does it. */
static void stale(void *arg, unused const char *uid)
{
	struct bench *b = arg;

	b->n_stale++;
	err_free(volumes_refresh(b->volumes, &b->pod));
}

static bool in_use(unused void *arg, unused const char *handle)
{
	return false;
}

static void changed(unused void *arg, unused const struct object *o)
{
}

static void bench_open(struct bench *b, const char *spec)
{
	struct volumes_spec v = { .jobs = &b->jobs,
				  .in_use = in_use,
				  .changed = changed,
				  .stale = stale,
				  .node_name = "n1",
				  .tokens = { .issue = issue, .arg = b },
				  .arg = b };
	autofree char *dir = NULL;
	autofree char *text = xasprintf(
		"{'metadata':{'name':'p','namespace':'" NS "','uid':'u'},'spec':{%s}}", spec);

	*b = (struct bench){ .arena = arena_new(), .life_s = 3600 };
	rig_open(&b->rig);
	jobs_init(&b->jobs, b->rig.loop, NULL, NULL);
	v.loop = b->rig.loop;
	v.client = b->rig.client;
	dir = xasprintf("%s/other", b->rig.dir);
	b->disk = diskpool_open_plain(dir);
	v.disk = b->disk;
	v.run_dir = b->rig.run_dir;
	b->volumes = volumes_new(&v);
	volumes_start(b->volumes);
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

static void eq_content(struct bench *b, const char *path, const char *want)
{
	autofree char *full = xasprintf("%s/volumes/u/%s", b->rig.run_dir, path), *text = NULL;

	err_free(file_read(AT_FDCWD, full, 1000, &text, NULL));
	eq_str(text, want);
}

static void pass_minute(struct bench *b)
{
	queue_step(b->volumes->renewals, 61 * 1000);
	turn(&b->rig);
}

#define TWO_TOKENS                                                                 \
	"'serviceAccountName':'a','volumes':[{'name':'v','projected':{'sources':[" \
	"{'serviceAccountToken':{'path':'t','expirationSeconds':700}},"            \
	"{'serviceAccountToken':{'path':'x','audience':'vault','expirationSeconds':600}}]}}]"

TEST(a_token_is_asked_for_once_and_for_its_pod)
{
	struct bench b;

	bench_open(&b, TWO_TOKENS);
	works(volumes_prepare(b.volumes, &b.pod));
	eq_content(&b, "v/t", "token-1");
	eq_content(&b, "v/x", "token-2");
	eq_str(b.asked, NS "/a p/u vault 600");
	works(volumes_prepare(b.volumes, &b.pod));
	works(volumes_refresh(b.volumes, &b.pod)); /* as after a change of some object */
	pass_minute(&b);
	eq_int(b.n_issued, 2);
	eq_int(b.n_stale, 0);
	volumes_forget(b.volumes, "u");
	eq_content(&b, "v/t", NULL);
	works(volumes_prepare(b.volumes, &b.pod));
	eq_int(b.n_issued, 4); /* nothing of the old ones was kept */
	bench_done(&b);
}

TEST(a_token_is_renewed_before_it_expires)
{
	struct bench b;

	bench_open(&b, TWO_TOKENS);
	b.life_s = 0; /* due at once */
	works(volumes_prepare(b.volumes, &b.pod));
	b.life_s = 3600;
	pass_minute(&b);
	eq_int(b.n_stale, 1);
	eq_content(&b, "v/t", "token-3");
	eq_content(&b, "..x", NULL);
	eq_content(&b, "v/..data/x", "token-4");
	eq_content(&b, "v/..1/t", "token-1"); /* for whoever has just opened it */
	pass_minute(&b);
	eq_int(b.n_issued, 4);
	volumes_forget(b.volumes, "u");
	pass_minute(&b);
	eq_int(queue_len(b.volumes->renewals), 0);
	bench_done(&b);
}

TEST(a_token_that_cannot_be_renewed_is_kept_and_tried_again)
{
	struct bench b;

	bench_open(&b, TWO_TOKENS);
	b.refuses = true;
	fails(volumes_prepare(b.volumes, &b.pod), ERR_UNAVAILABLE);
	b.refuses = false;
	b.life_s = 0;
	works(volumes_prepare(b.volumes, &b.pod));
	b.refuses = true;
	pass_minute(&b);
	eq_int(b.n_stale, 1);
	eq_content(&b, "v/t", "token-1"); /* the files stay as they were */
	fails(volumes_prepare(b.volumes, &b.pod), ERR_UNAVAILABLE); /* they have expired */
	bench_done(&b);
}

TEST(a_pod_has_a_bounded_number_of_tokens)
{
	autofree char *list = xstrdup("");
	autofree char *spec = NULL;
	struct bench b;

	for (int i = 0; i < 33; i++) {
		char *more = xasprintf("%s%s{'serviceAccountToken':{'path':'t%d'}}", list,
				       i ? "," : "", i);

		free(list);
		list = more;
	}
	spec = xasprintf("'volumes':[{'name':'v','projected':{'sources':[%s]}}]", list);
	bench_open(&b, spec);
	fails(volumes_prepare(b.volumes, &b.pod), ERR_EXHAUSTED);
	eq_int(b.n_issued, 32);
	bench_done(&b);
}

TEST(nobody_but_its_reader_can_read_a_token)
{
	static const struct {
		const char *spec;
		unsigned mode, uid, gid;
	} rows[] = {
		{ "'containers':[{'name':'c'}]", 0644, 0, 0 },
		{ "'containers':[{'name':'c','securityContext':{'runAsUser':7}}]", 0600, 7, 0 },
		{ "'containers':[{'name':'c','securityContext':{'runAsUser':7}},{'name':'d'}]",
		  0644, 0, 0 },
		{ "'securityContext':{'runAsUser':7},'containers':[{'name':'c'},{'name':'d',"
		  "'securityContext':{'runAsUser':8}}]",
		  0644, 0, 0 },
		{ "'securityContext':{'runAsUser':7,'fsGroup':9},'containers':[{'name':'c'}]", 0640,
		  7, 9 },
		{ "'securityContext':{'fsGroup':9},'containers':[{'name':'c'}]", 0640, 0, 9 },
	};

	if (geteuid() != 0) {
		skip_because("needs root: files are given away");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *spec = xasprintf("%s," TWO_TOKENS, rows[i].spec), *path = NULL;
		struct bench b;
		struct stat st;

		bench_open(&b, spec);
		works(volumes_prepare(b.volumes, &b.pod));
		path = xasprintf("%s/volumes/u/v/t", b.rig.run_dir);
		eq_int(stat(path, &st), 0);
		eq_int(st.st_mode & 0777, rows[i].mode);
		eq_int(st.st_uid, rows[i].uid);
		eq_int(st.st_gid, rows[i].gid);
		bench_done(&b);
	}
}

TEST(a_fifth_of_a_tokens_life_is_left_when_it_is_renewed_or_a_day_has_gone_by)
{
	static const struct {
		int64_t life;
		uint64_t random;
		int64_t in;
	} rows[] = {
		{ 3600, 0, 2880 },
		{ 3607, 0, 2886 },
		{ 3600, 9, 2871 },
		{ 3600, 10, 2880 },
		{ 600, 9, 471 },
		{ 100, 9, 75 },
		{ 86400, 0, 69120 },
		{ 30 * 86400, 0, 86400 },
		{ 30 * 86400, 7, 86393 },
		{ 1, 9, 1 },
		{ 0, 9, 0 },
		{ -5, 9, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(token_renewal(1000, 1000 + rows[i].life, rows[i].random), 1000 + rows[i].in);
}
