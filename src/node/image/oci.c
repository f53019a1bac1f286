/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/platform.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * An OCI image layout:
 *
 *   oci-layout             {"imageLayoutVersion": "1.0.0"}
 *   index.json             {"manifests": [descriptor]}, of manifests and of further indexes
 *   blobs/sha256/<hex>     everything else, each named after its digest
 *
 * A descriptor is {"mediaType", "digest", "size", "platform", "annotations"}. Where several
 * platforms are offered, this machine's is taken.
 */
enum {
	DEPTH_MAX = 4, /* of indexes in indexes */
	IMAGES_MAX = 256,
};
#define OCI    "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

static bool is_index(const char *type)
{
	return str_eq(type, OCI "index.v1+json") ||
	       str_eq(type, DOCKER "distribution.manifest.list.v2+json");
}

static bool is_manifest(const char *type)
{
	return str_eq(type, OCI "manifest.v1+json") ||
	       str_eq(type, DOCKER "distribution.manifest.v2+json");
}

static struct err *blob_path(const char *digest, char **ret)
{
	if (str_starts(digest, "sha512:"))
		return err_new(ERR_UNSUPPORTED, "%s: only sha256 digests are supported", digest);
	if (!digest_valid(digest))
		return err_new(ERR_INVALID,
			       "digest \"%s\" is not sha256: and 64 hexadecimal digits", digest);
	*ret = xasprintf("blobs/sha256/%s", digest + strlen("sha256:"));
	return NULL;
}

static struct err *check_digest(const char *digest, const char *text, size_t len)
{
	autoptr(sha256) hash = sha256_new();
	char got[DIGEST_TEXT_LEN];

	sha256_add(hash, text, len);
	sha256_end_text(hash, got);
	return str_eq(got, digest) ? NULL
				   : err_new(ERR_INVALID, "blob %s has digest %s", digest, got);
}

/* A small blob, which must be what its descriptor says. */
static struct err *read_blob(int tree, const struct json *desc, char **ret, size_t *ret_len)
{
	const char *digest = str_or(json_get_str(desc, "digest"), "");
	autofree char *path = NULL, *text = NULL;
	size_t len;
	struct err *e = blob_path(digest, &path);

	if (!e)
		e = tree_read(tree, path, &text, &len);
	if (e)
		return e;
	if (json_get_int(desc, "size", -1) != (int64_t)len)
		return err_new(ERR_INVALID, "blob %s has %zu bytes, and its descriptor says %lld",
			       digest, len, (long long)json_get_int(desc, "size", -1));
	e = check_digest(digest, text, len);
	if (e)
		return e;
	*ret = take(text);
	*ret_len = len;
	return NULL;
}

static struct err *read_json(int tree, const struct json *desc, struct json_doc **ret)
{
	autofree char *text = NULL;
	size_t len;
	struct err *e = read_blob(tree, desc, &text, &len);

	if (!e)
		e = err_wrap(json_parse(text, len, NULL, ret), "read blob %s",
			     json_get_str(desc, "digest"));
	if (!e && !json_is(json_root(*ret), JSON_OBJ)) {
		json_doc_free(take(*ret));
		e = err_new(ERR_INVALID, "blob %s is not an object", json_get_str(desc, "digest"));
	}
	return e;
}

static struct err *check_layer_type(const char *type)
{
	static const char *const known[] = {
		OCI "layer.v1.tar",
		OCI "layer.v1.tar+gzip",
		OCI "layer.v1.tar+zstd",
		OCI "layer.nondistributable.v1.tar",
		OCI "layer.nondistributable.v1.tar+gzip",
		OCI "layer.nondistributable.v1.tar+zstd",
		DOCKER "image.rootfs.diff.tar",
		DOCKER "image.rootfs.diff.tar.gzip",
		DOCKER "image.rootfs.diff.tar.zstd",
		DOCKER "image.rootfs.foreign.diff.tar.gzip",
		NULL,
	};

	if (str_ends(type, "+encrypted"))
		return err_new(
			ERR_UNSUPPORTED,
			"a layer is encrypted (%s); decrypt the image first, with skopeo copy "
			"--decryption-key",
			type);
	return str_in(type, known)
		       ? NULL
		       : err_new(ERR_UNSUPPORTED, "a layer is not a tar but \"%s\"", type);
}

static struct err *read_layers(const struct json *layers, struct draft *d)
{
	if (!json_len(layers) || json_len(layers) > LAYERS_MAX)
		return err_new(ERR_INVALID, "the manifest names %zu layers; 1 to %d are possible",
			       json_len(layers), LAYERS_MAX);
	d->layers = xnew_n(struct draft_layer, json_len(layers));
	d->n_layers = json_len(layers);
	for (size_t i = 0; i < d->n_layers; i++) {
		const struct json *desc = json_at(layers, i);
		struct draft_layer *l = &d->layers[i];
		struct err *e = check_layer_type(str_or(json_get_str(desc, "mediaType"), ""));

		if (!e)
			e = blob_path(str_or(json_get_str(desc, "digest"), ""), &l->path);
		if (e)
			return e;
		l->digest = xstrdup(json_get_str(desc, "digest"));
	}
	return NULL;
}

static struct err *read_config(int tree, const struct json *desc, struct draft *d)
{
	const char *type = str_or(json_get_str(desc, "mediaType"), "");
	autofree char *text = NULL;
	size_t len;
	struct err *e;

	if (!str_eq(type, OCI "config.v1+json") && !str_eq(type, DOCKER "container.image.v1+json"))
		return err_new(ERR_UNSUPPORTED, "it is an artifact of type \"%s\", not an image",
			       type);
	e = read_blob(tree, desc, &text, &len);
	if (e)
		return e;
	draft_add_digest(d, json_get_str(desc, "digest"));
	return config_read(text, len, d);
}

