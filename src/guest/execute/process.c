/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/execute/process.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "guest/runtime/runtime.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"

enum {
	LONELY_MS_MIN = 1000,
	READS = 16, /* in a turn */
};

static void out_close(struct process_out *o)
{
	watch_free(take(o->watch));
	if (o->fd >= 0)
		(void)close(take_fd(o->fd));
}

static void in_close(struct process *p)
{
	watch_free(take(p->in_watch));
	if (p->in >= 0)
		(void)close(take_fd(p->in));
	buf_clear(&p->input);
}

static void process_free(struct process *p)
{
	process_drop_readers(p);
	process_drop_writers(p);
	out_close(&p->out[0]);
	out_close(&p->out[1]);
	in_close(p);
	buf_done(&p->input);
	if (p->tty >= 0)
		(void)close(p->tty);
	ring_done(&p->ring);
	timer_free(p->timer);
	timer_free(p->lonely);
	json_decref(p->argv);
	if (!list_empty(&p->on))
		p->rt->n_processes--;
	list_del(&p->on);
	p->rt->n_commands--;
	free(p);
}

void process_signal(struct process *p, int signum)
{
	if (p->pid)
		(void)kill(-p->pid, signum);
}

void process_delete(struct process *p)
{
	if (p->over) {
		process_free(p);
		return;
	}
	if (!list_empty(&p->on))
		p->rt->n_processes--;
	list_del(&p->on);
	process_signal(p, SIGKILL); /* it is freed when it has been reaped */
}

struct process *process_find(struct rt *rt, uint64_t id)
{
	struct process *p;

	list_each(p, &rt->processes, on)
		if (p->id == id)
			return p;
	return NULL;
}

void process_attended(struct process *p)
{
	if (p->background || p->over || p->sink || !list_empty(&p->readers))
		timer_clear(p->lonely);
	else
		timer_set(p->lonely, MAX(p->rt->reattach_ms, (uint64_t)LONELY_MS_MIN));
}

static void on_lonely(void *arg)
{
	process_signal(arg, SIGKILL);
}

static void finish(struct process *p)
{
	p->over = true;
	p->ended_at = time(NULL);
	out_close(&p->out[0]);
	out_close(&p->out[1]);
	in_close(p);
	timer_clear(p->lonely);
	process_tell_writers(p);
	process_tell_readers(p);
	if (p->sink)
		p->sink->over(p->sink_arg, p);
	if (p->sink || list_empty(&p->on))
		process_free(p);
	else
		timer_set(p->timer, PROCESS_KEPT_MS);
}

static bool out_over(const struct process_out *o)
{
	return o->fd < 0 || (o->p->late && !o->owed);
}

static bool held_up(const struct process *p)
{
	return p->sink && p->sink->full(p->sink_arg);
}

/* The only place that decides whether it is over, and whether its output is read. */
static void settle(struct process *p)
{
	unsigned want = held_up(p) ? 0 : WATCH_READ;

	if (!p->pid && out_over(&p->out[0]) && out_over(&p->out[1])) {
		finish(p);
		return;
	}
	for (int i = 0; i < 2; i++)
		if (p->out[i].fd >= 0)
			watch_want(p->out[i].watch, want);
}

void process_drained(struct process *p)
{
	settle(p);
}

/* True if there may be more. */
static bool out_read(struct process_out *o)
{
	struct process *p = o->p;
	char data[RING_CHUNK];
	ssize_t n = read(o->fd, data, sizeof(data));

	if (n > 0) {
		o->owed -= MIN(o->owed, (size_t)n);
		if (p->sink)
			p->sink->data(p->sink_arg, o->channel, data, (size_t)n);
		if (p->id)
			ring_add(&p->ring, o->channel, data, (size_t)n);
		process_tell_readers(p);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		out_close(o); /* a terminal ends with EIO */
	}
	return n > 0;
}

static void on_output(void *arg, unused unsigned ready)
{
	struct process_out *o = arg;

	for (int i = 0; i < READS && o->fd >= 0 && !held_up(o->p); i++)
		if (!out_read(o))
			break;
	settle(o->p);
}

static void on_timer(void *arg)
{
	struct process *p = arg;

	if (p->over) {
		process_free(p);
	} else if (p->pid) {
		p->timed_out = true;
		process_signal(p, SIGKILL);
	} else {
		p->late = true;
		settle(p);
	}
}

static void on_exit_status(void *arg, int status)
{
	struct process *p = arg;
	int pending;

	p->pid = 0;
	p->status = status;
	for (int i = 0; i < 2; i++)
		if (p->out[i].fd >= 0 && !ioctl(p->out[i].fd, FIONREAD, &pending))
			p->out[i].owed = (size_t)pending;
	p->late = p->timed_out;
	timer_set(p->timer, RT_DRAIN_MS);
	settle(p);
}

