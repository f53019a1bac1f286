/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "json/json.h"

struct causes;
struct object;

/*
 * What every kind shares: metadata rules, owner references, conditions, hashes.
 */
/* These return NULL, or what is wrong with the text. */
const char *meta_bad_dns_label(const char *s);      /* ≤ 63 */
const char *meta_bad_dns_subdomain(const char *s);  /* ≤ 253 */
const char *meta_bad_qualified_name(const char *s); /* label and annotation keys */
const char *meta_bad_label_value(const char *s);
/* All that is wrong with it: how many texts are in ret. */
enum {
	META_FAULTS_MAX = 5
};
size_t meta_qualified_name_faults(const char *s, const char *ret[META_FAULTS_MAX]);
const char *meta_bad_path_name(const char *s); /* anything that can be one part of a path */
const char *meta_bad_segment(const char *s);   /* the same, for a name that need not be stored */

/* The key of a label or an annotation, or a name like one, at path. */
void meta_validate_key(const char *key, const char *path, struct causes *c);

/* Finalizers of an object that is deleted in the foreground, or that leaves its dependents behind;
 * the garbage collector works them off. */
/* Keeps a claim that a Pod uses. */
#define FINALIZER_NAMESPACE  "kubernetes" /* in spec of a Namespace */
#define FINALIZER_PVC        "kubernetes.io/pvc-protection"
#define FINALIZER_PV         "kubernetes.io/pv-protection"
#define FINALIZER_FOREGROUND "foregroundDeletion"
#define FINALIZER_ORPHAN     "orphan"

/* name/generateName, namespace, labels, annotations, owner references, finalizers. flags are those
 * of the kind: KIND_NAMESPACED, KIND_LABEL_NAMES, KIND_PATH_NAMES. */
void meta_validate(const struct json *metadata, unsigned flags, const struct json *was,
		   struct causes *c);
void meta_validate_labels(const struct json *labels, const char *path, struct causes *c);
void meta_validate_annotations(const struct json *annotations, const char *path, struct causes *c);

/* ownerReferences element { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true
 * } of owner. */
struct json *meta_controller_ref(struct json_doc *d, const struct object *owner);

/* Conditions as in docs/reference/agent-sandbox.md §2.4: the transition time moves only when the
 * status changes. */
struct condition {
	const char *type, *status, *reason, *message;
	int64_t observed_generation;
	const char *transition; /* RFC 3339, NULL: now */
};
void conditions_upsert(struct json_doc *d, struct json *conditions, const struct condition *c,
		       usec now);
void conditions_remove(struct json *conditions, const char *type);
struct json *conditions_get(const struct json *conditions, const char *type); /* NULL when absent */
bool conditions_true(const struct json *conditions, const char *type);

void name_hash(const char *s,
	       char ret[9]); /* docs/reference/agent-sandbox.md §7.4: FNV-1a 32, 8 hex digits */
void name_hash_json(const struct json *v,
		    char ret[9]); /* of a canonical encoding: member order does not matter */

/* "1500m", "2Gi", "1e3", 5: the value in thousandths. ERR_MALFORMED: not a quantity. */
must_use struct err *quantity_parse_milli(const struct json *q, int64_t *ret);
bool quantity_equal(const struct json *a, const struct json *b);
bool quantity_valid(const struct json *q);
/* As Kubernetes writes it: "1000m" is "1", 0.5 is "500m", "1024Mi" is "1Gi". NULL: q is none. */
struct json *quantity_canonical(struct json_doc *d, const struct json *q);
/* As in lists of resources: no finer than thousandths, rounded up. */
struct json *quantity_canonical_milli(struct json_doc *d, const struct json *q);
