/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct loop;
struct wire_frame;
struct wire_start;

/*
 * A connection to a container's cay-init: frames in, frames out. Code in the sandbox may have taken
 * the guest over, so each frame is checked first (wire/peer.h): the owner sees only frames that a
 * guest may send now, with values in range. What cannot be sent is bounded too.
 */
struct guest_conn;

struct guest_conn_events {
	void (*frame)(void *arg, const struct wire_frame *f); /* may free the connection */
	/* guest_conn_write() may take more than it did. May be NULL; may free the connection. */
	void (*room)(void *arg);
	/* e becomes the callee's; free the connection in here. ERR_MALFORMED: the guest broke the
	 * protocol, and the text says how. */
	void (*closed)(void *arg, struct err *e);
};

struct guest_conn_spec {
	struct loop *loop;
	int run_fd;     /* of the directory of the sockets */
	const char *id; /* of the task */
	const struct guest_conn_events *events;
	void *arg;
};

/* ERR_UNAVAILABLE: nobody listens there. */
must_use struct err *guest_connect(const struct guest_conn_spec *spec, struct guest_conn **ret);
/* Over a socket that is connected already, which it takes over. */
struct guest_conn *guest_conn_new(const struct guest_conn_spec *spec, int fd);
void guest_conn_free(struct guest_conn *c);
AUTOPTR(guest_conn)

void guest_conn_pause(struct guest_conn *c, bool paused); /* no frame() until it is over */

/* The command. */
void guest_conn_start(struct guest_conn *c, const void *frame, size_t len); /* a START frame */
void guest_conn_ask_state(struct guest_conn *c);
/* For a BUSY frame. False: it does not know, or has not said yet that it does. */
bool guest_conn_ask_busy(struct guest_conn *c);
void guest_conn_signal(struct guest_conn *c, int signum);

/* The one stream: exec, attach or dial, once. */
void guest_conn_exec(struct guest_conn *c, const struct wire_start *start);
void guest_conn_exec_frame(struct guest_conn *c, const void *frame, size_t len); /* an EXEC */
void guest_conn_attach(struct guest_conn *c, bool with_input); /* to the command */
void guest_conn_dial(struct guest_conn *c, uint16_t port);
/* Returns how many of the bytes were taken: no more than the guest gave credit for, and none while
 * it does not read what was sent before. room() tells when to try the rest. */
size_t guest_conn_write(struct guest_conn *c, const void *p, size_t len);
void guest_conn_end_input(struct guest_conn *c);
/* Only the latest of those that cannot be sent yet is kept. */
void guest_conn_resize(struct guest_conn *c, uint16_t cols, uint16_t rows);
void guest_conn_passed(struct guest_conn *c, size_t len); /* output that may be granted again */
