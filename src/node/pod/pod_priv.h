/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/object.h"
#include "base/clock.h"
#include "base/map.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/hold/hold.h"
#include "node/host/budget.h"
#include "node/image/image.h"
#include "node/pod/decide_priv.h"
#include "node/pod/pod.h"
#include "node/pod/sleep_priv.h"
#include "node/pod/state.h"
#include "node/pod/usage_priv.h"
#include "node/runtime/runtime.h"
#include "node/volume/volume.h"

struct arena;
struct diskpool;
struct events;
struct kind;
struct plan;
struct plan_image;
struct plan_oci;
struct probe;
struct queue;
struct tls_ctx;

/* What a Pod takes of the budget, and what all Pods take. */
struct pod_room {
	int64_t pods, containers, memory, cpu_milli;
};

/* Pods that wait for something, by what it is (waits.c). */
struct waits {
	struct list objects, images, room;
};

struct pods {
	struct loop *loop;
	struct client *client;
	const struct runtime_ops *rt;
	void *rt_ctx;
	struct err *(*find_image)(void *images, const char *name, struct image **ret);
	void *images;
	void (*pull_image)(void *pulls, const char *name, const char *auth,
			   struct image_pull_wait *w);
	void *pulls;
	struct access *access;
	struct events *events;
	struct volumes *volumes;
	struct usage *usage;
	const struct probe_ops *tries;
	struct tls_ctx *probe_tls;    /* of probes over HTTPS, which verify nothing */
	struct http_pool *probe_pool; /* of probes over gRPC; it keeps no connections */
	const struct diskpool *disk;
	struct handlers *handlers;
	char *node_name, *run_dir;
	const struct host_paths *host_paths; /* that Pods may mount */
	struct token_issuer tokens;
	struct host_budget budget;
	struct holds *holds;   /* NULL: there are none */
	struct inside *inside; /* NULL: there are none */
	struct waits waits;
	struct pod_room used;      /* by the Pods that were admitted and are not over */
	struct resolver *resolver; /* NULL: there is none */
	char *name_server, *domain;
	uint32_t mark; /* of packets to Pods */
	int run_fd;
	const struct kind *kind_pod, *kind_class;
	struct jobs jobs;
	struct map *pods;     /* uid → struct pod, owned */
	struct queue *queue;  /* of their uids */
	struct queue *probes; /* of their keys */
	struct map *left;     /* uid → struct left: states of an earlier run until all Pods are
				 known; NULL after that */
	struct client_watch *watch, *class_watch, *node_watch;
	bool paging; /* memory of a Pod is being pushed out */
	uint64_t n_page_outs;
	bool cordoned; /* the Node object says that no new Pods are wanted */
	usec skew;     /* pods_step() */

	bool stopping; /* pods_stop_all() */
	struct pods_grace grace;
	usec ordinary_until;        /* pods_now(): then critical Pods end in any case */
	bool settling;              /* pods_settle() */
	struct deferred check;      /* whether all have stopped */
	void (*stopped)(void *arg); /* NULL: already called */
	void *stopped_arg;
};

enum wait_reason { /* why a container waits; the API's words for it are in container.c */
	WAIT_CREATING,
	WAIT_INIT,       /* for the init containers */
	WAIT_IMAGE_MADE, /* for one that is being made from this machine's files */
	WAIT_IMAGE_NAME,
	WAIT_IMAGE_NEVER,
	WAIT_IMAGE,
	WAIT_IMAGE_BACKOFF,
	WAIT_CONFIG, /* for an object that it needs, or for a spec that can be met */
	WAIT_CREATE,
	WAIT_CRASH,
	WAIT_REASON_MAX_,
};