/* Writes pending input; decides whether we wait for the process to take it. */
static void input_flush(struct process *p)
{
	while (p->in >= 0 && p->input.len) {
		ssize_t n = write(p->in, buf_head(&p->input), p->input.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			in_close(p); /* nobody reads it any more */
		else
			buf_eat(&p->input, (size_t)n);
	}
	if (p->in >= 0 && p->input_end && !p->input.len)
		in_close(p);
	if (p->in >= 0)
		watch_want(p->in_watch, p->input.len ? WATCH_WRITE : 0);
}

static void on_input(void *arg, unused unsigned ready)
{
	struct process *p = arg;

	input_flush(p);
	process_tell_writers(p);
}

void process_input(struct process *p, const char *data, size_t len)
{
	if (p->in < 0 || p->input_end)
		return;
	buf_add(&p->input, data, len);
	input_flush(p);
}

void process_input_end(struct process *p)
{
	if (p->in < 0)
		return;
	if (p->tty >= 0)
		buf_add_char(&p->input,
			     4); /* a terminal has no end, but a character that says so */
	else
		p->input_end = true;
	input_flush(p);
}

/* The ends that are ours, and those of the process. */
struct ends {
	int ours[3], theirs[3];
};

static void ends_close(int fds[3])
{
	for (int i = 0; i < 3; i++)
		if (fds[i] > 2)
			(void)close(fds[i]);
}

static struct err *ends_terminal(const struct process_wish *w, struct ends *e)
{
	int master, slave;
	struct err *err = tty_open(getuid(), &master, &slave);

	if (err)
		return err;
	tty_resize(master, w->cols, w->rows);
	e->ours[1] = master;
	e->ours[0] = fcntl(master, F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < 3; i++)
		e->theirs[i] = i ? fcntl(slave, F_DUPFD_CLOEXEC, 3) : slave;
	return e->ours[0] < 0 || e->theirs[1] < 0 || e->theirs[2] < 0
		       ? err_sys(errno, "duplicate a descriptor")
		       : NULL;
}

static struct err *ends_pipes(const struct process_wish *w, struct ends *e)
{
	for (int i = w->input ? 0 : 1; i < 3; i++) {
		int pair[2];

		if (pipe2(pair, O_CLOEXEC) < 0)
			return err_sys(errno, "create a pipe");
		e->ours[i] = pair[i == 0];
		e->theirs[i] = pair[i != 0];
	}
	if (!w->input)
		e->theirs[0] = 0; /* ours is empty */
	return NULL;
}

static void out_init(struct process *p, int i, int fd)
{
	struct process_out *o = &p->out[i];

	*o = (struct process_out){ .p = p, .fd = fd, .channel = i + 1 };
	if (fd < 0)
		return;
	o->watch = watch_new(p->rt->loop, fd, on_output, o);
	watch_want(o->watch, WATCH_READ);
}

static struct process *process_new(struct rt *rt, const struct process_wish *w,
				   const struct ends *ends, pid_t pid)
{
	struct process *p = xnew(struct process);

	p->rt = rt;
	p->pid = pid;
	p->id = w->unlisted ? 0 : ++rt->last_process;
	p->sink = w->sink;
	p->sink_arg = w->sink_arg;
	p->argv = json_incref(w->shown);
	p->background = w->background;
	p->started_at = time(NULL);
	p->tty = w->tty ? fcntl(ends->ours[1], F_DUPFD_CLOEXEC, 3) : -1;
	ring_init(&p->ring, rt->ring_max);
	list_init(&p->readers);
	list_init(&p->writers);
	out_init(p, 0, ends->ours[1]);
	out_init(p, 1, ends->ours[2]);
	p->in = ends->ours[0];
	if (p->in >= 0)
		p->in_watch = watch_new(rt->loop, p->in, on_input, p);
	p->timer = timer_new(rt->loop, on_timer, p);
	p->lonely = timer_new(rt->loop, on_lonely, p);
	if (w->limit_s > 0)
		timer_set(p->timer, (uint64_t)(fmin(w->limit_s, 1e9) * 1000));
	children_add(rt->children, pid, on_exit_status, p);
	list_init(&p->on);
	if (p->id) {
		list_add_tail(&rt->processes, &p->on);
		rt->n_processes++;
	}
	rt->n_commands++;
	process_attended(p);
	return p;
}

/* One that has ended makes room, the oldest first. */
static bool room_for_one(struct rt *rt)
{
	struct process *p;

	if (rt->n_processes < PROCESSES_MAX)
		return true;
	list_each(p, &rt->processes, on)
		if (p->over && list_empty(&p->readers)) {
			process_free(p);
			return true;
		}
	return false;
}

struct err *process_start(struct rt *rt, const struct process_wish *wish, struct process **ret)
{
	struct spawn spec = {
		.argv = wish->argv, .env = rt->env, .cwd = wish->base, .tty = wish->tty
	};
	struct ends ends = { { -1, -1, -1 }, { -1, -1, -1 } };
	struct err *e;
	pid_t pid;

	if (wish->unlisted && rt->n_commands >= RT_COMMANDS_MAX)
		return err_new(ERR_EXHAUSTED, "%d commands are running", RT_COMMANDS_MAX);
	if (!wish->unlisted && !room_for_one(rt))
		return err_new(ERR_EXHAUSTED, "%d processes are running", PROCESSES_MAX);
	e = wish->tty ? ends_terminal(wish, &ends) : ends_pipes(wish, &ends);
	if (!e) {
		setting_apply(&wish->setting, &spec);
		memcpy(spec.fds, ends.theirs, sizeof(spec.fds));
		e = spawn(&spec, &pid);
	}
	ends_close(ends.theirs);
	if (e) {
		ends_close(ends.ours);
		return e;
	}
	*ret = process_new(rt, wish, &ends, pid);
	return NULL;
}
