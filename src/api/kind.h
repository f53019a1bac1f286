/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

struct causes;
struct json;
struct json_doc;
struct type;

/*
 * The kinds that Cay serves, as one table: names, scope, subresources, schema, columns, conversion.
 * Everything that depends on a kind (routes, discovery, OpenAPI, Table output, CRDs, RBAC) walks
 * this table.
 */
struct column {
	const char *name;
	const char *type; /* "string", "integer", "date" */
	const char *path; /* as in a CRD: .status.conditions[?(@.type=='Ready')].status */
	const char *help;
	int priority; /* 0 always, 1 with -o wide */
	/* Where a path cannot say it (a Pod's READY): computes the cell. NULL: path. A "date"
	 * answers with a time, which the table turns into an age. */
	struct json *(*cell)(struct json_doc *d, const struct json *obj, usec now);
};

enum {
	KIND_NAMESPACED = 1,
	KIND_STATUS = 2,      /* has /status, and writes to the object leave status alone */
	KIND_SCALE = 4,       /* has /scale: spec.replicas, status.replicas, status.selector */
	KIND_DEPRECATED = 8,  /* answers carry a Warning header */
	KIND_GENERATION = 16, /* metadata.generation counts spec changes */
	KIND_CRD = 32, /* one of ours: printed by `cay manifests`, merge patch instead of strategic
			  on a real cluster */
};

struct kind {
	const char *group, *version; /* group "" is core */
	const char *api_version;     /* both as an object says it */
	const char *kind, *list_kind, *plural, *singular;
	const char *short_names[4]; /* ends with NULL */
	const char *categories[4];
	unsigned flags;
	const struct type *type;      /* of the whole object */
	const struct column *columns; /* ends with a NULL name; NAME comes first by itself */
	/* Another version of storage: objects are stored as that kind. NULL: stored as it is. */
	const struct kind *storage;
	struct err *(*to_storage)(struct json_doc *d);   /* in place */
	struct err *(*from_storage)(struct json_doc *d); /* in place */
	/* What the schema cannot say. old is NULL on create. Adds to causes. */
	void (*validate)(const struct json *obj, const struct json *old, struct causes *c);
	/* Defaults that the schema cannot say (a Pod's QoS, a Service's ports). In place. NULL:
	 * none. */
	void (*complete)(struct json_doc *d, const struct json *old);
	const char *help;
};

extern const struct kind kind_namespace, kind_pod, kind_service, kind_persistent_volume_claim,
	kind_secret, kind_config_map, kind_service_account, kind_event, kind_node,
	kind_endpoint_slice, kind_network_policy, kind_lease, kind_events_event, kind_sandbox,
	kind_sandbox_v1alpha1, kind_sandbox_template, kind_sandbox_claim, kind_sandbox_warm_pool;

const struct kind *const *kinds_all(size_t *ret_n); /* in the order of discovery */
const struct kind *kind_find(const char *group, const char *version,
			     const char *plural); /* NULL: not served */
const struct kind *kind_by_name(const char *group, const char *version, const char *kind);
const struct kind *kind_storage(const struct kind *k); /* k itself when it is stored */
/* "v1" or "agents.x-k8s.io/v1beta1"; the text is static. */
const char *kind_api_version(const struct kind *k);
