/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/cgroup.h"
#include "node/host/inotify.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/image/image.h"
#include "node/launch/plan.h"
#include "node/node.h"
#include "node/runtime/native.h"
#include "node/runtime/runtime.h"
#include "wire/wire.h"

/*
 * A launch, by the runtime and the launcher that the node uses, in an instance that is thrown away.
 * What every single check missed shows here.
 *
 *   doctor ── janitor ── worker: pid 1 of a process namespace, with mounts and a network of its own
 *                          └── cay-launch ── slots ── the sandbox
 *
 * The network of the worker is the "host" of the sandbox's, so nothing is added to the real one,
 * and a server beside it is not disturbed. With the worker ends all that it started. The janitor
 * then removes what no namespace takes along: the directory and the control groups. It outlives the
 * doctor, and what it cannot remove because it is killed itself, the next doctor removes.
 */
enum {
	LAUNCH_MS = 30000, /* it takes a second; a machine that is emulated takes ten */
	EXIT_CODE = 7,
	MEMORY = 256 << 20,
	CPU_MILLI = 500,
	PIDS = 64,
};
#define COMMAND \
	"test -t 1 || echo no terminal; echo it was written > /doctor && cat /doctor; exit 7"
#define SAID "it was written"

/* The worker's. */
struct trial {
	const struct doctor *d;
	char *dir, *run;
	struct loop *loop;
	struct instance *inst;
	struct diskpool *disk;
	struct netlink *nl;
	struct inotify *inotify;
	struct images *images;
	struct image *image;
	int run_fd;
	struct runtime *rt;
	struct runtime_wait wait;
	struct runtime_task *task;
	struct runtime_net *net;
	struct err *e; /* the first that went wrong */
	int code;      /* of the command; -1: it has not exited */
	bool ended;
};

static void note(struct trial *t, struct err *e)
{
	if (t->e)
		err_free(e);
	else
		t->e = e;
}

/* Before its command is started the sandbox has its limits. */
static struct err *on_starting(void *arg)
{
	struct trial *t = arg;
	unsigned have = cgroups_have(t->d->groups);
	struct cgroup_limits l;
	struct err *e = cgroup_read_limits(t->d->groups, t->rt->ops->record(t->task)->id, &l);

	if (e)
		return e;
	if (((have & CGROUP_MEMORY) && l.memory != MEMORY) ||
	    ((have & CGROUP_CPU) && l.cpu_milli != CPU_MILLI) ||
	    ((have & CGROUP_PIDS) && l.pids != PIDS))
		return err_new(ERR_UNSUPPORTED,
			       "its control group limits it to %lld bytes, %lld thousandths of a "
			       "CPU and %lld processes instead of %d, %d and %d",
			       (long long)l.memory, (long long)l.cpu_milli, (long long)l.pids,
			       MEMORY, CPU_MILLI, PIDS);
	return NULL;
}

static void on_other(void *arg unused)
{
}

static void on_failed(void *arg, struct err *e, int code unused)
{
	note(arg, e);
}

static void on_broken(void *arg, struct err *e)
{
	note(arg, e);
}

static void on_exited(void *arg, int code, int signum unused, struct span message unused)
{
	struct trial *t = arg;

	t->code = code;
}

static void on_ended(void *arg, const struct runtime_end *end unused)
{
	struct trial *t = arg;

	t->ended = true;
}

static const struct runtime_events events = {
	.starting = on_starting,
	.idle = on_other,
	.started = on_other,
	.failed = on_failed,
	.broken = on_broken,
	.exited = on_exited,
	.ended = on_ended,
};

static void on_called(struct runtime_wait *w unused)
{
}

static struct err *open_host(struct trial *t)
{
	struct err *e = file_mkdirs(t->run, 0700), *no_inotify;

	if (!e)
		e = images_open(t->dir, &t->images);
	if (!e)
		e = images_find(t->images, "host", &t->image);
	if (!e)
		e = loop_new(&t->loop);
	if (!e)
		e = instance_open(t->dir, t->run, true, &t->inst);
	if (e)
		return e;
	t->disk = diskpool_open_plain(t->dir);
	e = netlink_open(&t->nl);
	if (!e)
		e = instance_net_up(t->inst, t->nl);
	if (e)
		return e;
	t->inotify = inotify_open(t->loop, &no_inotify);
	err_free(no_inotify); /* then it polls */
	t->run_fd = open(t->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->run_fd < 0 ? err_sys(errno, "open %s", t->run) : NULL;
}

static struct err *open_runtime(struct trial *t)
{
	const struct native_spec spec = {
		.instance = t->inst,
		.cgroups = t->d->groups,
		.disk = t->disk,
		.features = &t->d->features,
		.inotify = t->inotify,
		.run_fd = t->run_fd,
		.launcher = t->d->spec->launcher,
		.init = t->d->spec->init,
		.pool = 1,
	};

