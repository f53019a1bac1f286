/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <assert.h>

enum {
	SMALL = 64 * 1024, /* buf_clear() keeps no more than this */
};

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

/*
 * Makes space for len bytes and a NUL: by moving the bytes to the front if that is enough,
 * otherwise by growing.
 */
char *buf_reserve(struct buf *b, size_t len)
{
	size_t need, cap;

	assert(len < SIZE_MAX / 4 && b->len < SIZE_MAX / 4);
	need = b->len + len + 1;
	if (b->cap - b->off >= need)
		return b->data + b->off + b->len;
	if (b->off && b->len)
		memmove(b->data, b->data + b->off, b->len);
	b->off = 0;
	if (b->cap < need || b->cap / 2 < b->len) {
		cap = MAX(need, b->cap + b->cap / 2);
		cap = MAX(cap, (size_t)64);
		b->data = xrealloc(b->data, cap);
		b->cap = cap;
	}
	return b->data + b->len;
}

void buf_wrote(struct buf *b, size_t len)
{
	assert(len <= b->cap - b->off - b->len);
	b->len += len;
}

void buf_eat(struct buf *b, size_t len)
{
	assert(len <= b->len);
	b->off += len;
	b->len -= len;
	if (!b->len)
		b->off = 0;
}

void buf_clear(struct buf *b)
{
	if (b->cap > SMALL)
		buf_done(b);
	b->off = b->len = 0;
}

void buf_add(struct buf *b, const void *p, size_t len)
{
	char *to = buf_reserve(b, len);

	if (len)
		memcpy(to, p, len);
	b->len += len;
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
	*buf_reserve(b, 1) = c;
	b->len++;
}

void buf_add_uint(struct buf *b, uint64_t n)
{
	char text[20], *at = text + sizeof(text);

	do
		*--at = (char)('0' + n % 10);
	while (n /= 10);
	buf_add(b, at, (size_t)(text + sizeof(text) - at));
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	size_t room = b->cap - b->off - b->len;
	va_list again;
	int len;

	va_copy(again, ap);
	len = vsnprintf(room ? b->data + b->off + b->len : NULL, room, fmt, again);
	va_end(again);
	if (len <= 0)
		return;
	if ((size_t)len >= room) /* not all of it, with its NUL */
		(void)vsnprintf(buf_reserve(b, (size_t)len), (size_t)len + 1, fmt, ap);
	b->len += (size_t)len;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

const char *buf_str(struct buf *b)
{
	*buf_reserve(b, 0) = '\0';
	return buf_head(b);
}

char *buf_steal(struct buf *b, size_t *ret_len)
{
	char *data;

	(void)buf_str(b);
	if (b->off)
		memmove(b->data, b->data + b->off, b->len + 1);
	if (ret_len)
		*ret_len = b->len;
	data = b->data;
	*b = (struct buf){ 0 };
	return data;
}
