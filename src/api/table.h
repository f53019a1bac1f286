/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/clock.h"
#include "json/json.h"

struct kind;
struct object;

/*
 * meta.k8s.io/v1 Table: what `kubectl get` shows.
 */
enum table_include {
	TABLE_METADATA, /* each row's object as PartialObjectMetadata (the default) */
	TABLE_OBJECT,
	TABLE_NONE,
};
/* An age as kubectl writes it: 5s, 3m20s, 4h, 2d3h. */
void table_age(usec then, usec now, char *ret, size_t size);
/* A Table without rows, as d's root; the caller sets list_rev and continue in metadata. */
struct json *table_new(struct json_doc *d, const struct kind *k);
/* How the rows of one Table are made. */
struct table_rows {
	const struct kind *kind;
	enum table_include include;
	usec now; /* ages are counted up to this moment */
};
void table_add(struct json_doc *d, struct json *table, const struct table_rows *rows,
	       const struct json *obj);
