/* SPDX-License-Identifier: Apache-2.0 */
/* `cay exec` and `cay sh`: a command, or a shell, in a sandbox that is there already. */
#include <unistd.h>

#include "base/mem.h"
#include "cli/sandbox/sandbox_priv.h"

const struct setting exec_settings[] = {
	{ "stdin", SETTING_BOOL, "false", NULL, "Pass our standard input on", .letter = 'i' },
	{ "tty", SETTING_BOOL, "false", NULL, "Give the command a terminal", .letter = 't' },
	{ "container", SETTING_TEXT, NULL, "NAME", "Container to run in, of several",
	  .letter = 'c' },
	REMOTE_SETTINGS,
	{ 0 },
};

const struct setting sh_settings[] = {
	{ "container", SETTING_TEXT, NULL, "NAME", "Container to run in, of several",
	  .letter = 'c' },
	REMOTE_SETTINGS,
	{ 0 },
};

static int run_at(const struct command *c, const struct settings *s, struct session_spec *spec)
{
	autoptr(remote) r = NULL;
	struct named t = { 0 };
	int code = EXIT_FAILED;
	struct err *e = remote_open(s, &r);

	if (!e)
		e = named_find(r, settings_arg(s, 0), &t);
	if (!e) {
		remote_catch(r);
		spec->ns = t.ns;
		spec->pod = t.pod;
		spec->container = settings_text(s, "container");
		e = attach_run(r, spec, 0, &code);
	}
	if (e && t.pod)
		e = named_trouble(r, &t, e);
	named_done(&t);
	return r ? attach_exit(r, err_wrap(e, "%s", c->name), code)
		 : cli_fail(err_wrap(e, "%s", c->name));
}

int exec_run(const struct command *c, const struct settings *s)
{
	autofree const char **argv = xnew_n(const char *, settings_n_args(s) + 1);
	struct session_spec spec = {
		.argv = argv,
		.in = settings_bool(s, "stdin"),
		.tty = settings_bool(s, "tty"),
	};

	if (settings_n_args(s) < 2)
		return cli_fail(err_new(
			ERR_INVALID, "exec needs a name and a command: cay exec NAME -- COMMAND"));
	for (size_t i = 1; i < settings_n_args(s); i++)
		argv[i - 1] = settings_arg(s, i);
	return run_at(c, s, &spec);
}

int sh_run(const struct command *c, const struct settings *s)
{
	static const char *const argv[] = {
		"sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi",
		NULL
	};
	struct session_spec spec = { .argv = argv, .in = true, .tty = isatty(STDIN_FILENO) };

	if (settings_n_args(s) != 1)
		return cli_fail(err_new(ERR_INVALID, "sh needs one name: cay sh NAME"));
	return run_at(c, s, &spec);
}
