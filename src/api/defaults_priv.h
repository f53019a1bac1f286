/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json/json.h"

/* These fill in what is absent. An empty string counts as absent, as it does in Kubernetes. obj may
 * be NULL. */
void defaults_str(struct json_doc *d, struct json *obj, const char *key, const char *value);
void defaults_absent(struct json_doc *d, struct json *obj, const char *key, const char *value);
void defaults_int(struct json_doc *d, struct json *obj, const char *key, int64_t value);
void defaults_obj(struct json_doc *d, struct json *obj, const char *key);
/* The member, made when it is absent. NULL when it is not an object, which schema_validate()
 * reports. */
struct json *defaults_need_obj(struct json_doc *d, struct json *obj, const char *key);
/* Those of a Pod's spec that hold in a template too; the rest is filled in when the Pod is made. */
void defaults_pod_template(struct json_doc *d, struct json *spec);
/* Writes every quantity of a map as Kubernetes does: "1000m" becomes "1". */
void defaults_quantities(struct json_doc *d, struct json *map);
