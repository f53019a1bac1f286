/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/object.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/pass/item.h"
#include "control/sandbox/sandbox.h"
#include "json/json.h"

struct buf;

/*
 * The Sandbox controller's parts: what to do about the Pod, the PVCs and the Service, and what to
 * report. All but sandbox.c is pure: objects in, a plan out.
 */

/* What the passes write. */
enum sandbox_write {
	SANDBOX_WRITE_FORGET_POD, /* the patch that removes the pod-name annotation */
	SANDBOX_WRITE_DELETE,     /* the deletion of the expired Sandbox */
	SANDBOX_WRITE_STATUS,
	SANDBOX_WRITE_PVC,
	SANDBOX_WRITE_CREATE_POD,
	SANDBOX_WRITE_POD, /* any other write of the Pod */
	SANDBOX_WRITE_SERVICE,
	SANDBOX_WRITE_MAX_,
};
_Static_assert(SANDBOX_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

enum step_verb {
	STEP_NONE,
	STEP_CREATE,
	STEP_PATCH,
	STEP_DELETE,
};
struct step {
	enum step_verb verb;
	struct json_doc *doc; /* of create and patch; owned */
	const char *uid;      /* of what is deleted; borrowed */
};

enum ownership {
	OWNED,   /* controlled by this Sandbox, by uid */
	UNOWNED, /* has no controller */
	FOREIGN,
};
enum ownership ownership_of(const struct object *o, const struct object *sandbox);
/* Carries a label that lets the Sandbox adopt an object without a controller. */
bool adoption_allowed(const struct object *o, const char *name_hash);
/* The texts are upstream's; what is "pod", "service" or "PVC". */
struct err *err_foreign(const char *what, const struct object *o, const struct object *sandbox);
struct err *err_unadoptable(const char *what, const struct object *o);

/* Pod */

struct sandbox_pod_seen {
	const struct object *sandbox;
	struct object *tracked;      /* under the annotation's or the Sandbox's name; NULL: none */
	struct object *const *owned; /* controlled by this Sandbox */
	size_t n_owned;
};
struct sandbox_pod_plan {
	struct step step;
	struct object *pod; /* the one in hand, borrowed; NULL: none */
	bool owned;
	size_t n_owned;   /* more than one: nothing is done */
	bool forget_name; /* the pod-name annotation names no usable Pod */
	struct err *e;
};
struct sandbox_pod_plan sandbox_pod_decide(const struct sandbox_pod_seen *seen);
struct json_doc *sandbox_pod_build(const struct object *sandbox);
/* The merge patch that brings the Pod's metadata in line; NULL when it is. */
struct json_doc *sandbox_pod_sync(const struct object *sandbox, const struct object *pod);
struct json *volumes_merge(struct json_doc *d, const struct json *volumes, const struct json *vcts,
			   const char *sandbox_name);

/* Service and PVCs */

enum service_status {
	SERVICE_CLEAR,
	SERVICE_SET,
	SERVICE_KEEP,
};
struct service_plan {
	struct step step;
	enum service_status status;
	bool required, exists;
	struct err *e;
};
struct service_plan service_decide(const struct object *sandbox, const struct object *service);
struct json *service_ports(struct json_doc *d, const struct json *pod_spec);

/* For one volumeClaimTemplate. */
struct step pvc_decide(const struct object *sandbox, const struct json *vct,
		       const struct object *pvc, struct err **ret_e);

/* Everything that a living Sandbox needs */

struct sandbox_seen {
	const struct object *sandbox;
	struct object *tracked, *service; /* references; NULL: none */
	struct object **owned;            /* Pods that it controls; references */
	struct object **pvcs; /* one for each volumeClaimTemplate; references; NULL: not there */
	size_t n_owned, n_pvcs;
};
struct sandbox_plan {
	struct step *pvcs; /* one for each volumeClaimTemplate */
	size_t n_pvcs;
	struct err *e_pvc; /* of the first that is not available */
	struct sandbox_pod_plan pod;
	struct service_plan service;
	bool held; /* a create is left out because the API refused it before */
};
struct sandbox_plan sandbox_decide(const struct sandbox_seen *seen);
void sandbox_plan_done(struct sandbox_plan *plan);

/* Status */

struct sandbox_facts {
	const struct object *sandbox;
	const struct sandbox_pod_plan *pod;
	const struct service_plan *service;
	const struct err *e_pvc, *e_pod, *e_service; /* what went wrong, NULL: nothing */
	bool rejected;                               /* a create is not tried again for this spec */
	const char *cluster_domain;
	usec now;
};
/* There is nothing to report but that its Pod was created, and nothing was reported before. */
bool sandbox_says_little(const struct sandbox_facts *f);
/* A new doc with the status as it should be. */
struct json_doc *sandbox_status(const struct sandbox_facts *f);
struct json_doc *sandbox_status_expired(const struct object *sandbox, bool torn_down, usec now);
/* The merge patch for /status; NULL when nothing is worth a write. */
struct json_doc *sandbox_status_patch(const struct object *sandbox, const struct json *want);
/* The Event that the change of status is worth; false: none. */
struct sandbox_news {
	const char *type, *reason, *action, *note;
};
/* Adds "; " and what keeps the Pod from being ready, on one line of bounded length; nothing if the
 * Pod does not say. */
void pod_trouble(const struct object *pod, struct buf *out);
bool sandbox_news(const struct json *was, const struct json *now, struct sandbox_news *ret);

enum expiry {
	EXPIRY_NONE,    /* never, or not for left_ms */
	EXPIRY_MARK,    /* report it first */
	EXPIRY_CLEANUP, /* reported: tear down */
};
enum expiry sandbox_expiry(const struct object *sandbox, usec now, uint64_t *ret_left_ms);
#define SANDBOX_EXPIRY_MIN_MS 2000
