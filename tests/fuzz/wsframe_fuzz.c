/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/execute/ws_frame_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Reads the input as frames of a client twice, whole and byte by byte: the same events must come of
 * it. No message is larger than allowed, no control frame is, and texts are UTF-8.
 */
static void check(const struct ws_event *v)
{
	bool control = v->opcode >= WS_CLOSE;

	if (v->opcode == WS_CONTINUATION || v->data.len > WS_MESSAGE_MAX)
		abort();
	if (control && v->data.len > WS_CONTROL_MAX)
		abort();
	if (v->opcode == WS_TEXT && !utf8_valid(v->data.p, v->data.len))
		abort();
}

static void read_all(const uint8_t *data, size_t len, size_t piece, struct buf *out)
{
	struct ws_reader r = { 0 };
	enum ws_next next = WS_MORE;
	autobuf in = { 0 };

	for (size_t at = 0; at < len && next != WS_BAD; at += piece) {
		struct ws_event v;

		buf_add(&in, data + at, MIN(piece, len - at));
		while ((next = ws_read(&r, &in, &v)) == WS_EVENT) {
			check(&v);
			buf_printf(out, "%d|%u|%zu|", (int)v.opcode, v.code, v.data.len);
			buf_add(out, v.data.p, v.data.len);
		}
		if (next == WS_BAD)
			buf_printf(out, "!%u", v.code);
	}
	ws_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autobuf whole = { 0 }, pieces = { 0 };

	read_all(data, len, len ? len : 1, &whole);
	read_all(data, len, 1, &pieces);
	if (whole.len != pieces.len ||
	    (whole.len && memcmp(buf_head(&whole), buf_head(&pieces), whole.len) != 0))
		abort();
	return 0;
}
