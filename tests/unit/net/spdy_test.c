/* SPDX-License-Identifier: Apache-2.0 */
#include "net/spdy.h"

#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "net/conn.h"
#include "net/spdy_headers_priv.h"
#include "net/stream.h"
#include "rig.h"
#include "test.h"

/* A session, and the client's end of it with the client's compression. */
struct sess {
	struct loop *l;
	struct spdy *s;
	int fd;
	z_stream zip;
	struct buf log; /* what happened, as text */
	bool pause, free_in_data;
	int n_closed;
};

static void on_opened(void *arg, uint32_t id, const struct http_headers *h)
{
	struct sess *t = arg;

	buf_printf(&t->log, "open %u", id);
	for (size_t i = 0; i < h->n; i++)
		buf_printf(&t->log, " %s=%s", h->list[i].name, h->list[i].value);
	buf_add_str(&t->log, "\n");
}

static void on_data(void *arg, uint32_t id, const char *data, size_t len)
{
	struct sess *t = arg;

	buf_printf(&t->log, "data %u %.*s\n", id, (int)MIN(len, (size_t)20), data);
	if (t->pause)
		spdy_pause(t->s, true);
	if (t->free_in_data)
		spdy_free(take(t->s));
}

static void on_ended(void *arg, uint32_t id)
{
	buf_printf(&((struct sess *)arg)->log, "end %u\n", id);
}

static void on_reset(void *arg, uint32_t id)
{
	buf_printf(&((struct sess *)arg)->log, "reset %u\n", id);
}

static void on_drained(unused void *arg)
{
}

static void on_closed(void *arg)
{
	struct sess *t = arg;

	t->n_closed++;
	spdy_free(take(t->s));
}

static const struct spdy_events events = { on_opened, on_data,    on_ended,
					   on_reset,  on_drained, on_closed };

static void conn_nothing(unused void *arg, unused struct buf *in)
{
}

static void conn_closed(unused void *arg, unused const struct err *e)
{
}

static void sess_init(struct sess *t)
{
	static const struct conn_events none = { .data = conn_nothing, .closed = conn_closed };
	size_t len;
	const unsigned char *dict = spdy_dictionary(&len);
	int fds[2];

	*t = (struct sess){ .l = rig_loop() };
	rig_pair(fds);
	t->fd = fds[1];
	t->s = spdy_new(conn_new(t->l, stream_plain(fds[0]), &none, NULL), &events, t);
	eq_int(deflateInit(&t->zip, 9), Z_OK);
	eq_int(deflateSetDictionary(&t->zip, dict, (uInt)len), Z_OK);
}

static void sess_done(struct sess *t)
{
	spdy_free(t->s);
	(void)close(t->fd);
	(void)deflateEnd(&t->zip);
	buf_done(&t->log);
	rig_settle(t->l);
	loop_free(t->l);
}

static void put_u32(struct buf *b, uint32_t v)
{
	for (int i = 24; i >= 0; i -= 8)
		buf_add_char(b, (char)(v >> i));
}

static void put_frame(struct buf *b, uint32_t first, unsigned flags, const void *p, size_t len)
{
	put_u32(b, first);
	put_u32(b, (uint32_t)(flags << 24) | (uint32_t)len);
	buf_add(b, p, len);
}

static void put_zipped(struct sess *t, struct buf *to, struct buf *plain)
{
	size_t room = plain->len * 2 + 4096;

	t->zip.next_in = (Bytef *)buf_head(plain);
	t->zip.avail_in = (uInt)plain->len;
	t->zip.next_out = (Bytef *)buf_reserve(to, room);
	t->zip.avail_out = (uInt)room;
	eq_int(deflate(&t->zip, Z_SYNC_FLUSH), Z_OK);
	buf_wrote(to, room - t->zip.avail_out);
}

static void put_str(struct buf *b, const char *s)
{
	put_u32(b, (uint32_t)strlen(s));
	buf_add_str(b, s);
}

