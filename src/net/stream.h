/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct loop;
struct sockaddr;

/*
 * A stream: bytes in both directions over one descriptor, plain or encrypted, never blocking. tls/
 * makes the encrypted ones; everything else in net/ works over either.
 */
struct stream;

/* What read and write return besides a count. */
enum {
	STREAM_AGAIN = -1,
	STREAM_EOF = -2,
	STREAM_FAILED = -3
};

/* What wants() returns instead of WATCH_ bits while the stream works in another thread. */
enum {
	STREAM_WORKS = 4,
};

struct stream_ops {
	/*
	 * Returns a count > 0, STREAM_AGAIN, STREAM_EOF (the peer has ended its direction) or
	 * STREAM_FAILED (*ret_err is set).
	 */
	ssize_t (*read)(struct stream *s, void *p, size_t len, struct err **ret_err);
	ssize_t (*write)(struct stream *s, const void *p, size_t len, struct err **ret_err);
	/* Ends our direction. True if done; false: call again when writable. */
	bool (*shutdown)(struct stream *s);
	/*
	 * For a stream that works in other threads; otherwise NULL. Called before anything else.
	 * woken() is called on l whenever what wants() returns has changed by itself, never from
	 * inside one of these functions, and not after free(). The stream may be freed there.
	 */
	void (*attach)(struct stream *s, struct loop *l, void (*woken)(void *arg), void *arg);
	/*
	 * WATCH_READ/WATCH_WRITE bits that the stream itself waits for (during a handshake), or 0.
	 * STREAM_WORKS: nothing is to be polled for, and reading and writing return STREAM_AGAIN.
	 */
	unsigned (*wants)(const struct stream *s);
	/*
	 * True if there are decrypted bytes that have not been read yet: the stream is readable
	 * although the descriptor is not.
	 */
	bool (*pending)(const struct stream *s);
	/*
	 * What was negotiated to be spoken over it ("h2"), once bytes can be read; "" if nothing
	 * was. NULL: this kind of stream negotiates nothing.
	 */
	const char *(*protocol)(const struct stream *s);
	void (*free)(struct stream *s); /* closes the descriptor */
};

struct stream {
	const struct stream_ops *ops;
	int fd;
};

/* Takes ownership of fd: a connected (or connecting) non-blocking socket. */
struct stream *stream_plain(int fd);
void stream_free(struct stream *s);
AUTOPTR(stream)

/*
 * Listening and connecting on literal addresses: "127.0.0.1:8080", "[::1]:80", "unix:/run/x". There
 * are no names and no DNS.
 */
must_use struct err *net_listen(const char *addr, int *ret_fd);
must_use struct err *net_connect(const char *addr, int *ret_fd); /* still in progress on return */
/* mark: of its packets (SO_MARK, for root alone); 0: none. */
must_use struct err *net_connect_marked(const char *addr, uint32_t mark, int *ret_fd);
must_use struct err *net_local_addr(int fd, char *ret, size_t size); /* "127.0.0.1:43211" */
must_use struct err *net_peer_addr(int fd, char *ret, size_t size);
