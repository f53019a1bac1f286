/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/view.h"

/* What becomes of a claim that has expired; its Sandbox is deleted in any case. */
enum claim_shutdown {
	CLAIM_RETAIN,
	CLAIM_DELETE,
	CLAIM_DELETE_FOREGROUND, /* the claim is removed after its Sandbox */
};

/* A SandboxClaim (docs/reference/agent-sandbox.md §6). */
struct claim_view {
	const char *pool;               /* "": none */
	const char *assigned;           /* the Sandbox assigned to it; NULL: none */
	const char *sandbox;            /* the Sandbox that its status names; NULL: none */
	const char *created_by, *trace; /* NULL or "": none */
	const char *first_observed, *first_ready; /* annotations; NULL or "": none */
	const struct json *env, *volume_templates;
	const struct json *pod_labels, *pod_annotations; /* additionalPodMetadata */
	usec created;
	usec shutdown_at;            /* 0: never */
	int64_t ttl_s;               /* after it has finished; < 0: forever */
	const char *shutdown_policy; /* on_shutdown as the API words it */
	int64_t generation;
	struct condition_view ready, finished;
	enum claim_shutdown on_shutdown;
	bool deleting;
	bool needs_cold;        /* brings variables or volumes, which no warm Sandbox has */
	bool has_metadata;      /* for its Pod */
	bool assigned_by_label; /* as older controllers did */
};
extern const struct view_type claim_view_type;
const struct claim_view *claim_view(const struct object *o);

/* When it expires, given its Finished condition; 0: never. */
usec claim_expires_at(const struct claim_view *v, const struct condition_view *finished);
bool claim_says_expired(const struct claim_view *v);
