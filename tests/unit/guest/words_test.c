/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime_priv.h"
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
