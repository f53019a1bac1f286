/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * gRPC on the bytes of a request or an answer: each message is preceded by a byte that says whether
 * it is compressed and by its length in 32 bits, the highest first.
 */
enum {
	RPC_HEAD_LEN = 5,
	RPC_MESSAGE_MAX = 4 * 1024 * 1024, /* of what we receive; the usual limit of gRPC */
};

enum rpc_frame {
	RPC_FRAME_MORE,    /* it is not complete */
	RPC_FRAME_MESSAGE, /* *ret is one; eat it and its head afterwards */
	RPC_FRAME_COMPRESSED,
	RPC_FRAME_LARGE, /* more than RPC_MESSAGE_MAX */
	RPC_FRAME_BAD,   /* neither compressed nor not */
	RPC_FRAME_MAX_,
};

/* What the bytes begin with. All but the first two are known before the message is there. */
enum rpc_frame rpc_frame_next(const struct buf *in, struct span *ret);
void rpc_frame_head(char ret[RPC_HEAD_LEN], uint32_t len);
