/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/json_text.h"

#include <string.h>

#include "base/str.h"
#include "test.h"

static void eq_escaped(const char *in, size_t len, bool newlines, const char *want)
{
	autobuf out = { 0 };

	eq_int(json_escape(&out, in, len, len, newlines), len);
	eq_str(buf_str(&out), want);
}

TEST(text_is_escaped)
{
	eq_escaped("a\"b\\c/\b\t\n\v\f\r\x01\x7f", 14, false,
		   "a\\\"b\\\\c/\\b\\t\\n\\u000b\\f\\r\\u0001\x7f");
	eq_escaped("a\0b", 3, false, "a\\u0000b");
	eq_escaped("a\r\nb\rc\r", 7, true, "a\\nb\\nc\\n");
	eq_escaped("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8f\x9d", 9, false,
		   "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8f\x9d");
}

#define FFFD "\xef\xbf\xbd"

TEST(bytes_that_are_not_utf8_are_replaced)
{
	eq_escaped("\xff", 1, false, FFFD);
	eq_escaped("a\x80z", 3, false, "a" FFFD "z");
	eq_escaped("\xc3", 1, false, FFFD);
	eq_escaped("\xe2\x82", 2, false, FFFD FFFD);
	eq_escaped("\xc0\xaf", 2, false, FFFD FFFD);                   /* overlong */
	eq_escaped("\xed\xa0\x80", 3, false, FFFD FFFD FFFD);          /* surrogate */
	eq_escaped("\xf4\x90\x80\x80", 4, false, FFFD FFFD FFFD FFFD); /* beyond Unicode */
}

TEST(pieces_join_to_the_whole_and_cut_no_character)
{
	static const char text[] = "\xf0\x9f\x8f\x9d\r\n\xc3\xa4x\r\r\n\xe2\x82\xac";
	size_t len = sizeof(text) - 1;
	autobuf whole = { 0 };

	(void)json_escape(&whole, text, len, len, true);
	for (size_t piece = 1; piece < len; piece++) {
		autobuf out = { 0 };
		size_t at = 0;

		while (at < len)
			at += json_escape(&out, text + at, len - at, piece, true);
		eq_int(at, len);
		eq_str(buf_str(&out), buf_str(&whole));
		is_true(utf8_valid(buf_head(&out), out.len));
	}
}
