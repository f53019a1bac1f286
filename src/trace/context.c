/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "trace/trace.h"

/*
 * W3C Trace Context: 00-<32 hex digits>-<16 hex digits>-<flags>. Strangers send it; what is not
 * exactly that, or is all zeros, begins a new trace. A later version may have more behind.
 */
enum {
	ANNOTATION_MAX = 4096,
	AT_TRACE = 3,
	AT_SPAN = AT_TRACE + 32 + 1,
	AT_FLAGS = AT_SPAN + 16 + 1,
	AT_END = AT_FLAGS + 2,
};

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: not len bytes in lower-case hexadecimal. */
static bool read_hex(const char *text, uint8_t *ret, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);

		if (low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool is_zero(const uint8_t *p, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= p[i];
	return !any;
}

bool trace_context_known(const struct trace_context *c)
{
	return !is_zero(c->trace, sizeof(c->trace)) && !is_zero(c->span, sizeof(c->span));
}

bool trace_parent_read(const char *text, struct trace_context *ret)
{
	struct trace_context c = { 0 };
	size_t len = text ? strnlen(text, AT_END + 1) : 0;
	uint8_t version, flags;

	*ret = (struct trace_context){ 0 };
	if (len < AT_END || text[AT_TRACE - 1] != '-' || text[AT_SPAN - 1] != '-' ||
	    text[AT_FLAGS - 1] != '-')
		return false;
	if (!read_hex(text, &version, 1) || version == 0xff ||
	    (len > AT_END && (!version || text[AT_END] != '-')))
		return false;
	if (!read_hex(text + AT_TRACE, c.trace, sizeof(c.trace)) ||
	    !read_hex(text + AT_SPAN, c.span, sizeof(c.span)) ||
	    !read_hex(text + AT_FLAGS, &flags, 1) || !trace_context_known(&c))
		return false;
	c.sampled = flags & 1;
	*ret = c;
	return true;
}

void trace_parent_write(const struct trace_context *c, char ret[TRACE_PARENT_MAX])
{
	char trace[2 * sizeof(c->trace) + 1], span[2 * sizeof(c->span) + 1];

	hex_encode(c->trace, sizeof(c->trace), trace);
	hex_encode(c->span, sizeof(c->span), span);
	(void)snprintf(ret, TRACE_PARENT_MAX, "00-%s-%s-%02x", trace, span, c->sampled);
}

bool trace_annotation_read(const char *text, struct trace_context *ret)
{
	size_t len = text ? strnlen(text, ANNOTATION_MAX + 1) : 0;
	autoptr(json_doc) d = NULL;
	autoptr(err) e = NULL;

	*ret = (struct trace_context){ 0 };
	if (!len || len > ANNOTATION_MAX)
		return false;
	e = json_parse(text, len, NULL, &d);
	return !e && trace_parent_read(json_get_str(json_root(d), "traceparent"), ret);
}

char *trace_annotation_write(const struct trace_context *c)
{
	char parent[TRACE_PARENT_MAX];

	trace_parent_write(c, parent);
	return xasprintf("{\"traceparent\":\"%s\"}", parent);
}
