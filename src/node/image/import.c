/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/platform.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/image/image_priv.h"

/*
 * From a file or a directory to images with names. Everything is unpacked below a directory of the
 * import's own, layers side by side in threads, each checked against its digests. Only then, with
 * the lock held, the layers are renamed to their places and names.json is replaced: what a kill
 * interrupts leaves nothing that anybody would use.
 *
 *   images/.import-<random>/tree        the archive as it was, unless a directory was given
 *   images/.import-<random>/<diff-id>   layers that the store does not have yet
 */
enum {
	TICK_MS = 200, /* between two reports of progress */
	TRIES_MAX = 3, /* when layers that were there are removed at the same time */
	ID_LEN = 16,   /* digits of a digest that are the id of an image */
};

struct import {
	const char *data_dir, *path;
	const char *source;              /* as names.json shall have it */
	bool pulled;                     /* from the registry of its name */
	const char *digest;              /* that it was pulled by; NULL: none */
	const struct import_root *built; /* a root file system of our own; NULL: it is foreign */
	const struct image_progress *progress;
	int from, work_fd, tree;
	char *work; /* path of the work directory */
	bool from_dir;
	struct layer_done done;      /* of the tree */
	_Atomic uint64_t tree_bytes; /* unpacked so far */
	struct err *failed;          /* why the tree could not be unpacked */
	struct draft *drafts;

	struct loop *loop;
	struct timer *tick;
	unsigned n_jobs; /* under way */
	const char *doing;
};

/* Jobs, and the progress of all of them */

static uint64_t bytes_done(const struct import *im)
{
	uint64_t n = im->tree_bytes;

	for (const struct draft *d = im->drafts; d; d = d->next)
		for (size_t i = 0; i < d->n_layers; i++)
			n += d->layers[i].done;
	return n;
}

static void on_tick(void *arg)
{
	struct import *im = arg;

	im->progress->report(im->progress->arg, im->doing, bytes_done(im));
	timer_set(im->tick, TICK_MS);
}

static void job_done(struct import *im)
{
	if (!--im->n_jobs)
		loop_stop(im->loop);
}

/* Until the last one has ended. */
static void wait_for_jobs(struct import *im, const char *doing)
{
	im->doing = doing;
	if (!im->n_jobs)
		return;
	if (im->progress) {
		im->tick = timer_new(im->loop, on_tick, im);
		timer_set(im->tick, TICK_MS);
	}
	loop_run(im->loop);
	timer_free(take(im->tick));
}

/* The tree */

static struct err *make_root(int at, const char *name, int *ret)
{
	if (mkdirat(at, name, 0755) < 0)
		return err_sys(errno, "create directory %s", name);
	*ret = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0 || fchmod(*ret, 0755) < 0)
		return err_sys(errno, "open directory %s", name);
	return NULL;
}

static void fill_tree(void *arg)
{
	struct import *im = arg;
	const struct layer_job job = { .done = &im->tree_bytes };
	const struct tar_from from = { .fd = im->from };

	if (im->built)
		im->done.bytes = im->built->size;
	else if (!im->from_dir)
		im->failed = layer_unpack(&from, im->tree, &job, &im->done);
	else
		im->failed = layer_copy_dir(im->from, im->tree, &job, &im->done);
	if (!im->failed && im->from_dir)
		im->failed = layer_diff_id(im->tree, im->done.diff_id);
}

static void tree_filled(void *arg)
{
	job_done(arg);
}

static struct err *take_tree(struct import *im)
{
	if (renameat(AT_FDCWD, im->path, im->work_fd, "tree") < 0)
		return err_sys(errno, "rename %s", im->path);
	im->tree = openat(im->work_fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return im->tree < 0 ? err_sys(errno, "open the tree") : NULL;
}

static struct err *make_tree(struct import *im)
{
	struct err *e = im->built ? take_tree(im) : make_root(im->work_fd, "tree", &im->tree);

