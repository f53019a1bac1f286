/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct arena;
struct json;
struct object;

/*
 * A Pod as C structs: decoded once from its tree, then read by the node and the router. Rules about
 * a Pod that more than one reader needs are functions here.
 *
 * Lists are in the arena given to pod_view_new(), each with a count n_; strings are borrowed
 * from the object. Both must outlive the view. A tree that never passed validation decodes too:
 * what has the wrong type counts as absent.
 */

/* An absent name is "" where the API requires one, and NULL everywhere else. */
struct pod_key_ref { /* configMapKeyRef, secretKeyRef */
	const char *name, *key;
	bool optional;
};

struct pod_field_ref {        /* fieldRef or resourceFieldRef */
	const char *path;     /* NULL: a resourceFieldRef */
	const char *resource; /* "limits.cpu"; NULL: a fieldRef */
	const char *container;
	int64_t divisor; /* in thousandths, never 0 */
};

enum pod_env_source {
	POD_ENV_VALUE,
	POD_ENV_CONFIG_MAP,
	POD_ENV_SECRET,
	POD_ENV_FIELD,
	POD_ENV_SOURCE_MAX_,
};

struct pod_env_view {
	const char *name;
	enum pod_env_source source;
	const char *value;          /* VALUE */
	struct pod_key_ref ref;     /* CONFIG_MAP, SECRET */
	struct pod_field_ref field; /* FIELD */
};

struct pod_env_from_view {
	bool secret; /* else a ConfigMap */
	const char *name, *prefix;
	bool optional;
};

struct pod_port_view {
	const char *name;
	uint16_t port;
	bool tcp;
};

struct pod_mount_view {
	const char *volume, *path, *sub_path;
	const char *sub_path_expr; /* with $(NAME) of the environment; NULL: sub_path counts */
	bool readonly;
};

struct pod_header_view {
	const char *name, *value;
};

struct pod_probe_view { /* a probe, or a lifecycle hook */
	bool there;
	bool sleeps; /* a hook that does nothing for sleep_s */
	unsigned delay_s, period_s, timeout_s, need_ok, need_bad, sleep_s;
	int64_t grace_s;       /* of a container that fails it; -1: the Pod's */
	const char **command;  /* exec; NULL: probes by connecting */
	const char *http_path; /* httpGet; NULL: the connection is enough */
	const struct pod_header_view *http_headers; /* the last one has no name */
	bool https;
	const char *grpc_service; /* grpc; "": the server as a whole; NULL: as above */
	uint16_t port;            /* a name is already resolved to the container's port */
};

struct pod_quantity_view {
	const char *name;
	int64_t milli;
};

struct pod_container_view {
	const char *name, *image, *workdir;
	const char *message_path; /* of the termination message */
	bool message_from_log;    /* or of a failure without one, the end of its output */
	bool sidecar;   /* an init container with restartPolicy Always: it runs beside the others */
	bool ephemeral; /* added to a Pod that runs, and not restarted */
	const char *target; /* EPHEMERAL: the container that it is about; NULL: none */
	bool init, never_pull, always_pull, tty, stdin_open, stdin_once, readonly_root, nonroot;
	const char **command, **args; /* NULL: the image's */
	struct pod_env_view *env;
	struct pod_env_from_view *env_from;
	struct pod_port_view *ports;
	struct pod_mount_view *mounts;
	struct pod_quantity_view *limits, *requests;
	const struct json *resources; /* the same, as they are written; NULL: none */
	bool resize_restarts[2];      /* whether a change of cpu, memory restarts it */
	const char **add_capabilities, **drop_capabilities; /* without "CAP_" */
	size_t n_env, n_env_from, n_ports, n_mounts, n_limits, n_requests;
	int64_t user, group; /* -1: the image's; the Pod's security context is applied */
	struct pod_probe_view startup, readiness, liveness, post_start, pre_stop;
	usec status_started; /* when the status says it started; 0: it does not say */
};

enum pod_volume_type {
	POD_VOLUME_OTHER,
	POD_VOLUME_EMPTY_DIR,
	POD_VOLUME_PVC,
	POD_VOLUME_CONFIG_MAP,
	POD_VOLUME_SECRET,
	POD_VOLUME_DOWNWARD,
	POD_VOLUME_PROJECTED,
	POD_VOLUME_HOST_PATH,
	POD_VOLUME_TOKEN, /* of a service account: only a source of a projected volume */
	POD_VOLUME_TYPE_MAX_,
};

