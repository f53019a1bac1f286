/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/image/image_priv.h"

/*
 * Makes `host:writable` when it is first asked for: that takes seconds and some disk space, which
 * whoever does not use the image does not have to spend. A failure stands for a while, so that
 * those who wait can say why, and then it is tried again.
 */
enum {
	AGAIN_MS = 30000,
};

struct maker {
	struct images_maker spec; /* without a loop, whoever asks waits */
	char *data_dir;
	struct jobs jobs;
	struct timer *again;
	/* The job's own while it runs. */
	char *dir;
	struct err *failed;
};

static void tell(const struct maker *m)
{
	if (m->spec.changed)
		m->spec.changed(m->spec.arg);
}

static void on_again(void *arg)
{
	struct maker *m = arg;

	err_free(take(m->failed));
	tell(m);
}

struct maker *maker_new(const char *data_dir)
{
	struct maker *m = xnew(struct maker);

	m->data_dir = xstrdup(data_dir);
	return m;
}

void maker_start(struct maker *m, const struct images_maker *spec)
{
	m->spec = *spec;
	m->again = timer_new(spec->loop, on_again, m);
	jobs_init(&m->jobs, spec->loop, NULL, NULL);
}

void maker_free(struct maker *m)
{
	if (!m)
		return;
	m->spec.changed = NULL;
	if (m->jobs.n)
		jobs_wait(&m->jobs);
	timer_free(m->again);
	err_free(m->failed);
	free(m->data_dir);
	free(m->dir);
	free(m);
}

static void work(void *arg)
{
	struct maker *m = arg;
	struct err *e = host_writable_make(m->data_dir, m->spec.users, &m->dir);

	m->failed = e ? err_recode(e, ERR_SYS) : NULL; /* the image itself is not missing */
}

static void done(void *arg)
{
	struct maker *m = arg;

	if (m->failed)
		timer_set(m->again, AGAIN_MS);
	tell(m);
}

struct err *maker_ask(struct maker *m, const char **ret)
{
	if (!m->spec.loop && !m->dir) {
		struct err *e = host_writable_make(m->data_dir, NULL, &m->dir);

		if (e)
			return e;
	}
	if (!m->jobs.n && m->dir) {
		*ret = m->dir;
		return NULL;
	}
	if (!m->jobs.n && m->failed)
		return err_copy(m->failed);
	if (!m->jobs.n)
		jobs_run(&m->jobs, work, done, m);
	return err_new(
		ERR_UNAVAILABLE,
		"image host:writable is being made from this machine's files, which takes some seconds once");
}
