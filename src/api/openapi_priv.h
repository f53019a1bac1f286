/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/openapi.h"
#include "api/schema.h"

/*
 * Two ways to write a type down: as OpenAPI, where named types are components that others refer to,
 * and as a structural schema, where every type is written out where it is used.
 */
struct openapi_writer {
	struct json_doc *d;
	bool structural;
	/* Called for every named type that was referred to; NULL in a structural schema. */
	void (*seen)(void *arg, const struct type *t);
	void *arg;
};

/* The schema of t itself; for a named type, the content of its component. */
struct json *openapi_type(const struct openapi_writer *w, const struct type *t);
