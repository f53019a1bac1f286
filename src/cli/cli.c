/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "json/yaml_tree.h"

#define MAX_MANIFESTS (16 * 1024 * 1024)

struct cli_node_ops cli_node;
struct cli_data_ops cli_data;

static void overview(const struct command *table, struct buf *out)
{
	buf_add_str(
		out,
		"cay: a sandbox of its own for every agent, on one machine, behind the Kubernetes API\n\n"
		"usage: cay COMMAND [flags]\n\n");
	for (const struct command *c = table; c->name; c++)
		if (!c->hidden)
			buf_printf(out, "  %-12s %s\n", c->name, c->summary);
	buf_add_str(
		out,
		"\n`cay COMMAND --help` describes a command. To begin, run `cay serve`, then "
		"`cay run -- COMMAND`, or `kubectl --kubeconfig DIR/admin.kubeconfig get sandboxes`.\n");
}

static void command_help(const struct command *c, struct buf *out)
{
	buf_printf(out, "usage: cay %s %s\n\n%s.\n", c->name, c->usage, c->summary);
	if (c->text)
		buf_printf(out, "\n%s\n", c->text);
	buf_add_str(out, "\n");
	settings_help(c->settings, out);
}

/* Something could not be written, and that was told. */
static bool output_lost;

static int ended(int code)
{
	return code == EXIT_OK && output_lost ? EXIT_FAILED : code;
}

static const struct command *find(const struct command *table, const char *name)
{
	for (const struct command *c = table; c->name; c++)
		if (str_eq(c->name, name))
			return c;
	return NULL;
}

/* True if its usage begins with words instead of flags, or it says so. */
static bool takes_words(const struct command *c)
{
	return c->words || (*c->usage && *c->usage != '[');
}

/* What was wrong with its flags; it may have been one of the command that it is to run. */
static int wrong_flag(const struct command *c, struct err *e)
{
	autoptr(err) was = e;

	if (strstr(c->usage, "-- COMMAND"))
		return cli_fail(err_new(err_code(e), "%s: %s; words of the command follow --",
					c->name, err_text(e)));
	return cli_fail(err_wrap(take(was), "%s", c->name));
}

static int run(const struct command *c, int argc, char **argv)
{
	autoptr(settings) s = NULL;
	autobuf help = { 0 };
	struct err *e = settings_read(c->settings, argc, argv, &s);

	if (e)
		return wrong_flag(c, e);
	if (settings_n_args(s) && !takes_words(c))
		return cli_fail(err_new(ERR_INVALID, "%s takes only flags, not \"%s\"", c->name,
					settings_arg(s, 0)));
	if (!settings_help_wanted(s))
		return ended(c->run(c, s));
	if (!c->help || !c->help(s, &help))
		command_help(c, &help);
	cli_write(&help);
	return ended(EXIT_OK);
}

int cli_main(const struct command *table, int argc, char **argv)
{
	static const char *const help_words[] = { "help", "--help", "-h", NULL };
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *c = name ? find(table, name) : NULL;
	autobuf text = { 0 };

	if (c)
		return run(c, argc - 1, argv + 1);
	if (str_eq(name, "--version"))
		return run(find(table, "version"), 1, argv);
	if (name && !str_in(name, help_words))
		return cli_fail(err_new(ERR_INVALID,
					"there is no command \"%s\"; `cay help` lists the commands",
					name));
	c = argc > 2 && name ? find(table, argv[2]) : NULL;
	if (c)
		command_help(c, &text);
	else
		overview(table, &text);
	cli_write(&text);
	return ended(name ? EXIT_OK : EXIT_USAGE);
}

void cli_disarm(char *text, char keep)
{
	for (char *p = text; *p; p++)
		if (((unsigned char)*p < ' ' && *p != keep) || *p == '\177')
			*p = '?';
		else if ((unsigned char)p[0] == 0xc2 && ((unsigned char)p[1] & 0xe0) == 0x80)
			p[0] = p[1] = '?'; /* U+0080 to U+009F: as ESC and a letter */
}

int cli_fail(struct err *e)
{
	int code = err_is(e, ERR_INVALID) ? EXIT_USAGE : EXIT_FAILED;
	autofree char *text = xstrdup(err_text(e));

	cli_disarm(text, '\n');                   /* it may quote what somebody else wrote */
	(void)fprintf(stderr, "cay: %s\n", text); /* there is nowhere left to report a failure */
	err_free(e);
	return code;
}

void cli_write(const struct buf *text)
{
	if (fwrite(buf_head(text), 1, text->len, stdout) == text->len && fflush(stdout) == 0)
		return;
	if (errno == EPIPE || output_lost) /* a reader that has left is not our error */
		return;
	output_lost = true;
	(void)cli_fail(err_sys(errno, "write the output"));
}

void cli_print(const struct json *v, const char *format)
{
	autobuf out = { 0 };

	if (str_eq(format, "yaml"))
		yaml_write(v, &out);
	else
		json_write_pretty(v, &out);
	if (out.len && buf_head(&out)[out.len - 1] != '\n')
		buf_add_char(&out, '\n');
	cli_write(&out);
}

struct err *cli_yaml_load(const char *path, struct json_doc **ret)
{
	autofree char *text = NULL;
	size_t len;
	struct err *e = file_read(AT_FDCWD, str_eq(path, "-") ? "/dev/stdin" : path, MAX_MANIFESTS,
				  &text, &len);

	if (!e)
		e = yaml_parse_all(text, len, ret);
	return err_wrap(e, "read %s", path);
}
