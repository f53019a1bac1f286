/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/rpc/rpc_frame_priv.h"

enum rpc_frame rpc_frame_next(const struct buf *in, struct span *ret)
{
	const uint8_t *p = (const uint8_t *)buf_head(in);
	uint32_t len;

	if (in->len && p[0] > 1)
		return RPC_FRAME_BAD;
	if (in->len && p[0])
		return RPC_FRAME_COMPRESSED;
	if (in->len < RPC_HEAD_LEN)
		return RPC_FRAME_MORE;
	len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (len > RPC_MESSAGE_MAX)
		return RPC_FRAME_LARGE;
	if (in->len - RPC_HEAD_LEN < len)
		return RPC_FRAME_MORE;
	*ret = (struct span){ buf_head(in) + RPC_HEAD_LEN, len };
	return RPC_FRAME_MESSAGE;
}

void rpc_frame_head(char ret[RPC_HEAD_LEN], uint32_t len)
{
	ret[0] = 0;
	for (int i = 1; i < RPC_HEAD_LEN; i++)
		ret[i] = (char)(len >> (32 - 8 * i));
}

bool rpc_timeout_read(const char *text, uint64_t *ret_ms)
{
	static const struct {
		char unit;
		uint64_t per_ms, ms; /* so many of them are a millisecond, or it is so many */
	} rows[] = {
		{ 'H', 1, 3600 * 1000 }, { 'M', 1, 60 * 1000 }, { 'S', 1, 1000 },
		{ 'm', 1, 1 },           { 'u', 1000, 1 },      { 'n', 1000 * 1000, 1 },
	};
	enum {
		DIGITS_MAX = 8,
	};
	size_t len = strlen(text);
	uint64_t n = 0;

	if (len < 2 || len > DIGITS_MAX + 1)
		return false;
	for (size_t i = 0; i + 1 < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(text[i] - '0');
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].unit == text[len - 1]) {
			*ret_ms = (n * rows[i].ms + rows[i].per_ms - 1) / rows[i].per_ms;
			return true;
		}
	return false;
}

void rpc_message_put(struct buf *out, const char *text)
{
	for (; *text; text++)
		if (*text >= ' ' && *text <= '~' && *text != '%')
			buf_add_char(out, *text);
		else
			buf_printf(out, "%%%02X", (unsigned char)*text);
}