	if (e)
		return e;
	im->n_jobs = 1;
	job_run(im->loop, fill_tree, tree_filled, im);
	wait_for_jobs(im, im->built ? "packing" : im->from_dir ? "copying" : "unpacking");
	return take(im->failed);
}

/* A root file system is an image of one layer; the config of a foreign one says nothing. */
static struct err *root_draft(struct import *im, struct draft **ret)
{
	autoptr(draft) d = xnew(struct draft);
	autofree char *text = NULL;
	autoptr(sha256) hash = sha256_new();
	char digest[DIGEST_TEXT_LEN];
	struct err *e;

	text = xasprintf("{%s%s%s\"architecture\":\"%s\",\"os\":\"linux\",\"config\":%s,\"rootfs\":"
			 "{\"type\":\"layers\",\"diff_ids\":[\"%s\"]}}",
			 im->built ? "\"created\":\"" : "", im->built ? im->built->created : "",
			 im->built ? "\"," : "", PLATFORM_ARCH,
			 im->built ? im->built->config : "{}", im->done.diff_id);
	sha256_add(hash, text, strlen(text));
	sha256_end_text(hash, digest);
	draft_add_digest(d, digest);
	d->layers = xnew_n(struct draft_layer, 1);
	d->n_layers = 1;
	e = config_read(text, strlen(text), d);
	if (e)
		return e;
	d->layers[0].size = im->done.bytes;
	if (renameat(im->work_fd, "tree", im->work_fd, d->layers[0].dir + strlen("layers/")) < 0)
		return err_sys(errno, "rename the unpacked tree");
	*ret = take(d);
	return NULL;
}

static struct err *open_from(struct import *im)
{
	const struct tar_from head = { .fd = -1 };
	struct tar_from from = head;
	struct stat st;
	struct err *e;

	im->from = open(im->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (im->from < 0 || fstat(im->from, &st) < 0)
		return err_sys(errno, "open");
	im->from_dir = S_ISDIR(st.st_mode);
	if (im->from_dir)
		return NULL;
	if (!S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "it is neither a file nor a directory");
	from.fd = im->from;
	e = kind_check_file(&from);
	if (!e && lseek(im->from, 0, SEEK_SET) < 0)
		e = err_sys(errno, "rewind");
	return e;
}

/* The images in what was given. */
static struct err *read_drafts(struct import *im)
{
	enum tree_kind kind = TREE_ROOT;
	struct err *e = open_from(im);

	if (!e && im->from_dir) {
		e = kind_of_tree(im->from, &kind);
		if (!e && kind != TREE_ROOT)
			im->tree = take_fd(im->from);
	}
	if (!e && im->tree < 0)
		e = make_tree(im);
	if (!e && !im->from_dir)
		e = kind_of_tree(im->tree, &kind);
	if (e)
		return e;
	switch (kind) {
	case TREE_OCI:
		return oci_read(im->tree, &im->drafts);
	case TREE_DOCKER:
		return docker_read(im->tree, &im->drafts);
	case TREE_ROOT:
	case TREE_KIND_MAX_:
		break;
	}
	return root_draft(im, &im->drafts);
}

/* Names */

static void list_names(const struct draft *d, struct buf *b)
{
	for (; d; d = d->next)
		for (char **n = d->names; n && *n; n++)
			buf_printf(b, "%s%s", b->len ? ", " : "", *n);
}

static bool has_name(const struct draft *d, const char *canonical)
{
	for (char **n = d->names; n && *n; n++) {
		autofree char *own = image_canonical(*n, NULL);

		if (str_eq(own, canonical))
			return true;
	}
	return false;
}

/* Of several images the one that has this name; the others are dropped. */
static struct err *choose(struct import *im, const char *canonical)
{
	struct draft **at = &im->drafts, *chosen;
	autobuf names = { 0 };

