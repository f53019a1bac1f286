/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay backup` and `cay restore`: the objects and keys of a data directory as one file, and back.
 * server/ does the work; this says how far it is and what came of it.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting backup_settings[] = {
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR", "Data directory to back up" },
	{ "force", SETTING_BOOL, "false", NULL, "Replace FILE if it exists" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ 0 },
};

const struct setting restore_settings[] = {
	{ "data-dir", SETTING_DIR, NULL, "DIR",
	  "Data directory to restore into; it must be named" },
	{ "force", SETTING_BOOL, "false", NULL,
	  "Replace the objects and keys that DIR has; its images and volumes stay" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ 0 },
};

static void show(void *arg unused, const char *what, unsigned long long bytes)
{
	(void)fprintf(stderr, "\r\033[K%s: %llu MiB", what, bytes >> 20);
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

static struct err *one_file(const struct settings *s, const char *command)
{
	if (settings_n_args(s) == 1)
		return NULL;
	return err_new(ERR_INVALID, "%zu words were given; it takes one file: cay %s FILE",
		       settings_n_args(s), command);
}

static void tell(const struct settings *s, const struct json *facts, const char *what,
		 const char *where)
{
	const char *format = settings_text(s, "output");
	autobuf out = { 0 };

	if (!str_eq(format, "text")) {
		cli_print(facts, format);
		return;
	}
	buf_printf(&out, "%s %s: %lld objects at revision %lld, %lld KiB\n", what, where,
		   (long long)json_get_int(facts, "objects", 0),
		   (long long)json_get_int(facts, "revision", 0),
		   (long long)(json_get_int(facts, "bytes", 0) + 1023) / 1024);
	cli_write(&out);
}

int backup_run(const struct command *c unused, const struct settings *s)
{
	autoptr(json_doc) doc = NULL;
	struct err *e = one_file(s, "backup");

	if (!e)
		e = cli_data.backup(settings_text(s, "data-dir"), settings_arg(s, 0),
				    settings_bool(s, "force"), display(), &doc);
	display_end();
	if (e)
		return cli_fail(err_wrap(e, "backup"));
	tell(s, json_root(doc), "wrote", settings_arg(s, 0));
	return EXIT_OK;
}

int restore_run(const struct command *c unused, const struct settings *s)
{
	const char *dir = settings_text(s, "data-dir");
	autoptr(json_doc) doc = NULL;
	struct err *e = one_file(s, "restore");

	if (!e && str_empty(dir))
		e = err_new(ERR_INVALID, "--data-dir DIR is missing: where to restore to");
	if (!e)
		e = cli_data.restore(settings_arg(s, 0), dir, settings_bool(s, "force"), display(),
				     &doc);
	display_end();
	if (e)
		return cli_fail(err_wrap(e, "restore"));
	tell(s, json_root(doc), "restored", dir);
	return EXIT_OK;
}
