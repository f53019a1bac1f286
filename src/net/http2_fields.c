/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>

#include "base/mem.h"
#include "net/http2_fields_priv.h"

enum {
	OURS = 6, /* headers beside those of a list */
	OUR_NAMES = 96,
	ACKS_MAX = 100,
	CONTINUATIONS_MAX = 8,
};

void http2_fields_init(struct http2_fields *f, const struct http_headers *h)
{
	size_t len = OUR_NAMES;

	for (size_t i = 0; h && i < h->n; i++)
		len += strlen(h->list[i].name);
	*f = (struct http2_fields){ .cap = OURS + (h ? h->n : 0) };
	f->list = xmalloc(f->cap * sizeof(*f->list));
	(void)buf_reserve(&f->names, len);
}

void http2_fields_done(struct http2_fields *f)
{
	free(f->list);
	buf_done(&f->names);
}

void http2_fields_add(struct http2_fields *f, const char *name, const char *value)
{
	size_t len = strlen(name);
	char *lower = buf_reserve(&f->names, len); /* does not move: there is space for all */

	for (size_t i = 0; i < len; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	buf_wrote(&f->names, len);
	assert(f->n < f->cap);
	f->list[f->n++] = (nghttp2_nv){ (uint8_t *)lower, (uint8_t *)value, len, strlen(value),
					NGHTTP2_NV_FLAG_NONE };
}

static bool header_passes(const struct http_header *h)
{
	static const char *const own[] = { "connection",
					   "keep-alive",
					   "proxy-connection",
					   "transfer-encoding",
					   "upgrade",
					   "content-length",
					   "te",
					   NULL };

	for (size_t i = 0; own[i]; i++)
		if (str_eq_nocase(h->name, own[i]))
			return false;
	return http_header_valid(h);
}

void http2_fields_add_all(struct http2_fields *f, const struct http_headers *h)
{
	for (size_t i = 0; h && i < h->n; i++)
		if (header_passes(&h->list[i]))
			http2_fields_add(f, h->list[i].name, h->list[i].value);
}

bool http2_bucket_take(struct http2_bucket *b, unsigned burst, unsigned per_s)
{
	usec now = clock_mono();
	uint64_t more = b->at ? (uint64_t)(now - b->at) * per_s / 1000000 : burst;

	if (more) {
		b->left = (unsigned)MIN((uint64_t)burst, b->left + more);
		b->at = now;
	}
	if (!b->left)
		return false;
	b->left--;
	return true;
}

nghttp2_option *http2_options(void)
{
	nghttp2_option *o;

	if (nghttp2_option_new(&o) != 0)
		abort(); /* out of memory */
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
	nghttp2_option_set_max_continuations(o, CONTINUATIONS_MAX);
	nghttp2_option_set_max_deflate_dynamic_table_size(o, HTTP2_TABLE_SIZE);
	return o;
}