	if (!im->drafts->next)
		return NULL;
	while (*at && !has_name(*at, canonical))
		at = &(*at)->next;
	if (!*at) {
		list_names(im->drafts, &names);
		return err_new(
			ERR_INVALID,
			"there are several images in it, and none is called %s: %s; name one "
			"of them, or leave the name out to import all",
			canonical, buf_str(&names));
	}
	chosen = *at;
	*at = chosen->next;
	chosen->next = NULL;
	draft_free(im->drafts);
	im->drafts = chosen;
	return NULL;
}

static struct err *need_name(const char *said)
{
	return err_new(
		ERR_INVALID,
		"the image in it is called %s%s%s; give it a name: cay image import PATH NAME",
		said ? "only \"" : "nothing", str_or(said, ""), said ? "\"" : "");
}

/* Every image keeps the names that it has. */
static struct err *check_own_names(const struct draft *d)
{
	for (; d; d = d->next) {
		if (!d->names)
			return need_name(NULL);
		for (char **n = d->names; *n; n++) {
			autofree char *canonical = NULL;
			struct err *e = name_to_give(*n, &canonical);

			if (e)
				return e;
			if (!strchr(*n, '/') && !strchr(*n, ':'))
				return need_name(*n); /* a tag alone */
		}
	}
	return NULL;
}

static struct err *settle_names(struct import *im, const char *name)
{
	autofree char *canonical = NULL;
	struct err *e;

	if (!name)
		return check_own_names(im->drafts);
	e = im->digest ? NULL : name_to_give(name, &canonical);
	if (im->digest)
		canonical = name_key(name);
	if (!e)
		e = choose(im, canonical);
	if (e)
		return e;
	for (char **n = im->drafts->names; n && *n; n++)
		free(*n);
	free(take(im->drafts->names));
	draft_add_name(im->drafts, canonical);
	return NULL;
}

/* Layers */

static struct err *unpack_layer(struct draft_layer *l)
{
	const char *name = l->dir + strlen("layers/");
	const struct layer_job job = { .whiteouts = true, .done = &l->done };
	struct tar_from from = { .fd = -1 };
	struct layer_done done;
	autoclose fd = -1, root = -1;
	struct err *e = tree_open(l->owner->tree, l->path, &fd);

	from.fd = fd;
	if (!e)
		e = kind_check_file(&from);
	if (!e && lseek(fd, 0, SEEK_SET) < 0)
		e = err_sys(errno, "rewind");
	if (!e)
		e = make_root(l->owner->work_fd, name, &root);
	if (!e)
		e = layer_unpack(&from, root, &job, &done);
	if (e)
		return e;
	if (l->digest && !str_eq(l->digest, done.digest))
		return err_new(ERR_INVALID, "its digest is %s, and the manifest says %s",
			       done.digest, l->digest);
	if (!str_eq(l->diff_id, done.diff_id))
		return err_new(ERR_INVALID, "its diff-id is %s, and the config says %s",
			       done.diff_id, l->diff_id);
	l->size = done.bytes;
	return NULL;
}

static void layer_work(void *arg)
{
	struct draft_layer *l = arg;

	l->failed = err_wrap(unpack_layer(l), "layer %s", l->path);
}

static void layer_unpacked(void *arg)
{
	struct draft_layer *l = arg;

	job_done(l->owner);
}

static bool in_store(const struct import *im, const char *dir)
{
	autofree char *path = xasprintf("%s/images/%s", im->data_dir, dir);

	return file_exists(AT_FDCWD, path);
}

/* Starts what is neither in the store nor under way. */
static void start_layers(struct import *im)
{
	autoptr(map) seen = map_new(NULL);

	for (struct draft *d = im->drafts; d; d = d->next)
		for (size_t i = 0; i < d->n_layers; i++) {
			struct draft_layer *l = &d->layers[i];

			if (!l->path || map_has(seen, l->dir) || in_store(im, l->dir) ||
			    file_exists(im->work_fd, l->dir + strlen("layers/")))
				continue;
			map_put(seen, l->dir, l);
			l->owner = im;
			im->n_jobs++;
			job_run(im->loop, layer_work, layer_unpacked, l);
		}
}

static struct err *unpack_layers(struct import *im)
{
	struct err *e = NULL;

