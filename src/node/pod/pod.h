/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "client/token.h"
#include "node/host/budget.h"

struct access;
struct access_activity;
struct access_target;
struct access_source;
struct access_usage;
struct arena;
struct buf;
struct client;
struct container;
struct diskpool;
struct handlers;
struct holds;
struct host_paths;
struct image;
struct image_pull_wait;
struct inside;
struct loop;
struct object;
struct probe_ops;
struct resolver;
struct runtime;
struct runtime_seat;
struct runtime_seat_wait;
struct wire_start;

/*
 * The Pods of this node. Everything here is on the loop's thread; trees are removed by jobs.
 *
 * What runs is written to <run_dir>/state/<uid>.json, so that the daemon continues with it after a
 * restart. run_dir is in memory (tmpfs): no pass creates a file on a disk. What must be on a disk
 * is created by the runtime.
 */
struct pods;

struct pods_spec {
	struct loop *loop;
	struct client *client;
	struct runtime *runtime;
	/* *ret is the caller's. ERR_NOT_FOUND: no image has this name; the text says what to do. */
	struct err *(*find_image)(void *images, const char *name, struct image **ret);
	void *images;
	/* Pulls an image, with credentials or NULL, and then calls w->done(), maybe at once. NULL:
	 * images are local. */
	void (*pull_image)(void *pulls, const char *name, const char *auth,
			   struct image_pull_wait *w);
	void *pulls;
	const struct diskpool *disk; /* outlives the Pods */
	struct handlers *handlers;   /* outlives them too; NULL: `native` alone */
	const char *node_name, *run_dir;
	struct token_issuer tokens;          /* as in struct volumes_spec */
	const struct host_paths *host_paths; /* that Pods may mount; outlives the Pods */
	/* Where it is written down what Pods have used, and how often; NULL, 0: never. */
	const char *data_dir;
	uint64_t usage_interval_ms;
	uint32_t mark; /* of packets to Pods; 0: none */
	/* How the names of objects are looked up; NULL: what dnsConfig says is all there is. */
	struct resolver *resolver;
	const char *name_server, *domain;
	const struct probe_ops *tries; /* how probes are tried; NULL: probe_real_tries */
	struct host_budget budget;     /* what is 0 in it is not limited */
	struct holds *holds; /* addresses of Sandboxes without a Pod; NULL: none are held */
	struct inside
		*inside; /* the sockets by which they ask who they are; NULL: there are none */
};

/* Reads the state files of an earlier run, and reserves what its Pods use. */
must_use struct err *pods_open(const struct pods_spec *spec, struct pods **ret);
/* Follows the objects, continues with what still runs and removes leftovers. */
void pods_start(struct pods *ps);
/* Leaves sandboxes running. Turns the loop until nothing of it is under way. */
void pods_free(struct pods *ps);
AUTOPTR(pods)

void pods_set_access(struct pods *ps, struct access *a); /* for probes that run a command */
void pods_images_changed(struct pods *ps);               /* Pods that wait for an image try again */
/* The time that Pods are given to end with the node: ordinary ones, then the critical ones. */
struct pods_grace {
	uint64_t ordinary_ms, critical_ms;
};
/* Ends every Pod but leaves its object: it runs again when the node does. Then stopped(). */
void pods_stop_all(struct pods *ps, const struct pods_grace *grace, void (*stopped)(void *arg),
		   void *arg);
/* Takes no new Pods. Then stopped(), once nothing is left of those that were deleted; one that
 * still has time to end is left to the next start. */
void pods_settle(struct pods *ps, void (*stopped)(void *arg), void *arg);
void pods_look(struct pods *ps); /* for tests: at what Pods have used; turns the loop */
/* The Pod that has this address now, borrowed until the loop turns; NULL: none. */
const struct object *pods_at(const struct pods *ps, const char *ip);
/* What a container, or with of->pod NULL the machine, uses. False: it was not measured yet. */
bool pods_usage(struct pods *ps, const struct access_target *of, struct access_usage *ret);
/* As in client/access.h. */
bool pods_activity(struct pods *ps, const struct access_target *of, struct access_activity *ret);
must_use struct err *pods_freeze(struct pods *ps, const struct access_target *of);
void pods_thaw(struct pods *ps, const struct access_target *of);
/* A session into the Pod with this uid has begun (+1) or ended (-1) to run a command there. */
void pods_session(struct pods *ps, const char *uid, int change);
/* Somebody uses the Pod: it goes on if it is frozen. why is static. */
void pods_used(struct pods *ps, const char *uid, const char *why);
void pods_metrics(const struct pods *ps, struct buf *b); /* lines of /metrics */

/* What a node can be short of. */
enum pods_lack {
	PODS_LACK_DISK,
	PODS_LACK_MEMORY,
	PODS_LACK_MAX_,
};
/* Ends one Pod to make room, unless one is ending already. why: in its message. False: there is
 * none whose end would help. */
bool pods_evict(struct pods *ps, enum pods_lack lack, const char *why);
void pods_measure(struct pods *ps);           /* soon, without waiting for the interval */
int64_t pods_memory(const struct pods *ps);   /* bytes that they use, as it was measured last */
void pods_step(struct pods *ps, uint64_t ms); /* for tests: as if ms had passed */

/*
 * A container as the ways into it see it. The pointer is good until the loop turns. name NULL or
 * "": the Pod's default container. ERR_NOT_FOUND.
 */
must_use struct err *pods_container(struct pods *ps, const char *ns, const char *pod,
				    const char *name, struct container **ret);
const char *container_name(const struct container *c);
bool container_runs(const struct container *c);
const char *container_pod_uid(const struct container *c);
/* The task that runs or ran last, which also names its log. NULL: it has never started. */
const char *container_task_id(const struct container *c);
const char *container_last_task_id(const struct container *c); /* the attempt before that */
/* Whether the task still runs, so that its log can grow. */
bool pods_task_runs(struct pods *ps, const char *uid, const char *container, const char *task_id);
/* The Pod with this uid, if the task runs in it. Borrowed, until the loop turns. */
const struct object *pods_of_task(struct pods *ps, const char *uid, const char *task_id);
/* Seats (node/runtime/runtime.h) in the container's task. ERR_UNSUPPORTED: its runtime has no such
 * view; where it has no seats at all, a shared one is the container's own guest. */
must_use struct err *container_seat(struct container *c, const struct runtime_seat *spec,
				    struct runtime_seat_wait *w, const char **ret_id);
bool pods_attachment_usage(struct pods *ps, const char *uid, struct access_usage *ret);
void pods_usage_each(struct pods *ps, void (*fn)(void *arg, const struct access_source *s),
		     void *arg);
void pods_usage_settled(struct pods *ps, const char *uid);
void pods_seats_end(struct pods *ps, const char *key);
void pods_seats_keep(struct pods *ps, bool (*keep)(void *arg, const char *key), void *arg);
/* Pid 1 of a task broke the protocol (e, borrowed): its container is ended, if the task still runs.
 */
void pods_guest_broke(struct pods *ps, const char *task_id, const struct err *e);
/* What the guest needs to start the container's command. All of *ret is in the arena.
 * ERR_UNAVAILABLE: an object that it needs is missing. */
must_use struct err *container_start(struct container *c, struct arena *a, struct wire_start *ret);
