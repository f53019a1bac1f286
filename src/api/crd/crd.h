/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"
#include "json/json.h"

struct causes;
struct kind;
struct kinds;
struct object;

/*
 * CustomResourceDefinitions: kinds that users describe, and our own seen as such. A definition is
 * an object like any other; what it defines are kinds of the registry (api/registry.h), made here.
 */
#define CRD_FINALIZER "customresourcecleanup.apiextensions.k8s.io"

enum {
	CRD_NAMES_MAX = 15, /* short names and categories, each */
	CRD_VERSIONS_MAX = 32,
};

/* Is this one of our own kinds, which are shown as definitions and cannot be changed as such? The
 * name is PLURAL.GROUP; NULL: it is not. */
const struct kind *crd_own(const struct kinds *ks, const char *name);
/* The definition of one of our kinds that is stored as itself, with its other versions. */
struct json_doc *crd_of_own(const struct kinds *ks, const struct kind *k);
bool crd_is_own(const struct kind *k); /* would crd_own() find it? */

/*
 * Which of the names that a definition asks for it gets, and whether it is served: status.
 * acceptedNames, storedVersions, conditions. Names that other kinds of its group have are not
 * given. Whatever a client has written into these conditions is replaced.
 */
void crd_settle(struct json_doc *d, const struct kinds *ks, usec now);
bool crd_established(const struct json *crd);
bool crd_names_accepted(const struct json *crd); /* all that it asks for */
/* Does it define the same kinds as before? */
bool crd_same_kinds(const struct json *crd, const struct json *was);

/* The kinds of a definition that is established: the stored version first. */
struct crd_kinds {
	struct kind *list[CRD_VERSIONS_MAX]; /* references */
	size_t n;
};
/* ERR_TOO_LARGE, ERR_MALFORMED: see custom_new(). */
must_use struct err *crd_kinds_new(struct object *crd, struct crd_kinds *ret);
void crd_kinds_done(struct crd_kinds *ks);
/* The parts of all schemas of the registered kinds that definitions have made. */
size_t crd_parts(const struct kinds *ks);

/* Calls warn for each rule in CEL, which are not enforced, and for formats that nobody knows. */
void crd_warn(const struct json *crd, void (*warn)(void *arg, const char *text), void *arg);

/* Hooks of the kind (kind.h). */
void crd_defaults(struct json_doc *d, const struct json *old);
void crd_validate(const struct json *obj, const struct json *old, struct causes *c);
void crd_prepare_delete(struct json_doc *d);
