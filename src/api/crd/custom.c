/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/custom.h"

#include "api/crd/custom_priv.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"

/* From the JSON of a schema to nodes. */
enum {
	FEW = 8, /* properties that are searched one by one */
};

static const char *const type_names[NODE_TYPE_MAX_] = {
	[NODE_STRING] = "string", [NODE_INTEGER] = "integer",
	[NODE_NUMBER] = "number", [NODE_BOOLEAN] = "boolean",
	[NODE_OBJECT] = "object", [NODE_ARRAY] = "array",
	[NODE_ANY] = "any",       [NODE_INT_OR_STRING] = "integer,string",
};

struct reader {
	size_t n, patterns;
	struct err *e; /* the first; nothing is read after it */
};

static void node_free(struct node *n);

static void list_free(struct node_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		node_free(l->list[i]);
	free(l->list);
}

static void node_free(struct node *n)
{
	if (!n)
		return;
	list_free(&n->properties);
	list_free(&n->all_of);
	list_free(&n->any_of);
	list_free(&n->one_of);
	node_free(n->additional);
	node_free(n->items);
	node_free(n->not_);
	map_free(n->by_name);
	regex_free(n->regex);
	free(n->names);
	free(n);
}

const char *node_type_name(const struct node *n)
{
	return type_names[n->type];
}

struct node *node_property(const struct node *n, const char *name)
{
	if (n->by_name)
		return map_get(n->by_name, name);
	for (size_t i = 0; i < n->properties.n; i++)
		if (str_eq(n->names[i], name))
			return n->properties.list[i];
	return NULL;
}

static struct bound bound_of(const struct json *s, const char *name)
{
	const struct json *v = json_get(s, name);

	return (struct bound){ .set = v != NULL, .v = json_real(v, 0) };
}

static enum node_type type_of(const struct json *s)
{
	const char *name = json_get_str(s, "type");

	if (json_get_bool(s, "x-kubernetes-int-or-string", false))
		return NODE_INT_OR_STRING;
	for (unsigned i = NODE_STRING; name && i <= NODE_ARRAY; i++)
		if (str_eq(type_names[i], name))
			return i;
	return NODE_ANY;
}

static enum list_kind list_of(const struct json *s)
{
	const char *name = json_get_str(s, "x-kubernetes-list-type");

	return str_eq(name, "set") ? LIST_SET : str_eq(name, "map") ? LIST_MAP : LIST_ATOMIC;
}

static struct node *read_node(struct reader *r, const struct json *s);

/* Its members, with their names if there is a place for them. */
static void read_list(struct reader *r, const struct json *from, struct node_list *ret,
		      const char ***ret_names)
{
	if (!json_len(from))
		return;
	ret->list = xnew_n(struct node *, json_len(from));
	if (ret_names)
		*ret_names = xnew_n(const char *, json_len(from));
	json_each(it, from) {
		struct node *n = read_node(r, it.val);

		if (!n)
			return;
		if (ret_names)
			(*ret_names)[ret->n] = it.key;
		ret->list[ret->n++] = n;
	}
}

static void read_limits(struct node *n, const struct json *s)
{
	n->min = bound_of(s, "minimum");
	n->max = bound_of(s, "maximum");
	n->exclusive_min = json_get_bool(s, "exclusiveMinimum", false);
	n->exclusive_max = json_get_bool(s, "exclusiveMaximum", false);
	n->multiple = bound_of(s, "multipleOf");
	n->min_len = bound_of(s, "minLength");
	n->max_len = bound_of(s, "maxLength");
	n->min_items = bound_of(s, "minItems");
	n->max_items = bound_of(s, "maxItems");
	n->min_props = bound_of(s, "minProperties");
	n->max_props = bound_of(s, "maxProperties");
	n->values = json_get(s, "enum");
	n->required = json_get(s, "required");
	if (format_known(json_get_str(s, "type"), json_get_str(s, "format")))
		n->format = json_get_str(s, "format");
}

