/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct sockaddr;

/*
 * A stream: bytes both ways over one descriptor, plain or encrypted, never blocking. tls/ makes the
 * encrypted ones; everything else in net/ works over any.
 */
struct stream;

/* What read and write answer besides a count: */
enum {
	STREAM_AGAIN = -1,
	STREAM_EOF = -2,
	STREAM_FAILED = -3
};

struct stream_ops {
	/* A count > 0, STREAM_AGAIN, STREAM_EOF (the peer sent its end) or STREAM_FAILED (*ret_err
	 * set). */
	ssize_t (*read)(struct stream *s, void *p, size_t len, struct err **ret_err);
	ssize_t (*write)(struct stream *s, const void *p, size_t len, struct err **ret_err);
	/* Our end of sending. True when done, false: call again when writable. */
	bool (*shutdown)(struct stream *s);
	/* WATCH_READ/WATCH_WRITE bits that the stream itself waits for (a handshake), 0 when none.
	 */
	unsigned (*wants)(const struct stream *s);
	/* Bytes already decrypted and not yet read: readable without the descriptor being so. */
	bool (*pending)(const struct stream *s);
	void (*free)(struct stream *s); /* closes the descriptor */
};

struct stream {
	const struct stream_ops *ops;
	int fd;
};

struct stream *
stream_plain(int fd); /* takes fd over: a connected (or connecting) non-blocking socket */
void stream_free(struct stream *s);
AUTOPTR(stream)

/* Listening and connecting on literal addresses: "127.0.0.1:8080", "[::1]:80", "unix:/run/x". No
 * names, no DNS. */
must_use struct err *net_listen(const char *addr, int *ret_fd);
must_use struct err *net_connect(const char *addr, int *ret_fd); /* in progress when it returns */
must_use struct err *net_local_addr(int fd, char *ret, size_t size); /* "127.0.0.1:43211" */
must_use struct err *net_peer_addr(int fd, char *ret, size_t size);
