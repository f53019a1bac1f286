/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <zlib.h>

#include "base/buf.h"
#include "net/http.h"
#include "net/spdy_headers_priv.h"

enum {
	BLOCK_MAX = 64 * 1024,
	HEADERS_MAX = 100,
	DICT_LEN = 1423,
	/* We compress only blocks of four bytes: the smallest window is enough. */
	OUT_WINDOW_BITS = 11,
	OUT_MEM_LEVEL = 1,
};

struct spdy_zip {
	z_stream in, out;
};

/* The dictionary of SPDY/3: these words, each preceded by its length, then the tail. */
static const char *const dict_words[] = {
	"options",
	"head",
	"post",
	"put",
	"delete",
	"trace",
	"accept",
	"accept-charset",
	"accept-encoding",
	"accept-language",
	"accept-ranges",
	"age",
	"allow",
	"authorization",
	"cache-control",
	"connection",
	"content-base",
	"content-encoding",
	"content-language",
	"content-length",
	"content-location",
	"content-md5",
	"content-range",
	"content-type",
	"date",
	"etag",
	"expect",
	"expires",
	"from",
	"host",
	"if-match",
	"if-modified-since",
	"if-none-match",
	"if-range",
	"if-unmodified-since",
	"last-modified",
	"location",
	"max-forwards",
	"pragma",
	"proxy-authenticate",
	"proxy-authorization",
	"range",
	"referer",
	"retry-after",
	"server",
	"te",
	"trailer",
	"transfer-encoding",
	"upgrade",
	"user-agent",
	"vary",
	"via",
	"warning",
	"www-authenticate",
	"method",
	"get",
	"status",
	"200 OK",
	"version",
	"HTTP/1.1",
	"url",
	"public",
	"set-cookie",
	"keep-alive",
	"origin",
};
static const char dict_tail[] =
	"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
	"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
	"403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
	"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
	"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
	"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

static unsigned char dict[DICT_LEN];

static void dict_make(void)
{
	unsigned char *at = dict;

	for (size_t i = 0; i < ARRAY_LEN(dict_words); i++) {
		size_t len = strlen(dict_words[i]);

		at[3] = (unsigned char)len; /* no word is longer than 255 */
		memcpy(at + 4, dict_words[i], len);
		at += 4 + len;
	}
	assert(at + sizeof(dict_tail) - 1 == dict + DICT_LEN);
	memcpy(at, dict_tail, sizeof(dict_tail) - 1);
}

const unsigned char *spdy_dictionary(size_t *ret_len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, dict_make);
	*ret_len = DICT_LEN;
	return dict;
}

struct spdy_zip *spdy_zip_new(void)
{
	struct spdy_zip *z = xnew(struct spdy_zip);
	size_t len;
	const unsigned char *d = spdy_dictionary(&len);

	if (inflateInit(&z->in) != Z_OK ||
	    deflateInit2(&z->out, Z_BEST_SPEED, Z_DEFLATED, OUT_WINDOW_BITS, OUT_MEM_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK ||
	    deflateSetDictionary(&z->out, d, (uInt)len) != Z_OK)
		abort(); /* out of memory */
	return z;
}

void spdy_zip_free(struct spdy_zip *z)
{
	if (!z)
		return;
	(void)inflateEnd(&z->in);
	(void)deflateEnd(&z->out);
	free(z);
}

/* One call of inflate(), with the dictionary if it asks for it. False if the input is malformed. */
static bool inflate_some(z_stream *in)
{
	int r = inflate(in, Z_SYNC_FLUSH);

	if (r == Z_NEED_DICT) {
		size_t len;
		const unsigned char *d = spdy_dictionary(&len);

		if (inflateSetDictionary(in, d, (uInt)len) != Z_OK)
			return false;
		r = inflate(in, Z_SYNC_FLUSH);
	}
	return r == Z_OK || r == Z_BUF_ERROR;
}

/* Decompresses a whole block. A few bytes may become many, so the output is limited. */
static bool unzip(struct spdy_zip *z, const void *p, size_t len, struct buf *to)
{
	z->in.next_in = (Bytef *)p;
	z->in.avail_in = (uInt)len;
	do {
		size_t space = MIN((size_t)4096, BLOCK_MAX - to->len);

		z->in.next_out = (Bytef *)buf_reserve(to, space);
		z->in.avail_out = (uInt)space;
		if (!space || !inflate_some(&z->in))
			return false;
		buf_wrote(to, space - z->in.avail_out);
	} while (z->in.avail_in || !z->in.avail_out);
	return true;
}

static bool get_u32(struct buf *b, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)buf_head(b);

	if (b->len < 4)
		return false;
	*ret = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	buf_eat(b, 4);
	return true;
}

/* malloc'd; NULL if it is not complete. */
static char *get_str(struct buf *b, size_t *ret_len)
{
	uint32_t len;
	char *s;

	if (!get_u32(b, &len) || len > b->len)
		return NULL;
	s = xmalloc((size_t)len + 1);
	if (len)
		memcpy(s, buf_head(b), len);
	s[len] = '\0';
	buf_eat(b, len);
	*ret_len = len;
	return s;
}

static bool name_valid(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] == 0x7f || (s[i] >= 'A' && s[i] <= 'Z'))
			return false;
	return len > 0;
}

/* A value may be a list, with a NUL between its elements. */
static void add_values(struct http_headers *h, const char *name, const char *value, size_t len)
{
	for (size_t at = 0; at <= len; at += strlen(value + at) + 1)
		if (h->n < HEADERS_MAX)
			http_headers_add(h, name, value + at);
}

bool spdy_zip_read(struct spdy_zip *z, const void *p, size_t len, struct http_headers *ret)
{
	autobuf b = { 0 };
	uint32_t n;

	if (!unzip(z, p, len, &b) || !get_u32(&b, &n) || n > HEADERS_MAX)
		return false;
	while (n--) {
		size_t name_len = 0, value_len = 0;
		autofree char *name = get_str(&b, &name_len);
		autofree char *value = name ? get_str(&b, &value_len) : NULL;

		if (!value || !name_valid(name, name_len))
			return false;
		add_values(ret, name, value, value_len);
	}
	return b.len == 0;
}

void spdy_zip_write_empty(struct spdy_zip *z, struct buf *to)
{
	static const unsigned char none[4];
	enum {
		ROOM = 64
	};

	z->out.next_in = (Bytef *)none;
	z->out.avail_in = sizeof(none);
	z->out.next_out = (Bytef *)buf_reserve(to, ROOM);
	z->out.avail_out = ROOM;
	if (deflate(&z->out, Z_SYNC_FLUSH) != Z_OK || z->out.avail_in || !z->out.avail_out)
		abort(); /* four bytes always fit unless the library is broken */
	buf_wrote(to, ROOM - z->out.avail_out);
}
