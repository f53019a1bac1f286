/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "loop/queue.h"

struct context;
struct pass;

/*
 * What kube-controller-manager does on a cluster, for an API server that has none: garbage
 * collection by owner references, the end of namespaces and the account that each of them has, the
 * expiry of Events, claims that are kept while a Pod uses them, EndpointSlices, Deployments.
 * These follow objects of every kind that is served, including kinds that come and go while the
 * process runs.
 */
struct cluster;

struct cluster *cluster_start(struct context *c);
void cluster_free(struct cluster *cl);
bool cluster_synced(const struct cluster *cl); /* every watch has delivered what existed */

struct again gc_reconcile(struct pass *p);
struct again namespace_reconcile(struct pass *p);
struct again definition_reconcile(struct pass *p);
struct again pvc_protection_reconcile(struct pass *p);
struct again event_expiry_reconcile(struct pass *p);
struct again endpoints_reconcile(struct pass *p);
struct again replica_set_reconcile(struct pass *p);
struct again deployment_reconcile(struct pass *p);
