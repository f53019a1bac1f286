/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"
#include "server/server_priv.h"

/*
 * Objects in the store. Keys are PLURAL[.GROUP]/[NS/]NAME of the stored kind; values are the JSON
 * text; the tag of an entry is its struct object.
 */
void key_prefix(struct buf *b, const struct kind *k, const char *ns)
{
	k = kind_storage(k);
	buf_add_str(b, k->plural);
	if (*k->group) {
		buf_add_char(b, '.');
		buf_add_str(b, k->group);
	}
	buf_add_char(b, '/');
	if (!(k->flags & KIND_NAMESPACED) || str_empty(ns))
		return;
	buf_add_str(b, ns);
	buf_add_char(b, '/');
}

char *key_of(const struct kind *k, const char *ns, const char *name)
{
	struct buf b = { 0 };

	key_prefix(&b, k, ns);
	buf_add_str(&b, name);
	return buf_steal(&b, NULL);
}

const struct kind *key_kind(const char *key)
{
	const struct kind *const *all;
	struct span first = span_cut(SPAN(key), '/', &(struct span){ 0 }), group, plural;
	size_t n;

	plural = span_cut(first, '.', &group);
	all = kinds_all(&n);
	for (size_t i = 0; i < n; i++)
		if (kind_storage(all[i]) == all[i] && span_eq(plural, all[i]->plural) &&
		    (group.p ? span_eq(group, all[i]->group) : !*all[i]->group))
			return all[i];
	return NULL;
}

struct err *decode_value(void *arg unused, const char *key, struct bytes *value,
			 uint64_t rev unused, void **ret_tag)
{
	const struct kind *k = key_kind(key);
	struct json_doc *d = NULL;
	struct object *o;
	struct err *e;

	if (!k)
		return err_new(ERR_UNSUPPORTED, "decode %s: this version knows no such kind", key);
	e = json_parse(value->data, value->len, NULL, &d);
	if (e)
		return e;
	if (!json_is(json_root(d), JSON_OBJ)) {
		json_doc_free(d);
		return err_new(ERR_CORRUPT, "decode %s: not an object", key);
	}
	o = object_new(k, d);
	o->text = bytes_ref(value);
	*ret_tag = o;
	return NULL;
}

struct object *entry_object(struct store_entry *e)
{
	void *tag = NULL;

	if (e->tag)
		return object_ref(e->tag);
	/* It was encoded by us, and its kind is in the key: it decodes. */
	err_free(decode_value(NULL, e->key, e->value, e->rev, &tag));
	return tag;
}

struct object *find_object(const struct server *s, const struct kind *k, const char *ns,
			   const char *name)
{
	autofree char *key = key_of(k, ns, name);
	struct store_entry *e = store_get(s->store, key);

	return e ? e->tag : NULL;
}
