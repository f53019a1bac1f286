/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/execute/words_priv.h"
#include "test.h"

static void eq_words(const char *text, const char *const *want)
{
	char **got = NULL;
	size_t i;

	works(words_split(text, &got));
	for (i = 0; want[i]; i++)
		eq_str(got[i], want[i]);
	is_true(!got[i]);
	words_free(got);
}

TEST(words_are_split_as_python_does)
{
	eq_words("", (const char *[]){ NULL });
	eq_words(" \t\n", (const char *[]){ NULL });
	eq_words("a", (const char *[]){ "a", NULL });
	eq_words("a b", (const char *[]){ "a", "b", NULL });
	eq_words(" a  'b c' \"d e\" ", (const char *[]){ "a", "b c", "d e", NULL });
	eq_words("a''b \"\" ''", (const char *[]){ "ab", "", "", NULL });
	eq_words("\"a\\\"b\\\\c\\d\"", (const char *[]){ "a\"b\\c\\d", NULL });
	eq_words("'a\\b' a\\ b # c | $d",
		 (const char *[]){ "a\\b", "a b", "#", "c", "|", "$d", NULL });
}

TEST(open_quotes_and_escapes_are_rejected)
{
	char **got = NULL;

	fails(words_split("echo 'x", &got), ERR_INVALID);
	fails(words_split("echo \"x\\\"", &got), ERR_INVALID);
	fails(words_split("echo x\\", &got), ERR_INVALID);
	is_true(!got);
}

TEST(only_what_every_shell_would_just_execute_is_plain)
{
	static const struct {
		const char *text;
		bool plain;
	} rows[] = {
		{ "/bin/true", true },
		{ "python3 main.py --n=3 -x a,b:c@d%e+f", true },
		{ "  ls   -la  ", true },
		{ "./run_1", true },
		{ "echoes", true },
		{ "/bin/echo", true },
		{ "", false },
		{ "  ", false },
		{ "echo x", false },  /* a builtin, whose words are its own */
		{ "if true", false }, /* a reserved word */
		{ ". ./env", false },
		{ ": x", false },
		{ "A=1 env", false }, /* an assignment */
		{ "%1", false },      /* a job of bash */
		{ "ls *", false },
		{ "ls ~", false },
		{ "ls a?", false },
		{ "ls [ab]", false },
		{ "ls {a,b}", false },
		{ "ls $HOME", false },
		{ "ls `x`", false },
		{ "ls 'a b'", false },
		{ "ls \"a\"", false },
		{ "ls \\a", false },
		{ "ls | wc", false },
		{ "ls > f", false },
		{ "ls < f", false },
		{ "ls & ls", false },
		{ "ls; ls", false },
		{ "(ls)", false },
		{ "ls #x", false },
		{ "! ls", false },
		{ "ls\nls", false },
		{ "ls\tx", false },
		{ "ls \xc3\xa4", false },
		{ "^x", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (words_plain(rows[i].text) != rows[i].plain)
			fail_msg("\"%s\" is %splain", rows[i].text, rows[i].plain ? "not " : "");
}
