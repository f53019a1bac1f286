/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct child;
struct loop;
struct timer;

/* The question whether the machine is being shut down or restarted, as systemd says; embedded in
 * whoever asks, all zero before. */
struct machine {
	struct loop *loop;
	struct child *child; /* that asks; NULL: none does */
	struct timer *late;
	int said;
	void (*answered)(void *arg, bool stopping);
	void *arg;
};

/* answered() is called once: where there is no systemd at once, with false. */
void machine_ask(struct machine *m, struct loop *l, void (*answered)(void *arg, bool stopping),
		 void *arg);
void machine_done(struct machine *m); /* an answer that has not come is no longer wanted */
