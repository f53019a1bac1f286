/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "guest/rpc/pb_priv.h"
#include "guest/rpc/rpc_frame_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * Reads the input as a request of gRPC: frames, and in them messages with a field of every type.
 * Read twice, whole and byte by byte, it must have the same messages; everything that a message
 * points to is touched.
 */
struct deep {
	uint32_t number;
	struct pb_strings words;
};
struct all {
	int32_t number, choice;
	uint32_t seen;
	bool flag;
	char *text;
	struct span bytes;
	struct deep deep;
	struct pb_strings words, pairs;
};

#define AT(type, member) .at = offsetof(struct type, member), .seen = PB_UNSEEN

static const struct pb_field deep_fields[] = {
	{ "number", 1, PB_UINT32, AT(deep, number) },
	{ "words", 2, PB_STRINGS, AT(deep, words) },
	{ 0 },
};
static const struct pb_message deep_message = { "Deep", sizeof(struct deep), deep_fields };
static const struct pb_field all_fields[] = {
	{ "number", 1, PB_INT32, AT(all, number) },
	{ "choice", 2, PB_ENUM, AT(all, choice) },
	{ "flag", 3, PB_BOOL, AT(all, flag) },
	{ "text", 4, PB_STRING, AT(all, text) },
	{ "bytes", 5, PB_BYTES, .at = offsetof(struct all, bytes),
	  .seen = offsetof(struct all, seen) },
	{ "deep", 6, PB_MESSAGE, .at = offsetof(struct all, deep),
	  .seen = offsetof(struct all, seen), .of = &deep_message },
	{ "words", 7, PB_STRINGS, AT(all, words) },
	{ "pairs", 8, PB_MAP, AT(all, pairs) },
	{ 0 },
};
static const struct pb_message all_message = { "All", sizeof(struct all), all_fields };

static size_t touch(const struct pb_strings *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += strlen(l->list[i]);
	return n;
}

static void message(struct span s, struct buf *out)
{
	autoptr(arena) a = arena_new();
	struct all m = { 0 };
	autoptr(err) e = pb_decode(&all_message, s, a, &m);

	if (e) {
		buf_printf(out, "[%d]", (int)err_code(e));
		return;
	}
	if (m.pairs.n % 2)
		abort();
	buf_printf(out, "[%d %d %d %s %zu %zu %zu %u]", m.number, m.choice, m.flag,
		   m.text ? m.text : "-", m.bytes.len, touch(&m.words) + touch(&m.deep.words),
		   touch(&m.pairs), m.seen);
	buf_add(out, m.bytes.p, m.bytes.len);
}

static void request(const uint8_t *data, size_t len, size_t piece, struct buf *out)
{
	autobuf in = { 0 };
	enum rpc_frame what = RPC_FRAME_MORE;

	for (size_t at = 0; at < len && what == RPC_FRAME_MORE; at += piece) {
		struct span s;

		buf_add(&in, data + at, MIN(piece, len - at));
		while ((what = rpc_frame_next(&in, &s)) == RPC_FRAME_MESSAGE) {
			message(s, out);
			buf_eat(&in, RPC_HEAD_LEN + s.len);
		}
	}
	buf_printf(out, "%d", (int)what);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autobuf whole = { 0 }, pieces = { 0 };

	request(data, len, len ? len : 1, &whole);
	request(data, len, 1, &pieces);
	if (whole.len != pieces.len || memcmp(buf_head(&whole), buf_head(&pieces), whole.len) != 0)
		abort();
	return 0;
}
