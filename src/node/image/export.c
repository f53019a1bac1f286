/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/platform.h"
#include "base/random.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * An image as an oci-archive. Layers are kept unpacked only, so they are packed anew: the same
 * image always becomes the same bytes, but not those that it once came in.
 *
 *   images/.import-<random>/out   the layout, which is packed as any directory is
 */
#define OCI "application/vnd.oci.image."

struct export
{
	const char *data_dir, *name;
	const struct image_progress *progress;
	unsigned long long bytes; /* packed so far */
	int work_fd, blobs, out;
	struct json_doc *doc; /* scratch for what is written */
	const struct json *image;
};

struct blob {
	int fd;
	struct sha256 *hash;
	int64_t len;
	struct export *x;
};

static struct err *blob_write(void *arg, const void *p, size_t len)
{
	struct blob *b = arg;

	sha256_add(b->hash, p, len);
	b->len += (int64_t)len;
	b->x->bytes += len;
	if (b->x->progress && (b->x->bytes >> 24) != ((b->x->bytes - len) >> 24))
		b->x->progress->report(b->x->progress->arg, "packing", b->x->bytes);
	return fd_write_all(b->fd, p, len);
}

/* What is the same must look the same, times included. */
static void age(int fd)
{
	const struct timespec t[2] = { { 0 }, { 0 } };

	(void)futimens(fd, t);
}

/* Gives the blob its name; *ret is its descriptor. */
static struct err *blob_end(struct blob *b, const char *temp, const char *type, struct json **ret)
{
	struct json *desc = json_obj(b->x->doc);
	char digest[DIGEST_TEXT_LEN];

	sha256_end_text(b->hash, digest);
	age(b->fd);
	if (renameat(b->x->blobs, temp, b->x->blobs, digest + strlen("sha256:")) < 0)
		return err_sys(errno, "rename a blob");
	json_set_str(b->x->doc, desc, "mediaType", type);
	json_set_str(b->x->doc, desc, "digest", digest);
	json_set_int(b->x->doc, desc, "size", b->len);
	*ret = desc;
	return NULL;
}

static struct err *blob_begin(struct export *x, struct blob *ret)
{
	*ret = (struct blob){ .x = x, .hash = sha256_new() };
	ret->fd = openat(x->blobs, "new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return ret->fd < 0 ? err_sys(errno, "create a blob") : NULL;
}

static void blob_done(struct blob *b)
{
	auto_close_(&b->fd);
	sha256_free(b->hash);
}

static struct err *put_json(struct export *x, const struct json *v, const char *type,
			    struct json **ret)
{
	autofree char *text = json_to_text(v);
	struct blob b;
	struct err *e = blob_begin(x, &b);

	if (!e)
		e = blob_write(&b, text, strlen(text));
	if (!e)
		e = blob_end(&b, "new", type, ret);
	blob_done(&b);
	return e;
}

static struct err *put_layer(struct export *x, const char *layer, struct json **ret)
{
	autofree char *path = xasprintf("%s/images/%s", x->data_dir, layer);
	autoclose root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct blob b;
	const struct pack_sink sink = { blob_write, &b };
	struct err *e = blob_begin(x, &b);

	if (!e && root < 0)
		e = err_sys(errno, "open layer %s", path);
	if (!e)
		e = layer_pack(root, &sink);
	if (!e)
		e = blob_end(&b, "new", OCI "layer.v1.tar", ret);
	blob_done(&b);
	return e;
}

/* What was kept of the config, in the words of the specification. */
static struct json *config_of(struct export *x, const struct json *layers)
{
	static const struct {
		const char *member, *as;
	} rows[] = { { "env", "Env" },   { "entrypoint", "Entrypoint" },
		     { "cmd", "Cmd" },   { "workdir", "WorkingDir" },
		     { "user", "User" }, { "labels", "Labels" } };
	const struct json *kept = json_get(x->image, "config");
	struct json *root = json_obj(x->doc), *c = json_obj(x->doc), *fs = json_obj(x->doc);

	json_set_str(x->doc, root, "created", json_get_str(kept, "created"));
	json_set_str(x->doc, root, "architecture",
		     str_or(json_get_str(kept, "architecture"), PLATFORM_ARCH));
	json_set_str(x->doc, root, "os", "linux");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		json_set(x->doc, c, rows[i].as, json_copy(x->doc, json_get(kept, rows[i].member)));
	json_each(port, json_get(kept, "ports"))
		json_set(x->doc, json_need_obj(x->doc, c, "ExposedPorts"), json_str(port.val),
			 json_obj(x->doc));
	if (json_get(kept, "stopsignal"))
		json_set(x->doc, c, "StopSignal",
			 json_new_strf(x->doc, "%lld",
				       (long long)json_get_int(kept, "stopsignal", 0)));
	json_set(x->doc, root, "config", c);
	json_set_str(x->doc, fs, "type", "layers");
	json_each(l, layers) /* an uncompressed layer's digest is its diff-id */
		json_push_str(x->doc, json_need_arr(x->doc, fs, "diff_ids"),
			      json_get_str(l.val, "digest"));
	json_set(x->doc, root, "rootfs", fs);
	return root;
}

static struct err *put_manifest(struct export *x, struct json **ret)
{
	const struct json *from = json_get(x->image, "layers");
	struct json *m = json_obj(x->doc), *layers = json_arr(x->doc), *config;
	struct err *e = NULL;

