/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct json;

/*
 * Rules about Pods that hold wherever one is read: in the server, the controllers and the node.
 */

/* What a Pod that says nothing gets. */
enum {
	POD_GRACE_S = 30,
	POD_FILE_MODE = 0644, /* of the files in a volume */
	POD_TOKEN_S = 3600,   /* of a projected token */
	POD_PROBE_PERIOD_S = 10,
	POD_PROBE_TIMEOUT_S = 1,
	POD_PROBE_NEED_OK = 1,
	POD_PROBE_NEED_BAD = 3,
};

/* Of the router's Pod: it stands for a part of the system and is run by nobody. */
#define ANNOTATION_MIRROR "kubernetes.io/config.mirror"

enum {
	POD_CRITICAL_PRIORITY = 2000000000, /* and above */
};

const char *pod_qos(const struct json *spec); /* "Guaranteed", "Burstable", "BestEffort" */
bool pod_phase_over(const char *phase);       /* Succeeded or Failed; NULL is neither */
/* The init container goes on running beside the others. */
bool pod_is_sidecar(const struct json *init_container);
/* The name of the container that a request without a name means: the one that kubectl's annotation
 * names, if there is such a one, or else the first. NULL: the Pod has none. */
const char *pod_default_container(const struct json *pod);
/* The number of a container's port, of one that serves while the Pod runs; 0: there is none. */
int64_t pod_named_port(const struct json *spec, const char *name, const char *protocol);
