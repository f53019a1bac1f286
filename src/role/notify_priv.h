/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

/*
 * What a service manager is told: the protocol of sd_notify(3), which is a datagram of assignments
 * to the socket that $NOTIFY_SOCKET names. Without that variable nothing is sent, and a manager
 * that does not listen is no reason to stop serving: nothing in here fails.
 */
struct notify {
	struct sockaddr_un at;
	socklen_t len; /* 0: there is nobody to tell */
};

/* Reads $NOTIFY_SOCKET and removes it from the environment: children have nothing to say there.
 * For a process without threads, as every change of the environment. */
void notify_init(struct notify *n);
/* Assignments, each on a line of its own: "READY=1\nSTATUS=serving". */
void notify_send(const struct notify *n, const char *text);
