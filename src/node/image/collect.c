/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * Removing images and layers that nobody needs, beside a node that may start a sandbox at any
 * moment. The node writes down which image a sandbox uses before it opens the layers. So the layers
 * are first renamed out of their places, and then it is looked once more who uses them: whoever
 * opened them in time has said so by then, and gets them back; whoever comes later finds none and
 * fails.
 */
struct collect {
	const char *data_dir;
	const struct image_users *users;
	const char *only; /* id of the only image to remove; NULL: all that have no name */
	struct json_doc *names;
	struct map *gone;  /* id → struct json_doc, the record of an image that is to go */
	struct map *moved; /* "layers/<hex>" → its name in the work directory */
	char *work;
	int work_fd, images_fd;
	struct collect_done done;
};

static void free_doc(void *doc)
{
	json_doc_free(doc);
}

static void free_text(void *text)
{
	free(text);
}

static bool in_use(const struct map *used, const char *id)
{
	return map_has(used, id) || map_has(used, IMAGE_ANY);
}

static bool named(const struct collect *c, const char *id)
{
	json_each(n, json_get(json_root(c->names), "names"))
		if (str_eq(json_str(n.val), id))
			return true;
	return false;
}

/* Takes the records of unneeded images out of names.json, without writing it. */
static void drop_images(struct collect *c, const struct map *used)
{
	struct json *images = json_need_obj(c->names, json_root(c->names), "images");

	json_each(img, images) {
		struct json_doc *record;

		if (named(c, img.key) || in_use(used, img.key) ||
		    (c->only && !str_eq(c->only, img.key)))
			continue;
		record = json_doc_new();
		json_set_root(record, json_copy(record, img.val));
		map_put(c->gone, img.key, record);
	}
	map_each(g, c->gone)
		(void)json_del(images, g.key);
}

static struct map *needed_layers(const struct collect *c)
{
	struct map *needed = map_new(NULL);

	json_each(img, json_get(json_root(c->names), "images"))
		json_each(l, json_get(img.val, "layers"))
			if (json_str(l.val))
				map_put(needed, json_str(l.val), needed);
	return needed;
}

static struct err *move_out(struct collect *c, const char *dir)
{
	autofree char *name = xasprintf("%zu", map_len(c->moved));

	if (renameat(c->images_fd, dir, c->work_fd, name) < 0)
		return err_sys(errno, "rename %s", dir);
	map_put(c->moved, dir, take(name));
	return NULL;
}

static struct err *move_unneeded(struct collect *c, const char *below, const char *last,
				 bool (*is_layer)(const char *name))
{
	autoptr(map) needed = needed_layers(c);
	int fd = openat(c->images_fd, below, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *de;
	struct err *e = NULL;

	while (d && !e && (de = readdir(d))) {
		bool top = str_eq(below, ".");
		autofree char *dir =
			xasprintf("%s%s%s", top ? "" : below, top ? "" : "/", de->d_name);
		autofree char *full = xasprintf("%s%s", dir, last);

		if (is_layer(de->d_name) && !map_has(needed, full))
			e = move_out(c, dir);
	}
	if (d)
		(void)closedir(d);
	return e;
}

static bool is_hex(const char *name, size_t len)
{
	return strlen(name) == len && strspn(name, "0123456789abcdef") == len;
}

static bool is_diff_id(const char *name)
{
	return is_hex(name, (size_t)2 * SHA256_LEN);
}

/* images/<id>/rootfs, as it was before there were diff-ids. */
static bool is_old_id(const char *name)
{
	return is_hex(name, 16);
}

static struct err *move_all(struct collect *c)
{
	struct err *e = move_unneeded(c, "layers", "", is_diff_id);

	return e ? e : move_unneeded(c, ".", "/rootfs", is_old_id);
}

/* A sandbox was quicker: its image stays as it was, without a name. */
static struct err *give_back(struct collect *c, const char *id)
{
	struct json_doc *record = map_get(c->gone, id);

	json_each(l, json_get(json_root(record), "layers")) {
		autofree char *dir = xstrdup(str_or(json_str(l.val), ""));
		const char *name;

		if (str_ends(dir, "/rootfs"))
			dir[strlen(dir) - strlen("/rootfs")] = '\0';
		name = map_get(c->moved, dir);
		if (name && renameat(c->work_fd, name, c->images_fd, dir) < 0)
			return err_sys(errno, "bring %s back", dir);
		(void)map_del(c->moved, dir);
	}
	json_set(c->names, json_need_obj(c->names, json_root(c->names), "images"), id,
		 json_copy(c->names, json_root(record)));
	return NULL;
}

static struct err *give_back_used(struct collect *c)
{
	autoptr(map) used = NULL;
	bool any = false;
	struct err *e = c->users->find(c->data_dir, &used);

	map_each(g, c->gone) {
		if (e || !in_use(used, g.key))
			continue;
		e = give_back(c, g.key);
		any = true;
	}
	return any && !e ? names_write(c->data_dir, c->names) : e;
}

static void forget_sizes(struct collect *c)
{
	struct json *sizes = json_need_obj(c->names, json_root(c->names), "layers");

	map_each(m, c->moved) {
		c->done.bytes += json_get_int(sizes, m.key, 0);
		(void)json_del(sizes, m.key);
	}
}

static struct err *collect(struct collect *c)
{
	autofree char *images = images_dir(c->data_dir);
	autoptr(map) used = NULL;
	struct err *e = c->users->find(c->data_dir, &used);

	if (e)
		return e;
	c->images_fd = open(images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->images_fd < 0)
		return err_sys(errno, "open %s", images);
	drop_images(c, used);
	e = names_write(c->data_dir, c->names);
	if (!e)
		e = work_new(c->data_dir, &c->work, &c->work_fd);
	if (!e)
		e = move_all(c);
	if (!e)
		e = give_back_used(c);
	if (e || !map_len(c->moved))
		return e;
	forget_sizes(c);
	return names_write(c->data_dir, c->names);
}

struct err *images_collect(const char *data_dir, struct json_doc *names,
			   const struct image_users *users, const char *only,
			   struct collect_done *ret)
{
	struct collect c = { .data_dir = data_dir,
			     .users = users,
			     .only = only,
			     .names = names,
			     .work_fd = -1,
			     .images_fd = -1 };
	struct err *e;

	c.gone = map_new(free_doc);
	c.moved = map_new(free_text);
	e = collect(&c);
	c.done.images = map_len(c.gone);
	c.done.layers = map_len(c.moved);
	if (c.work)
		err_free(file_remove_tree(AT_FDCWD, c.work)); /* or the next command does it */
	auto_close_(&c.work_fd);
	auto_close_(&c.images_fd);
	map_free(c.gone);
	map_free(c.moved);
	free(c.work);
	if (!e && ret)
		*ret = c.done;
	return e;
}
