/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/object.h"
#include "base/clock.h"
#include "base/err.h"
#include "json/json.h"

/*
 * The SandboxClaim controller's pure parts: what a claim may ask for, what its Sandbox looks like,
 * which one it has, and what it reports.
 */

/* What keeps a claim from its Sandbox, in the order of reference/api.md §6.2. */
enum trouble_kind {
	TROUBLE_NONE,
	TROUBLE_TEMPLATE, /* not found */
	TROUBLE_POOL,     /* not found */
	TROUBLE_CONFLICT, /* others were faster, again and again */
	TROUBLE_LAG,      /* created, but not to be seen yet */
	TROUBLE_METADATA, /* refused for good, as are the next two */
	TROUBLE_ENV,
	TROUBLE_NOT_OWNED, /* expired, and the recorded Sandbox is somebody else's */
	TROUBLE_VCT,
	TROUBLE_OTHER,
};
struct trouble {
	enum trouble_kind kind;
	struct err *e; /* its text is the message, or part of it */
};
void trouble_done(struct trouble *t);

/* Policy (§6.4 to §6.6) */

/* additionalPodMetadata by itself; domains are those whose labels a claim may set. */
struct err *claim_check_metadata(const struct object *claim, const char *const *domains);
/* Adds it to labels and annotations; a key with another value is an error. */
struct err *claim_merge_metadata(struct json_doc *d, struct json *metadata,
				 const struct object *claim);
/* The volume claims of template and claim together. */
struct err *claim_merge_vcts(struct json_doc *d, const struct object *template,
			     const struct object *claim, struct json **ret);
/* Puts spec.env into the containers. ERR_FORBIDDEN: the policy says no. */
struct err *claim_inject_env(struct json_doc *d, struct json *pod_spec,
			     const struct object *template, const struct object *claim);
bool claim_needs_cold(const struct object *claim); /* has env or volume claims of its own */
bool claim_has_metadata(const struct object *claim);

/* Building (§6.7 h, §6.8, §6.10) */

/* podTemplate.metadata as the claim wants it. */
struct err *claim_pod_metadata(struct json_doc *d, const struct object *claim,
			       const struct object *template, struct json **ret);
struct trouble claim_build_cold(const struct object *claim, const struct object *template,
				struct json_doc **ret);
/* The guarded patch that makes the Sandbox the claim's. template NULL: cannot be read. */
struct err *claim_build_adoption(const struct object *claim, const struct object *sandbox,
				 const struct object *template, struct json_doc **ret);
/* What a Sandbox that is the claim's needs to follow claim and template; *ret NULL: nothing. */
struct err *claim_build_sync(const struct object *claim, const struct object *sandbox,
			     const struct object *template, struct json_doc **ret);

/* Finding (§6.7 b to d) */

struct claim_seen {
	const struct object *claim;
	struct object *by_status, *assigned, *by_owner, *by_name; /* NULL: no such Sandbox */
	const char *assigned_name;                                /* NULL: none */
};
enum find {
	FIND_USE,       /* it has *ret */
	FIND_COMPLETE,  /* it was promised *ret, which is still its pool's */
	FIND_FORGET,    /* what it was promised cannot be had */
	FIND_NAME_USED, /* a Sandbox of its name belongs to somebody else */
	FIND_NEW,
};
enum find claim_find(const struct claim_seen *seen, struct object **ret);
const char *
claim_assigned(const struct object *claim); /* by annotation or the older label; or NULL */
bool member_fits_claim(const struct object *sandbox, const struct object *claim);

/* Expiry (§6.9) */

/* When it ends by this status; 0: never. */
usec claim_expires_at(const struct object *claim, const struct json *status);
const char *claim_shutdown_policy(const struct object *claim);

/* Status (§6.2) */

struct claim_view {
	const struct object *claim;
	const struct object *sandbox; /* NULL: none in hand */
	const struct trouble *trouble;
	bool expired;
	usec now;
};
struct json_doc *claim_status(const struct claim_view *v);
void claim_mark_expired(struct json_doc *status, const struct object *claim, usec now);
/* The guarded merge patch for /status; NULL when it is as it should be. */
struct json_doc *claim_status_patch(const struct object *claim, const struct json *want);

/* Annotations that follow, once the status is right; NULL when none is missing. */
struct claim_stamps {
	const struct object *claim, *sandbox; /* sandbox may be NULL */
	usec first_seen, ready_at;            /* ready_at 0: not known */
	bool observability;
};
struct json_doc *claim_stamp(const struct claim_stamps *s);
