/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

struct access;
struct call;
struct loop;
struct objects;

/* Streams into Pods: exec, attach, portforward, log. */
struct streams {
	const struct objects *objects;
	struct loop *loop;
	struct access
		*access;  /* how they reach Pods; NULL: there is no node, and they answer 503 */
	struct list open; /* struct pod_stream */
	size_t n_open;
	/* See server_set_wake(). */
	bool (*wake)(void *arg, const char *ns, const char *pod);
	void *wake_arg;
	struct list waking; /* calls that wait for that: struct waking */
	size_t n_waking;
};
void streams_init(struct streams *ps, const struct objects *objects, struct loop *l);
/* Cuts the streams that use the previous one. */
void streams_set_access(struct streams *ps, struct access *a);
void streams_cut(struct streams *ps); /* every stream */
/* Those whose users may not open them any more. */
void streams_recheck(struct streams *ps, bool (*may)(void *arg, const struct call *c), void *arg);

/* Answer a call. All but the log deal with the whole connection. */
void streams_log(struct streams *ps, struct call *c);
void streams_exec(struct streams *ps, struct call *c);
void streams_attach(struct streams *ps, struct call *c);
void streams_forward(struct streams *ps, struct call *c);
