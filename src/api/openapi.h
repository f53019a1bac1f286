/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json/json.h"

struct kind;
struct kinds;
struct type;

/*
 * Documents derived from the registered kinds and their schemas, as they are at the moment of the
 * call.
 */
/* OpenAPI v3 for one group and version: paths and components.schemas, with
 * x-kubernetes-group-version-kind. */
struct json_doc *openapi_v3(const struct kinds *ks, const char *group, const char *version);
/* {"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=..."}}} */
struct json_doc *openapi_v3_index(const struct kinds *ks);
/* A structural schema as a CRD carries it, in d. */
struct json *openapi_structural(struct json_doc *d, const struct type *t);
/* apiextensions.k8s.io/v1 CustomResourceDefinition of one of our kinds (structural, storage
 * versions only). */
struct json_doc *openapi_crd(const struct kind *k);
/* One element of its spec.versions, in d. */
struct json *openapi_crd_version(struct json_doc *d, const struct kind *k);