	start_layers(im);
	wait_for_jobs(im, "unpacking layers");
	for (struct draft *d = im->drafts; d; d = d->next)
		for (size_t i = 0; i < d->n_layers; i++)
			if (!e)
				e = take(d->layers[i].failed);
	if (!e && syncfs(im->work_fd) < 0)
		e = err_sys(errno, "sync"); /* names.json is, and must not be ahead of them */
	return e;
}

/* Publishing, with the lock held */

/* ERR_CONFLICT: a layer that was there has been removed since. */
static struct err *place_layer(const struct import *im, const struct draft_layer *l)
{
	autofree char *to = xasprintf("%s/images/%s", im->data_dir, l->dir);
	const char *name = l->dir + strlen("layers/");

	if (file_exists(im->work_fd, name) && renameat(im->work_fd, name, AT_FDCWD, to) < 0 &&
	    errno != EEXIST && errno != ENOTEMPTY)
		return err_sys(errno, "rename a layer to %s", to);
	return file_exists(AT_FDCWD, to)
		       ? NULL
		       : err_new(ERR_CONFLICT, "layer %s was removed meanwhile", name);
}

static struct err *place_layers(const struct import *im)
{
	autofree char *dir = xasprintf("%s/images/layers", im->data_dir);
	struct err *e = file_mkdirs(dir, 0700);

	for (const struct draft *d = im->drafts; d; d = d->next)
		for (size_t i = 0; i < d->n_layers && !e; i++)
			e = place_layer(im, &d->layers[i]);
	return e;
}

/* Top first; of a layer that appears twice only the upper one counts: it has all that the lower one
 * has, and an overlay refuses to have it twice. */
static struct json *layer_list(struct json_doc *doc, const struct draft *d)
{
	struct json *list = json_arr(doc);

	for (size_t i = d->n_layers; i > 0; i--) {
		const char *dir = d->layers[i - 1].dir;
		bool twice = false;

		json_each(l, list)
			twice |= str_eq(json_str(l.val), dir);
		if (!twice)
			json_push_str(doc, list, dir);
	}
	return list;
}

static int64_t total_size(struct json_doc *doc, const struct draft *d)
{
	struct json *sizes = json_need_obj(doc, json_root(doc), "layers");
	int64_t total = 0;

	for (size_t i = 0; i < d->n_layers; i++) {
		const struct draft_layer *l = &d->layers[i];

		if (l->size || !json_get(sizes, l->dir))
			json_set_int(doc, sizes, l->dir, (int64_t)l->size);
		total += json_get_int(sizes, l->dir, 0);
	}
	return total;
}

static void resolve_user(const struct import *im, const struct json *layers,
			 struct json_doc *config)
{
	autofree char **paths = xnew_n(char *, json_len(layers) + 1);
	size_t n = 0;

	json_each(l, layers)
		paths[n++] = xasprintf("%s/images/%s", im->data_dir, json_str(l.val));
	users_resolve((const char *const *)paths, config);
	while (n)
		free(paths[--n]);
}

static void record(const struct import *im, struct draft *d, struct json_doc *doc)
{
	struct json *img = json_obj(doc), *layers = layer_list(doc, d);
	char id[ID_LEN + 1];

	(void)snprintf(id, sizeof(id), "%.*s", ID_LEN, d->digests[0] + strlen("sha256:"));
	resolve_user(im, layers, d->config);
	json_set_str(doc, img, "digest", d->digests[0]);
	for (char **p = d->digests; *p; p++)
		json_push_str(doc, json_need_arr(doc, img, "digests"), *p);
	if (im->digest && !names_has_digest(img, im->digest))
		json_push_str(doc, json_need_arr(doc, img, "digests"), im->digest);
	json_set_str(doc, img, "source", im->source);
	json_set_int(doc, img, "size", total_size(doc, d));
	json_set(doc, img, "layers", layers);
	json_set(doc, img, "config", json_copy(doc, json_root(d->config)));
	json_set(doc, json_need_obj(doc, json_root(doc), "images"), id, img);
	for (char **n = d->names; *n; n++) {
		autofree char *key = name_key(*n);

		names_give(doc, key, id, im->pulled);
	}
}

static struct err *publish(const struct import *im)
{
	autoptr(json_doc) doc = NULL;
	autoclose lock = -1;
	struct err *e = names_lock(im->data_dir, &lock);

