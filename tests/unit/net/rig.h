/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "loop/loop.h"

/*
 * A loop and the far end of a connection, driven from one thread: every wait runs the loop. A wait
 * of ten seconds fails the test.
 */
#define until(l, cond)                                                    \
	do {                                                              \
		usec until_end_ = clock_mono() + 10 * 1000000;            \
		while (!(cond)) {                                         \
			if (clock_mono() > until_end_)                    \
				fail_msg("waited in vain for %s", #cond); \
			loop_turn((l), 20);                               \
		}                                                         \
	} while (0)

struct loop *rig_loop(void);
void rig_settle(struct loop *l); /* runs the loop until nothing more happens at once */
/* Two connected sockets, both non-blocking. */
void rig_pair(int ret[2]);
int rig_connect(const char *addr);
void rig_send(struct loop *l, int fd, const void *p, size_t len);
void rig_send_str(struct loop *l, int fd, const char *text);
/* Everything up to and including needle, or up to the peer's end (needle NULL). malloc'd. */
char *rig_read(struct loop *l, int fd, const char *needle);
size_t rig_read_n(struct loop *l, int fd, char *ret,
		  size_t len);           /* less than len only at the end */
bool rig_at_end(struct loop *l, int fd); /* the peer has closed and nothing is left */
