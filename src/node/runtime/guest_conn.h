/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct buf;
struct loop;
struct wire_frame;

/* A connection to a container's cay-init: frames in, frames out. */
struct guest_conn;

struct guest_conn_events {
	void (*frame)(void *arg, const struct wire_frame *f); /* may free the connection */
	void (*closed)(void *arg, struct err *e); /* e becomes the callee's; free it in here */
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
struct buf *guest_conn_out(struct guest_conn *c); /* add frames, then guest_conn_kick() */
void guest_conn_kick(struct guest_conn *c);
void guest_conn_pause(struct guest_conn *c, bool paused);
void guest_conn_free(struct guest_conn *c);
AUTOPTR(guest_conn)