struct container {
	struct pod *pod;
	const struct pod_container_view *view;
	enum container_state state;
	enum wait_reason why; /* WAITING */
	char *message;
	unsigned restarts;
	bool unstarted;      /* its guest was not told to start the command yet */
	bool exited;         /* while it is ENDING: its command ended, or could not be started */
	bool term_due;       /* while it is FOUND: it was to be asked to end */
	bool asked;          /* to end, in this attempt */
	unsigned relaunches; /* in a row, of slots that were gone before that */
	struct ending end, last; /* of this attempt, and of the one before */
	struct meter meter;
	uint32_t commands; /* that its runtime ran when it was last asked */
	usec started;      /* wall clock; 0: not yet */
	struct image *image;
	struct image_pull_wait pull; /* in line while its image is pulled */
	bool pulled;                 /* for this attempt, by the policy Always */
	bool pull_failed;            /* and that is shown; the back-off comes next */
	unsigned pull_backoff_s;
	struct runtime_task *task; /* while it is live */
	struct runtime_wait slot;  /* in line while there is none for it */
	bool counted;              /* EPHEMERAL: among the containers of the node */
	char *log, *prev_log; /* tasks whose logs are kept: this attempt's, and the one before */
	unsigned crash_backoff_s, create_backoff_s;
	usec backoff_until; /* pods_now() */
	usec kill_at;       /* pods_now(): it failed a probe, and was asked to end; 0: it was not */
	struct probe *startup, *readiness, *liveness; /* while it runs; NULL: it has none */
	struct probe *post_start, *pre_stop;          /* likewise, since they began */

	/* resize.c: what it was given, and what its task has; NULL: as wanted, and as given. */
	struct json_doc *given, *has;
	bool resizing;        /* a job is under way */
	bool resize_restarts; /* it was asked to end for that */
	char *resize_trouble; /* why it does not have yet what it was given */
	usec resize_after;    /* pods_now(): not tried again before that */
};

enum report {
	REPORT_NONE, /* none is under way */
	REPORT_BUSY,
	REPORT_STALE, /* one is under way, and already out of date */
};

struct pod {
	struct pods *pods;
	struct list for_object, for_image, for_room; /* pods.waits */
	struct object *obj;                          /* the latest */
	struct arena *arena;                         /* of the view */
	struct pod_view *view;                       /* of obj */
	bool gone;                                   /* obj was deleted */
	bool shut_down; /* it ends with the node, and had not ended by itself */
	bool renews; /* an earlier run did not get to the end of that: it ends, and begins anew */
	enum pod_phase phase;
	struct pod_room room; /* none before it is admitted, and after its end */
	const char *reason;   /* what is wrong with the Pod as a whole; NULL: nothing permanent */
	char *message;
	const char *resize_reason; /* why it is not given what it wants; NULL: it is */
	char *resize_message;
	struct runtime_net *net;
	struct runtime_wait net_wait;
	struct net_meter traffic;
	struct usage_sums attached; /* what its attachments have used of it */
	struct pod_sleep sleep;
	int64_t disk;      /* that it has beside what its tasks have, when it was last looked at */
	char *evicted;     /* why it ends to make room for others; NULL: it does not */
	char *want_ip;     /* the address it had before */
	bool address_held; /* for the Pod that comes after it */
	struct holds_wait hold_wait; /* CLEANING: until its address is held on the disk */
	struct map *pvcs;            /* handles of the persistent volumes that it has mounted */
	struct container *
		*containers; /* init containers first; ephemeral ones last, as they came */
	size_t n_containers, n_init;
	usec started;     /* wall clock */
	usec retry_at;    /* pods_now(); when something must be tried again; 0: never */
	usec grace_until; /* TERMINATING, FINISHING */
	usec quiet_until; /* until then, a start that goes well is not reported before it is
			     complete */

	bool unscheduled; /* it waits until the node is no longer cordoned */
	bool rejected;    /* it was never admitted, so it has no containers */
	bool reported;    /* its status was written, and is to be found in obj */
	enum report report;
	usec report_after; /* pods_now(): a write failed, the next waits until then */
	struct client_write report_write, sync, letting_go;
};

/* pods.c */
usec pods_now(const struct pods *ps);  /* monotonic */
usec pods_wall(const struct pods *ps); /* since 1970 */
void pod_wake(struct pod *p);          /* a pass later in this turn */

