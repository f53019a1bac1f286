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

TEST(unknown_key_in_the_file_is_invalid)
{
	autoptr(settings) s = NULL;
	char path[] = "/tmp/cay-settings-XXXXXX";
	int fd = mkstemp(path);

	works(fd_write_all(fd, "colour: blue\n", 13));
	fails(READ(&s, "--config", path), ERR_INVALID);
	close(fd);
	unlink(path);
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
