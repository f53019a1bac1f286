/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "json/json_priv.h"

enum {
	DESK = 16 * 1024, /* most texts are much shorter, and are then written on the stack */
};

/* Room on the stack for a text. It is not cleared: that would cost more than it saves. */
struct desk {
	_Alignas(max_align_t) char room[DESK];
};

/* A text, on a desk or malloc'd. */
struct text {
	char *text; /* NUL-terminated */
	size_t len;
	char *heap; /* the same, or NULL */
};

static void text_done(struct text *t)
{
	free(t->heap);
}
#define autotext __attribute__((cleanup(text_done))) struct text

static char *write_with(const yyjson_alc *alloc, const struct json *v, yyjson_write_flag how,
			size_t *ret_len)
{
	yyjson_mut_val none = { .tag = YYJSON_TYPE_NULL };
	yyjson_write_err why;

	return yyjson_mut_val_write_opts(v ? val_of(v) : &none,
					 how | YYJSON_WRITE_INF_AND_NAN_AS_NULL, alloc, ret_len,
					 &why);
}

/* malloc'd and NUL-terminated. An absent value is written as null. */
static char *write_text(const struct json *v, yyjson_write_flag how, size_t *ret_len)
{
	char *text = write_with(NULL, v, how, ret_len);

	if (!text)
		abort(); /* out of memory: strings were made valid on entry */
	return text;
}

static struct text text_of(const struct json *v, yyjson_write_flag how, struct desk *desk)
{
	struct text t = { 0 };
	yyjson_alc alloc;

	(void)yyjson_alc_pool_init(&alloc, desk->room, sizeof(desk->room));
	t.text = write_with(&alloc, v, how, &t.len);
	if (!t.text)
		t.text = t.heap = write_text(v, how, &t.len);
	return t;
}

static void write_to(const struct json *v, yyjson_write_flag how, struct buf *out)
{
	struct desk desk;
	autotext t = text_of(v, how, &desk);

	buf_add(out, t.text, t.len);
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
	struct desk desk;
	autotext t = text_of(v, YYJSON_WRITE_NOFLAG, &desk);

	return bytes_new(t.text, t.len);
}

char *json_to_text(const struct json *v)
{
	size_t len;

	return write_text(v, YYJSON_WRITE_NOFLAG, &len);
}