static void read_inner(struct reader *r, struct node *n, const struct json *s)
{
	const struct json *additional = json_get(s, "additionalProperties");

	read_list(r, json_get(s, "properties"), &n->properties, &n->names);
	read_list(r, json_get(s, "allOf"), &n->all_of, NULL);
	read_list(r, json_get(s, "anyOf"), &n->any_of, NULL);
	read_list(r, json_get(s, "oneOf"), &n->one_of, NULL);
	n->any_additional = json_bool(additional, false);
	if (json_is(additional, JSON_OBJ))
		n->additional = read_node(r, additional);
	if (json_is(json_get(s, "items"), JSON_OBJ))
		n->items = read_node(r, json_get(s, "items"));
	if (json_is(json_get(s, "not"), JSON_OBJ))
		n->not_ = read_node(r, json_get(s, "not"));
	if (n->properties.n <= FEW)
		return;
	n->by_name = map_new_borrowing(NULL);
	for (size_t i = 0; i < n->properties.n; i++)
		map_put(n->by_name, n->names[i], n->properties.list[i]);
}

/* Defaults in alternatives are not allowed. */
static bool has_defaults(const struct node *n)
{
	for (size_t i = 0; i < n->properties.n; i++)
		if (n->properties.list[i]->defaults)
			return true;
	return n->fallback || (n->items && n->items->defaults) ||
	       (n->additional && n->additional->defaults);
}

static void read_pattern(struct reader *r, struct node *n)
{
	r->e = err_wrap(regex_new(n->pattern, &n->regex), "read the pattern %.100s", n->pattern);
	if (r->e)
		return;
	r->patterns += regex_size(n->regex);
	if (r->patterns > CUSTOM_PATTERNS_MAX)
		r->e = err_new(ERR_TOO_LARGE,
			       "the patterns of the schema are too large together: they need more "
			       "than %d instructions",
			       CUSTOM_PATTERNS_MAX);
}

/* NULL: r->e says why. */
static struct node *read_node(struct reader *r, const struct json *s)
{
	struct node *n;

	if (!r->e && r->n++ == CUSTOM_NODES_MAX)
		r->e = err_new(ERR_TOO_LARGE, "the schema has more than %d parts",
			       CUSTOM_NODES_MAX);
	if (r->e)
		return NULL;
	n = xnew(struct node);
	n->type = type_of(s);
	n->nullable = json_get_bool(s, "nullable", false);
	n->preserve = json_get_bool(s, "x-kubernetes-preserve-unknown-fields", false);
	n->embedded = json_get_bool(s, "x-kubernetes-embedded-resource", false);
	n->fallback = json_get(s, "default");
	if (json_is(n->fallback, JSON_NULL) && !n->nullable)
		n->fallback = NULL;
	n->atomic = str_eq(json_get_str(s, "x-kubernetes-map-type"), "atomic");
	n->list = list_of(s);
	n->keys = json_get(s, "x-kubernetes-list-map-keys");
	n->pattern = json_get_str(s, "pattern");
	read_limits(n, s);
	read_inner(r, n, s);
	n->defaults = has_defaults(n);
	if (!r->e && !str_empty(n->pattern))
		read_pattern(r, n);
	if (!r->e)
		return n;
	node_free(n);
	return NULL;
}

struct err *custom_new(const struct json *schema, struct custom **ret)
{
	struct reader r = { 0 };
	struct node *root = read_node(&r, schema);
	struct custom *c;

	if (!root)
		return r.e;
	c = xnew(struct custom);
	c->schema = schema;
	c->root = root;
	c->n = r.n;
	c->arena = arena_new();
	c->type = types_make(c->arena, root);
	*ret = c;
	return NULL;
}

void custom_free(struct custom *c)
{
	if (!c)
		return;
	node_free(c->root);
	arena_free(c->arena);
	free(c);
}

const struct json *custom_schema(const struct custom *c)
{
	return c->schema;
}

const struct type *custom_as_type(const struct custom *c)
{
	return c->type;
}

size_t custom_nodes(const struct custom *c)
{
	return c->n;
}
