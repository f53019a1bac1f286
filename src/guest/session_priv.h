/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "guest/guest_priv.h"

/*
 * A session: one stream of a link, joined to a process or a socket inside. Output is read only
 * while the node's credit and the link have space for it; input waits in a buffer whose size is
 * bounded by the credit that we grant.
 */
enum {
	SESSION_OUTS = 2,
	SESSION_INPUT_MAX = 1024 * 1024, /* if more than this is pending, the link is not read */
	SESSION_GRANT = 32 * 1024,       /* credit is returned in pieces of at least this size */
	SESSION_DRAIN_MS = 2000, /* for other processes' output, after the process itself ended */
};

struct session_out {
	struct session *session;
	int fd; /* -1: ended */
	struct watch *watch;
	enum wire_type type;
	size_t owed; /* bytes that were there when the process ended; they are sent in any case */
};

struct session {
	struct list on_link;
	struct link *link; /* NULL: the connection is gone; wait for the process alone */
	struct guest *guest;
	uint32_t id;

	struct session_out out[SESSION_OUTS];
	int64_t credit; /* output bytes that the node accepts */

	int in; /* -1: closed, input is dropped */
	struct watch *in_watch;
	struct buf input;
	bool input_end;    /* nothing comes after what is pending */
	uint32_t to_grant; /* input bytes consumed but not yet granted again */

	bool attach;     /* to the container's command: not a process of ours */
	bool attach_in;  /* and to its input */
	bool dial;       /* a socket, not a process */
	bool connecting; /* until the socket reports the outcome */
	uint16_t port;
	int family;

	pid_t pid; /* 0: none, or reaped */
	int status;
	bool tty, over_time; /* over_time: SESSION_DRAIN_MS have passed since the end */
	struct timer *timer;
};

struct session *session_new(struct link *l, uint32_t id);
struct session *session_find(struct link *l, uint32_t id);
/* These take ownership of the descriptors, which become non-blocking. */
void session_set_out(struct session *s, unsigned i, int fd, enum wire_type type);
void session_set_in(struct session *s, int fd);
void session_input(struct session *s, const char *data, size_t len);
void session_flush(struct session *s); /* writes pending input, then settles */
void session_credit(struct session *s, uint32_t more);
void session_signal(struct session *s, int signum);
void session_resize(struct session *s, uint16_t cols, uint16_t rows);
/*
 * Decides what is polled for, grants credit, and ends (and frees) the session when everything is
 * done. The functions above end with it, so the session may be gone after them.
 */
void session_settle(struct session *s);
/* The connection is gone: kills the process; the rest is freed when it is reaped. */
void session_orphan(struct session *s);
void session_free(struct session *s);
/* attach.c */
bool attach_output(struct session *s, enum wire_type type, const char *data, size_t len);
void attach_end(struct session *s, uint32_t code, uint32_t signum); /* frees it */
void attach_leave(struct session *s); /* it is being freed, or its input has ended */
/* dial.c: the socket is writable or has failed. */
void dial_connected(struct session *s);
