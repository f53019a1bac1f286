/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct buf;
struct kind;
struct json_shelf;
struct kinds;
struct loop;
struct object;
struct store;
struct store_spec;
struct store_entry;

/*
 * The objects in the store, by kind, namespace and name. What is stored of a kind that is not
 * served has no decoded form: it is neither shown nor touched.
 */
struct objects {
	struct kinds *kinds; /* what is served */
	struct store *store;
	struct json_shelf *specs; /* of objects: those of a pool's members are all the same */
	/* Kinds that the server itself works with. */
	const struct kind *namespace, *service_account, *pod, *node, *runtime_class, *storage_class,
		*service, *secret, *role, *cluster_role, *role_binding, *cluster_role_binding,
		*definition;
	const struct kind *quota, *limit_range, *priority_class, *claim, *ip_address, *service_cidr;
	const struct kind *sandbox, *sandbox_claim, *sandbox_template, *sandbox_pool;
	const struct kind *agent, *attachment, *session, *approval, *team_policy, *trigger;
};

/*
 * Opens the store and decodes what it holds; how to decode is filled in here. kinds outlives the
 * objects.
 */
must_use struct err *objects_open(struct objects *os, struct loop *l, struct kinds *kinds,
				  const struct store_spec *file);
void objects_done(struct objects *os); /* commits what is pending */
/* Once all kinds are known: logs what is stored of others. */
void objects_report_unknown(const struct objects *os);
/* A kind was added or removed: its objects are decoded, or left alone from now on. */
void objects_kind_changed(struct objects *os, const struct kind *k, bool added);

/* Borrowed until the next write; NULL: none. */
struct object *objects_find(const struct objects *os, const struct kind *k, const char *ns,
			    const char *name);
/* The decoded form of an entry, a new reference. NULL: its kind is not served (any more). */
struct object *objects_of_entry(const struct objects *os, struct store_entry *e);

/* The kind whose objects have such keys; NULL: none that is served. */
const struct kind *key_kind(const struct kinds *ks, const char *key);
/* Keys: pods/NS/NAME, sandboxes.agents.x-k8s.io/NS/NAME, nodes/NAME */
void key_prefix(struct buf *b, const struct kind *k, const char *ns); /* ns "" or NULL: all */
char *key_of(const struct kind *k, const char *ns, const char *name); /* malloc'd */
