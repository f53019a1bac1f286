/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "server/read/render.h"

struct bytes;
struct call;
struct kind;
struct loop;
struct map;
struct object;
struct objects;

/* An event as it was sent last. */
struct watch_line {
	struct object *object; /* a reference; NULL: none */
	const char *type;
	struct render how;
	struct bytes *text;
};

/* Watches over HTTP. */
struct watchers {
	const struct objects *objects;
	struct loop *loop;
	struct list list;            /* struct watcher */
	struct map *by_user;         /* user → number of watches */
	struct watch_line lines[64]; /* by revision and shape; 4 MiB at most */
	size_t n;
	uint64_t n_started, n_encoded;
};
void watchers_init(struct watchers *ws, const struct objects *objects, struct loop *l);
void watchers_done(struct watchers *ws);
void watchers_end(struct watchers *ws, const struct kind *k); /* those of this kind */
/* Ends those whose users may not open them any more. */
void watchers_recheck(struct watchers *ws, bool (*may)(void *arg, const struct call *c), void *arg);
void watchers_serve(struct watchers *ws, struct call *c); /* answers the call */
