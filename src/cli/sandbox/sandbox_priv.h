/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/sandbox/remote.h"
#include "cli/sandbox/sandbox.h"
#include "cli/sandbox/term.h"

/* What the commands that work on sandboxes share. */

/* make.c: new sandboxes */

struct make_spec {
	const char *name;
	const char *pool, *image; /* one of them */
	uint64_t ttl_ms;          /* after which the server deletes it; 0: never */
	uint64_t wait_ms;         /* until it is Ready; 0: do not wait */
};
struct made {
	char *claim; /* NULL: a Sandbox without one */
	char *sandbox;
	char *pool; /* that was made for this claim alone; NULL: none */
};
/* *ret is filled in as far as things were made, also on failure: made_remove() cleans up. */
must_use struct err *make_sandbox(struct remote *r, const struct make_spec *spec, struct made *ret);
/* A pool of no members over the template, so that a claim of it starts a sandbox of its own. */
must_use struct err *make_pool(struct remote *r, const char *template, struct made *ret);
/* The pool to claim from; *ret_pool NULL: there is none. ERR_INVALID: several. */
must_use struct err *make_choose(struct remote *r, const char *template, char **ret_pool);
must_use struct err *made_remove(struct remote *r, const struct made *m);
void made_done(struct made *m);

/* session.c: a command in a container, over a WebSocket */

struct session_spec {
	const char *ns, *pod, *container; /* container NULL: the only one */
	const char *const *argv;
	bool in, tty;
	bool more; /* a request will follow it: attach_run() sees to a connection */
};
struct session_events {
	void (*output)(void *arg, int fd, const char *p, size_t len);
	void (*drained)(void *arg); /* input may be written, at first or again */
	/* The end. e (taken over): it did not start (ERR_UNSUPPORTED: there is no such program), or
	 * was cut off. */
	void (*ended)(void *arg, struct err *e, int code);
};
struct session;
struct session *session_start(struct remote *r, const struct session_spec *spec,
			      const struct session_events *ev, void *arg);
void session_free(struct session *s); /* kills the command if it still runs */
AUTOPTR(session)
bool session_full(const struct session *s); /* wait for drained() */
void session_write(struct session *s, const void *p, size_t len);
void session_end_input(struct session *s);
void session_resize(struct session *s, unsigned cols, unsigned rows);
void session_pause(struct session *s, bool paused); /* of output */
/* Runs argv to its end; both texts are malloc'd, at most 64 KiB of each, and may be NULL. */
must_use struct err *session_run(struct remote *r, const struct session_spec *spec, int *ret_code,
				 char **ret_out, char **ret_err);

/* attach.c: a session at our standard input and output */

/* timeout_ms 0: none; ERR_TIMEOUT. */
must_use struct err *attach_run(struct remote *r, const struct session_spec *spec,
				uint64_t timeout_ms, int *ret_code);
/* The exit code for how attach_run() ended. Frees e. */
int attach_exit(struct remote *r, struct err *e, int code);

enum {
	EXIT_TIMEOUT = 124,    /* as timeout(1) has it */
	EXIT_NO_PROGRAM = 127, /* as shells have it */
	EXIT_SIGNALED = 128,
};
