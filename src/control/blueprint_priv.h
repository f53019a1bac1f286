/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/object.h"
#include "json/json.h"

/*
 * The blueprint that templates and Sandboxes share: podTemplate, volumeClaimTemplates, service.
 */
void blueprint_hash(const struct object *template, char ret[9]);
void blueprint_pod_hash(const struct object *template, char ret[9]);

/* A Sandbox spec as the template would have it, secure defaults included. */
struct json *blueprint_spec(struct json_doc *d, const struct object *template);
/* automountServiceAccountToken and DNS, in place (reference/api.md §4.4). */
void blueprint_secure(struct json_doc *d, struct json *pod_spec, const struct object *template);

/* Both mean the same but for the metadata of Pods and volume claims. */
bool blueprint_same(const struct object *template, const struct object *sandbox);
/*
 * Is the Sandbox not what the template would make now? By its labels where they can be trusted: a
 * Sandbox that nobody owns is compared in full. ref_too: also when it is of another template.
 */
bool blueprint_stale(const struct object *template, const char *hash, const struct object *sandbox,
		     bool ref_too);

/* The NetworkPolicy spec that the template asks for (§4.3). */
struct json *policy_spec(struct json_doc *d, const struct object *template);
bool template_managed(const struct object *template);
