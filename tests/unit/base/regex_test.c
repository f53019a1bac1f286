/* SPDX-License-Identifier: Apache-2.0 */
#include "base/regex.h"

#include <string.h>

#include "base/buf.h"
#include "test.h"

enum {
	PLENTY = 1000 * 1000,
};

static enum regex_result match(const char *pattern, const char *text)
{
	autoptr(regex) r = NULL;
	size_t steps = PLENTY;

	works(regex_new(pattern, &r));
	return regex_match(r, text, strlen(text), &steps);
}

TEST(patterns_match_as_in_go)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} rows[] = {
		{ "", "", true },
		{ "b", "abc", true },
		{ "^b", "abc", false },
		{ "c$", "abc", true },
		{ "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "abc-1", true },
		{ "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "abc-", false },
		{ "^(a|bc|d)$", "bc", true },
		{ "^(a|bc|d)$", "b", false },
		{ "^a{2,3}$", "aa", true },
		{ "^a{2,3}$", "aaaa", false },
		{ "^a{2,}$", "aaaaa", true },
		{ "^a{2}$", "a", false },
		{ "^a{,2}$", "a{,2}", true }, /* no count: it stands for itself */
		{ "^\\d+\\.\\d+$", "1.25", true },
		{ "^\\d+\\.\\d+$", "1x25", false },
		{ "^[^/]+$", "a/b", false },
		{ "^[]a]+$", "]a", true },
		{ "^[a\\-z]+$", "-", true },
		{ "^[a\\-z]+$", "b", false },
		{ "^[[:alpha:]_]+$", "Ab_", true },
		{ "^[^\\d\\s]+$", "a1", false },
		{ "(?i)^FOO$", "foo", true },
		{ "^(?i:F)OO$", "fOO", true },
		{ "^(?i:F)OO$", "foo", false },
		{ "^.$", "\xc3\xa9", true }, /* one character of two bytes */
		{ "^\xc3\xa9+$", "\xc3\xa9\xc3\xa9", true },
		{ "^[\xc3\xa0-\xc3\xbf]$", "\xc3\xa9", true },
		{ "^.$", "\n", false },
		{ "(?s)^.$", "\n", true },
		{ "(?m)^b$", "a\nb\nc", true },
		{ "^b$", "a\nb\nc", false },
		{ "\\bfoo\\b", "a foo b", true },
		{ "\\bfoo\\b", "afoo", false },
		{ "^\\Qa.b\\E$", "a.b", true },
		{ "^\\Qa.b\\E$", "axb", false },
		{ "^\\x41\\x{42}\\103$", "ABC", true },
		{ "^(?P<n>a)(?<m>b)$", "ab", true },
		{ "^(a*)*$", "b", false },
		{ "^(|a)+$", "aaa", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((match(rows[i].pattern, rows[i].text) == REGEX_YES) != rows[i].match) {
			print_error("%s with %s\n", rows[i].pattern, rows[i].text);
			fail();
		}
}

TEST(what_is_no_pattern_is_said_as_go_says_it)
{
	static const struct {
		const char *pattern, *error;
	} rows[] = {
		{ "[a-z", "missing closing ]: `[a-z`" },
		{ "(a", "missing closing ): `(a`" },
		{ "a)", "unexpected ): `a)`" },
		{ "*a", "missing argument to repetition operator: `*`" },
		{ "a**", "invalid nested repetition operator: `**`" },
		{ "[z-a]", "invalid character class range: `z-a`" },
		{ "a{1001}", "invalid repeat count: `{1001}`" },
		{ "a{3,2}", "invalid repeat count: `{3,2}`" },
		{ "(?=a)", "invalid or unsupported Perl syntax: `(?=`" },
		{ "\\k", "invalid escape sequence: `\\k`" },
		{ "\\", "trailing backslash at end of expression: ``" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(regex) r = NULL;
		autoptr(err) e = regex_new(rows[i].pattern, &r);

		is_true(err_is(e, ERR_MALFORMED));
		eq_str(err_text(e), rows[i].error);
	}
}

TEST(no_pattern_takes_more_than_its_share)
{
	static const char *const large[] = { "((a{100}){100}){100}",
					     "(((((){1000}){1000}){1000}){1000})" };
	autobuf deep = { 0 };
	autoptr(regex) r = NULL;
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(large); i++) {
		e = regex_new(large[i], &r);
		is_true(err_is(e, ERR_TOO_LARGE));
		err_free(e);
	}
	for (int i = 0; i < 100000; i++)
		buf_add_char(&deep, '(');
	e = regex_new(buf_str(&deep), &r);
	is_true(err_is(e, ERR_MALFORMED));
	err_free(e);
}

/* What takes other engines until the end of the world. */
TEST(time_is_pattern_times_text)
{
	static const char *const hostile[] = { "^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(a*)*b",
					       "^(([a-z])+.)+[A-Z]([a-z])+$" };
	char text[2001];

	memset(text, 'a', 2000);
	text[2000] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
		autoptr(regex) r = NULL;
		size_t steps = PLENTY;

		works(regex_new(hostile[i], &r));
		is_true(regex_match(r, text, 2000, &steps) != REGEX_TOO_LONG);
		is_true(PLENTY - steps < 2001 * 4 * (regex_size(r) + 2));
	}
}

TEST(an_allowance_that_is_used_up_ends_a_match)
{
	autoptr(regex) r = NULL;
	size_t steps = 100;
	char text[1000];

	memset(text, 'a', sizeof(text));
	works(regex_new("a*b", &r));
	eq_int(regex_match(r, text, sizeof(text), &steps), REGEX_TOO_LONG);
	eq_int(steps, 0);
}
