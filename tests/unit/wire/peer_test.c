/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/peer.h"

#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "test.h"
#include "wire/wire.h"

/* What the node did before, and the frame that the guest sends then. */
enum before {
	NEW,
	READY,
	STARTING,
	ASKED,
	EXEC_OPENING,
	EXEC_OPEN,
	EXEC_OVER,
	DIAL_OPEN,
	DIAL_HALF,
	SPENT, /* all the window in both directions */
};

static void greet(struct wire_peer *p)
{
	static const char payload[8] = { 1 };
	const struct wire_frame f = { WIRE_READY, 0, payload, sizeof(payload) };

	works(wire_peer_check(p, &f));
}

static void open_stream(struct wire_peer *p, bool dial)
{
	static const char pid[4] = { 7 };
	const struct wire_frame f = { WIRE_STARTED_OK, WIRE_NODE_STREAM, pid, sizeof(pid) };

	wire_peer_open(p, dial);
	works(wire_peer_check(p, &f));
}

static void end_stream(struct wire_peer *p)
{
	autobuf b = { 0 };

	wire_put_exited(&b, WIRE_NODE_STREAM, 0, 0, false);
	works(wire_peer_check(p, &(struct wire_frame){ WIRE_EXITED, WIRE_NODE_STREAM,
						       buf_head(&b) + WIRE_HEAD, 9 }));
}

static void spend(struct wire_peer *p)
{
	static const char data[WIRE_DATA_MAX];
	const struct wire_frame f = { WIRE_STDOUT, WIRE_NODE_STREAM, data, sizeof(data) };

	for (int i = 0; i < WIRE_WINDOW / WIRE_DATA_MAX; i++)
		works(wire_peer_check(p, &f));
	wire_peer_input(p, WIRE_WINDOW);
}

static struct wire_peer peer_after(enum before before)
{
	struct wire_peer p = { 0 };

	if (before != NEW)
		greet(&p);
	if (before == STARTING)
		wire_peer_start(&p);
	if (before == ASKED)
		wire_peer_status(&p);
	if (before == EXEC_OPENING)
		wire_peer_open(&p, false);
	if (before == EXEC_OPEN || before == EXEC_OVER || before == SPENT)
		open_stream(&p, false);
	if (before == DIAL_OPEN || before == DIAL_HALF)
		open_stream(&p, true);
	if (before == EXEC_OVER)
		end_stream(&p);
	if (before == DIAL_HALF)
		works(wire_peer_check(
			&p, &(struct wire_frame){ WIRE_STDOUT, WIRE_NODE_STREAM, "", 0 }));
	if (before == SPENT)
		spend(&p);
	return p;
}

#define BYTES(...)  (const char[]){ __VA_ARGS__ }, sizeof((const char[]){ __VA_ARGS__ })
#define U32(a)      BYTES((char)(a), (char)((a) >> 8), (char)((a) >> 16), (char)((a) >> 24))
#define EXIT(c, s)  BYTES((char)(c), (char)((c) >> 8), 0, 0, s, 0, 0, 0, 0)
#define STATE(s, x) BYTES(s, x, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
#define FAILURE     BYTES(2, 0, 0, 0, 1, 0, 0, 0, 'x')

