/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "json/json_priv.h"

/* malloc'd and NUL-terminated. An absent value is written as null. */
static char *write_text(const struct json *v, yyjson_write_flag how, size_t *ret_len)
{
	yyjson_mut_val none = { .tag = YYJSON_TYPE_NULL };
	yyjson_write_err why;
	char *text;

	text = yyjson_mut_val_write_opts(
		v ? val_of(v) : &none, how | YYJSON_WRITE_INF_AND_NAN_AS_NULL, NULL, ret_len, &why);
	if (!text)
		abort(); /* out of memory: strings were made valid on entry */
	return text;
}

static void write_to(const struct json *v, yyjson_write_flag how, struct buf *out)
{
	size_t len;
	autofree char *text = write_text(v, how, &len);

	buf_add(out, text, len);
}

void json_write(const struct json *v, struct buf *out)
{
	write_to(v, YYJSON_WRITE_NOFLAG, out);
}

void json_write_pretty(const struct json *v, struct buf *out)
{
	write_to(v, YYJSON_WRITE_PRETTY_TWO_SPACES, out);
}

struct bytes *json_to_bytes(const struct json *v)
{
	size_t len;
	autofree char *text = write_text(v, YYJSON_WRITE_NOFLAG, &len);

	return bytes_new(text, len);
}

char *json_to_text(const struct json *v)
{
	size_t len;

	return write_text(v, YYJSON_WRITE_NOFLAG, &len);
}
