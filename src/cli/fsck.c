/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay fsck`: what is wrong with the objects and keys of a data directory, and what to do about it.
 * It changes nothing.
 */
#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting fsck_settings[] = {
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR", "Data directory to look at" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ 0 },
};

enum {
	EXIT_UNREADABLE = 3, /* nothing could be looked at */
};

static void print_text(const struct json *report)
{
	const char *last = NULL;
	autobuf out = { 0 };

	json_each(it, json_get(report, "findings")) {
		const char *fix = json_get_str(it.val, "fix");

		buf_printf(&out, "%s: %s: %s\n", json_get_str(it.val, "severity"),
			   json_get_str(it.val, "what"), json_get_str(it.val, "message"));
		if (!str_eq(fix, last))
			buf_printf(&out, "  what to do: %s\n", fix);
		last = fix;
	}
	if (json_get(report, "notListed"))
		buf_printf(&out, "%lld more are not listed\n",
			   (long long)json_get_int(report, "notListed", 0));
	buf_printf(&out, "%s: %lld objects at revision %lld (schema %lld), %lld faults%s%s\n",
		   json_get_str(report, "dataDir"), (long long)json_get_int(report, "objects", 0),
		   (long long)json_get_int(report, "revision", 0),
		   (long long)json_get_int(report, "schema", 0),
		   (long long)json_get_int(report, "faults", 0),
		   json_get_str(report, "server") ? "; in use by " : "",
		   str_or(json_get_str(report, "server"), ""));
	cli_write(&out);
}

int fsck_run(const struct command *c unused, const struct settings *s)
{
	const char *format = settings_text(s, "output");
	autoptr(json_doc) doc = NULL;
	size_t faults = 0;
	struct err *e = cli_data.check(settings_text(s, "data-dir"), &doc, &faults);

	if (e) {
		(void)cli_fail(err_wrap(e, "fsck"));
		return EXIT_UNREADABLE;
	}
	if (str_eq(format, "text"))
		print_text(json_root(doc));
	else
		cli_print(json_root(doc), format);
	return faults ? EXIT_FAILED : EXIT_OK;
}
