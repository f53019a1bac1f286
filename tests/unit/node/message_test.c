/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/message.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/macros.h"
#include "base/mem.h"
#include "test.h"

static const char *layers[] = { "/a", "/b", NULL };

TEST(every_message_reads_back_as_it_was_written)
{
	const struct message rows[] = {
		{ .type = MESSAGE_SETUP,
		  .setup = { "stage", "run", "slots", "plain", 7, 8, "init", "group",
			     "overlay,pty" } },
		{ .type = MESSAGE_SLOT, .slot = { "s1", 1 << 31, true, { layers, true } } },
		{ .type = MESSAGE_SLOT, .slot = { .name = "s1" } },
		{ .type = MESSAGE_NET,
		  .net = { "cay1", "100.64.0.2", "100.64.0.1", "fd00::2", "" } },
		{ .type = MESSAGE_NET_CHECK, .check = { "cay1" } },
		{ .type = MESSAGE_NET_AS_NEW, .check = { "cay1" } },
		{ .type = MESSAGE_READY },
		{ .type = MESSAGE_SLOT_MADE, .made = { "s1", 4711 } },
		{ .type = MESSAGE_NET_MADE, .made = { .name = "cay1" } },
		{ .type = MESSAGE_REFUSED, .refused = { "setup", "", "no \"room\"\n" } },
		{ .type = MESSAGE_PARKED },
		{ .type = MESSAGE_LAUNCH },
		{ .type = MESSAGE_LAUNCHED },
		{ .type = MESSAGE_FAILED, .failed = { "why" } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(arena) a = arena_new();
		autobuf text = { 0 }, again = { 0 };
		struct message got;

		works(message_write(&rows[i], &text));
		works(message_read(buf_head(&text), text.len, a, &got));
		eq_int(got.type, rows[i].type);
		works(message_write(&got, &again));
		eq_str(buf_str(&again), buf_str(&text));
	}
}

TEST(members_of_a_slot_request_arrive)
{
	const struct message m = { .type = MESSAGE_SLOT,
				   .slot = { "s1", 1048576, true, { layers, true }, 1000 } };
	autoptr(arena) a = arena_new();
	autobuf text = { 0 };
	struct message got;

	works(message_write(&m, &text));
	works(message_read(buf_head(&text), text.len, a, &got));
	eq_str(got.slot.name, "s1");
	eq_int(got.slot.base, 1048576);
	is_true(got.slot.expects);
	eq_int(got.slot.oom_score, 1000);
	is_true(plan_image_equal(&got.slot.image, &m.slot.image));
}

TEST(a_message_that_is_not_of_the_table_is_malformed)
{
	static const char *const rows[] = {
		"",
		"[]",
		"{}",
		"{\"type\":\"nope\"}",
		"{\"type\":1}",
		"{\"type\":\"slot\"}",
		"{\"type\":\"slot\",\"name\":\"s\",\"base\":-1}",
		"{\"type\":\"net\",\"name\":\"cay1\",\"addr\":\"100.64.0.2\"}",
		"{\"type\":\"failed\"}",
		"{\"type\":\"refused\",\"what\":\"net\",\"text\":\"x\"}",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(arena) a = arena_new();
		struct message got;

		fails(message_read(rows[i], strlen(rows[i]), a, &got), ERR_MALFORMED);
	}
}

TEST(a_message_that_is_too_long_is_not_sent)
{
	autofree char *name = xcalloc(1, MESSAGE_MAX + 1);
	struct message m = { .type = MESSAGE_FAILED, .failed = { name } };
	autobuf text = { 0 };

	memset(name, 'x', MESSAGE_MAX);
	fails(message_write(&m, &text), ERR_TOO_LARGE);
}

TEST(descriptors_travel_with_a_message_and_must_be_as_many_as_its_type_has)
{
	autoptr(arena) a = arena_new();
	struct message m = { .type = MESSAGE_LAUNCH, .n_fds = 2 }, got;
	enum message_got what;
	int pair[2];

	eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	works(message_recv(pair[1], a, &got, &what));
	eq_int(what, MESSAGE_NONE);
	m.fds[0] = pair[0];
	m.fds[1] = pair[1];
	works(message_send(pair[0], &m));
	works(message_recv(pair[1], a, &got, &what));
	eq_int(what, MESSAGE_ONE);
	eq_int(got.n_fds, 2);
	is_true(fcntl(got.fds[0], F_GETFD) & FD_CLOEXEC);
	message_close(&got);
	m.n_fds = 1;
	works(message_send(pair[0], &m));
	fails(message_recv(pair[1], a, &got, &what), ERR_MALFORMED);
	(void)close(pair[0]);
	works(message_recv(pair[1], a, &got, &what));
	eq_int(what, MESSAGE_END);
	(void)close(pair[1]);
}
