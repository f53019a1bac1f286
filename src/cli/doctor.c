/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay doctor`: what this host lacks, and what to do about it. The node knows what it needs; this
 * prints it and exits with a failure if `cay serve` would not work.
 */
#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting doctor_settings[] = {
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR",
	  "Data directory of the instance that runs or will run here" },
	{ "runtimes", SETTING_TEXT, NULL, "NAME=PROGRAM[,ARG...] ...",
	  "OCI runtimes of that instance, as given to `cay serve`" },
	{ "without-features", SETTING_TEXT, NULL, "NAME,...",
	  "Kernel features that the instance does without, as given to `cay serve`" },
	{ "quick", SETTING_BOOL, "false", NULL, "Skip starting a sandbox, which saves a second" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ 0 },
};

static void print_text(const struct json *checks, size_t n_failed)
{
	autobuf out = { 0 };
	size_t n_warned = 0;

	json_each(it, checks) {
		const char *status = str_or(json_get_str(it.val, "status"), "?");
		const char *fix = json_get_str(it.val, "fix");

		n_warned += str_eq(status, "warn");
		buf_printf(&out, "%-5s %-24s %s\n", status, json_get_str(it.val, "name"),
			   json_get_str(it.val, "message"));
		if (fix)
			buf_printf(&out, "%-30s fix: %s\n", "", fix);
	}
	buf_printf(&out, "%zu checks, %zu warnings, %zu failures\n", json_len(checks), n_warned,
		   n_failed);
	cli_write(&out);
}

int doctor_run(const struct command *c unused, const struct settings *s)
{
	const char *format = settings_text(s, "output");
	autoptr(json_doc) doc = NULL;
	size_t n_failed = 0;
	const struct cli_doctor about = { .data_dir = settings_text(s, "data-dir"),
					  .runtimes = settings_text(s, "runtimes"),
					  .without_features = settings_text(s, "without-features"),
					  .quick = settings_bool(s, "quick") };
	struct err *e = cli_node.doctor(&about, &doc, &n_failed);

	if (e)
		return cli_fail(err_wrap(e, "doctor"));
	if (str_eq(format, "text"))
		print_text(json_get(json_root(doc), "checks"), n_failed);
	else
		cli_print(json_root(doc), format);
	return n_failed ? EXIT_FAILED : EXIT_OK;
}
