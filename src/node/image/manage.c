/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "node/image/image_priv.h"

/* The commands of `cay image` that only change names. */

/* "name", "name:tag" or "name@digest" to its id; NULL: there is none. */
static const char *id_of(const struct json_doc *d, const char *canonical, const char *digest)
{
	return digest ? names_by_digest(d, canonical, digest) : names_id(d, canonical);
}

struct err *image_tag(const char *data_dir, const char *from, const char *to)
{
	autofree char *digest = NULL, *old = image_canonical(from, &digest), *name = NULL;
	autoptr(json_doc) d = NULL;
	autoclose lock = -1;
	const char *id;
	struct err *e = old ? name_to_give(to, &name) : bad_name(from);

	if (!e)
		e = names_lock(data_dir, &lock);
	if (!e)
		e = names_read(data_dir, &d);
	if (e)
		return e;
	id = id_of(d, old, digest);
	if (!id)
		return no_image(from);
	json_set_str(d, json_need_obj(d, json_root(d), "names"), name, id);
	return names_write(data_dir, d);
}

static bool still_named(const struct json *names, const char *id)
{
	json_each(n, names)
		if (str_eq(json_str(n.val), id))
			return true;
	return false;
}

struct err *image_remove(const char *data_dir, const char *name)
{
	autofree char *canonical = image_canonical(name, NULL), *id = NULL;
	autoptr(json_doc) d = NULL;
	autoclose lock = -1;
	struct err *e;

	if (!canonical)
		return bad_name(name);
	e = names_lock(data_dir, &lock);
	if (!e)
		e = names_read(data_dir, &d);
	if (e)
		return e;
	id = xstrdup(json_str(json_get(json_get(json_root(d), "names"), canonical)));
	if (!id)
		return no_image(name);
	(void)json_del(json_get(json_root(d), "names"), canonical);
	if (!still_named(json_get(json_root(d), "names"), id))
		(void)json_del(json_get(json_root(d), "images"), id);
	return names_write(data_dir, d);
}

static void list_add(struct image_info **list, size_t *n, const char *name, const char *id,
		     const struct json *v)
{
	*list = xrealloc(*list, (*n + 1) * sizeof(**list));
	(*list)[(*n)++] = (struct image_info){
		.name = xstrdup(name),
		.digest = v ? xstrdup(json_get_str(v, "digest")) : xasprintf("cay:%s", id),
		.source = xstrdup(v ? json_get_str(v, "source") : "built-in"),
		.size = json_get_int(v, "size", 0),
	};
}

struct err *image_list(const char *data_dir, struct image_info **ret, size_t *ret_n)
{
	autoptr(json_doc) d = NULL;
	struct image_info *list = NULL;
	size_t n = 0;
	struct err *e = names_read(data_dir, &d);

	if (e)
		return e;
	list_add(&list, &n, "host", "host", NULL);
	list_add(&list, &n, "pause", "pause", NULL);
	json_each(name, json_get(json_root(d), "names")) {
		const char *id = json_str(name.val);

		list_add(&list, &n, name.key, id, names_image(d, id));
	}
	*ret = list;
	*ret_n = n;
	return NULL;
}

void image_list_free(struct image_info *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].name);
		free(list[i].digest);
		free(list[i].source);
	}
	free(list);
}