	for (size_t i = json_len(from); i > 0 && !e; i--) { /* the bottom one first */
		struct json *desc;

		e = put_layer(x, str_or(json_str(json_at(from, i - 1)), ""), &desc);
		if (!e)
			json_push(x->doc, layers, desc);
	}
	if (!e)
		e = put_json(x, config_of(x, layers), OCI "config.v1+json", &config);
	if (e)
		return e;
	json_set_int(x->doc, m, "schemaVersion", 2);
	json_set_str(x->doc, m, "mediaType", OCI "manifest.v1+json");
	json_set(x->doc, m, "config", config);
	json_set(x->doc, m, "layers", layers);
	return put_json(x, m, OCI "manifest.v1+json", ret);
}

static struct err *put_file(struct export *x, const char *name, const struct json *v)
{
	autofree char *text = json_to_text(v);
	autoclose fd =
		openat(x->out, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	struct err *e =
		fd < 0 ? err_sys(errno, "create %s", name) : fd_write_all(fd, text, strlen(text));

	if (!e)
		age(fd);
	return e;
}

static struct err *put_layout(struct export *x)
{
	struct json *index = json_obj(x->doc), *layout = json_obj(x->doc), *manifest;
	struct err *e = put_manifest(x, &manifest);

	if (e)
		return e;
	json_set_str(x->doc, json_need_obj(x->doc, manifest, "annotations"),
		     "org.opencontainers.image.ref.name", x->name);
	json_set_int(x->doc, index, "schemaVersion", 2);
	json_push(x->doc, json_need_arr(x->doc, index, "manifests"), manifest);
	json_set_str(x->doc, layout, "imageLayoutVersion", "1.0.0");
	e = put_file(x, "index.json", index);
	return e ? e : put_file(x, "oci-layout", layout);
}

static struct err *make_dirs(struct export *x)
{
	if (mkdirat(x->work_fd, "out", 0755) < 0 || mkdirat(x->work_fd, "out/blobs", 0755) < 0 ||
	    mkdirat(x->work_fd, "out/blobs/sha256", 0755) < 0)
		return err_sys(errno, "create the layout");
	x->out = openat(x->work_fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	x->blobs = openat(x->work_fd, "out/blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return x->out < 0 || x->blobs < 0 ? err_sys(errno, "open the layout") : NULL;
}

static struct err *plain_write(void *arg, const void *p, size_t len)
{
	return fd_write_all(*(int *)arg, p, len);
}

/* Beside its place first: whoever finds the file finds all of it. */
static struct err *pack_to(struct export *x, const char *path)
{
	autofree char *beside = NULL;
	autoclose fd = -1, blobs_up = openat(x->out, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct pack_sink sink = { plain_write, &fd };
	char tag[9];
	struct err *e;

	age(x->blobs);
	age(blobs_up);
	random_hex(tag, sizeof(tag) - 1);
	beside = xasprintf("%s.%s.tmp", path, tag);
	fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_sys(errno, "create %s", beside);
	e = layer_pack(x->out, &sink);
	if (!e && rename(beside, path) < 0)
		e = err_sys(errno, "rename %s", beside);
	if (e)
		(void)unlink(beside);
	return e;
}

static struct err *export_to(struct export *x, const char *path)
{
	struct err *e = make_dirs(x);

	if (!e)
		e = put_layout(x);
	return e ? e : pack_to(x, path);
}

/* The record of the image and a place to work in. */
static struct err *begin(struct export *x, const char *name, struct json_doc **ret_names,
			 char **ret_work)
{
	autoclose lock = -1;
	struct err *e = names_lock(x->data_dir, &lock);
	const char *id;

	if (!e)
		e = names_read(x->data_dir, ret_names);
	if (e)
		return e;
	id = names_id_of(*ret_names, name);
	x->image = names_image(*ret_names, id);
	if (id && !x->image)
		return err_new(ERR_UNSUPPORTED, "%s is a built-in image, and made of this machine",
			       name);
	return id ? work_new(x->data_dir, ret_work, &x->work_fd) : no_image(name);
}

struct err *image_export(const char *data_dir, const char *name, const char *path,
			 const struct image_progress *progress)
{
	autofree char *canonical = image_canonical(name, NULL), *work = NULL;
	autoptr(json_doc) names = NULL;
	autoptr(json_doc) doc = json_doc_new();
	struct export x = { .data_dir = data_dir,
			    .name = canonical,
			    .progress = progress,
			    .work_fd = -1,
			    .blobs = -1,
			    .out = -1,
			    .doc = doc };
	struct err *e = canonical ? begin(&x, name, &names, &work) : bad_name(name);

	if (!e)
		e = export_to(&x, path);
	if (work)
		err_free(file_remove_tree(AT_FDCWD, work)); /* or the next command does it */
	auto_close_(&x.blobs);
	auto_close_(&x.out);
	auto_close_(&x.work_fd);
	return err_wrap(e, "export %s", name);
}
