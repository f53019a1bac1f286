/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct ip;
struct jobs;
struct loop;

/*
 * Waits for the first packet that goes out on a link and asks something of whoever is at its other
 * end: a new connection, bytes of one that is there, a datagram, an echo request. What the kernel
 * there answers alone (acknowledgements, the ends of connections, neighbours) is not one.
 *
 * Packets are only looked at, and go their way.
 */
struct packet_wait;

/* fn is called once, from the loop, and may free it. */
must_use struct err *packet_wait_new(struct loop *l, const char *link, void (*fn)(void *arg),
				     void *arg, struct packet_wait **ret);
/* fn is called for each of them, with its destination, until it is freed, which fn may not do. Of
 * more than 25,600 a second some are missed. */
must_use struct err *packet_wait_each(struct loop *l, const char *link,
				      void (*fn)(void *arg, const struct ip *to), void *arg,
				      struct packet_wait **ret);
/* Nothing is reported any more. The socket is closed by a job, because the kernel waits there until
 * nobody can be sending to it: 10 ms and more. */
void packet_wait_free(struct packet_wait *w, struct jobs *j);
