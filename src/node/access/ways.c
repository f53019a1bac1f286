/* SPDX-License-Identifier: Apache-2.0 */
#include "node/access/ways.h"

#include "base/str.h"
#include "node/access/session_priv.h"
#include "node/pod/pod.h"

/* Finds the operations of a session by its kind: an exec, a port or a log. */

static void do_write(void *s, const void *p, size_t len)
{
	((struct session_head *)s)->kind->write(s, p, len);
}

static bool do_full(void *s)
{
	return ((struct session_head *)s)->kind->full(s);
}

static void do_end_input(void *s)
{
	((struct session_head *)s)->kind->end_input(s);
}

static void do_resize(void *s, uint16_t cols, uint16_t rows)
{
	((struct session_head *)s)->kind->resize(s, cols, rows);
}

static void do_pause(void *s, bool paused)
{
	((struct session_head *)s)->kind->pause(s, paused);
}

static void do_cancel(void *s)
{
	((struct session_head *)s)->kind->cancel(s);
}

static bool do_usage(void *ctx, const struct access_target *of, struct access_usage *ret)
{
	struct ways *w = ctx;

	return pods_usage(w->pods, of, ret);
}

static bool do_activity(void *ctx, const struct access_target *of, struct access_activity *ret)
{
	return pods_activity(((struct ways *)ctx)->pods, of, ret);
}

static struct err *do_freeze(void *ctx, const struct access_target *of)
{
	return pods_freeze(((struct ways *)ctx)->pods, of);
}

static void do_thaw(void *ctx, const struct access_target *of)
{
	pods_thaw(((struct ways *)ctx)->pods, of);
}

static void do_detach(void *ctx, const char *uid)
{
	pods_seats_end(((struct ways *)ctx)->pods, uid);
}

static void do_keep_attached(void *ctx, bool (*keep)(void *arg, const char *uid), void *arg)
{
	pods_seats_keep(((struct ways *)ctx)->pods, keep, arg);
}

static bool do_attachment_usage(void *ctx, const char *uid, struct access_usage *ret)
{
	return pods_attachment_usage(((struct ways *)ctx)->pods, uid, ret);
}

static void do_usage_each(void *ctx, void (*fn)(void *arg, const struct access_source *s),
			  void *arg)
{
	pods_usage_each(((struct ways *)ctx)->pods, fn, arg);
}

static void do_usage_settled(void *ctx, const char *uid)
{
	pods_usage_settled(((struct ways *)ctx)->pods, uid);
}

struct ways *ways_new(const struct ways_spec *spec)
{
	static const struct access_ops ops = {
		.exec = session_exec,
		.logs = session_logs,
		.dial = session_dial,
		.write = do_write,
		.full = do_full,
		.end_input = do_end_input,
		.resize = do_resize,
		.pause = do_pause,
		.cancel = do_cancel,
		.usage = do_usage,
		.activity = do_activity,
		.freeze = do_freeze,
		.thaw = do_thaw,
		.detach = do_detach,
		.keep_attached = do_keep_attached,
		.attachment_usage = do_attachment_usage,
		.usage_each = do_usage_each,
		.usage_settled = do_usage_settled,
	};
	struct ways *w = xnew(struct ways);

	w->loop = spec->loop;
	w->pods = spec->pods;
	w->inotify = spec->inotify;
	w->run_fd = spec->run_fd;
	w->disk = spec->disk;
	jobs_init(&w->jobs, w->loop, NULL, NULL);
	w->access = access_new(&ops, w);
	return w;
}

struct access *ways_access(struct ways *w)
{
	return w->access;
}

void ways_settle(struct ways *w)
{
	jobs_wait(&w->jobs);
}

void ways_free(struct ways *w)
{
	if (!w)
		return;
	jobs_wait(&w->jobs);
	access_free(w->access);
	free(w);
}
