/* SPDX-License-Identifier: Apache-2.0 */
#include "node/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/* Names of images, and which root each stands for. See image.h for the files. */
enum {
	NAMES_MAX = 64 << 20,
	NAME_LEN_MAX = 512,
};

struct images {
	char *data_dir;
	char *host_dir, *pause_dir;
	struct json_doc *names; /* names.json */
};

char *images_dir(const char *data_dir)
{
	return xasprintf("%s/images", data_dir);
}

/* The first part names a registry if it has a dot or a port, or is localhost. */
static bool has_registry(const char *name)
{
	const char *slash = strchr(name, '/');
	autofree char *first = slash ? xstrndup(name, (size_t)(slash - name)) : NULL;

	return first && (strchr(first, '.') || strchr(first, ':') || str_eq(first, "localhost"));
}

static bool name_chars(const char *s)
{
	for (; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@",
			    *s))
			return false;
	return true;
}

char *image_canonical(const char *name, char **ret_digest)
{
	autofree char *bare = NULL;
	const char *at, *slash, *colon;

	if (ret_digest)
		*ret_digest = NULL;
	if (str_empty(name) || strlen(name) > NAME_LEN_MAX || !name_chars(name) || *name == '/' ||
	    *name == ':' || *name == '@')
		return NULL;
	at = strchr(name, '@');
	bare = at ? xstrndup(name, (size_t)(at - name)) : xstrdup(name);
	if (at && ret_digest)
		*ret_digest = xstrdup(at + 1);
	slash = strrchr(bare, '/');
	colon = strrchr(bare, ':');
	return xasprintf("%s%s%s%s", has_registry(bare) ? "" : "docker.io/",
			 has_registry(bare) || slash ? "" : "library/", bare,
			 colon && (!slash || colon > slash) ? "" : ":latest");
}

static struct err *bad_name(const char *name)
{
	return err_new(ERR_INVALID,
		       "\"%s\" is not an image name; a name is like \"tool\" or "
		       "\"registry.example.com/team/tool:1.0\"",
		       name);
}

static struct err *no_image(const char *name)
{
	return err_new(ERR_NOT_FOUND, "no image named %s; see cay image ls", name);
}

void image_free(struct image *i)
{
	if (!i)
		return;
	for (char **l = i->layers; l && *l; l++)
		free(*l);
	free(i->layers);
	free(i->id);
	free(i->digest);
	free(i->source);
	json_doc_free(i->config);
	free(i);
}

static struct err *read_names(const char *data_dir, struct json_doc **ret)
{
	autofree char *path = xasprintf("%s/images/names.json", data_dir), *text = NULL;
	autoptr(json_doc) d = NULL;
	size_t len;
	struct err *e = file_read(AT_FDCWD, path, NAMES_MAX, &text, &len);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		*ret = json_doc_new();
		json_set_root(*ret, json_obj(*ret));
		return NULL;
	}
	if (!e)
		e = json_parse(text, len, NULL, &d);
	if (!e && !json_is(json_root(d), JSON_OBJ))
		e = err_new(ERR_MALFORMED, "the file does not hold a JSON object");
	if (e)
		return err_wrap(e, "read %s", path);
	*ret = take(d);
	return NULL;
}

struct err *images_reload(struct images *im)
{
	struct json_doc *fresh;
	struct err *e = read_names(im->data_dir, &fresh);

	if (e)
		return e;
	json_doc_free(im->names);
	im->names = fresh;
	return NULL;
}

struct err *images_open(const char *data_dir, struct images **ret)
{
	autoptr(images) im = xnew(struct images);
	autofree char *dir = images_dir(data_dir);
	struct err *e;

	im->data_dir = xstrdup(data_dir);
	e = file_mkdirs(dir, 0700);
	if (!e)
		e = image_make_host(data_dir, &im->host_dir);
	if (!e)
		e = image_make_pause(data_dir, &im->pause_dir);
	if (!e)
		e = images_reload(im);
	if (e)
		return err_wrap(e, "open images");
	*ret = take(im);
	return NULL;
}

void images_free(struct images *im)
{
	if (!im)
		return;
	free(im->data_dir);
	free(im->host_dir);
	free(im->pause_dir);
	json_doc_free(im->names);
	free(im);
}

static struct image *built_in(const char *id, const char *dir, bool host_usr)
{
	struct image *i = xnew(struct image);

