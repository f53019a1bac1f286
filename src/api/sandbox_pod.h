/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct json;
struct json_doc;
struct object;

/* The labels of a Sandbox's Pod (docs/reference/agent-sandbox.md §3.6). */

/* The label KEY_CREATED_BY as one of the values that are known, a constant; NULL: none. */
const char *sandbox_created_by(const char *label);

/* Whether a label of the template stays there: these belong to the controllers. */
bool sandbox_label_reserved(const char *key);
/* The labels that the controllers own; they are removed where the Sandbox has none. */
void sandbox_system_labels(struct json_doc *d, struct json *labels, const struct object *sandbox);
/* All that a new Pod gets. */
void sandbox_pod_labels(struct json_doc *d, struct json *labels, const struct object *sandbox);
