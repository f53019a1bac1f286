/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/view.h"

enum sandbox_service {
	SANDBOX_SERVICE_UNSET, /* none is created; an existing one is kept */
	SANDBOX_SERVICE_NONE,
	SANDBOX_SERVICE_WANTED,
};

/* A Sandbox (docs/reference/agent-sandbox.md §3). */
struct sandbox_view {
	struct owner_view owner;
	const char *pool_hash, *template_ref_hash, *template_hash; /* labels; NULL: none */
	const char *launch_type, *created_by;                      /* labels; NULL: none */
	const char *pod_name; /* of the Pod it tracks: the annotation, or its own name */
	struct blueprint_view blueprint;
	const char *lent_by; /* the pool that it goes back to after its claim; NULL: none */
	int64_t resets;      /* how often a Sandbox of its name was put back */
	usec created;
	usec shutdown_at; /* 0: never */
	int64_t generation;
	enum sandbox_service service;

	struct condition_view ready, finished;
	const struct json *pod_ips; /* a list of strings */
	const char *node_name;      /* "": none yet */

	bool deleting;
	bool is_private;         /* its owner alone enters it */
	bool reset_first;        /* is not removed before it was decided whether it goes back */
	bool suspended;          /* shall have no Pod */
	bool delete_at_shutdown; /* otherwise it is kept, without its Pod */
	bool pod_name_annotated;
	bool in_pool;   /* a pool controls it: it is not claimed */
	bool adoptable; /* by its labels, a claim may take it */
	bool warm;      /* labelled as launched warm */
	bool networked; /* has an address */
};
extern const struct view_type sandbox_view_type;
const struct sandbox_view *sandbox_view(const struct object *o);
/* A Pod may say that it is anybody's: whether the Sandbox, by the uid that the Pod's owner
 * reference has, says so too. */
bool sandbox_tracks(const struct object *sandbox, const char *uid, const char *pod);

/* Nothing is running, and nothing will be started. */
bool sandbox_is_down(const struct sandbox_view *v);
/* It has expired, and its status says so. */
bool sandbox_says_expired(const struct sandbox_view *v);
/* A create was refused as invalid, and the spec is still the same. */
bool sandbox_was_rejected(const struct sandbox_view *v);