	i->id = xstrdup(id);
	i->digest = xasprintf("cay:%s", id);
	i->source = xstrdup("built-in");
	i->layers = xnew_n(char *, 2);
	i->layers[0] = xstrdup(dir);
	i->host_usr = host_usr;
	return i;
}

static struct image *imported(const struct images *im, const char *id, const struct json *v)
{
	const struct json *layers = json_get(v, "layers");
	struct image *i = xnew(struct image);

	i->id = xstrdup(id);
	i->digest = xstrdup(str_or(json_get_str(v, "digest"), ""));
	i->source = xstrdup(str_or(json_get_str(v, "source"), ""));
	i->size = json_get_int(v, "size", 0);
	i->layers = xnew_n(char *, json_len(layers) + 1);
	for (size_t n = 0; n < json_len(layers); n++)
		i->layers[n] =
			xasprintf("%s/images/%s", im->data_dir, json_str(json_at(layers, n)));
	i->config = json_doc_new();
	json_set_root(i->config, json_copy(i->config, json_get(v, "config")));
	return i;
}

static const char *id_of(const struct json_doc *names, const char *canonical)
{
	static const struct {
		const char *name, *id;
	} own[] = { { "docker.io/library/host:latest", "host" },
		    { "docker.io/library/pause:latest", "pause" } };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eq(canonical, own[i].name))
			return own[i].id;
	return names ? json_str(json_get(json_get(json_root(names), "names"), canonical)) : NULL;
}

struct err *images_find(const struct images *im, const char *name, struct image **ret)
{
	autofree char *digest = NULL, *canonical = image_canonical(name, &digest);
	autoptr(image) img = NULL;
	const struct json *v;
	const char *id;

	if (!canonical)
		return bad_name(str_or(name, ""));
	id = id_of(im->names, canonical);
	v = id ? json_get(json_get(json_root(im->names), "images"), id) : NULL;
	if (str_eq(id, "host"))
		img = built_in(id, im->host_dir, true);
	else if (str_eq(id, "pause"))
		img = built_in(id, im->pause_dir, false);
	else if (v)
		img = imported(im, id, v);
	if (!img || (digest && !str_eq(digest, img->digest)))
		return err_new(ERR_NOT_FOUND,
			       "no image named %s; run "
			       "`cay image tag host %s` or `cay image import PATH %s`",
			       name, name, name);
	*ret = take(img);
	return NULL;
}

/* One writer at a time; closing the descriptor releases the lock. */
static struct err *lock_images(const char *data_dir, int *ret)
{
	autofree char *dir = images_dir(data_dir), *path = xasprintf("%s/lock", dir);
	struct err *e = file_mkdirs(dir, 0700);

	if (e)
		return e;
	*ret = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*ret < 0 || flock(*ret, LOCK_EX) < 0)
		return err_sys(errno, "lock %s", path);
	return NULL;
}

static struct err *write_names(const char *data_dir, const struct json_doc *d)
{
	autofree char *path = xasprintf("%s/images/names.json", data_dir);
	autobuf text = { 0 };

	json_write_pretty(json_root(d), &text);
	return file_write_atomic(AT_FDCWD, path, buf_head(&text), text.len, 0600);
}

struct err *image_tag(const char *data_dir, const char *from, const char *to)
{
	autofree char *old = image_canonical(from, NULL), *name = image_canonical(to, NULL);
	autoptr(json_doc) d = NULL;
	autoclose lock = -1;
	const char *id;
	struct err *e;

	if (!old || !name || strchr(to, '@'))
		return bad_name(old ? to : from);
	if (str_eq(id_of(NULL, name), "host") || str_eq(id_of(NULL, name), "pause"))
		return err_new(ERR_INVALID, "%s is a built-in image; choose another name", to);
	e = lock_images(data_dir, &lock);
	if (!e)
		e = read_names(data_dir, &d);
	if (e)
		return e;
	id = id_of(d, old);
	if (!id)
		return no_image(from);
	json_set_str(d, json_need_obj(d, json_root(d), "names"), name, id);
	return write_names(data_dir, d);
}

static struct err *read_root(const char *path, int root, const struct layer_job *job,
			     struct layer_done *ret)
{
	autoclose from = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return err_sys(errno, "open %s", path);
	if (S_ISDIR(st.st_mode))
		return layer_copy_dir(from, root, job, ret);
	return layer_unpack(from, root, job, ret);
}

