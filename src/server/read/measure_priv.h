/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct access;
struct json_doc;
struct object;

/* Whether anything is known of what a stored object uses. a NULL: nothing is. */
bool measured(struct access *a, const struct object *o);
/* Fills in the measurements of its form of metrics.k8s.io. */
void measure(struct access *a, struct json_doc *d);
