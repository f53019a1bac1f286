/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kind.h"
#include "client/client.h"
#include "control/control.h"
#include "fixture.h"

struct loop;
struct server;

/*
 * A real server and its store in this process, and all controllers on it. There is no node: Pods
 * stay as they are until a test says otherwise.
 */
#define NS "default"
struct world {
	struct loop *loop;
	struct server *server;
	struct client *client; /* the test's own */
	struct client *theirs; /* the controllers' */
	struct control *control;
	char dir[64];
};

void world_open(struct world *w, const struct control_options *o);
void world_start(struct world *w, const struct control_options *o); /* the controllers, anew */
void world_stop(struct world *w);                                   /* the controllers alone */
void world_done(struct world *w);

void turn(struct world *w);              /* one turn of the loop */
void step(struct world *w, uint64_t ms); /* lets time go by, then runs what is due */
uint64_t world_rev(struct world *w);     /* grows with each write */

void create(struct world *w, const struct kind *k, const char *text);
void patch(struct world *w, const struct kind *k, const char *name, const char *sub,
	   const char *text);
void delete_now(struct world *w, const struct kind *k, const char *name);
struct object *get(struct world *w, const struct kind *k, const char *name); /* NULL: none */
size_t count(struct world *w, const struct kind *k);
/* Of the object's status, as condition_text(); "none" when there is no such object. */
const char *condition_of(struct world *w, const struct kind *k, const char *name, const char *type);
size_t count_events(struct world *w, const char *reason);

void pod_runs(struct world *w, const char *name); /* Running, Ready, with an address */
void all_pods_run(struct world *w);
