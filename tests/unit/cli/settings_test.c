/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "test.h"

static const char *const levels[] = { "low", "high", NULL };

static const struct setting table[] = {
	{ "config", SETTING_TEXT, NULL, "FILE", "A file" },
	{ "listen", SETTING_ADDRESS, "127.0.0.1:6443", "ADDR:PORT", "Where" },
	{ "count", SETTING_INT, "3", "N", "How many", .min = 1, .max = 10 },
	{ "wait", SETTING_DURATION, "2s", "TIME", "How long" },
	{ "quiet", SETTING_BOOL, "false", NULL, "Say less" },
	{ "level", SETTING_CHOICE, "low", "LEVEL", "Which", .choices = levels },
	{ "env", SETTING_LIST, NULL, "NAME=VALUE", "Variables", .letter = 'e' },
	{ "inside", SETTING_BOOL, "false", NULL, "Inside", .letter = 'i' },
	{ "tty", SETTING_BOOL, "false", NULL, "A terminal", .letter = 't' },
	{ 0 },
};

#define READ(ret, ...)                                                               \
	settings_read(table, (int)ARRAY_LEN(((const char *[]){ "x", __VA_ARGS__ })), \
		      (char **)(const char *[]){ "x", __VA_ARGS__, NULL }, ret)

TEST(defaults_apply_when_nothing_is_given)
{
	autoptr(settings) s = NULL;

	works(READ(&s, "arg"));
	eq_str(settings_text(s, "listen"), "127.0.0.1:6443");
	eq_int(settings_int(s, "count"), 3);
	eq_int(settings_int(s, "wait"), 2000);
	is_false(settings_bool(s, "quiet"));
	eq_int(settings_n_args(s), 1);
	eq_str(settings_arg(s, 0), "arg");
	is_true(settings_arg(s, 1) == NULL);
}

TEST(flags_take_both_forms_and_end_at_two_dashes)
{
	autoptr(settings) s = NULL;

	works(READ(&s, "--count", "7", "--wait=90s", "--quiet", "--", "--level"));
	eq_int(settings_int(s, "count"), 7);
	eq_int(settings_int(s, "wait"), 90000);
	is_true(settings_bool(s, "quiet"));
	eq_str(settings_arg(s, 0), "--level");
}

TEST(wrong_values_are_invalid)
{
	static const char *const rows[] = { "--count=0",        "--count=11",       "--count=x",
					    "--listen=nowhere", "--listen=h:65536", "--quiet=maybe",
					    "--level=medium",   "--wait=5 parsecs", "--colour",
					    "--count" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(settings) s = NULL;

		fails(READ(&s, rows[i]), ERR_INVALID);
	}
}

TEST(flag_wins_over_variable_over_file)
{
	autoptr(settings) s = NULL;
	const char *text = "count: 4\nlevel: high\nquiet: true\n";
	char path[] = "/tmp/cay-settings-XXXXXX";
	int fd = mkstemp(path);

	works(fd_write_all(fd, text, strlen(text)));
	setenv("CAY_CONFIG", path, 1);
	setenv("CAY_COUNT", "5", 1);
	setenv("CAY_LEVEL", "low", 1);
	works(READ(&s, "--count=6"));
	eq_int(settings_int(s, "count"), 6);
	eq_str(settings_text(s, "level"), "low");
	is_true(settings_bool(s, "quiet"));
	unsetenv("CAY_CONFIG");
	unsetenv("CAY_COUNT");
	unsetenv("CAY_LEVEL");
	close(fd);
	unlink(path);
}

static const char *table_default(const char *name)
{
	for (const struct setting *row = table; row->name; row++)
		if (str_eq(row->name, name))
			return row->fallback;
	return NULL;
}

static struct err *read_text(const char *text, struct settings **ret)
{
	char path[] = "/tmp/cay-settings-XXXXXX";
	int fd = mkstemp(path);
	struct err *e;

	works(fd_write_all(fd, text, strlen(text)));
	e = READ(ret, "--config", path);
	close(fd);
	unlink(path);
	return e;
}

TEST(an_error_in_the_file_names_line_and_key)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "# a comment\n\ncolour: blue\n", ":3: colour: there is no such key" },
		{ "count: 4\n\"level\" : medium\n", ":2: level: \"medium\" is invalid" },
		{ "count:\n", ":1: count: it has no value" },
		{ "quiet: true\ncount: [1, 2]\n",
		  ":2: count: it must be a single value, not a list" },
		{ "env: [{a: b}]\n", ":1: env: it must be a single value, not an object" },
		{ "config: /etc/other.yaml\n",
		  ":1: config: a config file cannot name another one" },
		{ "counts: 1\ncount: none\n", ":1: counts: there is no such key" },
		{ "{count: none}\n", ": count: \"none\" is invalid" },
		{ "a: b\n---\na: b\n", "more than one document" },
		{ "- a\n", "not a mapping" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct settings *s = NULL;
		struct err *e = read_text(rows[i].text, &s);

		is_true(err_is(e, ERR_INVALID));
		if (!strstr(err_text(e), rows[i].says))
			eq_str(err_text(e), rows[i].says);
		err_free(e);
	}
}

TEST(a_file_of_comments_sets_nothing_and_a_list_sets_all)
{
	autoptr(settings) s = NULL;
	autoptr(settings) s2 = NULL;

	works(read_text("# count: 9\n\n", &s));
	eq_str(settings_text(s, "count"), table_default("count"));
	works(read_text("env: [A=1, B=2]\n", &s2));
	eq_str(settings_nth(s2, "env", 0), "A=1");
	eq_str(settings_nth(s2, "env", 1), "B=2");
}

TEST(help_and_man_name_every_row)
{
	autobuf help = { 0 }, man = { 0 };

	settings_help(table, &help);
	settings_man(table, &man);
	for (const struct setting *row = table; row->name; row++) {
		is_true(strstr(buf_str(&help), row->name));
		is_true(strstr(buf_str(&man), row->help));
	}
	is_true(strstr(buf_str(&man), "CAY_LISTEN"));
}

TEST(letters_stand_together_and_take_values)
{
	autoptr(settings) s = NULL;
	autoptr(settings) s2 = NULL;

	works(READ(&s, "-it", "-e", "A=1", "-eB=2", "--env=C=3"));
	is_true(settings_bool(s, "inside") && settings_bool(s, "tty"));
	eq_str(settings_nth(s, "env", 0), "A=1");
	eq_str(settings_nth(s, "env", 1), "B=2");
	eq_str(settings_nth(s, "env", 2), "C=3");
	is_true(settings_nth(s, "env", 3) == NULL);
	fails(READ(&s2, "-ix"), ERR_INVALID);
	fails(READ(&s2, "-e"), ERR_INVALID);
}
