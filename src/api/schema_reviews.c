/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode.h"
#include "api/schema_builtin_priv.h"

/*
 * Questions about users, which are answered and not stored: what of them a server without
 * selectors in its rules can answer. Numbers are those of Kubernetes' protobuf messages.
 */
static const struct type list_text = { TYPE_LIST, .elem = &type_string, .list = LIST_ATOMIC };

static const struct field fields_token_review_spec[] = {
	{ "audiences", &list_text, FIELD_OMITEMPTY, 0, 0, 2 },
	{ "token", &type_string, FIELD_OMITEMPTY, 0, 0, 1 },
	{ 0 },
};
static const struct type type_token_review_spec = { TYPE_OBJECT,
						    "io.k8s.api.authentication.v1.TokenReviewSpec",
						    fields_token_review_spec };
static const struct field fields_token_review[] = {
	{ "apiVersion", &type_string, FIELD_OMITEMPTY, .embed = "TypeMeta" },
	{ "kind", &type_string, FIELD_OMITEMPTY, .embed = "TypeMeta" },
	{ "metadata", &type_meta_object_meta, FIELD_OMITEMPTY, 0, 0, 1 },
	{ "spec", &type_token_review_spec, 0, 0, 0, 2 },
	{ "status", &type_any, FIELD_OMITEMPTY },
	{ 0 },
};
static const struct type type_token_review = { TYPE_OBJECT,
					       "io.k8s.api.authentication.v1.TokenReview",
					       fields_token_review };
const struct type *const body_token_review = &type_token_review;

static const struct field fields_resource_attributes[] = {
	{ "group", &type_string, FIELD_OMITEMPTY, 0, 0, 3 },
	{ "name", &type_string, FIELD_OMITEMPTY, 0, 0, 7 },
	{ "namespace", &type_string, FIELD_OMITEMPTY, 0, 0, 1 },
	{ "resource", &type_string, FIELD_OMITEMPTY, 0, 0, 5 },
	{ "subresource", &type_string, FIELD_OMITEMPTY, 0, 0, 6 },
	{ "verb", &type_string, FIELD_OMITEMPTY, 0, 0, 2 },
	{ "version", &type_string, FIELD_OMITEMPTY, 0, 0, 4 },
	{ 0 },
};
static const struct type type_resource_attributes = {
	TYPE_OBJECT, "io.k8s.api.authorization.v1.ResourceAttributes", fields_resource_attributes
};
static const struct field fields_page_attributes[] = {
	{ "path", &type_string, FIELD_OMITEMPTY, 0, 0, 1 },
	{ "verb", &type_string, FIELD_OMITEMPTY, 0, 0, 2 },
	{ 0 },
};
static const struct type type_page_attributes = {
	TYPE_OBJECT, "io.k8s.api.authorization.v1.NonResourceAttributes", fields_page_attributes
};
static const struct field fields_access_review_spec[] = {
	{ "extra", &type_any, FIELD_OMITEMPTY },
	{ "groups", &list_text, FIELD_OMITEMPTY, 0, 0, 4 },
	{ "nonResourceAttributes", &type_page_attributes, FIELD_POINTER | FIELD_OMITEMPTY, 0, 0,
	  2 },
	{ "resourceAttributes", &type_resource_attributes, FIELD_POINTER | FIELD_OMITEMPTY, 0, 0,
	  1 },
	{ "uid", &type_string, FIELD_OMITEMPTY, 0, 0, 6 },
	{ "user", &type_string, FIELD_OMITEMPTY, 0, 0, 3 },
	{ 0 },
};
static const struct type type_access_review_spec = {
	TYPE_OBJECT, "io.k8s.api.authorization.v1.SubjectAccessReviewSpec",
	fields_access_review_spec
};
static const struct field fields_access_review[] = {
	{ "apiVersion", &type_string, FIELD_OMITEMPTY, .embed = "TypeMeta" },
	{ "kind", &type_string, FIELD_OMITEMPTY, .embed = "TypeMeta" },
	{ "metadata", &type_meta_object_meta, FIELD_OMITEMPTY, 0, 0, 1 },
	{ "spec", &type_access_review_spec, 0, 0, 0, 2 },
	{ "status", &type_any, FIELD_OMITEMPTY },
	{ 0 },
};
static const struct type type_access_review = { TYPE_OBJECT,
						"io.k8s.api.authorization.v1.SubjectAccessReview",
						fields_access_review };
const struct type *const body_access_review = &type_access_review;
