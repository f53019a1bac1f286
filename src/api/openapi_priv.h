/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/openapi.h"
#include "api/schema.h"

/*
 * Two ways to write a type down: as OpenAPI, where named types are components that others refer to,
 * and as a structural schema, where everything is in its place.
 */
struct openapi_writer {
	struct json_doc *d;
	bool structural;
	/* Told of every named type that was referred to; NULL in a structural schema. */
	void (*seen)(void *arg, const struct type *t);
	void *arg;
};

/* The schema of t itself; with its name it is a component's content. */
struct json *openapi_type(const struct openapi_writer *w, const struct type *t);