static struct err *unpack_beside(const char *dir, char *(*name)(const char *dir), int *ret_root,
				 char **ret_path)
{
	autofree char *path = name(dir), *rootfs = xasprintf("%s/rootfs", path);
	struct err *e = file_mkdirs(rootfs, 0755);

	if (e)
		return e;
	*ret_root = open(rootfs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_root < 0 || fchmod(*ret_root, 0755) < 0)
		return err_sys(errno, "open %s", rootfs);
	*ret_path = take(path);
	return NULL;
}

static char *temp_name(const char *dir)
{
	char tag[13];

	random_hex(tag, 12);
	return xasprintf("%s/.import-%s", dir, tag);
}

static struct err *record(const char *data_dir, const char *canonical, const char *source,
			  const struct layer_done *done, const char *id)
{
	autoptr(json_doc) d = NULL;
	struct json *img;
	struct err *e = read_names(data_dir, &d);

	if (e)
		return e;
	img = json_set(d, json_need_obj(d, json_root(d), "images"), id, json_obj(d));
	json_set_str(d, img, "digest", done->digest);
	json_set_str(d, img, "source", source);
	json_set_int(d, img, "size", (int64_t)done->bytes);
	json_push(d, json_need_arr(d, img, "layers"), json_new_strf(d, "%s/rootfs", id));
	(void)json_need_obj(d, img, "config");
	json_set_str(d, json_need_obj(d, json_root(d), "names"), canonical, id);
	return write_names(data_dir, d);
}

struct err *image_import(const char *data_dir, const char *path, const char *name,
			 void (*progress)(void *arg, const char *what, unsigned long long done),
			 void *arg)
{
	autofree char *canonical = image_canonical(name, NULL), *dir = images_dir(data_dir);
	autofree char *temp = NULL, *final = NULL;
	const struct layer_job job = { .progress = progress, .arg = arg };
	autoclose lock = -1, root = -1;
	struct layer_done done = { 0 };
	char id[17];
	struct err *e;

	if (!canonical || strchr(name, '@') || id_of(NULL, canonical))
		return id_of(NULL, str_or(canonical, ""))
			       ? err_new(ERR_INVALID, "%s is a built-in image; choose another name",
					 name)
			       : bad_name(name);
	e = lock_images(data_dir, &lock);
	if (!e)
		e = unpack_beside(dir, temp_name, &root, &temp);
	if (!e)
		e = read_root(path, root, &job, &done);
	if (!e) {
		(void)snprintf(id, sizeof(id), "%.16s", done.digest + 7);
		final = xasprintf("%s/%s", dir, id);
		/* The same bytes were imported before: their root exists already. */
		if (!file_exists(AT_FDCWD, final) && rename(temp, final) < 0)
			e = err_sys(errno, "rename %s", temp);
	}
	if (!e)
		e = record(data_dir, canonical, path, &done, id);
	if (temp)
		err_free(file_remove_tree(AT_FDCWD, temp));
	return err_wrap(e, "import %s", path);
}

static bool still_named(const struct json *names, const char *id)
{
	json_each(n, names)
		if (str_eq(json_str(n.val), id))
			return true;
	return false;
}

/* The root of an image stays while sandboxes may use it; the node removes it when it starts. */
struct err *image_remove(const char *data_dir, const char *name)
{
	autofree char *canonical = image_canonical(name, NULL), *id = NULL;
	autoptr(json_doc) d = NULL;
	autoclose lock = -1;
	struct err *e;

	if (!canonical)
		return bad_name(name);
	e = lock_images(data_dir, &lock);
	if (!e)
		e = read_names(data_dir, &d);
	if (e)
		return e;
	id = xstrdup(json_str(json_get(json_get(json_root(d), "names"), canonical)));
	if (!id)
		return no_image(name);
	(void)json_del(json_get(json_root(d), "names"), canonical);
	if (!still_named(json_get(json_root(d), "names"), id))
		(void)json_del(json_get(json_root(d), "images"), id);
	return write_names(data_dir, d);
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
	struct err *e = read_names(data_dir, &d);

	if (e)
		return e;
	list_add(&list, &n, "host", "host", NULL);
	list_add(&list, &n, "pause", "pause", NULL);
	json_each(name, json_get(json_root(d), "names")) {
		const char *id = json_str(name.val);

		list_add(&list, &n, name.key, id,
			 json_get(json_get(json_root(d), "images"), str_or(id, "")));
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
