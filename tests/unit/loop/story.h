/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "loop/loop.h"

/* For the tests of a loop: what happened, in order, one letter each. */
struct story {
	struct loop *loop;
	struct buf text;
	struct timer *timer;
	struct watch *watch, *other;
	struct loop_flush *flush, *other_flush;
	struct deferred d, more;
	int fd;
	unsigned ready;
};

#define autostory __attribute__((cleanup(story_done))) struct story

struct loop *loop_for_test(void);
void story_done(struct story *s);
void story_can_defer(struct story *s); /* d says 'd'; more says 'm' and asks for d */

/* Callbacks; arg is the story. */
void say_d(void *arg);
void say_f(void *arg);
void on_timer(void *arg); /* says 't', asks for d and more, and stops the loop */
