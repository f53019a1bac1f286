/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/crd/custom.h"
#include "api/schema.h"
#include "base/regex.h"

struct map;

enum node_type {
	NODE_ANY,
	NODE_STRING,
	NODE_INTEGER,
	NODE_NUMBER,
	NODE_BOOLEAN,
	NODE_OBJECT,
	NODE_ARRAY,
	NODE_INT_OR_STRING,
	NODE_TYPE_MAX_,
};

struct node;

struct node_list {
	struct node **list;
	size_t n;
};

struct bound {
	bool set;
	double v;
};

/* One schema. Everything that is not a node or a regex points into the definition. */
struct node {
	enum node_type type;
	bool nullable, preserve, embedded;
	bool atomic;         /* it has one owner as a whole (x-kubernetes-map-type) */
	bool defaults;       /* it or something inside it has a default */
	bool any_additional; /* additionalProperties: true */
	bool exclusive_min, exclusive_max;
	const char **names; /* of properties, in their order */
	struct node_list properties;
	struct map *by_name; /* → struct node, in properties; NULL while there are few */
	struct node *additional, *items, *not_;
	struct node_list all_of, any_of, one_of;
	const struct json *fallback, *values, *required, *keys;
	enum list_kind list;
	const char *format;
	const char *pattern;
	struct regex *regex;
	struct bound min, max, multiple, min_len, max_len, min_items, max_items, min_props,
		max_props;
};

struct custom {
	const struct json *schema;
	struct node *root;
	size_t n;
	struct arena *arena; /* of the types */
	const struct type *type;
};

struct node *node_property(const struct node *n, const char *name); /* NULL: none */
const char *node_type_name(const struct node *n);

/* types.c: the types are in the arena, and borrow from the nodes. */
const struct type *types_make(struct arena *a, const struct node *root);

/* formats.c: false: s is none. Formats that are not known accept everything. */
bool format_known(const char *type, const char *format);
bool format_fits(const char *format, const char *s, size_t len);