	return native_open(t->loop, &spec, &t->rt);
}

static struct plan_image image_of(const struct trial *t)
{
	return (struct plan_image){ (const char **)t->image->layers, t->image->host_usr,
				    t->image->usr };
}

/* A slot and a network are made ahead; what keeps them from being made is told as trouble. */
static struct err *get_ready(struct trial *t)
{
	const struct runtime_ops *ops = t->rt->ops;
	const struct plan_image image = image_of(t);

	t->wait.ready = on_called;
	while (!t->net || !t->task) {
		const char *trouble = ops->trouble(t->rt->ctx);

		if (trouble)
			return err_new(ERR_UNAVAILABLE, "%s", trouble);
		if (!t->net)
			t->net = ops->net_take(t->rt->ctx, NULL, &t->wait);
		else if (ops->has_slot(t->rt->ctx, &image, &t->wait))
			t->task = ops->reserve(t->rt->ctx, &t->wait);
		if (!t->net || !t->task)
			(void)loop_turn(t->loop, 50);
	}
	ops->watch(t->task, &events, t);
	return NULL;
}

static struct err *launch(struct trial *t)
{
	const char *argv[] = { "/bin/sh", "-c", COMMAND, NULL };
	const char *env[] = { "PATH=/usr/bin:/bin", NULL };
	const struct plan plan = { .image = image_of(t),
				   .hostname = "doctor",
				   .etc_hosts = "127.0.0.1 localhost\n",
				   .limits = { .memory = MEMORY, .cpu = CPU_MILLI, .pids = PIDS } };
	const struct wire_start start = { .argv = argv,
					  .env = env,
					  .cwd = "/",
					  .flags = WIRE_LOG_STDOUT | WIRE_TTY,
					  .cols = 80,
					  .rows = 24 };
	const struct runtime_launch l = { .plan = &plan, .start = &start, .net = t->net };
	struct err *e = t->rt->ops->launch(t->task, &l);

	while (!e && !t->ended)
		(void)loop_turn(t->loop, 50);
	return e;
}

/* What the command said and how it ended. */
static struct err *look_back(const struct trial *t)
{
	autofree char *path = diskpool_slot_log(t->disk, t->rt->ops->record(t->task)->id);
	autofree char *text = NULL;
	struct err *e = file_read(AT_FDCWD, path, 65536, &text, NULL);

	if (e)
		return err_wrap(e, "read its log");
	if (strstr(text, "no terminal"))
		return err_new(ERR_UNSUPPORTED, "its command has no terminal");
	if (t->code != EXIT_CODE || !strstr(text, SAID))
		return err_new(ERR_UNSUPPORTED, "its command said \"%.*s\" and exited with %d",
			       (int)strcspn(text, "\n"), text, t->code);
	return NULL;
}

static struct err *try_launch(struct trial *t)
{
	struct err *e = open_host(t);

	if (!e)
		e = open_runtime(t);
	if (!e)
		e = get_ready(t);
	if (!e)
		e = launch(t);
	if (!e)
		e = take(t->e);
	return e ? e : look_back(t);
}

static struct err *enter_namespaces(void)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWNET) < 0 ||
	    mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		return err_sys(errno, "create namespaces");
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_sys(errno, "mount proc");
	return NULL;
}

/* pid 1 of its namespace: all that it leaves running ends with it. */
static noreturn_fn void work(const struct doctor *d, const char *dir, int answer)
{
	struct trial t = { .d = d, .dir = xstrdup(dir), .run_fd = -1, .code = -1 };
	autofree char *run = xasprintf("%s/run", dir);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err *e;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int fd = 0; fd < 3; fd++)
		(void)dup2(null, fd); /* what the runtime logs is in the error too */
	t.run = run;
	e = enter_namespaces();
	if (!e)
		e = try_launch(&t);
	if (e)
		err_free(fd_write_all(answer, err_text(e), strlen(err_text(e))));
	_exit(e ? 1 : 0);
}

