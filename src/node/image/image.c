/* SPDX-License-Identifier: Apache-2.0 */
#include "node/image/image.h"

#include <signal.h>

#include "base/file.h"
#include "base/str.h"
#include "node/host/numbers.h"
#include "node/image/image_priv.h"

/* From a name to its image. See image.h for the files. */
struct images {
	char *data_dir;
	char *host_dir, *pause_dir;
	struct maker *writable;
	struct json_doc *names; /* names.json */
};

void image_free(struct image *i)
{
	if (!i)
		return;
	for (char **l = i->layers; l && *l; l++)
		free(*l);
	free(i->layers);
	free(i->usr);
	free(i->id);
	free(i->digest);
	free(i->source);
	json_doc_free(i->config);
	free(i);
}

static const struct json *config_of(const struct image *i)
{
	return i && i->config ? json_root(i->config) : NULL;
}

const char *image_text(const struct image *i, const char *member)
{
	return json_get_str(config_of(i), member);
}

int image_stop_signal(const struct image *i)
{
	return (int)json_get_int(config_of(i), "stopsignal", SIGTERM);
}

struct err *image_user(const struct image *i, uint32_t *ret_uid, uint32_t *ret_gid)
{
	const char *user = image_text(i, "user");
	int64_t uid = json_get_int(config_of(i), "uid", user ? -1 : 0);
	int64_t gid = json_get_int(config_of(i), "gid", 0);

	if (uid < 0)
		return err_new(ERR_INVALID,
			       "the image's user \"%s\" is not in its /etc/passwd and /etc/group; "
			       "set securityContext.runAsUser",
			       user);
	if (uid >= ID_RANGE || gid >= ID_RANGE)
		return err_new(ERR_INVALID,
			       "the image's user %lld:%lld is beyond a sandbox's %d ids; set "
			       "securityContext.runAsUser",
			       (long long)uid, (long long)gid, ID_RANGE);
	*ret_uid = (uint32_t)uid;
	*ret_gid = (uint32_t)gid;
	return NULL;
}

struct err *images_reload(struct images *im)
{
	struct json_doc *fresh;
	struct err *e = names_read(im->data_dir, &fresh);

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
	im->writable = maker_new(data_dir);
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
	maker_free(im->writable);
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

void images_make_on(struct images *im, const struct images_maker *spec)
{
	maker_start(im->writable, spec);
}

static struct err *writable(const struct images *im, struct image **ret)
{
	autofree char *root = NULL;
	const char *dir;
	struct err *e = maker_ask(im->writable, &dir);

	if (e)
		return e;
	root = xasprintf("%s/root", dir);
	*ret = built_in(HOST_WRITABLE, root, true);
	(*ret)->usr = xasprintf("%s/usr", dir);
	return NULL;
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

static const char *id_by_name(const struct images *im, const char *canonical, const char *digest)
{
	const char *id = names_id(im->names, canonical);

	if (digest && !(id && names_has_digest(names_image(im->names, id), digest)))
		id = names_by_digest(im->names, canonical, digest);
	return id;
}

static struct image *by_id(const struct images *im, const char *id)
{
	const struct json *v;

	if (str_eq(id, "host"))
		return built_in(id, im->host_dir, true);
	if (str_eq(id, "pause"))
		return built_in(id, im->pause_dir, false);
	v = names_image(im->names, id);
	return v ? imported(im, id, v) : NULL;
}

struct err *images_find(const struct images *im, const char *name, struct image **ret)
{
	autofree char *digest = NULL, *canonical = image_canonical(name, &digest), *key = NULL;
	const char *id;
	struct image *img;

	if (!canonical || (digest && !digest_valid(digest)))
		return bad_name(str_or(name, ""));
	id = id_by_name(im, canonical, digest);
	if (str_eq(id, HOST_WRITABLE))
		return writable(im, ret);
	img = by_id(im, id);
	key = name_key(name);
	if (img)
		img->pulled = names_pulled(im->names, key, img->id);
	if (!img && digest)
		return err_new(ERR_NOT_FOUND,
			       "no image of this repository has digest %s; cay image ls shows "
			       "those that are there, and cay image import PATH NAME brings one in",
			       digest);
	if (!img)
		return err_new(
			ERR_NOT_FOUND,
			"no image named %s; run "
			"`cay image pull %s`, `cay image tag host %s` or `cay image import PATH %s`",
			name, name, name, name);
	*ret = img;
	return NULL;
}
