/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/crd/crd.h"
#include "api/schema.h"
#include "api/schema_priv.h"

extern const struct field custom_fields[]; /* definition.c */

/* structural.c: the rules for a schema at a path of the definition. status: there is a status
 * subresource. */
void structural_validate(const struct json *schema, bool status, const struct path *at,
			 struct causes *c);
/* Reported at a path that begins with at. */
void wrong(struct causes *c, enum cause_reason why, const struct path *at, const char *fmt, ...)
	printf_like(4, 5);
void wrong_value(struct causes *c, const struct path *at, const struct json *v, const char *detail);
void wrong_text(struct causes *c, const struct path *at, const char *v, const char *detail);

/* What is wrong with the member `name` of the schema at `up`. */
void structural_forbid(struct causes *c, const struct path *up, const char *name,
		       const char *detail);
void structural_require(struct causes *c, const struct path *up, const char *name,
			const char *detail);
/* The same about the value that it has in `of`. */
void structural_invalid(struct causes *c, const struct path *up, const char *name,
			const struct json *of, const char *detail);
bool structural_is_true(const struct json *s, const char *name);

/* structural_lists.c: the member of s, if there is one, must be one of the values. */
void structural_choice(const struct json *s, const char *name, const char *const *values,
		       const struct path *up, struct causes *c);
void structural_merge_types(const struct json *s, const struct path *at, struct causes *c);
