/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "guest/files/multipart_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Reads the input as a form twice: whole, and in pieces whose size is chosen by its first byte.
 * Both must report the same events, up to the point where the form turns out to be broken.
 */
static void on_begin(void *arg, const char *name, const char *filename)
{
	buf_printf(arg, "[%s|%s|", name ? name : "", filename ? filename : "");
}

static void on_data(void *arg, const char *p, size_t len)
{
	buf_add(arg, p, len);
}

static void on_end(void *arg)
{
	buf_add_char(arg, ']');
}

/* True if the form was read to its end. */
static bool read_form(const char *p, size_t len, size_t piece, struct buf *out)
{
	static const struct multipart_events events = { on_begin, on_data, on_end };
	autoptr(multipart) m = NULL;
	autoptr(err) e = multipart_new("multipart/form-data; boundary=XX", &events, out, &m);

	for (size_t at = 0; !e && at < len; at += piece)
		e = multipart_feed(m, p + at, MIN(piece, len - at));
	if (!e)
		e = multipart_end(m);
	return !e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *p = (const char *)data;
	autobuf whole = { 0 }, pieces = { 0 };
	bool whole_read, pieces_read;

	if (!len)
		return 0;
	whole_read = read_form(p + 1, len - 1, len, &whole);
	pieces_read = read_form(p + 1, len - 1, 1 + data[0] % 32, &pieces);
	if (whole_read != pieces_read)
		abort();
	if (whole_read &&
	    (whole.len != pieces.len ||
	     (whole.len && memcmp(buf_head(&whole), buf_head(&pieces), whole.len) != 0)))
		abort();
	return 0;
}
