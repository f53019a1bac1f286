/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/mem.h"
#include "guest/execute/ws_frame_priv.h"

/*
 *  byte 0: fin, three reserved bits, opcode    byte 1: masked, length
 *  length 126: two bytes of length follow; 127: eight. Then four bytes of mask, then the content.
 */
enum {
	FIN = 0x80,
	RESERVED = 0x70,
	MASKED = 0x80,
};

void ws_reader_done(struct ws_reader *r)
{
	buf_done(&r->message);
	buf_done(&r->control);
}

static enum ws_next bad(struct ws_event *ret, enum ws_code code)
{
	ret->code = code;
	return WS_BAD;
}

static bool is_control(enum ws_opcode opcode)
{
	return opcode >= WS_CLOSE;
}

/* The length, or UINT64_MAX if it is written longer than necessary. */
static uint64_t length_of(const uint8_t *p, size_t n_bytes)
{
	uint64_t len = 0;

	for (size_t i = 0; i < n_bytes; i++)
		len = len << 8 | p[i];
	if (n_bytes == 2 && len < 126)
		return UINT64_MAX;
	return n_bytes == 8 && (len <= UINT16_MAX || len >> 63) ? UINT64_MAX : len;
}

/* What the rules say of a frame, from its first two bytes and its place. */
static bool allowed(const struct ws_reader *r, const uint8_t *p)
{
	unsigned opcode = p[0] & 0xf;

	if (p[0] & RESERVED || !(p[1] & MASKED))
		return false;
	if (opcode > WS_BINARY && (opcode < WS_CLOSE || opcode > WS_PONG))
		return false;
	if (opcode >= WS_CLOSE)
		return p[0] & FIN && (p[1] & 0x7f) <= WS_CONTROL_MAX;
	return (opcode == WS_CONTINUATION) == r->in_message;
}

/* The head of a frame. */
static enum ws_next read_head(struct ws_reader *r, struct buf *in, struct ws_event *ret)
{
	const uint8_t *p = (const uint8_t *)buf_head(in);
	size_t n_bytes, n_head;
	uint64_t len;

	if (in->len < 2)
		return WS_MORE;
	if (!allowed(r, p))
		return bad(ret, WS_PROTOCOL);
	len = p[1] & 0x7f;
	n_bytes = len == 126 ? 2 : len == 127 ? 8 : 0;
	n_head = 2 + n_bytes + sizeof(r->mask);
	if (in->len < n_head)
		return WS_MORE;
	if (n_bytes)
		len = length_of(p + 2, n_bytes);
	if (len == UINT64_MAX)
		return bad(ret, WS_PROTOCOL);
	r->opcode = p[0] & 0xf;
	r->fin = p[0] & FIN;
	if (!is_control(r->opcode) && len > WS_MESSAGE_MAX - r->message.len)
		return bad(ret, WS_TOO_BIG);
	if (r->opcode == WS_TEXT || r->opcode == WS_BINARY) {
		r->kind = r->opcode;
		r->in_message = true;
	}
	memcpy(r->mask, p + 2 + n_bytes, sizeof(r->mask));
	r->left = len;
	r->at = 0;
	r->in_frame = true;
	buf_eat(in, n_head);
	return WS_EVENT;
}

static void read_content(struct ws_reader *r, struct buf *in)
{
	struct buf *to = is_control(r->opcode) ? &r->control : &r->message;
	size_t n = (size_t)MIN((uint64_t)in->len, r->left);
	const char *p = buf_head(in);
	char *out = buf_reserve(to, n);

	for (size_t i = 0; i < n; i++)
		out[i] = (char)(p[i] ^ r->mask[r->at++ & 3]);
	buf_wrote(to, n);
	buf_eat(in, n);
	r->left -= n;
}

/* Codes that may be sent: those of the protocol that are not reserved, and applications'. */
static bool code_allowed(unsigned code)
{
	return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
	       (code >= 3000 && code <= 4999);
}

static enum ws_next close_event(const struct ws_reader *r, struct ws_event *ret)
{
	const uint8_t *p = (const uint8_t *)buf_head(&r->control);
	unsigned code;

	if (!r->control.len)
		return WS_EVENT;
	if (r->control.len < 2)
		return bad(ret, WS_PROTOCOL);
	code = (unsigned)p[0] << 8 | p[1];
	if (!code_allowed(code))
		return bad(ret, WS_PROTOCOL);
	if (!utf8_valid(buf_head(&r->control) + 2, r->control.len - 2))
		return bad(ret, WS_INVALID);
	ret->code = code;
	return WS_EVENT;
}

/* A frame is complete. */
static enum ws_next frame_end(struct ws_reader *r, struct ws_event *ret)
{
	struct buf *from = is_control(r->opcode) ? &r->control : &r->message;

	r->in_frame = false;
	*ret = (struct ws_event){ .opcode = is_control(r->opcode) ? r->opcode : r->kind,
				  .data = { buf_head(from), from->len } };
	if (r->opcode == WS_CLOSE)
		return close_event(r, ret);
	if (is_control(r->opcode))
		return WS_EVENT;
	if (!r->fin)
		return WS_MORE;
	r->in_message = false;
	if (r->kind == WS_TEXT && !utf8_valid(ret->data.p, ret->data.len))
		return bad(ret, WS_INVALID);
	return WS_EVENT;
}

enum ws_next ws_read(struct ws_reader *r, struct buf *in, struct ws_event *ret)
{
	enum ws_next next;

	*ret = (struct ws_event){ 0 };
	/* What the last event told of is no longer needed. */
	if (!r->in_frame)
		buf_clear(&r->control);
	if (!r->in_message)
		buf_clear(&r->message);
	for (;;) {
		if (!r->in_frame) {
			next = read_head(r, in, ret);
			if (next != WS_EVENT)
				return next;
		}
		read_content(r, in);
		if (r->left)
			return WS_MORE;
		next = frame_end(r, ret);
		if (next != WS_MORE)
			return next;
	}
}

void ws_put_head(struct buf *out, enum ws_opcode opcode, size_t len)
{
	size_t n_bytes = len < 126 ? 0 : len <= UINT16_MAX ? 2 : 8;

	buf_add_char(out, (char)(FIN | opcode));
	buf_add_char(out, (char)(n_bytes == 0 ? len : n_bytes == 2 ? 126 : 127));
	for (size_t i = n_bytes; i-- > 0;)
		buf_add_char(out, (char)((uint64_t)len >> (8 * i)));
}
