/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"
#include "node/pod/pod_priv.h"

/*
 * The memory of a Pod that has been frozen for a while goes to swap space, if the host has any. It
 * is a job that may take seconds, one at a time on a node, and stops when the Pod is needed.
 */
enum {
	AFTER_MS = 5000, /* one that is needed sooner should not have to read it back */
	RETRY_MS = 500,  /* while another Pod's is under way */
};

struct page_out {
	struct pods *pods;
	char *uid;
	char **tasks; /* NULL-terminated */
	bool stop;    /* written by the loop's thread, read by the job's */
	bool did;
};

static void page_out_free(struct page_out *o)
{
	for (char **t = o->tasks; *t; t++)
		free(*t);
	free(o->tasks);
	free(o->uid);
	free(o);
}

static void work(void *arg)
{
	struct page_out *o = arg;
	const struct pods *ps = o->pods;

	for (char **t = o->tasks; *t; t++)
		o->did |= ps->rt->page_out(ps->rt_ctx, *t, &o->stop);
}

static void done(void *arg)
{
	struct page_out *o = arg;
	struct pod *p = map_get(o->pods->pods, o->uid);

	o->pods->paging = false;
	o->pods->n_page_outs += o->did;
	if (p && p->sleep.page_out == o)
		p->sleep.page_out = NULL;
	page_out_free(o);
}

static struct page_out *page_out_new(struct pod *p)
{
	struct page_out *o = xnew(struct page_out);
	size_t n = 0;

	o->pods = p->pods;
	o->uid = xstrdup(p->obj->uid);
	o->tasks = xnew_n(char *, p->n_containers + 1);
	for (size_t i = 0; i < p->n_containers; i++)
		if (p->containers[i]->task)
			o->tasks[n++] = xstrdup(p->containers[i]->log);
	return o;
}

static void on_timer(void *arg)
{
	struct pod *p = arg;
	struct pods *ps = p->pods;

	if (!p->sleep.frozen || p->sleep.page_out)
		return;
	if (ps->paging) {
		timer_set(p->sleep.page_timer, RETRY_MS);
		return;
	}
	ps->paging = true;
	p->sleep.page_out = page_out_new(p);
	jobs_run(&ps->jobs, work, done, p->sleep.page_out);
}

void pod_page_out_later(struct pod *p)
{
	if (!p->pods->rt->page_out)
		return;
	if (!p->sleep.page_timer)
		p->sleep.page_timer = timer_new(p->pods->loop, on_timer, p);
	timer_set(p->sleep.page_timer, AFTER_MS);
}

void pod_page_out_stop(struct pod *p)
{
	struct page_out *o = take(p->sleep.page_out);

	if (o)
		__atomic_store_n(&o->stop, true, __ATOMIC_SEQ_CST);
	if (p->sleep.page_timer)
		timer_clear(p->sleep.page_timer);
}

void page_outs_metrics(const struct pods *ps, struct buf *b)
{
	metrics_counter(b, "cay_page_outs_total",
			"How often the memory of a frozen sandbox was pushed to swap space.",
			ps->n_page_outs);
}
