/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay run`: a sandbox for one command. Whatever happens to the command, to the connection or to
 * us (short of SIGKILL), what was made for it is removed; --timeout makes the server see to that
 * too.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "cli/sandbox/sandbox_priv.h"

enum {
	SPARE_MS = 60 * 1000, /* for the server to end what we did not */
	HOUR_MS = 3600 * 1000,
	ENVS_MAX = 256,
	SUFFIX_LEN = 8,
	REMOVE_TRIES = 20,
	REMOVE_REST_MS = 500,
};

const struct setting run_settings[] = {
	{ "template", SETTING_TEXT, NULL, "NAME", "Template of the sandbox" },
	{ "pool", SETTING_TEXT, NULL, "NAME", "Pool to claim the sandbox from" },
	{ "image", SETTING_TEXT, NULL, "IMAGE",
	  "Image of a sandbox without pool and template (default: host)" },
	{ "env", SETTING_LIST, NULL, "NAME=VALUE",
	  "Variable of the command's environment; may be given again", .letter = 'e' },
	{ "stdin", SETTING_BOOL, "false", NULL, "Pass our standard input on", .letter = 'i' },
	{ "tty", SETTING_BOOL, "false", NULL, "Give the command a terminal", .letter = 't' },
	{ "container", SETTING_TEXT, NULL, "NAME", "Container to run in, of several",
	  .letter = 'c' },
	{ "timeout", SETTING_DURATION, "0s", "TIME",
	  "End the command after this time, with exit status 124; 0s: never" },
	{ "start-timeout", SETTING_DURATION, "60s", "TIME", "How long to wait for the sandbox",
	  .max = HOUR_MS },
	{ "keep", SETTING_BOOL, "false", NULL, "Do not remove the sandbox afterwards" },
	REMOTE_SETTINGS,
	{ 0 },
};

static struct err *check(const struct settings *s)
{
	int n = !!settings_text(s, "template") + !!settings_text(s, "pool") +
		!!settings_text(s, "image");

	if (!settings_n_args(s))
		return err_new(ERR_INVALID,
			       "there is no command; use cay run -- COMMAND [ARGUMENT...]");
	if (n > 1)
		return err_new(ERR_INVALID, "--template, --pool and --image exclude each other");
	for (size_t i = 0; settings_nth(s, "env", i); i++) {
		const char *text = settings_nth(s, "env", i);

		if (!strchr(text, '=') || *text == '=')
			return err_new(ERR_INVALID, "--env: \"%s\" is not NAME=VALUE", text);
		if (i >= ENVS_MAX)
			return err_new(ERR_INVALID, "--env: there are more than %d", ENVS_MAX);
	}
	return NULL;
}

/* From which pool, or NULL for a sandbox without one. */
static struct err *choose(struct remote *r, const struct settings *s, struct made *m, char **ret)
{
	const char *template = settings_text(s, "template");
	struct err *e;

	*ret = xstrdup(settings_text(s, "pool"));
	if (*ret || settings_text(s, "image"))
		return NULL;
	e = make_choose(r, template, ret);
	if (e || *ret || !template)
		return e;
	e = make_pool(r, template, m);
	*ret = xstrdup(m->pool);
	return e;
}

static struct err *make(struct remote *r, const struct settings *s, struct made *m)
{
	uint64_t timeout = (uint64_t)settings_int(s, "timeout");
	struct make_spec spec = { .wait_ms = (uint64_t)settings_int(s, "start-timeout") };
	autofree char *pool = NULL, *name = NULL;
	char suffix[SUFFIX_LEN + 1];
	struct err *e = choose(r, s, m, &pool);

	if (e)
		return e;
	random_suffix(suffix, SUFFIX_LEN);
	name = xasprintf("run-%s", suffix);
	spec.name = name;
	spec.pool = pool;
	spec.image = str_or(settings_text(s, "image"), "host");
	if (timeout && !settings_bool(s, "keep"))
		spec.ttl_ms = timeout + spec.wait_ms + SPARE_MS;
	return make_sandbox(r, &spec, m);
}

/*
 * Variables go to the command and not into the claim: that would not be given a warm sandbox, and
 * the template may refuse it.
 */
static const char **words(const struct settings *s)
{
	const char **argv = xnew_n(const char *, settings_n_args(s) + ENVS_MAX + 2);
	size_t n = 0;

	if (settings_nth(s, "env", 0))
		argv[n++] = "env";
	for (size_t i = 0; settings_nth(s, "env", i); i++)
		argv[n++] = settings_nth(s, "env", i);
	for (size_t i = 0; i < settings_n_args(s); i++)
		argv[n++] = settings_arg(s, i);
	return argv;
}

static struct err *run_in(struct remote *r, const struct settings *s, const struct made *m,
			  int *ret_code)
{
	autofree const char **argv = words(s);
	struct session_spec spec = {
		.ns = remote_ns(r),
		.pod = m->sandbox,
		.container = settings_text(s, "container"),
		.argv = argv,
		.in = settings_bool(s, "stdin"),
		.tty = settings_bool(s, "tty"),
		.more = !settings_bool(s, "keep"), /* the removal */
	};
	uint64_t timeout = (uint64_t)settings_int(s, "timeout");
	struct err *e = attach_run(r, &spec, timeout, ret_code);

	if (err_is(e, ERR_TIMEOUT) && timeout) {
		err_free(e);
		e = err_new(ERR_TIMEOUT, "the command did not end within --timeout %s",
			    settings_text(s, "timeout"));
	}
	return e;
}

/* A server that is just being started again is waited for. */
static struct err *remove_made(struct remote *r, const struct made *m)
{
	static const bool never = false;
	struct err *e = made_remove(r, m);

	for (int i = 0; i < REMOVE_TRIES && err_is(e, ERR_UNAVAILABLE); i++) {
		err_free(e);
		e = remote_until(r, &never, REMOVE_REST_MS);
		if (err_is(e, ERR_CANCELED))
			return e;
		err_free(e);
		e = made_remove(r, m);
	}
	return e;
}

static void clean_up(struct remote *r, const struct settings *s, const struct made *m)
{
	const char *name = m->claim ? m->claim : m->sandbox;
	struct err *e;

	if (settings_bool(s, "keep")) {
		if (name)
			(void)fprintf(stderr, "cay: run: kept %s; remove it with `cay delete %s`\n",
				      name, name);
		return;
	}
	remote_settle(r);
	e = remove_made(r, m);
	if (e)
		(void)cli_fail(err_wrap(e, "run: %s is left", name ? name : m->pool));
}

int run_run(const struct command *c unused, const struct settings *s)
{
	autoptr(remote) r = NULL;
	struct made m = { 0 };
	int code = EXIT_FAILED;
	struct err *e = check(s);

	if (!e)
		e = remote_open(s, &r);
	if (e)
		return cli_fail(err_wrap(e, "run"));
	remote_catch(r);
	e = make(r, s, &m);
	if (!e)
		e = run_in(r, s, &m, &code);
	clean_up(r, s, &m);
	made_done(&m);
	return attach_exit(r, err_wrap(e, "run"), code);
}
