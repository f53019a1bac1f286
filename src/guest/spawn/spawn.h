/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct loop;
struct wire_start;

/* Processes of a sandbox: how one is started, and how all of them are reaped. */

/*
 * Call this once, before the first spawn: records what this process may pass on or must take away.
 */
void spawn_setup(void);

struct spawn {
	const char *const *argv; /* argv[0] without a slash is looked up in the PATH of env */
	const char *const *env;
	const char *cwd;              /* "" means / */
	int cwd_fd;                   /* above 2: the directory that cwd named; otherwise unused */
	const struct wire_start *who; /* whose ids, groups, capabilities and limits; NULL: ours */
	int fds[3];                   /* become 0, 1 and 2; the caller keeps them */
	bool tty;                     /* fds[0] becomes the controlling terminal */
};

/*
 * Starts a process in a session of its own; it inherits three descriptors and nothing else. The
 * error names the step: `exec "nosuch": No such file or directory`. The caller must call
 * children_add() before the loop's next turn.
 */
must_use struct err *spawn(const struct spawn *s, pid_t *ret);

/*
 * Assumes the ids, limits and capabilities of who; a user other than root has its capabilities in
 * the bounding set only. This is irrevocable, even by a later exec. Returns 0 or an errno;
 * *ret_step names what failed. Safe between vfork and exec.
 */
int identity_assume(const struct wire_start *who, const char **ret_step);

/* Reaps every child of this process, known or not: pid 1 inherits all orphans of its sandbox. */
struct children;

/* on_term is called for SIGTERM and SIGINT; NULL: they keep their default action. from_outside: the
 * sender is in none of our process namespaces. */
must_use struct err *children_new(struct loop *l, void (*on_term)(void *arg, bool from_outside),
				  void *arg, struct children **ret);
/* exited() is called once, with a status as from waitpid(). */
void children_add(struct children *c, pid_t pid, void (*exited)(void *arg, int status), void *arg);
/* From now on the number of known children is kept there too; NULL: it is not. */
void children_count_in(struct children *c, uint32_t *count);
/* The exit code, or 128 + signal, as in a shell. */
uint32_t status_code(int status);
uint32_t status_signal(int status);

/* A pseudo-terminal in the sandbox's own /dev; the slave belongs to uid. */
must_use struct err *tty_open(uint32_t uid, int *ret_master, int *ret_slave);
void tty_resize(int master, uint16_t cols, uint16_t rows);