static struct err *read_manifest(int tree, const struct json *desc, struct draft *d)
{
	autoptr(json_doc) doc = NULL;
	const struct json *m;
	struct err *e = read_json(tree, desc, &doc);

	if (e)
		return e;
	m = json_root(doc);
	if (json_get_int(m, "schemaVersion", 0) != 2)
		return err_new(ERR_UNSUPPORTED,
			       "the manifest has schema version %lld; only 2 is supported",
			       (long long)json_get_int(m, "schemaVersion", 0));
	if (json_get(m, "artifactType") && !json_len(json_get(m, "layers")))
		return err_new(ERR_UNSUPPORTED, "it is an artifact of type \"%s\", not an image",
			       str_or(json_get_str(m, "artifactType"), ""));
	draft_add_digest(d, json_get_str(desc, "digest"));
	e = read_layers(json_get(m, "layers"), d);
	return e ? e : read_config(tree, json_get(m, "config"), d);
}

/* Whether a descriptor is for this machine; one that does not say for what it is may be. */
static bool fits(const struct json *desc)
{
	const struct json *p = json_get(desc, "platform");
	struct err *e = platform_check(json_get_str(p, "os"), json_get_str(p, "architecture"));
	bool good = !e;

	err_free(e);
	return good;
}

static struct err *none_fits(const struct json *list)
{
	autobuf b = { 0 };

	json_each(m, list)
		buf_printf(&b, "%s%s/%s", b.len ? ", " : "",
			   str_or(json_get_str(json_get(m.val, "platform"), "os"), "?"),
			   str_or(json_get_str(json_get(m.val, "platform"), "architecture"), "?"));
	return err_new(ERR_UNSUPPORTED, "there is no image for linux/%s; there are: %s",
		       PLATFORM_ARCH, b.len ? buf_str(&b) : "none");
}

static struct err *read_any(int tree, const struct json *desc, struct draft *d, unsigned depth);

/* The first that fits, as every runtime chooses. */
static struct err *read_index(int tree, const struct json *desc, struct draft *d, unsigned depth)
{
	autoptr(json_doc) doc = NULL;
	struct err *e = read_json(tree, desc, &doc);

	if (e)
		return e;
	if (depth >= DEPTH_MAX)
		return err_new(ERR_INVALID, "more than %d indexes are inside one another",
			       DEPTH_MAX);
	json_each(m, json_get(json_root(doc), "manifests")) {
		if (!fits(m.val))
			continue;
		e = read_any(tree, m.val, d, depth + 1);
		if (!e)
			draft_add_digest(d, json_get_str(desc, "digest"));
		return e;
	}
	return none_fits(json_get(json_root(doc), "manifests"));
}

static struct err *read_any(int tree, const struct json *desc, struct draft *d, unsigned depth)
{
	const char *type = str_or(json_get_str(desc, "mediaType"), "");

	if (is_index(type))
		return read_index(tree, desc, d, depth);
	if (is_manifest(type))
		return read_manifest(tree, desc, d);
	if (strstr(type, "manifest.v1+"))
		return err_new(ERR_UNSUPPORTED,
			       "the manifest is of schema version 1 (%s); only 2 is supported",
			       type);
	return err_new(ERR_UNSUPPORTED, "index.json names a \"%s\", which is no image", type);
}

/* containerd's annotation has the whole name; the other may have only a tag. */
static void read_name(const struct json *desc, struct draft *d)
{
	const struct json *a = json_get(desc, "annotations");
	const char *name = json_get_str(a, "io.containerd.image.name");

	if (!name)
		name = json_get_str(a, "org.opencontainers.image.ref.name");
	if (!str_empty(name))
		draft_add_name(d, name);
}

static struct err *read_images(int tree, const struct json *list, struct draft **ret)
{
	autoptr(draft) first = NULL;
	struct draft **last = &first;

	if (!json_len(list) || json_len(list) > IMAGES_MAX)
		return err_new(ERR_INVALID, "index.json names %zu images; 1 to %d are possible",
			       json_len(list), IMAGES_MAX);
	json_each(m, list) {
		struct err *e;

		if (!fits(m.val))
			continue;
		*last = xnew(struct draft);
		read_name(m.val, *last);
		e = read_any(tree, m.val, *last, 0);
		if (e)
			return e;
		last = &(*last)->next;
	}
	if (!first)
		return none_fits(list);
	*ret = take(first);
	return NULL;
}

static struct err *check_layout(int tree)
{
	autofree char *text = NULL;
	autoptr(json_doc) doc = NULL;
	size_t len;
	struct err *e = tree_read(tree, "oci-layout", &text, &len);

	if (!e)
		e = err_wrap(json_parse(text, len, NULL, &doc), "read oci-layout");
	if (e)
		return e;
	if (!str_starts(str_or(json_get_str(json_root(doc), "imageLayoutVersion"), ""), "1."))
		return err_new(ERR_UNSUPPORTED, "the OCI layout has version \"%s\"; 1.0.0 is known",
			       str_or(json_get_str(json_root(doc), "imageLayoutVersion"), ""));
	return NULL;
}

struct err *oci_read(int tree, struct draft **ret)
{
	autofree char *text = NULL;
	autoptr(json_doc) doc = NULL;
	size_t len;
	struct err *e = check_layout(tree);

	if (!e)
		e = tree_read(tree, "index.json", &text, &len);
	if (!e)
		e = err_wrap(json_parse(text, len, NULL, &doc), "read index.json");
	return e ? e : read_images(tree, json_get(json_root(doc), "manifests"), ret);
}
