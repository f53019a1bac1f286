/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/tar.h"

/* Where things are in a header. */
enum {
	NAME_AT = 0,
	NAME_LEN = 100,
	MODE_AT = 100,
	UID_AT = 108,
	GID_AT = 116,
	SIZE_AT = 124,
	MTIME_AT = 136,
	SUM_AT = 148,
	TYPE_AT = 156,
	LINK_AT = 157,
	MAGIC_AT = 257,
	ID_LEN = 8,
	NUMBER_LEN = 12,
};

/* Octal, or if it is too large, its bytes behind a mark. */
static void put_number(char *to, size_t len, uint64_t n)
{
	if (n < UINT64_C(1) << (3 * (len - 1))) {
		to[len - 1] = '\0';
		for (size_t i = len - 1; i-- > 0; n >>= 3)
			to[i] = (char)('0' + (n & 7));
		return;
	}
	for (size_t i = len; i-- > 0; n >>= 8)
		to[i] = (char)n;
	to[0] = (char)0x80;
}

static void put_block(struct buf *out, char type, const char *name, const struct tar_entry *e,
		      uint64_t size)
{
	char h[TAR_BLOCK] = { 0 };
	unsigned sum = 0;

	memcpy(h + NAME_AT, name, strnlen(name, NAME_LEN));
	put_number(h + MODE_AT, ID_LEN, e->mode);
	put_number(h + UID_AT, ID_LEN, 0);
	put_number(h + GID_AT, ID_LEN, 0);
	put_number(h + SIZE_AT, NUMBER_LEN, size);
	put_number(h + MTIME_AT, NUMBER_LEN, e->mtime > 0 ? (uint64_t)e->mtime : 0);
	h[TYPE_AT] = type;
	if (e->link)
		memcpy(h + LINK_AT, e->link, strnlen(e->link, NAME_LEN));
	memcpy(h + MAGIC_AT, "ustar  ", 8);
	memset(h + SUM_AT, ' ', ID_LEN);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)h[i];
	(void)snprintf(h + SUM_AT, ID_LEN, "%06o", sum);
	buf_add(out, h, sizeof(h));
}

void tar_put_padding(struct buf *out, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	buf_add(out, zeros, (size_t)(-size & (TAR_BLOCK - 1)));
}

/* An entry whose content is the name of the next one, which has no room for it. */
static void put_long(struct buf *out, char type, const char *text)
{
	static const struct tar_entry none = { 0 };
	size_t len = strlen(text) + 1;

	if (len <= NAME_LEN)
		return;
	put_block(out, type, "././@LongLink", &none, len);
	buf_add(out, text, len);
	tar_put_padding(out, len);
}

void tar_put_header(struct buf *out, const struct tar_entry *e)
{
	static const char types[TAR_TYPE_MAX_] = { '0', '5', '2', '1' };

	assert(e->type != TAR_OTHER);
	put_long(out, 'K', str_or(e->link, ""));
	put_long(out, 'L', e->path);
	put_block(out, types[e->type], e->path, e, e->type == TAR_FILE ? e->size : 0);
}

void tar_put_end(struct buf *out)
{
	static const char zeros[2 * TAR_BLOCK];

	buf_add(out, zeros, sizeof(zeros));
}
