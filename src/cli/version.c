/* SPDX-License-Identifier: Apache-2.0 */
/* `cay version`: which version this is, and what it was built with and runs on. */
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting version_settings[] = {
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ 0 },
};

int version_run(const struct command *c unused, const struct settings *s)
{
	const char *format = settings_text(s, "output");
	autoptr(json_doc) d = json_doc_new();
	struct json *v = json_obj(d);
	autobuf out = { 0 };
	struct utsname u;

	uname(&u);
	json_set_str(d, v, "version", CAY_VERSION);
	json_set_str(d, v, "compiler", __VERSION__);
	json_set_str(d, v, "kernel", u.release);
	json_set_str(d, v, "machine", u.machine);
	if (!str_eq(format, "text")) {
		cli_print(v, format);
		return EXIT_OK;
	}
	buf_printf(&out, "cay %s (compiler %s, kernel %s, %s)\n", CAY_VERSION, __VERSION__,
		   u.release, u.machine);
	cli_write(&out);
	return EXIT_OK;
}
