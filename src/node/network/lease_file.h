/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/ip.h"

struct buf;
struct limits;

/*
 * Leases as lines of a file in the runtime directory, so that a server that was killed finds them
 * again: connections of sandboxes go on without it. It is ours alone, and gone after a start of the
 * host, like the monotonic clock that it tells the time by.
 *
 * Nothing of it is synced: it has to outlive the server, not the host.
 */
struct lease_line {
	unsigned place;
	const char *uid; /* of the Pod */
	const char *host;
	struct ip ip;
	usec until;
};
void lease_lines_add(unsigned place, const char *uid, const struct limits *l, struct buf *out);
/* What cannot be read is left out. */
void lease_lines_read(const char *text, void (*fn)(void *arg, const struct lease_line *line),
		      void *arg);
must_use struct err *lease_file_write(int run_fd, struct buf *text);
/* *ret NULL: there is none. */
must_use struct err *lease_file_read(int run_fd, char **ret);
