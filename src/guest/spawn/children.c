/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "guest/spawn/spawn.h"
#include "loop/loop.h"

/*
 * Signals come through a descriptor, so that they are handled on the loop like everything else. The
 * runtime, which is forked from pid 1, closes that descriptor and opens its own.
 */
struct known {
	struct list link;
	pid_t pid;
	void (*exited)(void *arg, int status);
	void *arg;
};

struct children {
	struct list known;
	uint32_t n_known;
	int fd;
	struct watch *watch;
	void (*on_term)(void *arg, bool from_outside);
	void *arg;
	uint32_t *count; /* NULL: nobody asks */
};

static void count(struct children *c)
{
	if (c->count)
		__atomic_store_n(c->count, c->n_known, __ATOMIC_RELAXED);
}

static void tell(struct children *c, pid_t pid, int status)
{
	struct known *k;

	list_each(k, &c->known, link)
		if (k->pid == pid) {
			struct known now = *k;

			list_del(&k->link);
			free(k);
			c->n_known--;
			count(c);
			now.exited(now.arg, status);
			return;
		}
}

static void reap(struct children *c)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		tell(c, pid, status);
}

/* Whoever is in no process namespace of ours has number 0 here. That number alone proves nothing:
 * sigqueue() lets its caller write any, but not that the signal was sent by kill(). */
static bool from_outside(const struct signalfd_siginfo *info)
{
	return info->ssi_code == SI_USER && !info->ssi_pid;
}

static void on_signal(void *arg, unused unsigned ready)
{
	struct children *c = arg;
	struct signalfd_siginfo info;

	while (read(c->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(c);
		else if (c->on_term)
			c->on_term(c->arg, from_outside(&info));
	}
}

struct err *children_new(struct loop *l, void (*on_term)(void *arg, bool from_outside), void *arg,
			 struct children **ret)
{
	struct children *c = xnew(struct children);
	sigset_t set;

	list_init(&c->known);
	c->on_term = on_term;
	c->arg = arg;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if (on_term) {
		(void)sigaddset(&set, SIGTERM);
		(void)sigaddset(&set, SIGINT);
	}
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	c->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (c->fd < 0) {
		free(c);
		return err_sys(errno, "create a descriptor for signals");
	}
	c->watch = watch_new(l, c->fd, on_signal, c);
	watch_want(c->watch, WATCH_READ);
	*ret = c;
	return NULL;
}

void children_add(struct children *c, pid_t pid, void (*exited)(void *arg, int status), void *arg)
{
	struct known *k = xnew(struct known);

	k->pid = pid;
	k->exited = exited;
	k->arg = arg;
	list_add_tail(&c->known, &k->link);
	c->n_known++;
	count(c);
}

void children_count_in(struct children *c, uint32_t *at)
{
	c->count = at;
	count(c);
}

uint32_t status_signal(int status)
{
	return WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
}

uint32_t status_code(int status)
{
	return WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 128 + status_signal(status);
}
