/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/registry.h"
#include "base/list.h"
#include "control/cluster/cluster.h"
#include "control/pass/pass.h"

struct context;
struct json_doc;
struct kind;
struct object;

#define API_DISCOVERY      "discovery.k8s.io/v1"
#define LABEL_MANAGED_BY   "endpointslice.kubernetes.io/managed-by"
#define LABEL_HEADLESS     "service.kubernetes.io/headless"
#define SLICES_MANAGER     "endpointslice-controller.k8s.io"
#define LABEL_ENDPOINTS_BY "endpoints.kubernetes.io/managed-by"
#define ENDPOINTS_MANAGER  "endpoint-controller"

struct cluster {
	struct context *c;
	const struct kind *namespace, *service_account, *event, *slice, *old_endpoints, *definition,
		*config_map;
	const struct kind *deployment, *replica_set;
	struct gc *gc;
	struct event_expiry *event_expiry;
	struct pvc_protection *pvc_protection;
	struct endpoints *endpoints;
	struct list watches; /* struct kind_watch */
	size_t n_unsynced;   /* of them */
	bool started;        /* every kind of the start is watched */
	struct kinds_watch registry;
};
/* All objects of this kind are known. k is a stored kind. */
bool cluster_knows(const struct cluster *cl, const struct kind *k);
/* Calls fn for each kind whose objects are in namespaces, until it returns false. */
void cluster_each_namespaced(const struct cluster *cl, bool (*fn)(void *arg, const struct kind *k),
			     void *arg);

/* root_ca.c: the ConfigMap with the CA of the API server, which a pass over its namespace keeps. */
bool root_ca_is(const struct cluster *cl, const struct object *o);
void root_ca_need(struct pass *p, const struct cluster *cl, const char *ns, unsigned write);

struct gc *gc_new(struct cluster *cl);
void gc_free(struct gc *g);
void gc_changed(struct gc *g, const struct object *was, const struct object *now);
/* The objects of the kind that owner controls, in its namespace. */
struct dependents {
	struct object **list; /* references */
	size_t n;
};
struct dependents gc_dependents(const struct gc *g, const struct object *owner,
				const struct kind *kind);
void dependents_done(struct dependents *d);
void gc_kind_known(struct gc *g); /* looks again at objects whose owner was unknown */
/* A merge patch, good for this state of the object only. */
struct json_doc *finalizer_patch(const struct object *o, const char *name);
bool object_has_finalizer(const struct object *o, const char *name);
void gc_kind_gone(struct gc *g, const struct kind *k);

void namespaces_changed(struct cluster *cl, const struct object *was, const struct object *now);

void definitions_changed(struct cluster *cl, const struct object *was, const struct object *now);

struct pvc_protection *pvc_protection_new(struct cluster *cl);
void pvc_protection_free(struct pvc_protection *x);
void pvc_protection_changed(struct pvc_protection *x, const struct object *was,
			    const struct object *now);

struct event_expiry *event_expiry_new(struct cluster *cl);
void event_expiry_free(struct event_expiry *x);
void event_expiry_changed(struct event_expiry *x, struct object *was, struct object *now);

struct endpoints *endpoints_new(struct cluster *cl);
void endpoints_free(struct endpoints *x);
void endpoints_changed(struct endpoints *x, struct object *was, struct object *now);

/* replica_set.c: which ReplicaSets and Deployments a change concerns. */
void apps_changed(struct cluster *cl, const struct object *was, const struct object *now);

/* slices.c */
enum {
	SLICE_MAX = 100, /* endpoints of a slice */
};
struct slices_of {
	const struct object *service;
	struct object *const *pods; /* that it selects and that have not ended */
	size_t n_pods;
};
/* The slices that there should be, as a list; the order of the Pods does not matter. */
struct json_doc *slices_build(const struct slices_of *from);
/* subsets.c: the same as an object of the kind Endpoints. */
struct json_doc *subsets_build(const struct object *service, const struct json *slices);
