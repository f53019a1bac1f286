/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct rt;

/*
 * Work that blocks, in a process of its own that has fd and nothing else. done() is
 * called on the loop with what work() returned: 0 or an errno.
 */
struct chore {
	int (*work)(int fd, const char *name);
	void (*done)(void *arg, int errnum);
	void *arg;
};
void chore_run(struct rt *rt, const struct chore *c, int fd, const char *name);