struct pod_volume_item {
	const char *key; /* of an object */
	struct pod_field_ref field;
	const char *path;
	int64_t mode; /* -1: the volume's */
};

/* Where files come from: a configMap, secret or downwardAPI, by itself or in a projected volume;
 * or, in a projected volume, a token. */
struct pod_volume_source {
	enum pod_volume_type type;
	const char *object; /* CONFIG_MAP, SECRET: its name */
	bool optional;
	struct pod_volume_item *items; /* of an object: none means every key */
	size_t n_items;
	const char *path, *audience; /* TOKEN; audience NULL: the API server */
	int64_t expire_s;            /* TOKEN */
};

struct pod_volume_view {
	const char *name;
	enum pod_volume_type type;
	int64_t mode;
	struct pod_volume_source *sources; /* one, or those of a projected volume */
	size_t n_sources;
	const char *pvc;                   /* PVC: its name */
	const struct json *claim;          /* PVC: what it is made of, if it is the Pod's own */
	bool readonly;                     /* PVC */
	const char *host_path, *host_type; /* HOST_PATH */
	bool memory;                       /* EMPTY_DIR: of medium Memory */
	int64_t size;                      /* EMPTY_DIR: sizeLimit in bytes; 0: none */
};

struct pod_host_alias {
	const char *ip;
	const char **hostnames;
};

struct pod_dns_option {
	const char *name, *value;
};

enum pod_restart {
	POD_RESTART_ALWAYS,
	POD_RESTART_ON_FAILURE,
	POD_RESTART_NEVER,
};

struct pod_view {
	const char *ns, *name, *uid, *node_name, *service_account;
	const char *hostname;      /* the Pod's name unless the spec says otherwise */
	const char *subdomain;     /* "" when there is none */
	const char *runtime;       /* annotation cay.dev/runtime */
	const char *runtime_class; /* "" when there is none */
	const char *phase;         /* of the status; "" when it has none */
	const char *qos;
	const char *default_container; /* pod_default_container() */
	const struct json *labels, *annotations;
	bool deleting, ready;
	enum pod_restart restart;
	int64_t priority;          /* the spec's, or that of a system class that it names */
	int64_t grace_s;           /* from the deletion, or else from the spec */
	int64_t deadline_s;        /* 0: none */
	int64_t fs_group;          /* -1: none */
	bool fs_group_on_mismatch; /* fsGroupChangePolicy is OnRootMismatch */
	uint32_t *groups;          /* supplementalGroups */
	size_t n_groups;

	struct pod_container_view *containers; /* init containers first, ephemeral ones last */
	size_t n_containers, n_init, n_ephemeral;
	struct pod_volume_view *volumes;
	size_t n_volumes;
	struct pod_host_alias *host_aliases;
	size_t n_host_aliases;
	const char *dns_policy; /* "" when there is none */
	const char **nameservers, **searches;
	struct pod_dns_option *dns_options;
	size_t n_dns_options;
};

struct pod_view *pod_view_new(const struct object *o, struct arena *a);

bool pod_view_critical(const struct pod_view *p); /* by its priority, as a kubelet sees it */

bool pod_view_over(const struct pod_view *p); /* its phase is Succeeded or Failed */
/* NULL: none of this name. */
const struct pod_container_view *pod_view_container(const struct pod_view *p, const char *name);
/* NULL: the Pod has none. */
const struct pod_container_view *pod_view_default_container(const struct pod_view *p);
const struct pod_volume_view *pod_view_volume(const struct pod_view *p, const char *name);
unsigned pod_view_count_mounts(const struct pod_view *p, const char *volume);

/* False: it is not in the list. *ret is in thousandths. */
bool pod_quantity_find(const struct pod_quantity_view *list, size_t n, const char *name,
		       int64_t *ret);
/* In thousandths; 0 when the container has none. what: "limits.cpu", "requests.memory". */
int64_t pod_container_quantity(const struct pod_container_view *c, const char *what);
bool pod_container_has_port(const struct pod_container_view *c, uint16_t port); /* TCP */
