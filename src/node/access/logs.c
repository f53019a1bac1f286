/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "node/access/session_priv.h"
#include "node/disk/disk.h"
#include "node/host/inotify.h"
#include "node/pod/pod.h"

/*
 * Reads a container's log file, which the guest writes by itself. Reading is a job, one piece after
 * the other. The end of the file ends the session, unless the log is followed: then inotify says
 * when to continue. The file may begin with a hole where old lines were dropped.
 */
enum {
	PIECE = 64 * 1024,
};

enum reader_state {
	READER_IDLE,      /* waits for a change of the file, or for the end of a pause */
	READER_BUSY,      /* a job reads, or what it has read is being told */
	READER_CANCELLED, /* nobody listens any more: freed when it would have been idle */
};

struct reader {
	struct session_head head;
	struct ways *ways;
	const struct access_events *ev;
	void *arg;
	int fd;
	int64_t tail, since_us, left; /* left: bytes that may still be delivered; < 0: any */
	bool follow, timestamps;
	struct inotify_watch *watch;
	off_t at; /* -1: where to begin is not known yet */
	enum reader_state state;
	bool paused;          /* whoever listens wants no more for now */
	bool changed, closed; /* the file: written to since the last read began; for good */
	bool final;           /* when the last read began, the file could no longer grow */
	struct buf lines;     /* read, not told yet */
	char *piece;
	ssize_t got;
	char *uid, *container, *task; /* whose log it is */
};

static const struct session_kind kind;
static void read_on(struct reader *r);

static void reader_free(struct reader *r)
{
	inotify_del(r->watch);
	if (r->fd >= 0)
		(void)close(r->fd);
	buf_done(&r->lines);
	free(r->piece);
	free(r->uid);
	free(r->container);
	free(r->task);
	free(r);
}

/* Whether the file can still grow. */
static bool is_live(const struct reader *r)
{
	return !r->closed && pods_task_runs(r->ways->pods, r->uid, r->container, r->task);
}

/* Where the last `tail` lines begin; blocks. */
static off_t find_tail(struct reader *r, off_t begin, off_t end)
{
	int64_t lines = -1; /* the last line's own end is not counted */
	off_t at = end;

	while (at > begin) {
		size_t n = (size_t)MIN((off_t)PIECE, at - begin);

		at -= (off_t)n;
		if (pread(r->fd, r->piece, n, at) != (ssize_t)n)
			return begin;
		for (size_t i = n; i-- > 0;)
			if (r->piece[i] == '\n' && ++lines == r->tail)
				return at + (off_t)i + 1;
	}
	return begin;
}

static void find_begin(struct reader *r)
{
	off_t begin = lseek(r->fd, 0, SEEK_DATA);
	struct stat st;

	if (begin < 0 || fstat(r->fd, &st) < 0)
		begin = st.st_size = 0;
	r->at = begin;
	if (r->tail >= 0)
		r->at = find_tail(r, begin, st.st_size);
}

static void read_work(void *arg)
{
	struct reader *r = arg;

	if (r->at < 0)
		find_begin(r);
	do
		r->got = pread(r->fd, r->piece, PIECE, r->at);
	while (r->got < 0 && errno == EINTR);
}

static bool too_old(const struct reader *r, const struct cri_line *l)
{
	autofree char *time = NULL;
	usec t = 0;

	if (!r->since_us)
		return false;
	time = xstrndup(l->time.p, l->time.len);
	err_free(clock_parse(time, &t));
	return t < r->since_us;
}

/* Adjacent lines of one stream are delivered together. */
struct told {
	struct buf text;
	bool is_stderr;
};

static void tell(struct reader *r, struct told *t)
{
	size_t n = t->text.len;

	if (r->left >= 0)
		n = (size_t)MIN((int64_t)n, r->left);
	if (n && r->state != READER_CANCELLED) {
		if (r->left >= 0)
			r->left -= (int64_t)n;
		r->ev->output(r->arg, t->is_stderr ? 2 : 1, buf_head(&t->text), n);
	}
	buf_clear(&t->text);
}

static void add_line(struct reader *r, struct told *t, struct span line)
{
	struct cri_line l;

	if (!cri_parse(line, &l) || too_old(r, &l))
		return;
	if (t->text.len && t->is_stderr != l.is_stderr)
		tell(r, t);
	t->is_stderr = l.is_stderr;
	if (r->timestamps) {
		buf_add(&t->text, l.time.p, l.time.len);
		buf_add_char(&t->text, ' ');
	}
	buf_add(&t->text, l.text.p, l.text.len);
	if (!l.partial)
		buf_add_char(&t->text, '\n');
}

static void tell_lines(struct reader *r)
{
	struct told t = { 0 };
	const char *nl;

	while (r->state != READER_CANCELLED && r->lines.len &&
	       (nl = memchr(buf_head(&r->lines), '\n', r->lines.len))) {
		size_t n = (size_t)(nl - buf_head(&r->lines));

		add_line(r, &t, (struct span){ buf_head(&r->lines), n });
		buf_eat(&r->lines, n + 1);
	}
	tell(r, &t);
	buf_done(&t.text);
	if (r->lines.len > 4 * PIECE)
		buf_clear(&r->lines); /* no line of ours is so long */
}

