/* SPDX-License-Identifier: Apache-2.0 */
#include "pod_rig.h"
#include "test.h"

#define PROTOCOL "X-Stream-Protocol-Version: portforward.k8s.io\r\n"

static void open_pair(struct pod_rig *r, struct buf *b, uint32_t id, const char *request)
{
	spdy_put_stream(r, b, id, "error", request);
	spdy_put_data(b, id, true, "");
	spdy_put_stream(r, b, id + 2, "data", request);
}

TEST(a_pair_of_streams_reaches_a_port)
{
	struct pod_rig r;
	autobuf b = { 0 };

	pod_rig_init(&r);
	spdy_open(&r, "POST /portforward", PROTOCOL);
	open_pair(&r, &b, 1, "7 0");
	spdy_put_data(&b, 3, false, "hello");
	send_buf(&r, &b);
	spdy_expect(&r, 3, "hello", false);
	open_pair(&r, &b, 5, "7 1");
	spdy_put_data(&b, 7, false, "other");
	spdy_put_data(&b, 3, true, "");
	send_buf(&r, &b);
	spdy_expect(&r, 7, "other", false);
	spdy_expect(&r, 3, "", true);
	spdy_expect(&r, 1, "", true);
	eq_int(r.node.n_started, 2);
	pod_rig_hang_up(&r);
	while (r.pods.n_open)
		loop_turn(r.l, 20);
	eq_int(r.node.n_canceled, 1);
	pod_rig_done(&r);
}

TEST(a_refused_port_is_told_on_the_error_stream)
{
	struct pod_rig r;
	autobuf b = { 0 };

	pod_rig_init(&r);
	spdy_open(&r, "POST /portforward", PROTOCOL);
	open_pair(&r, &b, 1, "9 0");
	send_buf(&r, &b);
	spdy_expect(&r, 1, "error forwarding port 9 to pod web: connect: refused", false);
	spdy_expect(&r, 3, "", true);
	spdy_expect(&r, 1, "", true);
	pod_rig_done(&r);
}

TEST(a_pair_that_is_reset_is_gone)
{
	struct pod_rig r;
	autobuf b = { 0 };

	pod_rig_init(&r);
	spdy_open(&r, "POST /portforward", PROTOCOL);
	open_pair(&r, &b, 1, "7 0");
	spdy_put_data(&b, 3, false, "x");
	send_buf(&r, &b);
	spdy_expect(&r, 3, "x", false);
	spdy_put_reset(&b, 3);
	spdy_put_stream(&r, &b, 5, "error", "7 1"); /* and half a pair */
	spdy_put_reset(&b, 5);
	send_buf(&r, &b);
	while (!r.node.n_canceled)
		loop_turn(r.l, 20);
	spdy_expect(&r, 1, "", true);
	eq_int(r.node.n_started, 1);
	pod_rig_done(&r);
}

TEST(streams_that_make_no_sense_just_end)
{
	static const struct {
		const char *type, *request;
	} rows[] = { { "error", "0 1" }, { "data", "66000 1" }, { "data", "x 1" },
		     { "other", "7 1" }, { "error", "7 " },     { "error", NULL } };
	struct pod_rig r;
	autobuf b = { 0 };

	pod_rig_init(&r);
	spdy_open(&r, "POST /portforward", PROTOCOL);
	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		spdy_put_stream(&r, &b, 2 * i + 1, rows[i].type, rows[i].request);
		send_buf(&r, &b);
		spdy_expect(&r, 2 * i + 1, "", true);
	}
	eq_int(r.node.n_started, 0);
	pod_rig_done(&r);
}

/* Takes the whole frames off `in` and adds what came as data to `data`. */
static void take_frames(struct buf *in, struct buf *data)
{
	while (in->len >= 8) {
		const unsigned char *p = (const unsigned char *)buf_head(in);
		size_t len = (size_t)p[5] << 16 | (size_t)p[6] << 8 | p[7];

		if (in->len < 8 + len)
			return;
		if (!(p[0] & 0x80))
			buf_add(data, p + 8, len);
		buf_eat(in, 8 + len);
	}
}

/* The same bytes in messages, whose boundaries mean nothing. */
TEST(forwarding_works_inside_a_websocket)
{
	struct pod_rig r;
	autobuf b = { 0 };
	autobuf in = { 0 };
	autobuf data = { 0 };

	pod_rig_init(&r);
	ws_open(&r, "GET /portforward", "SPDY/3.1+portforward.k8s.io");
	open_pair(&r, &b, 1, "7 0");
	spdy_put_data(&b, 3, false, "hello");
	while (b.len) {
		size_t len = MIN(b.len, (size_t)7);

		ws_send(&r, buf_head(&b), len);
		buf_eat(&b, len);
	}
	while (!str_eq(buf_str(&data), "hello")) {
		eq_int(ws_next(&r, &b), 2);
		buf_add(&in, buf_head(&b), b.len);
		take_frames(&in, &data);
	}
	pod_rig_done(&r);
}
