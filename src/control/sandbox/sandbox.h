/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "loop/queue.h"

struct json;
struct object;
struct pass;

/* Turns a Sandbox into a Pod, volumes and a Service, and reports on them. */
struct again sandbox_reconcile(struct pass *p);

/* The change leaves nothing for the Pod to follow but the loss of the marks that its pool gave it,
 * by which nothing is admitted, connected or started. */
bool sandbox_can_wait(const struct object *was, const struct object *now);

/* The PVC of a volumeClaimTemplate; malloc'd. */
char *pvc_name(const struct json *vct, const char *sandbox_name);