static void finish(struct reader *r)
{
	r->ev->ended(r->arg, NULL, 0, 0);
	reader_free(r);
}

/* Whether there is no more to tell, now or later. */
static bool is_over(const struct reader *r)
{
	if (!r->left)
		return true;
	return r->got <= 0 && (!r->follow || (r->final && !r->changed));
}

static void read_done(void *arg)
{
	struct reader *r = arg;

	if (r->state == READER_BUSY && r->got > 0) {
		r->at += r->got;
		buf_add(&r->lines, r->piece, (size_t)r->got);
		tell_lines(r); /* may cancel */
	}
	if (r->state == READER_CANCELLED) {
		reader_free(r);
		return;
	}
	r->state = READER_IDLE;
	if (is_over(r))
		finish(r);
	else if (r->got > 0 || r->changed || !is_live(r))
		read_on(r);
}

static void read_on(struct reader *r)
{
	if (r->state != READER_IDLE || r->paused)
		return;
	r->state = READER_BUSY;
	r->changed = false;
	r->final = !is_live(r);
	jobs_run(&r->ways->jobs, read_work, read_done, r);
}

/* The end of the guest closes the file, and nothing is written to it after that. */
static void on_change(void *arg, uint32_t what)
{
	struct reader *r = arg;

	r->changed = true;
	if (what & (IN_CLOSE_WRITE | IN_IGNORED))
		r->closed = true;
	read_on(r);
}

static struct err *open_file(struct reader *r)
{
	autofree char *path = diskpool_slot_log(r->ways->disk, r->task);

	r->fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r->fd < 0)
		return err_recode(err_sys(errno, "open the log of %s", r->container),
				  ERR_UNAVAILABLE);
	if (r->follow)
		r->watch = inotify_add(r->ways->inotify, path, IN_MODIFY | IN_CLOSE_WRITE,
				       on_change, r);
	return NULL;
}

static struct reader *reader_new(struct ways *w, const struct access_log_spec *spec)
{
	struct reader *r = xnew(struct reader);

	*r = (struct reader){ .head.kind = &kind,
			      .ways = w,
			      .fd = -1,
			      .at = -1,
			      .tail = spec->tail,
			      .since_us = spec->since_us,
			      .left = spec->limit_bytes ? spec->limit_bytes : -1,
			      .follow = spec->follow && !spec->previous,
			      .timestamps = spec->timestamps };
	r->piece = xmalloc(PIECE);
	return r;
}

/* An attempt has no log before it starts: until then, the previous attempt's is read. */
static struct err *find_task(const struct container *c, const struct access_log_spec *spec,
			     const char **ret)
{
	const char *task = container_task_id(c), *last = container_last_task_id(c);

	if (spec->previous && !last)
		return err_new(ERR_NOT_FOUND,
			       "previous terminated container \"%s\" in pod \"%s\" not found",
			       container_name(c), spec->to.pod);
	*ret = spec->previous || !task ? last : task;
	return *ret ? NULL
		    : err_new(ERR_UNAVAILABLE, "container %s has no log: it has not started",
			      container_name(c));
}

struct err *session_logs(void *ctx, const struct access_log_spec *spec,
			 const struct access_events *ev, void *arg, void **ret)
{
	struct ways *w = ctx;
	struct container *c = NULL;
	const char *task = NULL;
	struct reader *r;
	struct err *e = pods_container(w->pods, spec->to.ns, spec->to.pod, spec->to.container, &c);

	if (!e)
		e = find_task(c, spec, &task);
	if (e)
		return e;
	r = reader_new(w, spec);
	r->ev = ev;
	r->arg = arg;
	r->uid = xstrdup(container_pod_uid(c));
	r->container = xstrdup(container_name(c));
	r->task = xstrdup(task);
	e = open_file(r);
	if (e) {
		reader_free(r);
		return e;
	}
	read_on(r);
	*ret = r;
	return NULL;
}

static void log_write_nothing(unused void *arg, unused const void *p, unused size_t len)
{
}

static bool log_never_full(unused void *arg)
{
	return false;
}

static void log_end_nothing(unused void *arg)
{
}

static void log_resize_nothing(unused void *arg, unused uint16_t cols, unused uint16_t rows)
{
}

static void log_pause(void *arg, bool paused)
{
	struct reader *r = arg;

	r->paused = paused;
	if (!paused)
		read_on(r);
}

static void log_cancel(void *arg)
{
	struct reader *r = arg;

	if (r->state == READER_IDLE)
		reader_free(r);
	else
		r->state = READER_CANCELLED;
}

static const struct session_kind kind = {
	.write = log_write_nothing,
	.full = log_never_full,
	.end_input = log_end_nothing,
	.resize = log_resize_nothing,
	.pause = log_pause,
	.cancel = log_cancel,
};
