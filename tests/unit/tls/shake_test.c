/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/rig.h"
#include "net/stream.h"
#include "pair.h"
#include "test.h"
#include "tls/tls.h"

/* Handshakes: off the loop, however the peers behave and whenever their connections end. */
static const struct pair_spec plain = { .server_sans = { "localhost" },
					.server_name = "localhost" };

static void hello(struct pair *p)
{
	conn_write(p->client.c, "hello", 5);
	conn_write(p->server.c, "world", 5);
	until(p->l, p->server.got.len == 5 && p->client.got.len == 5);
}

/* One more connection with p's contexts. */
static void one_more(const struct pair *p, struct pair *ret)
{
	int fds[2];

	rig_pair(fds);
	*ret = (struct pair){ .l = p->l };
	ret->server.c = pair_conn(p->l, tls_accept(p->server_ctx, fds[0]), &ret->server);
	ret->client.c =
		pair_conn(p->l, tls_connect(p->client_ctx, fds[1], "localhost"), &ret->client);
}

static void ends_free(struct pair *p)
{
	conn_free(take(p->server.c));
	conn_free(take(p->client.c));
	buf_done(&p->server.got);
	buf_done(&p->client.got);
}

static size_t n_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	is_true(d != NULL);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

/* While a stream works, it polls for nothing and takes nothing. */
TEST(a_handshake_runs_in_another_thread)
{
	struct err *e = NULL;
	struct stream *s;
	struct pair p;
	char byte;

	pair_init(&p, &plain);
	s = conn_stream(p.client.c);
	until(p.l, s->ops->wants(s) == STREAM_WORKS);
	eq_int(s->ops->read(s, &byte, 1, &e), STREAM_AGAIN);
	eq_int(s->ops->write(s, "x", 1, &e), STREAM_AGAIN);
	is_false(s->ops->pending(s));
	is_false(s->ops->shutdown(s));
	hello(&p);
	eq_int(s->ops->wants(s), 0);
	pair_done(&p);
}

TEST(peers_that_stall_hold_no_thread)
{
	enum {
		STALLED = 40,
	};
	static const char half_hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
	struct pair p, good;
	struct end ends[STALLED] = { 0 };
	int fds[STALLED][2];

	pair_init(&p, &plain);
	for (int i = 0; i < STALLED; i++) {
		rig_pair(fds[i]);
		ends[i].c = pair_conn(p.l, tls_accept(p.server_ctx, fds[i][0]), &ends[i]);
		if (i % 2)
			rig_send(p.l, fds[i][1], half_hello, sizeof(half_hello) - 1);
	}
	rig_settle(p.l);
	one_more(&p, &good);
	hello(&good);
	for (int i = 0; i < STALLED; i++)
		is_false(ends[i].closed);
	ends_free(&good);
	for (int i = 0; i < STALLED; i++) {
		(void)close(fds[i][1]);
		until(p.l, ends[i].eof || ends[i].closed);
		conn_free(ends[i].c);
	}
	pair_done(&p);
}

/* At each moment of a handshake: after so many turns. */
TEST(a_connection_may_be_freed_in_the_middle_of_its_handshake)
{
	size_t before;
	struct pair p, q;

	pair_init(&p, &plain);
	hello(&p);
	before = n_descriptors();
	for (int turns = 0; turns < 12; turns++) {
		for (int i = 0; i < 20; i++) {
			one_more(&p, &q);
			conn_write(q.client.c, "x", 1);
			for (int n = 0; n < turns; n++)
				(void)loop_turn(p.l, n % 3);
			ends_free(&q);
		}
	}
	until(p.l, n_descriptors() == before);
	pair_done(&p);
}

TEST(a_loop_may_end_in_the_middle_of_handshakes)
{
	struct pair p, more[30];

	pair_init(&p, &plain);
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		one_more(&p, &more[i]);
		conn_write(more[i].client.c, "x", 1);
	}
	(void)loop_turn(p.l, 5);
	(void)loop_turn(p.l, 5);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		ends_free(&more[i]);
	pair_done(&p); /* contexts and loop, while jobs are under way */
}

TEST(many_handshakes_at_once_all_succeed)
{
	static struct pair more[100];
	struct pair p;

	pair_init(&p, &plain);
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		one_more(&p, &more[i]);
		conn_write(more[i].client.c, "hello", 5);
		conn_write(more[i].server.c, "world", 5);
	}
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		until(p.l, more[i].server.got.len == 5 && more[i].client.got.len == 5);
		ends_free(&more[i]);
	}
	pair_done(&p);
}

/* The end may come with the last bytes of the handshake or long before; it is an end, not a hang.
 */
TEST(a_peer_that_leaves_in_the_middle_is_noticed)
{
	static const char half_hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
	struct pair p;
	struct end end = { 0 };
	int fds[2];

	pair_init(&p, &plain);
	rig_pair(fds);
	end.c = pair_conn(p.l, tls_accept(p.server_ctx, fds[0]), &end);
	rig_send(p.l, fds[1], half_hello, sizeof(half_hello) - 1);
	rig_settle(p.l);
	(void)shutdown(fds[1], SHUT_WR);
	until(p.l, end.eof || end.closed);
	(void)close(fds[1]);
	conn_free(end.c);
	pair_done(&p);
}

/* What the owner asks for during a handshake happens after it. */
TEST(an_end_during_the_handshake_comes_after_what_was_written)
{
	struct pair p;

	pair_init(&p, &plain);
	conn_write(p.client.c, "last words", 10);
	conn_end(p.client.c);
	until(p.l, p.server.eof);
	eq_str(buf_str(&p.server.got), "last words");
	pair_done(&p);
}