	if (!e)
		e = names_read(im->data_dir, &doc);
	if (!e)
		e = place_layers(im);
	if (e)
		return e;
	for (struct draft *d = im->drafts; d; d = d->next)
		record(im, d, doc);
	return names_write(im->data_dir, doc);
}

static struct err *unpack_and_publish(struct import *im)
{
	struct err *e = NULL;

	for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
		err_free(e);
		e = unpack_layers(im);
		if (!e)
			e = publish(im);
		if (!err_is(e, ERR_CONFLICT))
			break;
	}
	return e;
}

static struct err *start_work(struct import *im)
{
	autoclose lock = -1;
	struct err *e = names_lock(im->data_dir, &lock);

	if (!e)
		e = work_new(im->data_dir, &im->work, &im->work_fd);
	return e ? e : loop_new(&im->loop);
}

static void import_done(struct import *im)
{
	if (im->work)
		err_free(file_remove_tree(AT_FDCWD, im->work)); /* or the next command does it */
	auto_close_(&im->from);
	auto_close_(&im->tree);
	auto_close_(&im->work_fd);
	loop_free(im->loop);
	draft_free(im->drafts);
	free(im->work);
}

static struct json_doc *summary(const struct draft *d)
{
	struct json_doc *doc = json_doc_new();

	json_set_root(doc, json_arr(doc));
	for (; d; d = d->next)
		for (char **n = d->names; *n; n++) {
			autofree char *key = name_key(*n);
			struct json *o = json_obj(doc);

			json_set_str(doc, o, "name", key);
			json_set_str(doc, o, "digest", d->digests[0]);
			json_push(doc, json_root(doc), o);
		}
	return doc;
}

static struct err *run(struct import *im, const char *name, struct json_doc **ret)
{
	struct err *e = start_work(im);

	if (!e)
		e = read_drafts(im);
	if (!e)
		e = settle_names(im, name);
	if (!e)
		e = unpack_and_publish(im);
	if (!e && ret)
		*ret = summary(im->drafts);
	import_done(im);
	return e;
}

struct err *image_import(const char *data_dir, const char *path, const char *name,
			 const struct image_progress *progress, struct json_doc **ret)
{
	struct import im = { .data_dir = data_dir,
			     .path = path,
			     .source = path,
			     .progress = progress,
			     .from = -1,
			     .work_fd = -1,
			     .tree = -1 };
	autofree char *canonical = NULL;
	struct err *e = name ? name_to_give(name, &canonical) : NULL;

	if (!e)
		e = run(&im, name, ret);
	return err_wrap(e, "import %s", path);
}

struct err *import_pulled(const struct image_pull *pull, const char *path, const char *source,
			  struct json_doc **ret)
{
	const char *at = strchr(pull->name, '@');
	struct import im = { .data_dir = pull->data_dir,
			     .path = path,
			     .source = source,
			     .pulled = true,
			     .digest = at ? at + 1 : NULL,
			     .progress = pull->progress,
			     .from = -1,
			     .work_fd = -1,
			     .tree = -1 };

	return run(&im, pull->name, ret);
}

struct err *import_built(const struct import_root *from, struct json_doc **ret)
{
	struct import im = { .data_dir = from->data_dir,
			     .path = from->dir,
			     .source = from->source,
			     .built = from,
			     .progress = from->progress,
			     .from = -1,
			     .work_fd = -1,
			     .tree = -1 };

	return run(&im, from->name, ret);
}
