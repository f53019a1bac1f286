/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/* The commands of `cay image` that look at names or change them. */

struct err *image_tag(const char *data_dir, const char *from, const char *to)
{
	autofree char *old = image_canonical(from, NULL), *name = NULL;
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
	id = names_id_of(d, from);
	if (!id)
		return no_image(from);
	names_give(d, name, id, false);
	return names_write(data_dir, d);
}

static bool still_named(const struct json *names, const char *id)
{
	json_each(n, names)
		if (str_eq(json_str(n.val), id))
			return true;
	return false;
}

static struct err *check_unused(const char *data_dir, const struct image_users *users,
				const char *id, const char *name)
{
	autoptr(map) used = NULL;
	struct err *e = users->find(data_dir, &used);
	const char *who = e ? NULL : map_get(used, id);

	if (!e && !who)
		who = map_get(used, IMAGE_ANY);
	return e || !who ? e
			 : err_new(ERR_CONFLICT,
				   "image %s is used by Pod %s; delete that first, or give the "
				   "image another name with cay image tag",
				   name, who);
}

static bool built_in(const char *id)
{
	return str_eq(id, "host") || str_eq(id, HOST_WRITABLE) || str_eq(id, "pause");
}

struct err *image_remove(const char *data_dir, const char *name, const struct image_users *users)
{
	autofree char *canonical = name_key(name), *id = NULL;
	autoptr(json_doc) d = NULL;
	autoclose lock = -1;
	struct json *names;
	struct err *e;

	if (!canonical)
		return bad_name(name);
	e = names_lock(data_dir, &lock);
	if (!e)
		e = names_read(data_dir, &d);
	if (e)
		return e;
	names = json_need_obj(d, json_root(d), "names");
	id = xstrdup(json_get_str(names, canonical));
	if (!id)
		return no_image(name);
	names_forget(d, canonical);
	if (built_in(id) || still_named(names, id))
		return names_write(data_dir, d);
	e = check_unused(data_dir, users, id, name);
	return e ? e : images_collect(data_dir, d, users, id, NULL);
}

struct err *image_prune(const char *data_dir, const struct image_users *users,
			struct json_doc **ret)
{
	autoptr(json_doc) d = NULL;
	struct collect_done done;
	autoclose lock = -1;
	struct err *e = names_lock(data_dir, &lock);

	if (!e)
		e = names_read(data_dir, &d);
	if (!e)
		e = images_collect(data_dir, d, users, NULL, &done);
	if (e)
		return e;
	*ret = json_doc_new();
	json_set_root(*ret, json_obj(*ret));
	json_set_int(*ret, json_root(*ret), "images", (int64_t)done.images);
	json_set_int(*ret, json_root(*ret), "layers", (int64_t)done.layers);
	json_set_int(*ret, json_root(*ret), "bytes", done.bytes);
	return NULL;
}

struct err *image_inspect(const char *data_dir, const char *name, struct json_doc **ret)
{
	autofree char *canonical = image_canonical(name, NULL);
	autoptr(json_doc) d = NULL;
	struct json_doc *out;
	const char *id;
	struct err *e = canonical ? names_read(data_dir, &d) : bad_name(name);

	if (e)
		return e;
	id = names_id_of(d, name);
	if (!id)
		return no_image(name);
	out = json_doc_new();
	json_set_root(out, json_obj(out));
	json_set_str(out, json_root(out), "name", canonical);
	json_set_str(out, json_root(out), "id", id);
	json_each(n, json_get(json_root(d), "names"))
		if (str_eq(json_str(n.val), id))
			json_push_str(out, json_need_arr(out, json_root(out), "names"), n.key);
	json_each(m, names_image(d, id))
		json_set(out, json_root(out), m.key, json_copy(out, m.val));
	if (built_in(id))
		json_set_str(out, json_root(out), "source", "built-in");
	*ret = out;
	return NULL;
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
	list_add(&list, &n, "host:writable", HOST_WRITABLE, NULL);
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
