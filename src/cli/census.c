/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay census`: what exists on this host, and for which object. The node knows where to look; this
 * prints it and exits with a failure if something has no living owner.
 */
#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting census_settings[] = {
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR",
	  "Data directory of the instance to account for" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ 0 },
};

static void print_text(const struct json *items, size_t n_orphans)
{
	autobuf out = { 0 };

	json_each(it, items)
		buf_printf(&out, "%-10s %-52s %s\n", str_or(json_get_str(it.val, "type"), "?"),
			   str_or(json_get_str(it.val, "name"), "?"),
			   str_or(json_get_str(it.val, "owner"), "ORPHAN"));
	buf_printf(&out, "%zu items, %zu orphans\n", json_len(items), n_orphans);
	cli_write(&out);
}

int census_run(const struct command *c unused, const struct settings *s)
{
	const char *format = settings_text(s, "output");
	autoptr(json_doc) doc = NULL;
	size_t n_orphans = 0;
	struct err *e = cli_node.census(settings_text(s, "data-dir"), &doc, &n_orphans);

	if (e)
		return cli_fail(err_wrap(e, "census"));
	if (str_eq(format, "text"))
		print_text(json_get(json_root(doc), "items"), n_orphans);
	else
		cli_print(json_root(doc), format);
	return n_orphans ? EXIT_FAILED : EXIT_OK;
}
