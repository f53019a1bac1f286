/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"

struct bytes;
struct instance;

/*
 * What the kernel remembers of datagrams that were led to sandboxes. A flow stays with the Pod that
 * it began with for as long as it goes on, whatever the packet filter says by then.
 */
struct conntrack_way {
	struct ip to, end; /* the address of a Service, and that of a Pod behind it */
	uint16_t to_port, end_port;
};
int conntrack_way_cmp(const void *a, const void *b); /* for qsort() */

/* Forgets each flow of UDP that was led to a sandbox of this instance by another way than these, an
 * array of struct conntrack_way in order; NULL: by any way. Its next datagram begins a new one. In
 * a job: it goes through all that the kernel remembers. */
must_use struct err *conntrack_keep(const struct instance *i, const struct bytes *ways);
