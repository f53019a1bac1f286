/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay image`: the images in a data directory. It works on the files, whether or not a server is
 * running: the node notices a changed name by itself.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting image_settings[] = {
	{ "data-dir", SETTING_TEXT, "/var/lib/cay", "DIR", "Data directory that holds the images" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
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

static struct err *do_import(const struct settings *s)
{
	struct cli_progress progress = { .report = show };
	bool terminal = isatty(STDERR_FILENO);
	autoptr(json_doc) doc = NULL;
	autobuf out = { 0 };
	struct err *e =
		cli_node.image_import(settings_text(s, "data-dir"), settings_arg(s, 1),
				      settings_arg(s, 2), terminal ? &progress : NULL, &doc);

	if (terminal)
		(void)fputs("\r\033[K", stderr);
	if (e)
		return e;
	if (!str_eq(settings_text(s, "output"), "text")) {
		cli_print(json_root(doc), settings_text(s, "output"));
		return NULL;
	}
	json_each(it, json_root(doc))
		buf_printf(&out, "%s %s\n", json_get_str(it.val, "name"),
			   json_get_str(it.val, "digest"));
	cli_write(&out);
	return NULL;
}

static struct err *do_remove(const struct settings *s)
{
	return cli_node.image_remove(settings_text(s, "data-dir"), settings_arg(s, 1));
}

static const struct {
	const char *name;
	size_t min_args, max_args;
	const char *usage;
	struct err *(*run)(const struct settings *s);
} verbs[] = {
	{ "ls", 0, 0, "", do_list },
	{ "tag", 2, 2, "FROM TO", do_tag },
	{ "import", 1, 2, "PATH [NAME]", do_import },
	{ "rm", 1, 1, "NAME", do_remove },
};

int image_run(const struct command *c, const struct settings *s)
{
	const char *verb = str_or(settings_arg(s, 0), "ls");
	size_t n = settings_n_args(s) ? settings_n_args(s) - 1 : 0;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		struct err *e;

		if (!str_eq(verbs[i].name, verb))
			continue;
		if (n < verbs[i].min_args || n > verbs[i].max_args)
			return cli_fail(err_new(ERR_INVALID, "usage: cay image %s %s", verb,
						verbs[i].usage));
		e = verbs[i].run(s);
		return e ? cli_fail(err_wrap(e, "image %s", verb)) : EXIT_OK;
	}
	return cli_fail(err_new(ERR_INVALID, "usage: cay image %s", c->usage));
}
