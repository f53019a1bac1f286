/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images and the census, for commands that work on a data directory whether or not a server runs
 * there.
 */
#include <errno.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "json/json.h"
#include "node/image/image.h"
#include "node/node.h"
#include "role/role.h"
#include "role/serve_priv.h"
#include "store/store.h"

static struct err *list_images(const char *data_dir, struct json_doc **ret)
{
	struct json_doc *d = json_doc_new();
	struct json *list = json_arr(d);
	struct image_info *images = NULL;
	size_t n = 0;
	struct err *e = image_list(data_dir, &images, &n);

	for (size_t i = 0; !e && i < n; i++) {
		struct json *o = json_obj(d);

		json_set_str(d, o, "name", images[i].name);
		json_set_str(d, o, "digest", images[i].digest);
		json_set_str(d, o, "source", images[i].source);
		json_set_int(d, o, "size", images[i].size);
		json_push(d, list, o);
	}
	image_list_free(images, n);
	json_set_root(d, list);
	if (e)
		json_doc_free(d);
	else
		*ret = d;
	return e;
}

static const struct image_users image_users = { node_images_used };

static struct image_progress progress_of(const struct cli_progress *p)
{
	return (struct image_progress){ p ? p->report : NULL, p ? p->arg : NULL };
}

static struct err *import_image(const char *data_dir, const char *path, const char *name,
				struct cli_progress *progress, struct json_doc **ret)
{
	const struct image_progress p = progress_of(progress);

	return image_import(data_dir, path, name, progress ? &p : NULL, ret);
}

static struct err *pull_image(const char *data_dir, const char *name, const char *const files[2],
			      struct cli_progress *progress, struct json_doc **ret)
{
	const struct image_progress p = progress_of(progress);
	const struct image_pull pull = { .data_dir = data_dir,
					 .name = name,
					 .authfile = files[0],
					 .registries_conf = files[1],
					 .progress = progress ? &p : NULL };

	return image_pull(&pull, ret);
}

static struct err *build_image(const struct cli_image_build *build, struct cli_progress *progress,
			       struct json_doc **ret)
{
	const struct image_progress p = progress_of(progress);
	const struct image_build b = { .data_dir = build->data_dir,
				       .source = build->file,
				       .recipe = build->recipe,
				       .name = build->name,
				       .files_dir = build->files_dir,
				       .debs = build->debs,
				       .progress = progress ? &p : NULL };

	return image_build(&b, ret);
}

static struct err *export_image(const char *data_dir, const char *name, const char *path,
				struct cli_progress *progress)
{
	const struct image_progress p = progress_of(progress);

	return image_export(data_dir, name, path, progress ? &p : NULL);
}

static struct err *remove_image(const char *data_dir, const char *name)
{
	return image_remove(data_dir, name, &image_users);
}

static struct err *prune_images(const char *data_dir, struct json_doc **ret)
{
	return image_prune(data_dir, &image_users, ret);
}

/* arg is a list, which grows by one object per row. */
static void add_object(void *arg, const char *key unused, struct bytes *value)
{
	struct json_doc *objects = arg;
	autoptr(json_doc) doc = NULL;
	autoptr(err) e = json_parse(value->data, value->len, NULL, &doc);

	if (!e)
		json_push(objects, json_root(objects), json_copy(objects, json_root(doc)));
}

/* Uses the objects as of the last commit, whether or not a server is running on the directory. */
static struct err *census(const char *data_dir, struct json_doc **ret, size_t *ret_orphans)
{
	autoptr(json_doc) objects = json_doc_new();
	autofree char *path = xasprintf("%s/store.db", data_dir);
	struct err *e;

	json_set_root(objects, json_arr(objects));
	if (access(path, R_OK) < 0)
		return err_sys(errno, "open %s (--data-dir names the instance)", path);
	e = store_peek(path, "pods/", add_object, objects);
	if (!e)
		e = store_peek(path, "persistentvolumeclaims/", add_object, objects);
	if (!e)
		e = store_peek(path, "persistentvolumes/", add_object, objects);
	return e ? e : node_census(data_dir, json_root(objects), ret, ret_orphans);
}

static struct err *doctor(const struct cli_doctor *about, struct json_doc **ret, size_t *ret_failed)
{
	autofree char *launcher = NULL, *init = NULL;

	programs_look(&launcher, &init);
	return node_doctor(&(struct node_doctor_spec){ .data_dir = about->data_dir,
						       .runtimes = about->runtimes,
						       .without_features = about->without_features,
						       .launcher = launcher,
						       .init = init,
						       .quick = about->quick },
			   ret, ret_failed);
}

void tools_provide(void)
{
	cli_node = (struct cli_node_ops){
		.image_tag = image_tag,
		.image_import = import_image,
		.image_pull = pull_image,
		.image_build = build_image,
		.image_export = export_image,
		.image_inspect = image_inspect,
		.image_remove = remove_image,
		.image_prune = prune_images,
		.image_list = list_images,
		.census = census,
		.doctor = doctor,
	};
}
