/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "guest/execute/ws_frame_priv.h"
#include "test.h"

/* A frame of a client: its first byte, and its content under a mask. */
static void put(struct buf *out, unsigned first, const char *p, size_t len)
{
	static const char mask[] = { 1, 2, 3, 4 };
	autobuf head = { 0 };

	ws_put_head(&head, first & 0xf, len);
	buf_head(&head)[0] = (char)first;
	buf_head(&head)[1] = (char)(buf_head(&head)[1] | 0x80);
	buf_add(out, buf_head(&head), head.len);
	buf_add(out, mask, sizeof(mask));
	for (size_t i = 0; i < len; i++)
		buf_add_char(out, (char)(p[i] ^ mask[i & 3]));
}

/* Reads all of in, a few bytes at a time: "2:text" for a message, "!1002" for what is wrong. */
static void eq_read(const struct buf *in, size_t piece, const char *want)
{
	struct ws_reader r = { 0 };
	autobuf got = { 0 }, feed = { 0 };
	enum ws_next next = WS_MORE;

	for (size_t at = 0; at < in->len && next != WS_BAD; at += piece) {
		struct ws_event v;

		buf_add(&feed, buf_head(in) + at, MIN(piece, in->len - at));
		while ((next = ws_read(&r, &feed, &v)) == WS_EVENT) {
			buf_printf(&got, "%d:", v.opcode);
			if (v.code)
				buf_printf(&got, "%u:", v.code);
			buf_add(&got, v.data.p, MIN(v.data.len, (size_t)20));
			buf_add_char(&got, ' ');
		}
		if (next == WS_BAD)
			buf_printf(&got, "!%u", v.code);
	}
	eq_str(buf_str(&got), want);
	ws_reader_done(&r);
}

TEST(messages_are_joined_and_control_frames_come_between)
{
	autobuf in = { 0 };

	put(&in, 0x82, "whole", 5);
	put(&in, 0x02, "in ", 3);
	put(&in, 0x89, "ping", 4);
	put(&in, 0x00, "", 0);
	put(&in, 0x80, "parts", 5);
	put(&in, 0x81, "text", 4);
	put(&in, 0x82, "", 0);
	put(&in, 0x88,
	    "\x03\xe8"
	    "bye",
	    5);
	for (size_t piece = 1; piece < 20; piece++)
		eq_read(&in, piece,
			"2:whole 9:ping 2:in parts 1:text 2: 8:1000:\x03\xe8"
			"bye ");
}

TEST(lengths_of_every_form_are_read)
{
	static char data[70000];
	autobuf in = { 0 };

	memset(data, 'x', sizeof(data));
	put(&in, 0x82, data, 125);
	put(&in, 0x82, data, 126);
	put(&in, 0x82, data, 65535);
	put(&in, 0x82, data, 65536);
	eq_read(&in, 1000,
		"2:xxxxxxxxxxxxxxxxxxxx 2:xxxxxxxxxxxxxxxxxxxx 2:xxxxxxxxxxxxxxxxxxxx "
		"2:xxxxxxxxxxxxxxxxxxxx ");
}

TEST(what_breaks_the_rules_is_refused)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *want;
	} rows[] = {
		{ "\x82\x01x", 3, "!1002" },                         /* not masked */
		{ "\xc2\x80____", 6, "!1002" },                      /* a reserved bit */
		{ "\x83\x80____", 6, "!1002" },                      /* a reserved opcode */
		{ "\x8b\x80____", 6, "!1002" },                      /* and of control frames */
		{ "\x80\x80____", 6, "!1002" },                      /* continues nothing */
		{ "\x09\x80____", 6, "!1002" },                      /* a ping in fragments */
		{ "\x89\xfe\x00\x7e____", 8, "!1002" },              /* a large ping */
		{ "\x82\xfe\x00\x7d____", 8, "!1002" },              /* 125 in two bytes */
		{ "\x82\xff\0\0\0\0\0\0\xff\xff____", 14, "!1002" }, /* 65535 in eight */
		{ "\x82\xff\x80\0\0\0\0\0\0\0____", 14, "!1002" },   /* negative */
		{ "\x82\xff\0\0\0\0\0\x10\0\1____", 14, "!1009" },   /* more than 1 MiB */
		{ "\x88\x81\0\0\0\0x", 7, "!1002" },                 /* half a code */
		{ "\x88\x82\0\0\0\0\x03\xed", 8, "!1002" },          /* 1005 is not sent */
		{ "\x88\x83\0\0\0\0\x03\xe8\xff", 9, "!1007" },      /* not UTF-8 */
		{ "\x81\x81\0\0\0\0\xff", 7, "!1007" },              /* likewise */
		{ "\x02\x80____\x82\x80____", 12, "!1002" },         /* a message in a message */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t piece = 1; piece < 15; piece++) {
			autobuf in = { 0 };

			buf_add(&in, rows[i].bytes, rows[i].len);
			eq_read(&in, piece, rows[i].want);
		}
}

TEST(fragments_together_have_the_limit_of_a_message)
{
	static char data[WS_MESSAGE_MAX / 2];
	autobuf in = { 0 };

	put(&in, 0x02, data, sizeof(data));
	put(&in, 0x00, data, sizeof(data));
	put(&in, 0x00, "", 0);
	put(&in, 0x80, "x", 1);
	eq_read(&in, 50000, "!1009");
}

TEST(a_key_is_answered_as_the_rfc_says)
{
	char got[32];

	assert_true(ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", got));
	eq_str(got, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_false(ws_accept_key(NULL, got));
	assert_false(ws_accept_key("", got));
	assert_false(ws_accept_key("dGhlIHNhbXBsZSBub25jZQ=", got));
	assert_false(ws_accept_key("dGhlIHNhbXBsZSBub25jZSE=", got));
	assert_false(ws_accept_key("????????????????????????", got));
}
