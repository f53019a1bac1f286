/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "loop/loop.h"
#include "role/machine_priv.h"

enum {
	ANSWER_MS = 20000, /* a machine that is going down may be slow to say so */
	WAIT_MS = 100,
};

static void machine_on_late(void *arg)
{
	struct machine *m = arg;

	child_kill(m->child, SIGKILL);
}

static void machine_on_exit(void *arg, int status unused, int term_signal unused)
{
	struct machine *m = arg;
	char said[32];
	ssize_t n = read(m->said, said, sizeof(said) - 1);

	said[n > 0 ? n : 0] = '\0';
	(void)close(take_fd(m->said));
	timer_free(take(m->late));
	m->child = NULL;
	if (m->answered)
		m->answered(m->arg, str_eq(said, "stopping\n"));
}

static struct err *spawn_systemctl(struct machine *m)
{
	static const char *const argv[] = { "/usr/bin/systemctl", "is-system-running", NULL };
	static const char *const env[] = { NULL };
	int ends[2];
	struct err *e;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(errno, "make a pipe");
	e = child_spawn(m->loop,
			&(struct child_spec){ .argv = argv,
					      .env = env,
					      .fds = (const int[]){ -1, ends[1], -1 },
					      .n_fds = 3 },
			machine_on_exit, m, &m->child);
	(void)close(ends[1]);
	if (e)
		(void)close(ends[0]);
	else
		m->said = ends[0];
	return e;
}

void machine_ask(struct machine *m, struct loop *l, void (*answered)(void *arg, bool stopping),
		 void *arg)
{
	*m = (struct machine){ .loop = l, .said = -1, .answered = answered, .arg = arg };
	if (file_exists(AT_FDCWD, "/run/systemd/system"))
		err_free(spawn_systemctl(m)); /* who cannot be asked says no */
	if (!m->child) {
		answered(arg, false);
		return;
	}
	m->late = timer_new(l, machine_on_late, m);
	timer_set(m->late, ANSWER_MS);
}

void machine_done(struct machine *m)
{
	m->answered = NULL;
	if (m->child)
		child_kill(m->child, SIGKILL);
	while (m->child)
		(void)loop_turn(m->loop, WAIT_MS);
}