/* pod.c */
struct pod *pod_new(struct pods *ps, struct object *obj);
void pod_free(struct pod *p);
bool pod_made_ahead(const struct pod *p); /* nobody waits for it */
void pod_update(struct pod *p, struct object *obj);
void pod_enter(struct pod *p, enum pod_phase next); /* every change of the phase */
struct container *pod_container(struct pod *p, const char *name);
struct volume_pod pod_volumes(const struct pod *p);
void pod_fail(struct pod *p, const char *reason, const char *message);
void pod_mounts_pvcs(struct pod *p, const char *const *handles); /* until its end */
void pod_keep_address(struct pod *p);             /* for its Sandbox, if it is deleted */
void pod_address_reported(struct pod *p);         /* if its status says that, and Ready */
void pod_save(struct pod *p);                     /* the state file */
must_use struct err *pod_try_save(struct pod *p); /* for who needs it to be there */

/* reconcile.c: one pass. ret_forget: the caller must free the Pod. */
uint64_t pod_reconcile(struct pod *p, bool *ret_forget); /* ms until the next; 0: none */

/* What is said of a Pod that comes while the node is cordoned. */
#define POD_UNSCHEDULED "0/1 nodes are available: 1 node(s) were unschedulable."
/* act.c: whether it is being removed and nothing but that is waited for. */
bool pod_leaves(const struct pod *p);
bool pod_hurry(struct pod *p); /* true: it was deleted again, with less time to end */
/* One small step. True: something moved, so that there may be another step to take. */
bool pod_act(struct pod *p, const struct pod_plan *plan, const enum container_step *steps);

/* check.c: NULL, or what this node does not do: a field's path, and perhaps why. malloc'd. */
enum {
	POD_CONTAINERS_MAX = 64, /* and as many init containers */
};
char *pod_unsupported(const struct json *spec);
/* The same for an ephemeral container, and all that surrounds it. */
char *container_unsupported(const struct json *spec, const char *name);
/* check_disk.c: the same for disk space limits, which not every disk pool enforces. */
char *pod_disk_unsupported(const struct diskpool *d, const struct pod_view *p);

/* runtime_class.c: what runs its containers. ERR_UNAVAILABLE: nothing here does, and why. */
must_use struct err *pod_runtime_find(const struct pod *p, struct arena *a, struct plan_oci *ret);
const char *pod_runtime_lacks(const struct pod *p); /* NULL, or what it cannot do for this Pod */

/* room.c: NULL, or why there is no room for it: the reason, and in *ret a malloc'd message.
 * *ret_soon: there will be, when the Pods that are being deleted are gone. */
const char *pod_room_lacks(const struct pod *p, bool *ret_soon, char **ret);
/* The same for what it wants instead of what it has. *ret_never: this node is too small for it. */
bool pod_room_lacks_more(const struct pod *p, bool *ret_never, char **ret);
/* What it requests of a resource, in thousandths. wanted: by its spec, and not as it was given. */
int64_t pod_requested(const struct pod *p, const char *what, bool wanted);
bool pod_room_one_more(struct pod *p); /* takes it for one more container; false: there is none */
void pod_room_take(struct pod *p);
void pod_room_put(struct pod *p); /* if it has any */

/* waits.c */
void waits_init(struct waits *w);
void pod_waits_init(struct pod *p);
void pod_waits_done(struct pod *p);
void pod_waits(struct pod *p);          /* after a pass: notes what it waits for now */
void waits_pass_on_room(struct pod *p); /* there is not enough for it: the next in line tries */
void waits_room_left(struct pods *ps);  /* there is more room: the first who waits for it tries */
void waits_object_changed(struct pods *ps, const struct object *o);
void waits_class_changed(struct pods *ps, const char *name);

/* shutdown.c */
#define POD_SHUT_DOWN "Pod was terminated in response to imminent node shutdown."
bool pod_stops(const struct pod *p);      /* the node does, and it is this Pod's turn */
usec pod_stop_round(const struct pod *p); /* the most that it has to end then */
void pods_next_round(struct pods *ps);    /* a Pod has left: it may be the turn of others */

