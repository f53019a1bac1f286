/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * What `docker save` writes, unpacked:
 *
 *   manifest.json        [{"Config": path, "RepoTags": [name], "Layers": [path of a tar]}]
 *   <hex>.json           a config; its name is its digest
 *   <hex>/layer.tar      its layers, which may be links to one another
 */
enum {
	IMAGES_MAX = 256, /* in one archive */
};

/* A path that claims a digest must have it: "<hex>.json" and "blobs/sha256/<hex>". */
static struct err *check_name(const char *path, const char *digest)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	autofree char *claim = xasprintf("sha256:%.64s", name);

	if (digest_valid(claim) && !str_eq(claim, digest))
		return err_new(ERR_INVALID, "the config %s has digest %s", path, digest);
	return NULL;
}

static struct err *read_config(int tree, const char *path, struct draft *d)
{
	autofree char *text = NULL;
	autoptr(sha256) hash = sha256_new();
	char digest[DIGEST_TEXT_LEN];
	size_t len;
	struct err *e = tree_read(tree, path, &text, &len);

	if (e)
		return e;
	sha256_add(hash, text, len);
	sha256_end_text(hash, digest);
	e = check_name(path, digest);
	if (e)
		return e;
	draft_add_digest(d, digest);
	return config_read(text, len, d);
}

static struct err *read_image(int tree, const struct json *v, struct draft *d)
{
	const struct json *layers = json_get(v, "Layers");
	const char *config = json_get_str(v, "Config");

	if (!config || !json_is(layers, JSON_ARR))
		return err_new(ERR_INVALID,
			       "manifest.json is not that of a docker-archive: Config or Layers is "
			       "missing");
	if (!json_len(layers) || json_len(layers) > LAYERS_MAX)
		return err_new(ERR_INVALID, "manifest.json names %zu layers; 1 to %d are possible",
			       json_len(layers), LAYERS_MAX);
	d->layers = xnew_n(struct draft_layer, json_len(layers));
	d->n_layers = json_len(layers);
	for (size_t i = 0; i < d->n_layers; i++) {
		const char *path = json_str(json_at(layers, i));

		if (str_empty(path))
			return err_new(ERR_INVALID, "manifest.json: Layers is not a list of paths");
		d->layers[i].path = xstrdup(path);
	}
	json_each(tag, json_get(v, "RepoTags"))
		if (json_str(tag.val))
			draft_add_name(d, json_str(tag.val));
	return read_config(tree, config, d);
}

struct err *docker_read(int tree, struct draft **ret)
{
	autofree char *text = NULL;
	autoptr(json_doc) doc = NULL;
	autoptr(draft) first = NULL;
	struct draft **last = &first;
	size_t len;
	struct err *e = tree_read(tree, "manifest.json", &text, &len);

	if (!e)
		e = err_wrap(json_parse(text, len, NULL, &doc), "read manifest.json");
	if (e)
		return e;
	if (!json_is(json_root(doc), JSON_ARR) || !json_len(json_root(doc)) ||
	    json_len(json_root(doc)) > IMAGES_MAX)
		return err_new(ERR_INVALID,
			       "manifest.json is not that of a docker-archive: it is no list of 1 "
			       "to %d images",
			       IMAGES_MAX);
	json_each(it, json_root(doc)) {
		*last = xnew(struct draft);
		e = read_image(tree, it.val, *last);
		if (e)
			return e;
		last = &(*last)->next;
	}
	*ret = take(first);
	return NULL;
}
