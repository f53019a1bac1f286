/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct cgroups;
struct features;
struct http_request;
struct instance;
struct loop;

/*
 * The identity sockets: by them sandboxes ask the daemon who they are.
 *
 *   <run_dir>/identity/<uid>/identity.sock     on the host; inside, /run/cay/identity.sock
 *
 * The directory is what containers mount, so a daemon that was killed binds a new socket where they
 * see it. Who connects is code that nobody trusts: it has one request for each connection, and so
 * many connections a second. On the loop's thread.
 */
struct inside;

#define INSIDE_AT "/run/cay" /* where containers have the directory */

/* Who asks, by the control group that the kernel says it is in. */
struct inside_caller {
	const char *pod;  /* uid: whose socket it is */
	const char *task; /* not looked at yet: it may be another Pod's */
	const char *seat; /* the key of the seat (node/runtime/runtime.h); NULL: in none */
};

struct inside_spec {
	struct loop *loop;
	const struct instance *instance;
	const struct cgroups *cgroups;
	const struct features *features; /* that the kernel has; stays the caller's */
	/* Becomes the owner of the request, and answers it. */
	void (*visit)(void *arg, struct http_request *req, const struct inside_caller *who);
	void *arg;
};
must_use struct err *inside_open(const struct inside_spec *spec, struct inside **ret);
void inside_free(struct inside *in); /* leaves the directories */
AUTOPTR(inside)

/* Makes a Pod's directory and listens in it; fine if it is there. */
must_use struct err *inside_offer(struct inside *in, const char *uid);
/* Cuts what is open and removes the directory; fine if there is none. */
void inside_withdraw(struct inside *in, const char *uid);
char *inside_dir(const struct inside *in, const char *uid); /* malloc'd; NULL: none is offered */
