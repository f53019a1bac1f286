/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guest/guest_priv.h"

/*
 * A session: one stream of a link, joined to a process or a socket inside. Output is read only
 * while the node's credit and the link have room for it; input waits in a buffer whose size the
 * credit that we grant bounds.
 */
enum {
	SESSION_OUTS = 2,
	SESSION_INPUT_MAX = 1024 * 1024, /* more than this waiting stops the reading of the link */
	SESSION_GRANT = 32 * 1024,       /* credit is returned in pieces of at least this */
	SESSION_DRAIN_MS = 2000,         /* for output of others, after the process itself ended */
};

struct session_out {
	struct session *session;
	int fd; /* -1: ended */
	struct watch *watch;
	enum wire_type type;
	size_t owed; /* bytes that were there when the process ended: these are sent in any case */
};

struct session {
	struct list on_link;
	struct link *link; /* NULL: the connection is gone, only the body is waited for */
	struct guest *guest;
	uint32_t id;

	struct session_out out[SESSION_OUTS];
	int64_t credit; /* output bytes that the node takes */

	int in; /* -1: closed, input is dropped */
	struct watch *in_watch;
	struct buf input;
	bool input_end;    /* no more comes after what waits */
	uint32_t to_grant; /* input bytes done with and not yet granted again */

	bool dial;       /* a socket and not a process */
	bool connecting; /* until the socket says */
	uint16_t port;
	int family;

	pid_t pid; /* 0: none, or reaped */
	int status;
	bool tty, over_time; /* over_time: SESSION_DRAIN_MS passed since the end */
	struct timer *timer;
};

struct session *session_new(struct link *l, uint32_t id);
struct session *session_find(struct link *l, uint32_t id);
/* Take the descriptors over: non-blocking from now on. */
void session_set_out(struct session *s, unsigned i, int fd, enum wire_type type);
void session_set_in(struct session *s, int fd);
void session_input(struct session *s, const char *data, size_t len);
void session_flush(struct session *s); /* writes what input waits, then settles */
void session_credit(struct session *s, uint32_t more);
void session_signal(struct session *s, int signum);
void session_resize(struct session *s, uint16_t cols, uint16_t rows);
/*
 * Computes what is polled for, grants credit, and ends (and frees) the session when all is done.
 * The functions above end with it, so the session may be gone after them.
 */
void session_settle(struct session *s);
/* The connection is gone: kills the process; the rest goes when it is reaped. */
void session_orphan(struct session *s);
void session_free(struct session *s);
/* dial.c: the socket is writable or failed. */
void dial_connected(struct session *s);
