/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/crd_priv.h"
#include "api/crd/custom_priv.h"
#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"

/*
 * A schema of a CustomResourceDefinition as a table of types, for whoever walks types: server-side
 * apply, which asks what the parts of an object are and who may own them, and not what is valid.
 * Members of a type are searched one by one, so an object with very many properties is a map here:
 * they are still owned one by one, but what they contain is known by its values alone.
 */
enum {
	PROPERTIES_MAX = 256,
};

static const struct type scalars[NODE_TYPE_MAX_] = {
	[NODE_ANY] = { TYPE_ANY },       [NODE_STRING] = { TYPE_STRING },
	[NODE_INTEGER] = { TYPE_INT64 }, [NODE_NUMBER] = { TYPE_NUMBER },
	[NODE_BOOLEAN] = { TYPE_BOOL },  [NODE_INT_OR_STRING] = { TYPE_INT_OR_STRING },
};
static const struct type *const any = &scalars[NODE_ANY];

static const struct type *type_of(struct arena *a, const struct node *n);

static const char *fallback_of(struct arena *a, const struct node *n)
{
	autofree char *text = n->fallback ? json_to_text(n->fallback) : NULL;

	return text ? arena_strdup(a, text) : NULL;
}

static bool is_among(const struct field *fields, const char *name)
{
	for (; fields && fields->name; fields++)
		if (str_eq(fields->name, name))
			return true;
	return false;
}

/* Those of every object come first, and are what they are everywhere. */
static const struct field *fields_of(struct arena *a, const struct node *n,
				     const struct field *first)
{
	size_t n_first = 0, at;
	struct field *list;

	while (first && first[n_first].name)
		n_first++;
	list = arena_new_n(a, struct field, n_first + n->properties.n + 1);
	for (at = 0; at < n_first; at++)
		list[at] = first[at];
	for (size_t i = 0; i < n->properties.n; i++)
		if (!is_among(first, n->names[i]))
			list[at++] = (struct field){
				.name = n->names[i],
				.type = type_of(a, n->properties.list[i]),
				.fallback = fallback_of(a, n->properties.list[i]),
			};
	list[at] = (struct field){ 0 };
	return list;
}

static const struct type *object_of(struct arena *a, const struct node *n,
				    const struct field *first)
{
	bool map = n->additional || n->any_additional || n->properties.n > PROPERTIES_MAX;
	struct type *t = arena_new_of(a, struct type);

	*t = (struct type){ .kind = map && !first ? TYPE_MAP : TYPE_OBJECT, .atomic = n->atomic };
	if (t->kind == TYPE_MAP) {
		t->elem = n->additional ? type_of(a, n->additional) : any;
		return t;
	}
	t->open = map || n->preserve || n->embedded;
	t->fields = n->properties.n > PROPERTIES_MAX ? first : fields_of(a, n, first);
	return t;
}

static bool keys_fit(const struct json *keys)
{
	return json_len(keys) && json_len(keys) <= ARRAY_LEN(((struct type *)NULL)->merge_keys);
}

/* A list with more keys than a type can name has one owner as a whole. */
static const struct type *list_of(struct arena *a, const struct node *n)
{
	struct type *t = arena_new_of(a, struct type);
	size_t i = 0;

	*t = (struct type){ .kind = TYPE_LIST,
			    .elem = n->items ? type_of(a, n->items) : any,
			    .list = n->list };
	if (t->list != LIST_MAP)
		return t;
	if (!keys_fit(n->keys)) {
		t->list = LIST_ATOMIC;
		return t;
	}
	json_each(it, n->keys)
		t->merge_keys[i++] = json_str(it.val);
	return t;
}

static const struct type *type_of(struct arena *a, const struct node *n)
{
	switch (n->type) {
	case NODE_OBJECT:
		return object_of(a, n, NULL);
	case NODE_ARRAY:
		return list_of(a, n);
	case NODE_ANY:
	case NODE_STRING:
	case NODE_INTEGER:
	case NODE_NUMBER:
	case NODE_BOOLEAN:
	case NODE_INT_OR_STRING:
	case NODE_TYPE_MAX_:
		break;
	}
	return &scalars[n->type];
}

const struct type *types_make(struct arena *a, const struct node *root)
{
	return object_of(a, root, custom_fields);
}
