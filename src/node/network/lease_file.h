/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/ip.h"

struct buf;
struct limits;
struct map;

/*
 * Leases as lines of a file in the runtime directory, so that a server that was killed finds them
 * again: connections of sandboxes go on without it. It also says which Pods are limited and which
 * are not, for those that outlive their Sandboxes, and is there only while somebody may be limited.
 * It is ours alone, and gone after a start of the host, like the monotonic clock that it tells the
 * time by.
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
void lease_lines_add_pod(const char *uid, bool limited, struct buf *out);
/* The uids of Pods that were limited, or of those that were not. */
struct map *lease_lines_pods(const char *text, bool limited);
/* What cannot be read is left out. */
void lease_lines_read(const char *text, void (*fn)(void *arg, const struct lease_line *line),
		      void *arg);
must_use struct err *lease_file_write(int run_fd, struct buf *text);
void lease_file_remove(int run_fd);
/* *ret NULL: there is none. */
must_use struct err *lease_file_read(int run_fd, char **ret);
