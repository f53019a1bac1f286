/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/str.h"
#include "loop/loop.h"
#include "test.h"

struct end {
	bool seen;
	int status, term_signal;
};

static void on_exit_of(void *arg, int status, int term_signal)
{
	*(struct end *)arg = (struct end){ true, status, term_signal };
}

/* Runs a shell script to its end; out, if given, gets what it wrote to descriptor 1. */
static struct end run(const char *script, const struct child_spec *base, char *out, size_t room)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	struct child_spec spec = base ? *base : (struct child_spec){ 0 };
	autoptr(loop) l = NULL;
	struct end end = { 0 };
	struct child *c = NULL;
	int fds[] = { -1, -1, -1 }, pipes[2];
	ssize_t n;

	works(loop_new(&l));
	is_true(!pipe2(pipes, O_CLOEXEC));
	fds[1] = pipes[1];
	if (!spec.fds) {
		spec.fds = fds;
		spec.n_fds = 3;
	}
	spec.argv = argv;
	works(child_spawn(l, &spec, on_exit_of, &end, &c));
	close(pipes[1]);
	while (!end.seen)
		loop_turn(l, 1000);
	n = out ? read(pipes[0], out, room - 1) : 0;
	if (out)
		out[n > 0 ? n : 0] = '\0';
	close(pipes[0]);
	return end;
}

TEST(a_child_reports_how_it_ended)
{
	struct end end = run("exit 7", NULL, NULL, 0);

	eq_int(end.status, 7);
	eq_int(end.term_signal, 0);
	end = run("kill -TERM $$", NULL, NULL, 0);
	eq_int(end.status, 0);
	eq_int(end.term_signal, SIGTERM);
}

TEST(a_child_gets_the_descriptors_it_was_given_and_no_others)
{
	int leak = open("/dev/null", O_RDONLY), high = -1; /* on purpose without CLOEXEC */
	char out[256];

	is_true(leak >= 0);
	high = fcntl(leak, F_DUPFD, 100);
	run("for f in /proc/self/fd/*; do echo ${f##*/}; done | sort -n | tr '\\n' ' '; echo", NULL,
	    out, sizeof(out));
	/* One more for the directory that the shell reads. */
	is_true(str_starts(out, "0 1 2 "));
	is_false(strstr(out, "100"));
	is_true(strlen(out) <= strlen("0 1 2 3 \n"));
	close(leak);
	close(high);
}

TEST(descriptors_may_trade_places)
{
	char out[8] = "";
	int a[2], b[2], fds[5] = { -1, -1, -1, -1, -1 };
	struct child_spec spec = { .fds = fds, .n_fds = 5 };

	is_true(!pipe2(a, O_CLOEXEC) && !pipe2(b, O_CLOEXEC));
	/* Whatever numbers these have, 3 and 4 of the child are the two write ends, crossed. */
	fds[3] = b[1];
	fds[4] = a[1];
	eq_int(run("printf b >&3; printf a >&4; ! printf x >&0 2>/dev/null || true", &spec, NULL, 0)
		       .status,
	       0);
	is_true(read(a[0], out, 1) == 1 && out[0] == 'a');
	is_true(read(b[0], out, 1) == 1 && out[0] == 'b');
	for (unsigned i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
}

TEST(a_child_has_its_environment_and_directory)
{
	const char *env[] = { "A=1", "PATH=/usr/bin:/bin", NULL };
	struct child_spec spec = { .env = env, .cwd = "/usr" };
	char out[64];

	run("echo $A$HOME $PWD", &spec, out, sizeof(out));
	eq_str(out, "1 /usr\n");
}

TEST(a_child_starts_with_ordinary_signals)
{
	char out[64];
	sigset_t all;

	sigfillset(&all);
	(void)signal(SIGPIPE, SIG_IGN);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	run("grep -E 'SigBlk|SigIgn' /proc/self/status | tr -d '\\n\\t'", NULL, out, sizeof(out));
	pthread_sigmask(SIG_UNBLOCK, &all, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	is_true(str_starts(out, "SigBlk:0000000000000000SigIgn:"));
	is_true(str_ends(out, "0000000")); /* libc keeps its own two, 32 and 33, ignored */
}

TEST(what_cannot_be_started_is_an_error)
{
	const char *argv[] = { "/no/such/program", NULL };
	struct child_spec spec = { .argv = argv };
	autoptr(loop) l = NULL;
	struct child *c = NULL;

	works(loop_new(&l));
	fails(child_spawn(l, &spec, NULL, NULL, &c), ERR_NOT_FOUND);
	is_true(!c);
	argv[0] = "/bin/sh";
	spec.cwd = "/no/such/directory";
	fails(child_spawn(l, &spec, NULL, NULL, &c), ERR_NOT_FOUND);
	spec.cwd = NULL;
	spec.fds = (int[]){ 0, 1, 2, 9999 };
	spec.n_fds = 4;
	fails(child_spawn(l, &spec, NULL, NULL, &c), ERR_SYS);
	is_true(!c);
}

TEST(a_child_is_killed_by_its_handle)
{
	const char *argv[] = { "sleep", "1000", NULL };
	struct child_spec spec = { .argv = argv };
	autoptr(loop) l = NULL;
	struct end end = { 0 };
	struct child *c = NULL;

	works(loop_new(&l));
	works(child_spawn(l, &spec, on_exit_of, &end, &c));
	child_kill(c, SIGKILL);
	while (!end.seen)
		loop_turn(l, 1000);
	eq_int(end.term_signal, SIGKILL);
}
