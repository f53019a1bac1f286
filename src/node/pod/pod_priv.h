/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "node/image/image.h"
#include "node/node_priv.h"
#include "wire/wire.h"

/*
 * A Pod on this node.
 *
 *   <run_dir>/state/<uid>.json            what runs, for the next life of the daemon
 *   <run_dir>/volumes/<uid>/<name>/       configMap, secret, projected, downwardAPI
 *   <data_dir>/pods/<uid>/<name>/         emptyDir
 *   <data_dir>/roots/<slot>/              of each attempt of a container: upper/, work/, local/,
 * log
 *
 * run_dir is in memory (tmpfs): a pass makes no file on a disk. What must be on a disk is made by
 * the launcher.
 *
 * A pass (pod_pass) looks at the object and at what runs, takes the steps that can be taken now and
 * reports. Everything that a step waits for wakes the Pod when it happens.
 */
enum container_state {
	CONTAINER_WAITING,   /* not started (yet, or again); why is in reason */
	CONTAINER_LAUNCHING, /* the slot builds its root */
	CONTAINER_STARTING,  /* cay-init was told to start the command */
	CONTAINER_RUNNING,
	CONTAINER_ENDING, /* the command ended or is to end; its processes go */
	CONTAINER_ENDED,
	CONTAINER_STATE_MAX_,
};

struct arena;
struct probe;

/* How a container's attempt ended, or NULL-like when reason is NULL. */
struct ending {
	char *reason; /* "Completed", "Error", "OOMKilled", "StartError" */
	char *message;
	int code, signal;
	usec started, finished;
	char *id;
};

struct container {
	struct pod *pod;
	char *name;
	bool init;
	const struct json *spec; /* in the Pod's object */
	enum container_state state;
	char *reason, *message; /* while waiting */
	unsigned restarts;
	struct ending end, last;
	usec started;
	struct image *image;

	char *slot; /* NULL: no process */
	char *root; /* slot whose directory has the log of the attempt that runs or ran last */
	char *prev; /* and of the one before */
	unsigned range;
	pid_t pid;
	int pidfd;
	struct watch *exit_watch, *ctl_watch;
	int ctl;
	struct guest_conn *guest;
	bool exit_known; /* code and signal are the command's */
	int exit_code, exit_signal;
	bool oom, kill_sent, term_sent;

	struct timer *backoff;
	unsigned backoff_s;
	struct probe *ready_probe, *live_probe, *startup_probe;
	bool ready; /* running, and its probes agree */
};

enum pod_phase {
	POD_ACTIVE,
	POD_TERMINATING, /* the object is being deleted, or is gone */
	POD_CLEANING,    /* no process is left; a job removes the rest */
	POD_DONE,        /* ended for good (Succeeded or Failed): only the record is left */
};

struct pod {
	struct list on_dirty;
	bool dirty;
	struct node *node;
	struct object *obj; /* the latest */
	bool gone;          /* deleted from the API */
	char *uid;
	enum pod_phase phase;
	bool admitted, prepared, sync_asked, sync_done, waiting, recovered;
	bool failed;            /* POD_DONE: how */
	char *reason, *message; /* of the Pod: what is wrong with it as a whole */
	struct net *net;
	bool net_asked;
	char *want_ip;                /* the address it had before */
	struct container *containers; /* init containers first */
	size_t n_containers, n_init;
	struct timer *grace, *retry, *deadline;
	bool killed;
	usec started;
	struct json_doc *reported; /* the status last written */
	bool report_busy;
	struct client_write report_write, end_sync, end_delete;
	struct timer *slow; /* tells of creation that takes long */
};

/* pod.c */
struct pod *pod_new(struct node *n, struct object *obj);
void pod_free(struct pod *p);
void pod_update(struct pod *p, struct object *obj);
void pod_pass(struct pod *p);
struct container *pod_container(struct pod *p, const char *name);
char *pod_dir(const struct pod *p);         /* of its emptyDirs; may be absent */
char *pod_objects_dir(const struct pod *p); /* of what is made from objects */
char *pod_state_path(const struct pod *p);  /* below run_fd */
void pod_save(struct pod *p);               /* state.json */
const struct json *pod_spec(const struct pod *p);
void pod_fail(struct pod *p, const char *reason, const char *message); /* for good */

/* pod_end.c: the way out. */
void pod_terminate(struct pod *p);
void pod_drop(struct pod *p); /* frees what only a running Pod has */

/* pod_check.c: NULL, or what this node does not do, by field. malloc'd. */
char *pod_unsupported(const struct json *spec);

/* pod_status.c */
void pod_report(struct pod *p);
bool pod_report_lost(const struct pod *p); /* somebody else has overwritten it */
const char *pod_qos(const struct json *spec);

/* container.c */
void container_init(struct container *c, struct pod *p, const struct json *spec, bool init);
void container_done(struct container *c);
/* One step for a container that is to run. */
void container_advance(struct container *c);
void container_term(struct container *c);       /* SIGTERM to the command */
void container_kill(struct container *c);       /* all its processes */
bool container_live(const struct container *c); /* has processes */
void container_again(struct container *c);      /* an ended one gets its next attempt */
void container_wait(struct container *c, const char *reason, const char *fmt, ...)
	printf_like(3, 4);
void container_attach(struct container *c); /* one that runs since before the daemon started */
void ending_done(struct ending *e);

/* plan.c: what the launcher is told, and what the guest is told. */
must_use struct err *plan_make(struct container *c, struct json_doc **ret);
must_use struct err *plan_start(struct container *c, struct arena *a, struct wire_start *ret);
bool plan_wants_nonroot(const struct container *c); /* securityContext.runAsNonRoot */
char *root_path(const struct node *n, const char *slot);

/* env.c */
struct env; /* NAME → value, in order */
must_use struct err *env_build(struct container *c, struct arena *a, const char ***ret);
/* $(NAME) by the values so far; $$( is a $( . */
char *env_expand(struct arena *a, const char *text, const struct map *values);

/* volume.c */
must_use struct err *volumes_prepare(struct pod *p); /* ERR_UNAVAILABLE: an object is missing */
must_use struct err *volumes_mounts(struct container *c, struct json_doc *d, struct json *mounts);
bool volumes_use_claim(const struct pod *p, const char *claim_name);
/* Text of a downward fieldRef or resourceFieldRef. malloc'd, NULL: no such field. */
char *field_value(const struct pod *p, const struct container *c, const struct json *source);

/* probe.c */
struct probe *probe_new(struct container *c, const struct json *spec, const char *what);
void probe_free(struct probe *p);
bool probe_ok(const struct probe *p);   /* the last verdict; NULL is fine */
bool probe_dead(const struct probe *p); /* it failed as often as it may */
