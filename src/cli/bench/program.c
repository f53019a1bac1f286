/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program of bench/ and reads what it prints: `floor`, the best that the machine can do, or
 * `peers` and `import`, what other programs do; measured in the same run as our figures.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

#define MAX_OUTPUT 65536

enum {
	MORE_MAX = 8, /* arguments after the usual ones */
};

struct floor_run {
	struct buf out;
	bool over;
	int status, signal;
};

static void exited(void *arg, int status, int term_signal)
{
	struct floor_run *r = arg;

	r->status = status;
	r->signal = term_signal;
	r->over = true;
}

static char *find_program(const char *name)
{
	static const char *const places[] = { "bench/", "../libexec/cay/", "" };
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len < 0)
		return NULL;
	self[len] = '\0';
	*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		autofree char *path = xasprintf("%s%s%s", self, places[i], name);

		if (access(path, X_OK) == 0)
			return take(path);
	}
	return NULL;
}

/* The output is small enough for a pipe, so it can be read after the program has ended. */
static struct err *read_output(int fd, struct buf *out)
{
	ssize_t n;

	do {
		n = read(fd, buf_reserve(out, 4096), 4096);
		if (n > 0)
			buf_wrote(out, (size_t)n);
	} while (n > 0 && out->len < MAX_OUTPUT);
	return n < 0 ? err_sys(errno, "read the program's output") : NULL;
}

struct err *program_measure(struct bench *b, const char *name, unsigned runs,
			    const char *const *more, struct json_doc **ret)
{
	autofree char *program = find_program(name);
	autofree char *count = xasprintf("%u", runs);
	const char *argv[3 + MORE_MAX + 1] = { program, settings_text(b->settings, "floor-dir"),
					       count };
	struct floor_run run = { 0 };
	autoclose rd = -1;
	autoclose wr = -1;
	int p[2], fds[3];
	struct child *child;
	struct err *e;

	if (!program)
		return err_new(
			ERR_NOT_FOUND,
			"the program %s is neither next to cay nor in ../libexec/cay; build it or install it there",
			name);
	for (size_t i = 0; more && more[i]; i++) {
		assert(i < MORE_MAX);
		argv[3 + i] = more[i];
	}
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(errno, "create a pipe");
	rd = p[0];
	wr = p[1];
	fds[0] = -1;
	fds[1] = wr;
	fds[2] = STDERR_FILENO;
	e = child_spawn(b->loop, &(struct child_spec){ .argv = argv, .fds = fds, .n_fds = 3 },
			exited, &run, &child);
	if (e)
		return err_wrap(e, "start %s", program);
	while (!run.over)
		(void)loop_turn(b->loop, 100); /* ended by the end of the child */
	close(take_fd(wr));
	e = read_output(rd, &run.out);
	if (!e && (run.status || run.signal))
		e = err_new(ERR_UNAVAILABLE, "%s ended with exit code %d", program, run.status);
	if (!e)
		e = json_parse(buf_head(&run.out), run.out.len, NULL, ret);
	buf_done(&run.out);
	return e;
}
