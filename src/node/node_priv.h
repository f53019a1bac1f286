/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/object.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "node/node.h"

struct cgroups;
struct guest_conn;
struct images;
struct instance;
struct netlink;
struct numbers;
struct nursery;

/*
 * The node in the daemon: all of it on the loop's thread. Slow work on files is a job.
 */
struct node_kinds {
	const struct kind *pod, *node, *secret, *config_map, *pvc, *event;
};

struct node {
	struct loop *loop;
	struct client *client;
	struct node_kinds kinds; /* looked up once, at the start */
	char *data_dir, *run_dir, *roots_dir, *name;
	int run_fd, roots_fd;
	struct instance *inst;
	struct cgroups *cgroups;
	struct netlink *nl;
	struct numbers *addresses, *ranges;
	struct nursery *nursery;
	struct images *images;
	struct access *access;
	struct events *events;
	struct inotify *inotify;

	struct map *pods;       /* uid → struct pod, owned */
	struct list dirty;      /* struct pod that wants a pass */
	struct deferred passes; /* over the Pods in dirty */
	bool started;           /* what was there before has been looked at */
	unsigned n_jobs;        /* under way; node_free() waits for them */
	struct client_watch *watch_pods, *watch_claims, *watch_secrets, *watch_maps, *watch_node;
	struct timer *heartbeat;
	struct client_write object_write; /* of the Node object */
	struct map *claims;               /* PVC uid → struct claim */
	struct map *left;        /* Pod uid → state of an earlier life, until its Pod is known */
	struct map *left_roots;  /* directories of slots of an earlier life */
	struct map *left_groups; /* control groups of an earlier life that nobody has claimed */

	void (*stopped)(void *arg); /* node_stop_sandboxes() */
	void *stopped_arg;
	bool stopping, ending;
};

/* nursery.c: parked slots and network namespaces, made ahead by the launchers. */
struct berth { /* a slot: a process that waits for its plan */
	struct list on;
	char *name;
	unsigned range; /* number of its id range */
	pid_t pid;
	int pidfd, ctl;
	struct watch *watch;
	struct nursery *nursery;
};
struct net {
	struct list on;
	unsigned place; /* in the address pool */
	int fd;
	char ip[16];
};
must_use struct err *nursery_start(struct node *n, const struct node_spec *spec,
				   struct nursery **ret);
void nursery_free(struct nursery *y); /* parked ones end; their control groups are removed */
struct berth *nursery_take_berth(struct nursery *y); /* NULL: none now; the node is woken later */
struct net *nursery_take_net(struct nursery *y);
/* A network at this address, once more (its old namespace is gone). False: address is taken. */
bool nursery_want_net(struct nursery *y, unsigned place, void (*made)(void *arg, struct net *net),
		      void *arg);
void nursery_forget(struct nursery *y, const void *arg); /* of nursery_want_net() */
void berth_free(struct berth *b); /* kills it if it still waits; NULL is fine */
/* A launched one that ended. keep_log: all of its directory goes but the log. */
void slot_release(struct node *n, const char *name, unsigned range, bool keep_log);
void net_free(struct node *n, struct net *net);
uint32_t range_base(unsigned range);
/* Why nothing could be made lately, or NULL. */
/* Slots are parked for the image that was asked for last: {"lower": [..], "host_usr": bool}. */
void nursery_expect(struct nursery *y, const struct json *image);
const char *nursery_trouble(const struct nursery *y);

/* guest_conn.c: a connection to a container's cay-init. */
struct wire_frame;
struct buf;
struct guest_conn_events {
	void (*frame)(void *arg, const struct wire_frame *f); /* may free the connection */
	void (*closed)(void *arg, struct err *e); /* e becomes the callee's; free it in here */
};
must_use struct err *guest_connect(struct node *n, const char *slot,
				   const struct guest_conn_events *ev, void *arg,
				   struct guest_conn **ret);
struct buf *guest_conn_out(struct guest_conn *c); /* add frames, then guest_conn_kick() */
void guest_conn_kick(struct guest_conn *c);
void guest_conn_pause(struct guest_conn *c, bool paused);
void guest_conn_free(struct guest_conn *c);
AUTOPTR(guest_conn)

/* events.c: core/v1 Events, at most so many a second. */
struct pod;
struct events *events_new(struct node *n);
void events_free(struct events *e);
void event_add(struct node *n, const struct object *about, bool warning, const char *reason,
	       const char *fmt, ...) printf_like(5, 6);

/* node.c */
void node_wake(struct node *n, struct pod *p); /* a pass over the Pod later in this turn */
void node_wake_waiting(struct node *n);        /* all Pods that wait for something of the node */
/* job_run() that node_free() waits for. */
void node_job(struct node *n, void (*work)(void *arg), void (*done)(void *arg), void *arg);
void node_remove_tree(struct node *n, char *path); /* as a job; takes path over */
struct pod *node_find_pod(struct node *n, const char *ns, const char *name);

/* node_object.c: the Node object. */
void node_register(struct node *n);

/* claim.c: PersistentVolumeClaims are directories. */
void claims_start(struct node *n);
void claims_stop(struct node *n);
char *claim_dir(const struct node *n, const char *uid);
void claims_sweep(struct node *n); /* directories whose claim is gone and that no Pod uses */

/* recover.c: what was left by an earlier life of the node. */
must_use struct err *recover_load(struct node *n);
void recover_pod(struct pod *p);
void recover_sweep(struct node *n); /* after all Pods are known: removes what nobody owns */

/* access_node.c */
struct access *node_access_new(struct node *n);
