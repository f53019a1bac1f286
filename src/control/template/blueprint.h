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
/* Sets automountServiceAccountToken and DNS (docs/reference/agent-sandbox.md §4.4). */
void blueprint_secure(struct json_doc *d, struct json *pod_spec, const struct object *template);

/* Both mean the same, apart from the metadata of Pods and PVCs. */
bool blueprint_same(const struct object *template, const struct object *sandbox);
/*
 * The Sandbox is not what the template would make now. Its labels decide where they can be trusted:
 * a Sandbox without an owner is compared in full. ref_too: one made from another template is stale
 * too.
 */
bool blueprint_stale(const struct object *template, const char *hash, const struct object *sandbox,
		     bool ref_too);
