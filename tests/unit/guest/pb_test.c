/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "guest/rpc/pb_priv.h"
#include "guest/rpc/rpc_frame_priv.h"
#include "test.h"

struct inner {
	int32_t n;
};
struct outer {
	char *text;
	struct span bytes;
	struct pb_strings list, map;
	struct inner inner;
	uint32_t which;
	bool yes;
	uint32_t u;
};

#define AT(type, member) .at = offsetof(struct type, member)

static const struct pb_field inner_fields[] = {
	{ "n", 1, PB_INT32, AT(inner, n), .seen = PB_UNSEEN },
	{ 0 },
};
static const struct pb_message inner_message = { "Inner", sizeof(struct inner), inner_fields };
static const struct pb_field outer_fields[] = {
	{ "text", 1, PB_STRING, AT(outer, text), .seen = PB_UNSEEN },
	{ "bytes", 2, PB_BYTES, AT(outer, bytes), .seen = offsetof(struct outer, which) },
	{ "inner", 3, PB_MESSAGE, AT(outer, inner), .seen = offsetof(struct outer, which),
	  .of = &inner_message },
	{ "list", 4, PB_STRINGS, AT(outer, list), .seen = PB_UNSEEN },
	{ "map", 5, PB_MAP, AT(outer, map), .seen = PB_UNSEEN },
	{ "yes", 6, PB_BOOL, AT(outer, yes), .seen = PB_UNSEEN },
	{ "u", 7, PB_UINT32, AT(outer, u), .seen = PB_UNSEEN },
	{ 0 },
};
static const struct pb_message outer_message = { "Outer", sizeof(struct outer), outer_fields };

static struct err *decode(struct arena *a, const struct buf *b, struct outer *ret)
{
	*ret = (struct outer){ 0 };
	return pb_decode(&outer_message, (struct span){ buf_head(b), b->len }, a, ret);
}

TEST(a_message_is_read_field_by_field)
{
	autoptr(arena) a = arena_new();
	autobuf b = { 0 }, inner = { 0 }, pair = { 0 };
	struct outer o;

	pb_put_int(&inner, 1, -5);
	pb_put_text(&b, 1, "first");
	pb_put_text(&b, 1, "last wins");
	pb_put_bytes(&b, 2, "\0x", 2);
	pb_put_bytes(&b, 3, buf_head(&inner), inner.len);
	pb_put_text(&b, 4, "a");
	pb_put_bytes(&b, 4, "", 0);
	pb_put_text(&pair, 2, "value alone");
	pb_put_bytes(&b, 5, buf_head(&pair), pair.len);
	pb_put_int(&b, 6, 1);
	pb_put_int(&b, 7, 4000000000);
	pb_put_int(&b, 99, 7); /* unknown, of each encoding */
	pb_put_text(&b, 98, "x");
	buf_add(&b, "\x95\x06____", 6);
	buf_add(&b, "\x91\x06________", 10);
	pb_put_int(&b, 1, 3); /* known, with another encoding */
	works(decode(a, &b, &o));
	eq_str(o.text, "last wins");
	eq_int(o.bytes.len, 2);
	eq_int(o.inner.n, -5);
	eq_int(o.which, 3);
	eq_int(o.list.n, 2);
	eq_str(o.list.list[1], "");
	eq_int(o.map.n, 2);
	eq_str(o.map.list[0], "");
	eq_str(o.map.list[1], "value alone");
	assert_true(o.yes);
	eq_int(o.u, 4000000000);
}

TEST(a_broken_message_is_refused)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum err_code code;
	} rows[] = {
		{ "\x0a", 1, ERR_MALFORMED },
		{ "\x0a\x05xx", 4, ERR_MALFORMED },
		{ "\xff", 1, ERR_MALFORMED },
		{ "\x00\x00", 2, ERR_MALFORMED },
		{ "\x0b", 1, ERR_MALFORMED },
		{ "\x0c", 1, ERR_MALFORMED },
		{ "\x0a\x01\xff", 3, ERR_MALFORMED },
		{ "\x0a\x01\x00", 3, ERR_INVALID },
		{ "\x1a\x01\x08", 3, ERR_MALFORMED },
		{ "\x95\x06___", 5, ERR_MALFORMED },
		{ "\x2a\x02\x0a\x05", 4, ERR_MALFORMED },
		{ "\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, ERR_MALFORMED },
		{ "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, ERR_MALFORMED },
	};
	autoptr(arena) a = arena_new();
	struct outer o;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 };

		buf_add(&b, rows[i].bytes, rows[i].len);
		fails(decode(a, &b, &o), rows[i].code);
	}
}

TEST(a_list_has_a_limit)
{
	autoptr(arena) a = arena_new();
	autobuf b = { 0 };
	struct outer o;

	for (int i = 0; i < PB_LIST_MAX; i++)
		pb_put_bytes(&b, 4, "", 0);
	works(decode(a, &b, &o));
	eq_int(o.list.n, PB_LIST_MAX);
	pb_put_bytes(&b, 4, "", 0);
	fails(decode(a, &b, &o), ERR_TOO_LARGE);
}

TEST(frames_of_grpc_are_told_apart)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum rpc_frame want;
	} rows[] = {
		{ "", 0, RPC_FRAME_MORE },
		{ "\0\0\0\0", 4, RPC_FRAME_MORE },
		{ "\0\0\0\0\0", 5, RPC_FRAME_MESSAGE },
		{ "\0\0\0\0\2a", 6, RPC_FRAME_MORE },
		{ "\0\0\0\0\2abc", 8, RPC_FRAME_MESSAGE },
		{ "\1", 1, RPC_FRAME_COMPRESSED },
		{ "\2", 1, RPC_FRAME_BAD },
		{ "\0\x00\x40\x00\x00", 5, RPC_FRAME_MORE },
		{ "\0\x00\x40\x00\x01", 5, RPC_FRAME_LARGE },
		{ "\0\xff\xff\xff\xff", 5, RPC_FRAME_LARGE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf b = { 0 };
		struct span got = { NULL, 0 };

		buf_add(&b, rows[i].bytes, rows[i].len);
		eq_int(rpc_frame_next(&b, &got), rows[i].want);
		if (rows[i].len == 8)
			assert_true(got.len == 2 && !memcmp(got.p, "ab", 2));
	}
}

TEST(a_head_says_its_length)
{
	autobuf b = { 0 };
	char head[RPC_HEAD_LEN];
	struct span got;

	rpc_frame_head(head, 70000);
	buf_add(&b, head, sizeof(head));
	memset(buf_reserve(&b, 70000), 'x', 70000);
	buf_wrote(&b, 70000);
	eq_int(rpc_frame_next(&b, &got), RPC_FRAME_MESSAGE);
	eq_int(got.len, 70000);
}