/* status.c */
void pod_report(struct pod *p);
const struct json *container_status_was(const struct container *c); /* in the object; or NULL */
bool pod_report_lost(const struct pod *p,
		     const struct object *now); /* another writer wrote there */

/* ephemeral.c */
bool ephemeral_admit(struct container *c);          /* false: not now, and its reason says why */
void ephemeral_started_before(struct container *c); /* one that nothing is known of any more */

/* container.c */
struct container *container_new(struct pod *p, const struct pod_container_view *v);
void container_free(struct container *c);
void container_enter(struct container *c, enum container_state next); /* every change of state */
void container_wait(struct container *c, enum wait_reason why, const char *message);
void container_hold_back(struct container *c, unsigned s); /* it is not launched until then */
const char *container_reason(const struct container *c);   /* WAITING: why, in the API's words */
bool container_launch(struct container *c);                /* false: not now; its reason says why */
void container_probe(struct container *c);   /* it has started: from now on its probes count */
void container_restart(struct container *c); /* an ended one gets its next attempt */
void container_term(struct container *c);    /* asks it to end, after its preStop hook */
void container_replace(struct container *c); /* it failed a probe: it has its grace to end */
void container_hooked(struct container *c, bool pre_stop); /* a hook has ended */
void container_kill(struct container *c);
/* Its pid 1 broke the protocol (e, borrowed): what it says cannot be believed, so it is ended. */
void container_broken(struct container *c, const struct err *e);
void container_attach(struct container *c, struct runtime_task *t); /* one that was found */
bool container_ready(const struct container *c);
bool container_started(const struct container *c); /* it runs, and its startup probe agrees */
void ending_done(struct ending *e);
/* One that was looked for ended while nobody watched. How its command ended is known if it was
 * written down (exited, end); or else the guest would have stayed to tell, so it was killed. */
void container_lost(struct container *c, const struct runtime_end *end);
char *container_id(const char *task_id); /* as the API shows it: "cay://<task>". malloc'd */

/* pulling.c */
void container_pull_init(struct container *c);
bool container_find_image(struct container *c); /* false: not yet; its reason says why */

/* plan.c */
struct plan_image container_image(const struct container *c, struct arena *a);
must_use struct err *container_plan(struct container *c, struct arena *a, struct plan *ret);

struct plan_limits container_limits(const struct container *c);

/* resize.c */
void pod_resize(struct pod *p); /* one step towards what it wants */
bool pod_resize_deferred(const struct pod *p);
/* Whether a container does not have yet what it was given. *ret_trouble: why; NULL: it will soon.
 */
bool pod_resizes(const struct pod *p, const char **ret_trouble);
void container_resized(struct container *c, const struct pod_container_view *next);
void container_size_restore(struct container *c); /* a new one: with what its status says */
void container_size_applied(struct container *c);
void container_size_done(struct container *c);
const struct json *container_given(const struct container *c); /* resources; may be NULL */
const struct json *container_has(const struct container *c);
int64_t container_amount(const struct container *c, const char *what); /* of what it was given */

/* env.c */
must_use struct err *env_build(struct container *c, struct arena *a, const char ***ret);
/* $(NAME) by the values so far; $$( is a $( . */
char *env_expand(struct arena *a, const char *text, const struct map *values);

/* recover.c */
void recover_load(struct pods *ps);
void recover_pod(struct pod *p);
void recover_sweep(struct pods *ps); /* once all Pods are known */

/* events.c: core/v1 Events, at most so many per second. Reasons are static. */
struct events *events_new(struct pods *ps);
void events_free(struct events *e);
void events_flush(struct events *e); /* without the delay, for tests */
/* About any object. */
void events_add(struct events *e, struct object *about, bool warning, const char *reason,
		const char *message);
void pod_event(struct pod *p, bool warning, const char *reason, const char *fmt, ...)
	printf_like(4, 5);
