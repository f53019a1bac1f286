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
