/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct json;

/*
 * Rules about Deployments that hold wherever one is read: in the server and in its controller.
 */
#define API_APPS "apps/v1"

/* The label by which the Pods of one template of a Deployment are told from those of another. */
#define LABEL_TEMPLATE_HASH "pod-template-hash"
/* Of the ReplicaSets of a Deployment, and of the Deployment: which template is the newest. */
#define ANNOTATION_REVISION "deployment.kubernetes.io/revision"

/* How far a rollout may go beyond and below spec.replicas, as numbers of Pods: of percentages, the
 * surge is rounded up and what may be missing is rounded down. Never both zero. */
void deployment_bounds(const struct json *spec, int64_t *ret_surge, int64_t *ret_missing);
