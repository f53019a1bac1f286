/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "guest/cri_log_priv.h"
#include "wire/wire.h"

struct children;
struct link;
struct loop;
struct runtime;
struct session;
struct timer;
struct watch;

/*
 * What pid 1 knows. There is one thread and one loop; only links and sessions are ever freed,
 * because pid 1 ends with everything.
 */
enum {
	GUEST_LINKS_MAX = 600,
	GUEST_EXECS_MAX = 256,
	GUEST_DIALS_MAX = 256,
};

/*
 * message.c: what a container leaves for whoever asks why it ended. The path must not be a link;
 * the file is made empty, as nothing that an earlier command wrote there counts.
 */
struct message *message_new(const struct wire_start *start);        /* NULL: none is wanted */
void message_feed(struct message *m, const char *data, size_t len); /* the command's output */
/* Good as long as m is. */
struct span message_end(struct message *m, bool failed);

/* The container's command: it belongs to the sandbox, not to the connection that started it. */
struct command {
	struct wire_start start; /* kept because the runtime uses its ids and environment */
	struct wire_state state;
	struct cri_log log;
	struct command_out {
		struct guest *guest;
		int fd; /* -1: ended */
		struct watch *watch;
		enum log_source source;
	} out[LOG_SOURCE_MAX_];
	struct message *message; /* NULL: none is wanted */
	int tty;                 /* master, for resizing; -1: none */
	int in;                  /* write end of its input, for those who attach; -1: none */
};

struct guest {
	struct loop *loop;
	struct children *children;
	int listen_fd;
	bool handed; /* connections come through it, instead of being accepted from it */
	struct watch *accepting;
	struct list links; /* struct link */
	unsigned n_links, n_execs, n_dials;
	bool asked_to_end; /* by a signal from outside the sandbox */
	struct command command;
	struct runtime *runtime; /* NULL: not requested */
};

/* main.c: ends this process, and the sandbox with it, if nothing is left to do or to tell. */
void guest_settle(struct guest *g);

/* link.c: connections from the node. */
void links_start(struct guest *g, int fd, bool handed); /* handed: fd brings connections */
struct buf *link_out(struct link *l);                   /* add frames here, then call link_kick() */
void link_kick(struct link *l); /* sends at the end of this turn; sessions go on or pause */
/* True: stop reading from processes; session_settle() is called when the link has drained. */
bool link_full(struct link *l);
struct guest *link_guest(struct link *l);
struct list *link_sessions(struct link *l);
/* Sends a frame to every connection that has said hello. */
void links_tell_exit(struct guest *g, const struct wire_state *s);

/* Sends output of the command to every stream that is attached to it, and later its end. */
void links_tell_output(struct guest *g, enum wire_type type, const char *data, size_t len);
void links_end_attached(struct guest *g, const struct wire_state *s);

/* command.c */
/* Takes ownership of start. */
must_use struct err *command_start(struct guest *g, struct wire_start *start);
void command_signal(struct guest *g, int signum);
void command_resize(struct guest *g, uint16_t cols, uint16_t rows);

/* exec.c, attach.c, dial.c: open a session on a link and send the answer frame. */
void exec_open(struct link *l, uint32_t id, const struct wire_start *start);
void attach_open(struct link *l, uint32_t id, uint32_t flags);
void dial_open(struct link *l, uint32_t id, uint16_t port);

/* activate.c: listens for the runtime if the start asks for it, and forks it when needed. */
void runtime_arm(struct guest *g);
void runtime_disarm(struct guest *g);
uint32_t runtime_busy(const struct guest *g); /* how many commands it runs, by its own account */

enum runtime_port {
	RUNTIME_PORT_PYTHON,
	RUNTIME_PORT_REST,
	RUNTIME_PORT_GRPC,
	RUNTIME_PORT_MAX_,
};

/* runtime.c: in a process of its own, forked from pid 1. A port that is not served is -1. How many
 * commands run is kept in *busy, which pid 1 reads. */
noreturn_fn void runtime_main(const int ports[RUNTIME_PORT_MAX_], const struct wire_start *who,
			      usec since, uint32_t *busy);
