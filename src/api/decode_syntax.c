/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode_priv.h"
#include "base/buf.h"
#include "base/str.h"

/*
 * Text that is not JSON, in Go's words: "invalid character 'x' after array element". Our parser has
 * already refused it; this one only finds out how Go would word the error, and builds nothing.
 */
struct scan {
	const char *text;
	size_t len, at;
	const char *why; /* the context of the wrong character; NULL: the text ended */
	bool whole;      /* nothing is wrong with it */
};

static char now(const struct scan *s)
{
	return s->at < s->len ? s->text[s->at] : '\0';
}

static bool wrong(struct scan *s, const char *why)
{
	s->why = s->at < s->len ? why : NULL;
	return false;
}

static void skip_space(struct scan *s)
{
	while (s->at < s->len && strchr(" \t\r\n", s->text[s->at]) && s->text[s->at])
		s->at++;
}

static bool one_of(struct scan *s, const char *set)
{
	if (s->at >= s->len || !s->text[s->at] || !strchr(set, s->text[s->at]))
		return false;
	s->at++;
	return true;
}

static bool escape(struct scan *s)
{
	if (one_of(s, "\"\\/bfnrt"))
		return true;
	if (!one_of(s, "u"))
		return wrong(s, "in string escape code");
	for (int i = 0; i < 4; i++)
		if (!one_of(s, "0123456789abcdefABCDEF"))
			return wrong(s, "in \\u hexadecimal character escape");
	return true;
}

static bool string(struct scan *s)
{
	for (s->at++; s->at < s->len;) {
		unsigned char c = (unsigned char)s->text[s->at];

		if (c < ' ')
			return wrong(s, "in string literal");
		s->at++;
		if (c == '"')
			return true;
		if (c == '\\' && !escape(s))
			return false;
	}
	return wrong(s, NULL);
}

static bool digits(struct scan *s, const char *why)
{
	if (!one_of(s, "0123456789"))
		return wrong(s, why);
	while (one_of(s, "0123456789"))
		;
	return true;
}

static bool number(struct scan *s)
{
	(void)one_of(s, "-");
	if (!one_of(s, "0") && !digits(s, "in numeric literal"))
		return false;
	if (one_of(s, ".") && !digits(s, "after decimal point in numeric literal"))
		return false;
	if (!one_of(s, "eE"))
		return true;
	(void)one_of(s, "+-");
	return digits(s, "in exponent of numeric literal");
}

static bool literal(struct scan *s, const char *word)
{
	static const char *const whys[3][4] = {
		{ "in literal true (expecting 'r')", "in literal true (expecting 'u')",
		  "in literal true (expecting 'e')" },
		{ "in literal false (expecting 'a')", "in literal false (expecting 'l')",
		  "in literal false (expecting 's')", "in literal false (expecting 'e')" },
		{ "in literal null (expecting 'u')", "in literal null (expecting 'l')",
		  "in literal null (expecting 'l')" },
	};

	s->at++;
	for (size_t i = 1; word[i]; i++, s->at++)
		if (now(s) != word[i])
			return wrong(s, whys[*word == 't' ? 0 : *word == 'f' ? 1 : 2][i - 1]);
	return true;
}

static bool scalar(struct scan *s)
{
	switch (now(s)) {
	case '"':
		return string(s);
	case 't':
		return literal(s, "true");
	case 'f':
		return literal(s, "false");
	case 'n':
		return literal(s, "null");
	case '-':
	case '0' ... '9':
		return number(s);
	default:
		return wrong(s, "looking for beginning of value");
	}
}

static bool key(struct scan *s)
{
	skip_space(s);
	if (now(s) != '"')
		return wrong(s, "looking for beginning of object key string");
	if (!string(s))
		return false;
	skip_space(s);
	return one_of(s, ":") || wrong(s, "after object key");
}

/* After a value: closes what ends here. False: an error when why is set, the end when open is
 * empty. */
static bool after(struct scan *s, struct buf *open)
{
	while (open->len) {
		char in = buf_head(open)[open->len - 1];

		skip_space(s);
		if (one_of(s, ","))
			return in == '[' || key(s);
		if (!one_of(s, in == '[' ? "]" : "}"))
			return wrong(s, in == '[' ? "after array element"
						  : "after object key:value pair");
		open->len--;
	}
	skip_space(s);
	s->whole = s->at >= s->len;
	return wrong(s, "after top-level value");
}

/* At the start of a value. False when the scan is over, with or without an error. */
static bool value(struct scan *s, struct buf *open)
{
	bool list;

	skip_space(s);
	if (now(s) != '[' && now(s) != '{')
		return scalar(s) && after(s, open);
	list = now(s) == '[';
	s->at++;
	skip_space(s);
	if (one_of(s, list ? "]" : "}"))
		return after(s, open);
	buf_add_char(open, list ? '[' : '{');
	return list || key(s);
}

struct err *go_bad_json(const char *text, size_t len)
{
	struct scan s = { .text = text, .len = len };
	autobuf open = { 0 };
	unsigned char c;

	while (value(&s, &open))
		;
	if (s.whole)
		return NULL;
	if (s.at >= len)
		return err_new(ERR_MALFORMED, "unexpected end of JSON input");
	c = (unsigned char)text[s.at];
	if (c == '\'' || c == '\\')
		return err_new(ERR_MALFORMED, "invalid character '\\%c' %s", c, s.why);
	if (c == '\n' || c == '\t' || c == '\r')
		return err_new(ERR_MALFORMED, "invalid character '\\%c' %s",
			       c == '\n'   ? 'n'
			       : c == '\t' ? 't'
					   : 'r',
			       s.why);
	return err_new(ERR_MALFORMED,
		       c < ' ' || c == 0x7f ? "invalid character '\\x%02x' %s"
					    : "invalid character '%c' %s",
		       c, s.why);
}
