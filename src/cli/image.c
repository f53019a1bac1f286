/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay image`: the images in a data directory. It works on the files, whether or not a server is
 * running: the node notices a changed name by itself.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "json/yaml_tree.h"

enum {
	RECIPE_MAX = 1 << 20, /* bytes of its file */
};

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting image_settings[] = {
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR", "Data directory that holds the images" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ "authfile", SETTING_TEXT, NULL, "FILE",
	  "pull: credentials for registries, as `skopeo login` and `docker login` write them" },
	{ "registries-conf", SETTING_TEXT, NULL, "FILE",
	  "pull: mirrors, instead of the machine's own registries.conf" },
	{ "file", SETTING_TEXT, NULL, "FILE", "build: the recipe, as YAML (short: -f)" },
	{ "tag", SETTING_TEXT, NULL, "NAME",
	  "build: the name of the image, instead of the recipe's (short: -t)" },
	{ "debs", SETTING_TEXT, NULL, "DIR",
	  "build: a directory of .deb files, instead of the machine's apt sources" },
	{ 0 },
};

static void show(void *arg unused, const char *what, unsigned long long bytes)
{
	(void)fprintf(stderr, "\r\033[K%s: %llu MiB", what, bytes >> 20);
}

static struct err *do_list(const struct settings *s)
{
	autoptr(json_doc) doc = NULL;
	autobuf out = { 0 };
	struct err *e = cli_node.image_list(settings_text(s, "data-dir"), &doc);

	if (e)
		return e;
	if (!str_eq(settings_text(s, "output"), "text")) {
		cli_print(json_root(doc), settings_text(s, "output"));
		return NULL;
	}
	buf_printf(&out, "%-48s %-20s %10s  %s\n", "NAME", "DIGEST", "SIZE", "SOURCE");
	json_each(it, json_root(doc))
		buf_printf(&out, "%-48s %-20.19s %8lldMi  %s\n",
			   str_or(json_get_str(it.val, "name"), ""),
			   str_or(json_get_str(it.val, "digest"), "-"),
			   (long long)json_get_int(it.val, "size", 0) >> 20,
			   str_or(json_get_str(it.val, "source"), "-"));
	cli_write(&out);
	return NULL;
}

static struct err *do_tag(const struct settings *s)
{
	return cli_node.image_tag(settings_text(s, "data-dir"), settings_arg(s, 1),
				  settings_arg(s, 2));
}

static bool wants_text(const struct settings *s)
{
	return str_eq(settings_text(s, "output"), "text");
}

/* Progress is for people: without a terminal there is none. */
static struct cli_progress *display(void)
{
	static struct cli_progress progress = { .report = show };

	return isatty(STDERR_FILENO) ? &progress : NULL;
}

static void display_end(void)
{
	if (isatty(STDERR_FILENO))
		(void)fputs("\r\033[K", stderr);
}

/* What has come in: [{name, digest}]. */
static void tell(const struct settings *s, const struct json *list)
{
	autobuf out = { 0 };

	if (!wants_text(s)) {
		cli_print(list, settings_text(s, "output"));
		return;
	}
	json_each(it, list)
		buf_printf(&out, "%s %s\n", json_get_str(it.val, "name"),
			   json_get_str(it.val, "digest"));
	cli_write(&out);
}

static struct err *do_import(const struct settings *s)
{
	autoptr(json_doc) doc = NULL;
	struct err *e = cli_node.image_import(settings_text(s, "data-dir"), settings_arg(s, 1),
					      settings_arg(s, 2), display(), &doc);

	display_end();
	if (!e)
		tell(s, json_root(doc));
	return e;
}

static struct err *do_pull(const struct settings *s)
{
	const char *const files[] = { settings_text(s, "authfile"),
				      settings_text(s, "registries-conf") };
	autoptr(json_doc) doc = NULL;
	struct err *e = cli_node.image_pull(settings_text(s, "data-dir"), settings_arg(s, 1), files,
					    display(), &doc);

	display_end();
	if (!e)
		tell(s, json_root(doc));
	return e;
}

static struct err *read_recipe(const char *file, struct json_doc **ret)
{
	autofree char *text = NULL;
	size_t len = 0;
	struct err *e = file_read(AT_FDCWD, file, RECIPE_MAX, &text, &len);

	if (!e)
		e = yaml_parse_one(text, len, ret);
	return err_wrap(e, "read %s", file);
}

static struct err *do_build(const struct settings *s)
{
	const char *file = settings_text(s, "file"), *slash = file ? strrchr(file, '/') : NULL;
	autofree char *dir = slash ? xstrndup(file, (size_t)(slash - file + 1)) : xstrdup(".");
	struct cli_image_build build = { .data_dir = settings_text(s, "data-dir"),
					 .file = file,
					 .name = settings_text(s, "tag"),
					 .files_dir = dir,
					 .debs = settings_text(s, "debs") };
	autoptr(json_doc) recipe = NULL;
	autoptr(json_doc) doc = NULL;
	struct err *e = file ? read_recipe(file, &recipe)
			     : err_new(ERR_INVALID, "there is no recipe; name one with -f FILE");

	if (e)
		return e;
	build.recipe = json_root(recipe);
	e = cli_node.image_build(&build, display(), &doc);
	display_end();
	if (!e)
		tell(s, json_root(doc));
	return e;
}

static struct err *do_export(const struct settings *s)
{
	struct err *e = cli_node.image_export(settings_text(s, "data-dir"), settings_arg(s, 1),
					      settings_arg(s, 2), display());

	display_end();
	return e;
}

static struct err *do_inspect(const struct settings *s)
{
	autoptr(json_doc) doc = NULL;
	struct err *e =
		cli_node.image_inspect(settings_text(s, "data-dir"), settings_arg(s, 1), &doc);

	if (!e)
		cli_print(json_root(doc), wants_text(s) ? "json" : settings_text(s, "output"));
	return e;
}

static struct err *do_remove(const struct settings *s)
{
	return cli_node.image_remove(settings_text(s, "data-dir"), settings_arg(s, 1));
}

static struct err *do_prune(const struct settings *s)
{
	autoptr(json_doc) doc = NULL;
	autobuf out = { 0 };
	struct err *e = cli_node.image_prune(settings_text(s, "data-dir"), &doc);

	if (e)
		return e;
	if (!wants_text(s)) {
		cli_print(json_root(doc), settings_text(s, "output"));
		return NULL;
	}
	buf_printf(&out, "removed %lld images and %lld layers, %lld MiB\n",
		   (long long)json_get_int(json_root(doc), "images", 0),
		   (long long)json_get_int(json_root(doc), "layers", 0),
		   (long long)json_get_int(json_root(doc), "bytes", 0) >> 20);
	cli_write(&out);
	return NULL;
}

static const struct cli_verb verb_table[] = {
	{ "ls", 0, 0, "", "List the images and their names.", do_list },
	{ "inspect", 1, 1, "NAME",
	  "Print what is known of an image: its digests, layers, size and config, as JSON.",
	  do_inspect },
	{ "import", 1, 2, "PATH [NAME]",
	  "Import a docker-archive, an oci-archive, an OCI layout or a root file system, as a file that may be compressed or\n"
	  "as a directory; the content decides. Without NAME an image keeps the names that its archive gives it.",
	  do_import },
	{ "pull", 1, 1, "NAME",
	  "Pull an image from its registry with skopeo. NAME may have a digest. Credentials come from --authfile, or from where\n"
	  "`skopeo login` puts them. Mirrors are those of registries.conf. A registry on loopback may speak plain HTTP.",
	  do_pull },
	{ "build", 0, 0, "-f FILE [-t NAME] [--debs DIR]",
	  "Build an image from Debian packages, as a recipe says: a YAML file with a list of packages, files to add, and what the\n"
	  "image runs. Packages come from the machine's apt sources, or from a directory without any network. Their scripts are\n"
	  "not run. The same recipe and packages always become the same image.",
	  do_build },
	{ "export", 2, 2, "NAME FILE",
	  "Write an image as an oci-archive. The same image always becomes the same file. Layers are packed anew, so that its\n"
	  "digest may differ from that of the archive it came in.",
	  do_export },
	{ "tag", 2, 2, "FROM TO", "Give an image another name.", do_tag },
	{ "rm", 1, 1, "NAME",
	  "Remove a name, and with its last name the image, unless a sandbox uses it.", do_remove },
	{ "prune", 0, 0, "",
	  "Remove images that have lost their names to others, and layers that no image has. What a sandbox uses stays.",
	  do_prune },
	{ 0 },
};
static const struct cli_verbs verbs = { verb_table, image_settings, "ls" };

bool image_help(const struct settings *s, struct buf *out)
{
	return cli_verbs_help("image", s, &verbs, out);
}

int image_run(const struct command *c, const struct settings *s)
{
	return cli_verbs_run(c, s, &verbs);
}
