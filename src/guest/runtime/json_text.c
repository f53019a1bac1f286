/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/json_text.h"

#include <string.h>

/* Length of the UTF-8 sequence at p; 0 if there is none, or it is overlong or a surrogate. */
static size_t sequence(const unsigned char *p, size_t len)
{
	uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 }, c;
	size_t n = p[0] < 0x80       ? 1
		   : p[0] >> 5 == 6  ? 2
		   : p[0] >> 4 == 14 ? 3
		   : p[0] >> 3 == 30 ? 4
				     : 0;

	if (n < 2)
		return n;
	if (n > len)
		return 0;
	c = p[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static void put_ascii(struct buf *out, unsigned char c)
{
	static const char letters[] = "btn\vfr"; /* from 8 on; \v has no escape of its own */

	if (c == '"' || c == '\\') {
		buf_add_char(out, '\\');
		buf_add_char(out, (char)c);
	} else if (c >= 8 && c <= 13 && c != 11) {
		buf_add_char(out, '\\');
		buf_add_char(out, letters[c - 8]);
	} else if (c < 0x20) {
		buf_printf(out, "\\u%04x", c);
	} else {
		buf_add_char(out, (char)c);
	}
}

size_t json_escape(struct buf *out, const char *in, size_t len, size_t max, bool newlines)
{
	const unsigned char *p = (const unsigned char *)in;
	size_t at = 0;

	while (at < len && at < max) {
		size_t n = sequence(p + at, len - at);

		if (n == 0) {
			buf_add(out, "\xef\xbf\xbd", 3);
			n = 1;
		} else if (n > 1) {
			buf_add(out, p + at, n);
		} else if (p[at] == '\r' && newlines) {
			n = at + 1 < len && p[at + 1] == '\n' ? 2 : 1;
			buf_add(out, "\\n", 2);
		} else {
			put_ascii(out, p[at]);
		}
		at += n;
	}
	return at;
}

void json_put_string(struct buf *out, const char *s)
{
	size_t len = strlen(s);

	buf_add_char(out, '"');
	(void)json_escape(out, s, len, len, false);
	buf_add_char(out, '"');
}