/* Until the worker has ended, the doctor has, or time is up. */
static bool await(pid_t worker, int doctor)
{
	struct pollfd ps[] = { { .fd = (int)syscall(SYS_pidfd_open, worker, 0), .events = POLLIN },
			       { .fd = doctor, .events = POLLIN } };
	bool ended = ps[0].fd >= 0 && poll(ps, ARRAY_LEN(ps), LAUNCH_MS) > 0 && ps[0].revents;

	if (!ended)
		(void)kill(worker, SIGKILL);
	if (ps[0].fd >= 0)
		(void)close(ps[0].fd);
	return ended;
}

static noreturn_fn void keep_clean(const struct doctor *d, int doctor, int answer)
{
	autofree char *dir = xasprintf("%s/" DOCTOR_DIR "%d", d->work, (int)getpid());
	const char *late = "it takes too long";
	bool in_time = true;
	int status = 0;
	pid_t worker;

	(void)setsid(); /* an interrupt is for the doctor */
	if (mkdir(dir, 0700) < 0 || unshare(CLONE_NEWPID) < 0) {
		autoptr(err) e = err_sys(errno, "prepare %s", dir);

		(void)rmdir(dir);
		err_free(fd_write_all(answer, err_text(e), strlen(err_text(e))));
		_exit(1);
	}
	worker = fork();
	if (!worker)
		work(d, dir, answer);
	if (worker > 0) {
		in_time = await(worker, doctor);
		(void)waitpid(worker, &status, 0);
	}
	doctor_groups_clean(d);
	err_free(file_remove_tree(AT_FDCWD, dir));
	doctor_place_clean(d);
	if (!in_time)
		err_free(fd_write_all(answer, late, strlen(late)));
	_exit(worker < 0 || status ? 1 : 0);
}

/* *ret: what went wrong; empty if nothing did. */
static struct err *run_janitor(const struct doctor *d, struct buf *ret)
{
	int alive[2], answer[2], status = 1;
	char part[4096];
	ssize_t n;
	pid_t pid;

	if (pipe2(alive, O_CLOEXEC) < 0)
		return err_sys(errno, "make a pipe");
	if (pipe2(answer, O_CLOEXEC) < 0) {
		(void)close(alive[0]);
		(void)close(alive[1]);
		return err_sys(errno, "make a pipe");
	}
	pid = fork();
	if (!pid) {
		(void)close(alive[1]);
		(void)close(answer[0]);
		keep_clean(d, alive[0], answer[1]);
	}
	(void)close(alive[0]);
	(void)close(answer[1]);
	while (pid > 0 && (n = read(answer[0], part, sizeof(part))) != 0)
		if (n > 0)
			buf_add(ret, part, (size_t)n);
	(void)close(alive[1]);
	(void)close(answer[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return err_sys(errno, "create a process");
	if (status && !ret->len)
		buf_add_str(ret, "it ended without a word");
	return NULL;
}

static const char *obstacle(const struct doctor *d)
{
	if (geteuid())
		return "not running as root";
	if (!d->spec->launcher || !d->spec->init)
		return "there is no cay-launch or no cay-init beside this program";
	if (!d->groups)
		return err_text(d->no_groups);
	return d->tried ? NULL : "what the kernel can do is not known";
}

void check_launch(struct doctor *d)
{
	const char *why = obstacle(d);
	usec begin = clock_mono();
	autobuf wrong = { 0 };
	struct err *e;

	if (d->spec->quick)
		return;
	e = why ? NULL : run_janitor(d, &wrong);
	if (e)
		buf_add_str(&wrong, err_text(e));
	err_free(e);
	if (why)
		doctor_say(d, "launch", VERDICT_FAIL, xasprintf("no sandbox was started: %s", why),
			   xstrdup("run cay doctor as root, with cay-launch and cay-init where the "
				   "package puts them"));
	else if (wrong.len)
		doctor_say(d, "launch", VERDICT_FAIL,
			   xasprintf("a sandbox does not start: %s", buf_str(&wrong)),
			   xstrdup("see the other checks; if all of them are well, this is a bug: "
				   "report it with the output of cay doctor -o json"));
	else
		doctor_say(d, "launch", VERDICT_OK,
			   xasprintf("a sandbox started, wrote a file, had a terminal and its "
				     "limits, and ended, within %lld ms",
				     (long long)((clock_mono() - begin) / 1000)),
			   NULL);
}