static void put_syn(struct sess *t, struct buf *b, uint32_t id, unsigned flags, const char *type)
{
	autobuf plain = { 0 };
	autobuf payload = { 0 };

	put_u32(&plain, 2);
	put_str(&plain, "streamtype");
	put_str(&plain, type);
	put_str(&plain, "port");
	put_str(&plain, "8080");
	put_u32(&payload, id);
	put_u32(&payload, 0);
	buf_add(&payload, "\0\0", 2);
	put_zipped(t, &payload, &plain);
	put_frame(b, 0x80030001, flags, buf_head(&payload), payload.len);
}

static void flush(struct sess *t, struct buf *b)
{
	rig_send(t->l, t->fd, buf_head(b), b->len);
	buf_clear(b);
}

static void send_syn(struct sess *t, uint32_t id, unsigned flags, const char *type)
{
	autobuf b = { 0 };

	put_syn(t, &b, id, flags, type);
	flush(t, &b);
}

static uint32_t u32_at(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

/*
 * The next frame from the server: returns its first word; ret is the payload and *ret_len its
 * length.
 */
static uint32_t hear(struct sess *t, char *ret, size_t size, size_t *ret_len)
{
	char head[8];
	size_t len;

	eq_int(rig_read_n(t->l, t->fd, head, 8), 8);
	len = u32_at(head + 4) & 0xffffff;
	is_true(len < size);
	eq_int(rig_read_n(t->l, t->fd, ret, len), len);
	ret[len] = '\0';
	*ret_len = len | (size_t)(unsigned char)head[4] << 24;
	return u32_at(head);
}

TEST(the_dictionary_is_that_of_spdy_3)
{
	size_t len;
	const unsigned char *d = spdy_dictionary(&len);

	eq_int(len, 1423);
	eq_int(adler32(adler32(0, NULL, 0), d, (uInt)len), 0xe3c6a7c2);
}

TEST(streams_open_talk_and_end)
{
	struct sess t;
	autobuf b = { 0 };
	char text[100];
	size_t len;

	sess_init(&t);
	send_syn(&t, 1, 1, "error");
	send_syn(&t, 3, 0, "data");
	put_frame(&b, 3, 0, "hello", 5);
	put_frame(&b, 3, 1, "bye", 3);
	flush(&t, &b);
	eq_int(hear(&t, text, sizeof(text), &len), 0x80030002);
	eq_int(u32_at(text), 1);
	eq_int(hear(&t, text, sizeof(text), &len), 0x80030002);
	eq_int(u32_at(text), 3);
	until(t.l, strstr(buf_str(&t.log), "end 3"));
	eq_str(buf_str(&t.log),
	       "open 1 streamtype=error port=8080\nend 1\nopen 3 streamtype=data port=8080\n"
	       "data 3 hello\ndata 3 bye\nend 3\n");
	spdy_write(t.s, 3, "answer", 6);
	spdy_end(t.s, 3);
	spdy_write(t.s, 3, "after the end", 13);
	spdy_write(t.s, 99, "nowhere", 7);
	eq_int(hear(&t, text, sizeof(text), &len), 3);
	eq_str(text, "answer");
	eq_int(hear(&t, text, sizeof(text), &len), 3);
	eq_int(len, 1 << 24);
	sess_done(&t);
}

/* What we compress must be readable with the same context across several blocks. */
TEST(replies_unzip)
{
	struct sess t;
	z_stream zip = { 0 };
	char text[100], plain[16];
	size_t len, dict_len;
	const unsigned char *dict = spdy_dictionary(&dict_len);

	sess_init(&t);
	eq_int(inflateInit(&zip), Z_OK);
	for (uint32_t id = 1; id < 9; id += 2) {
		int r;

		send_syn(&t, id, 0, "stdin");
		(void)hear(&t, text, sizeof(text), &len);
		zip.next_in = (Bytef *)text + 4;
		zip.avail_in = (uInt)len - 4;
		zip.next_out = (Bytef *)plain;
		zip.avail_out = sizeof(plain);
		r = inflate(&zip, Z_SYNC_FLUSH);
		if (r == Z_NEED_DICT) {
			eq_int(inflateSetDictionary(&zip, dict, (uInt)dict_len), Z_OK);
			r = inflate(&zip, Z_SYNC_FLUSH);
		}
		eq_int(r, Z_OK);
		eq_int(zip.avail_out, sizeof(plain) - 4);
		eq_int(u32_at(plain), 0);
	}
	(void)inflateEnd(&zip);
	sess_done(&t);
}

TEST(pings_come_back)
{
	struct sess t;
	autobuf b = { 0 };
	char text[100];
	size_t len;

	sess_init(&t);
	put_frame(&b, 0x80030006, 0, "\0\0\0\x02",
		  4); /* an answer to a ping of ours, which we never sent */
	put_frame(&b, 0x80030004, 0, "\0\0\0\0", 4); /* settings */
	put_frame(&b, 0x80030006, 0, "\0\0\0\x07", 4);
	flush(&t, &b);
	eq_int(hear(&t, text, sizeof(text), &len), 0x80030006);
	eq_int(u32_at(text), 7);
	sess_done(&t);
}

TEST(a_reset_stream_is_gone)
{
	struct sess t;
	autobuf b = { 0 };

	sess_init(&t);
	send_syn(&t, 1, 0, "data");
	put_frame(&b, 0x80030003, 0, "\0\0\0\1\0\0\0\5", 8);
	put_frame(&b, 1, 0, "late", 4);
	put_frame(&b, 0x80030003, 0, "\0\0\0\1\0\0\0\5", 8);
	put_frame(&b, 0x80030006, 0, "\0\0\0\1", 4);
	flush(&t, &b);
	until(t.l, strstr(buf_str(&t.log), "reset 1"));
	rig_settle(t.l);
	eq_str(buf_str(&t.log), "open 1 streamtype=data port=8080\nreset 1\n");
	sess_done(&t);
}

TEST(frames_may_come_in_small_pieces)
{
	struct sess t;
	autobuf b = { 0 };

	sess_init(&t);
	put_syn(&t, &b, 1, 0, "stdin");
	put_frame(&b, 1, 0, "x", 1);
	put_frame(&b, 1, 1, "", 0);
	for (size_t i = 0; i < b.len; i++)
		rig_send(t.l, t.fd, buf_head(&b) + i, 1);
	until(t.l, strstr(buf_str(&t.log), "end 1"));
	eq_str(buf_str(&t.log), "open 1 streamtype=stdin port=8080\ndata 1 x\nend 1\n");
	sess_done(&t);
}

TEST(streams_beyond_the_limit_are_refused_one_by_one)
{
	struct sess t;
	char text[100];
	size_t len;

	sess_init(&t);
	for (uint32_t i = 0; i < 64; i++) {
		send_syn(&t, 2 * i + 1, 0, "data");
		eq_int(hear(&t, text, sizeof(text), &len), 0x80030002);
	}
	send_syn(&t, 129, 0, "data");
	eq_int(hear(&t, text, sizeof(text), &len), 0x80030003);
	eq_int(u32_at(text), 129);
	eq_int(u32_at(text + 4), 3);  /* refused */
	send_syn(&t, 129, 0, "data"); /* the same id again */
	eq_int(hear(&t, text, sizeof(text), &len), 0x80030003);
	eq_int(u32_at(text + 4), 1);
	send_syn(&t, 130, 0, "data"); /* an id reserved for the server */
	eq_int(hear(&t, text, sizeof(text), &len), 0x80030003);
	eq_int(u32_at(text + 4), 1);
	sess_done(&t);
}

static void put_bomb(struct sess *t, struct buf *b)
{
	autobuf plain = { 0 };
	autobuf payload = { 0 };
	size_t len = 10 * 1024 * 1024;

	put_u32(&plain, 1);
	put_str(&plain, "a");
	put_u32(&plain, (uint32_t)len);
	memset(buf_reserve(&plain, len), 'x', len);
	buf_wrote(&plain, len);
	buf_add(&payload, "\0\0\0\1\0\0\0\0\0\0", 10);
	put_zipped(t, &payload, &plain);
	is_true(payload.len < 64 * 1024);
	put_frame(b, 0x80030001, 0, buf_head(&payload), payload.len);
}

static void put_bad_block(struct sess *t, struct buf *b, const void *p, size_t len)
{
	autobuf plain = { 0 };
	autobuf payload = { 0 };

	buf_add(&plain, p, len);
	buf_add(&payload, "\0\0\0\1\0\0\0\0\0\0", 10);
	put_zipped(t, &payload, &plain);
	put_frame(b, 0x80030001, 0, buf_head(&payload), payload.len);
}

TEST(malformed_frames_end_the_session)
{
	for (int i = 0; i < 11; i++) {
		struct sess t;
		autobuf b = { 0 };
		char text[100];
		size_t len;

		sess_init(&t);
		switch (i) {
		case 0: /* another version */
			put_frame(&b, 0x80020006, 0, "\0\0\0\1", 4);
			break;
		case 1: /* not compressed */
			put_frame(&b, 0x80030001, 0, "\0\0\0\1\0\0\0\0\0\0\0\0\0\0", 14);
			break;
		case 2:
			put_frame(&b, 0x80030001, 0, "\0\0\0\1", 4);
			break;
		case 3:
			put_frame(&b, 0x80030006, 0, "\0\0\0", 3);
			break;
		case 4: /* a control frame over 64 KiB */
			put_u32(&b, 0x80030001);
			put_u32(&b, 0x10001);
			break;
		case 5: /* data over 1 MiB */
			put_u32(&b, 1);
			put_u32(&b, 0x100001);
			break;
		case 6:
			put_bomb(&t, &b);
			break;
		case 7: /* a length past the end */
			put_bad_block(&t, &b,
				      "\0\0\0\1\0\0\0\xff"
				      "a",
				      9);
			break;
		case 8: /* a wrong count */
			put_bad_block(&t, &b, "\xff\xff\xff\xff", 4);
			break;
		case 9: /* an upper-case name */
			put_bad_block(&t, &b, "\0\0\0\1\0\0\0\1A\0\0\0\0", 13);
			break;
		case 10: /* bytes after the headers */
			put_bad_block(&t, &b, "\0\0\0\0x", 5);
			break;
		}
		flush(&t, &b);
		if (hear(&t, text, sizeof(text), &len) != 0x80030007)
			fail_msg("case %d was not rejected", i);
		is_true(rig_at_end(t.l, t.fd));
		(void)shutdown(t.fd, SHUT_WR);
		until(t.l, t.n_closed == 1);
		eq_int(t.log.len, 0);
		sess_done(&t);
	}
}

TEST(a_pause_delays_the_data)
{
	struct sess t;
	autobuf b = { 0 };

	sess_init(&t);
	t.pause = true;
	put_syn(&t, &b, 1, 0, "stdin");
	put_frame(&b, 1, 0, "one", 3);
	put_frame(&b, 1, 0, "two", 3);
	flush(&t, &b);
	until(t.l, strstr(buf_str(&t.log), "one"));
	rig_settle(t.l);
	is_false(strstr(buf_str(&t.log), "two"));
	spdy_pause(t.s, false);
	until(t.l, strstr(buf_str(&t.log), "two"));
	sess_done(&t);
}

TEST(a_session_may_be_freed_in_a_callback)
{
	struct sess t;
	autobuf b = { 0 };

	sess_init(&t);
	t.free_in_data = true;
	put_syn(&t, &b, 1, 0, "stdin");
	put_frame(&b, 1, 1, "one", 3);
	put_frame(&b, 1, 1, "two", 3);
	flush(&t, &b);
	until(t.l, !t.s);
	rig_settle(t.l);
	is_false(strstr(buf_str(&t.log), "two"));
	sess_done(&t);
}

TEST(closing_says_goodbye)
{
	struct sess t;
	char text[100];
	size_t len;

	sess_init(&t);
	spdy_close(t.s);
	eq_int(hear(&t, text, sizeof(text), &len), 0x80030007);
	eq_int(u32_at(text + 4), 0);
	is_true(rig_at_end(t.l, t.fd));
	(void)shutdown(t.fd, SHUT_RDWR);
	until(t.l, t.n_closed == 1);
	sess_done(&t);
}