TEST(a_guest_may_send_only_what_was_asked_for)
{
	const struct {
		enum before before;
		enum wire_type type;
		uint32_t stream;
		const char *payload;
		size_t len;
		bool bad;
	} rows[] = {
		{ NEW, WIRE_READY, 0, BYTES(1, 0, 0, 0, 0, 0, 0, 0), false },
		{ NEW, WIRE_READY, 0, U32(1), true },
		{ NEW, WIRE_READY, 1, BYTES(1, 0, 0, 0, 0, 0, 0, 0), true },
		{ NEW, WIRE_EXITED, 0, EXIT(0, 0), true },
		{ READY, WIRE_READY, 0, BYTES(1, 0, 0, 0, 0, 0, 0, 0), true },
		{ READY, WIRE_HELLO, 0, U32(1), true },
		{ READY, WIRE_STATUS, 0, "", 0, true },
		{ READY, WIRE_STDIN, 1, "x", 1, true },
		{ READY, WIRE_SIGNAL, 0, U32(9), true },
		{ READY, WIRE_STARTED_OK, 0, U32(2), true },
		{ READY, WIRE_STATE, 0, STATE(1, 0), true },
		{ READY, WIRE_EXITED, 0, EXIT(255, 0), false },
		{ READY, WIRE_EXITED, 0, EXIT(256, 0), true },
		{ READY, WIRE_EXITED, 0, EXIT(128, 65), true },
		{ READY, WIRE_EXITED, 0, BYTES(0, 0), true },
		{ READY, WIRE_EXITED, 1, EXIT(0, 0), true },
		{ READY, WIRE_STDOUT, 0, "x", 1, true },
		{ READY, WIRE_STDOUT, 1, "x", 1, true },
		{ READY, WIRE_CREDIT, 1, U32(1), true },
		{ STARTING, WIRE_STARTED_OK, 0, U32(2), false },
		{ STARTING, WIRE_STARTED_OK, 1, U32(2), true },
		{ STARTING, WIRE_STARTED_OK, 0, BYTES(2), true },
		{ STARTING, WIRE_FAILED, 0, FAILURE, false },
		{ STARTING, WIRE_FAILED, 0, BYTES(2, 0, 0, 0, 2, 0, 0, 0, 'x'), true },
		{ STARTING, WIRE_EXITED, 0, EXIT(0, 0), true },
		{ ASKED, WIRE_STATE, 0, STATE(1, 0), false },
		{ ASKED, WIRE_STATE, 0, STATE(0, 1), true },
		{ ASKED, WIRE_STATE, 0, STATE(2, 0), true },
		{ ASKED, WIRE_STATE, 0, BYTES(1, 0), true },
		{ ASKED, WIRE_STATE, 1, STATE(1, 0), true },
		{ EXEC_OPENING, WIRE_STARTED_OK, 1, U32(9), false },
		{ EXEC_OPENING, WIRE_STARTED_OK, 2, U32(9), true },
		{ EXEC_OPENING, WIRE_FAILED, 1, FAILURE, false },
		{ EXEC_OPENING, WIRE_STDOUT, 1, "x", 1, true },
		{ EXEC_OPENING, WIRE_EXITED, 1, EXIT(0, 0), true },
		{ EXEC_OPEN, WIRE_STDOUT, 1, "x", 1, false },
		{ EXEC_OPEN, WIRE_STDERR, 1, "x", 1, false },
		{ EXEC_OPEN, WIRE_STDOUT, 1, "", 0, true },
		{ EXEC_OPEN, WIRE_STDOUT, 2, "x", 1, true },
		{ EXEC_OPEN, WIRE_STARTED_OK, 1, U32(9), true },
		{ EXEC_OPEN, WIRE_CREDIT, 1, U32(1), true },
		{ EXEC_OPEN, WIRE_CREDIT, 1, U32(0), true },
		{ EXEC_OPEN, WIRE_EXITED, 1, EXIT(0, 0), false },
		{ EXEC_OPEN, WIRE_EXITED, 0, EXIT(0, 0), false },
		{ EXEC_OVER, WIRE_STDOUT, 1, "x", 1, true },
		{ EXEC_OVER, WIRE_EXITED, 1, EXIT(0, 0), true },
		{ EXEC_OVER, WIRE_CREDIT, 1, U32(1), true },
		{ DIAL_OPEN, WIRE_STDOUT, 1, "", 0, false },
		{ DIAL_OPEN, WIRE_STDERR, 1, "x", 1, true },
		{ DIAL_HALF, WIRE_STDOUT, 1, "x", 1, true },
		{ DIAL_HALF, WIRE_EXITED, 1, EXIT(0, 0), false },
		{ SPENT, WIRE_STDOUT, 1, "x", 1, true },
		{ SPENT, WIRE_CREDIT, 1, U32(WIRE_WINDOW), false },
		{ SPENT, WIRE_CREDIT, 1, U32(WIRE_WINDOW + 1), true },
		{ SPENT, WIRE_CREDIT, 1, U32(UINT32_MAX), true },
		{ SPENT, WIRE_CREDIT, 1, BYTES(1), true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct wire_frame f = { rows[i].type, rows[i].stream, rows[i].payload,
					      rows[i].len };
		struct wire_peer p = peer_after(rows[i].before);
		struct err *e = wire_peer_check(&p, &f);

		if (!e != !rows[i].bad)
			fail_msg("row %zu: %s", i, e ? err_text(e) : "passed");
		is_true(!e || err_is(e, ERR_MALFORMED));
		err_free(e);
	}
}

TEST(a_frame_of_output_is_no_longer_than_agreed)
{
	static const char data[WIRE_DATA_MAX + 1];
	struct wire_peer p = peer_after(EXEC_OPEN);

	fails(wire_peer_check(&p, &(struct wire_frame){ WIRE_STDOUT, 1, data, sizeof(data) }),
	      ERR_MALFORMED);
}

TEST(an_answer_comes_once)
{
	static const char pid[4] = { 7 };
	const struct wire_frame f = { WIRE_STARTED_OK, 0, pid, sizeof(pid) };
	struct wire_peer p = peer_after(STARTING);

	works(wire_peer_check(&p, &f));
	fails(wire_peer_check(&p, &f), ERR_MALFORMED);
}

TEST(credit_that_was_given_back_may_be_used_again_and_never_piles_up)
{
	struct wire_peer p = peer_after(SPENT);
	const struct wire_frame f = { WIRE_CREDIT, 1, U32(WIRE_WINDOW) };

	works(wire_peer_check(&p, &f));
	eq_int(p.credit, WIRE_WINDOW);
	fails(wire_peer_check(&p, &f), ERR_MALFORMED);
	eq_int(p.credit, WIRE_WINDOW);
}

TEST(a_guest_says_how_busy_it_is_when_it_is_asked_and_only_then)
{
	static const char knows[8] = { 1, 0, 0, 0, WIRE_TELLS_BUSY };
	const struct wire_frame ready = { WIRE_READY, 0, knows, sizeof(knows) };
	const struct wire_frame f = { WIRE_BUSY, 0, U32(3) }, on_stream = { WIRE_BUSY, 1, U32(3) };
	const struct wire_frame shorter = { WIRE_BUSY, 0, "x", 1 };
	struct wire_peer p = { 0 };

	works(wire_peer_check(&p, &ready));
	is_true(p.tells_busy);
	fails(wire_peer_check(&p, &f), ERR_MALFORMED);
	wire_peer_ask_busy(&p);
	works(wire_peer_check(&p, &f));
	fails(wire_peer_check(&p, &f), ERR_MALFORMED);
	wire_peer_ask_busy(&p);
	fails(wire_peer_check(&p, &on_stream), ERR_MALFORMED);
	fails(wire_peer_check(&p, &shorter), ERR_MALFORMED);
	p = peer_after(READY);
	is_false(p.tells_busy); /* one of an earlier version is not asked */
}
