/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "test.h"

static struct wire_frame only_frame(struct buf *b)
{
	struct wire_frame f = { 0 };
	size_t used = 0;
	int have = 0;

	works(wire_next(buf_head(b), b->len, &f, &used, &have));
	eq_int(have, 1);
	eq_int(used, b->len);
	return f;
}

static struct wire_start sample(void)
{
	static const char *argv[] = { "sh", "-c", "echo \"$A\"", NULL };
	static const char *env[] = { "PATH=/bin", "A=", NULL };
	static uint32_t groups[] = { 4, 4000000000u };

	return (struct wire_start){
		.argv = argv,
		.env = env,
		.cwd = "/srv",
		.uid = 1000,
		.gid = 1001,
		.groups = groups,
		.n_groups = 2,
		.flags = WIRE_TTY | WIRE_STDIN_OPEN,
		.cols = 80,
		.rows = 65535,
		.runtime_port = 8888,
		.keep_caps = 1ull << 40 | 1,
		.nofile = 1024,
	};
}

TEST(a_start_is_read_as_it_was_written)
{
	autobuf b = { 0 };
	struct wire_start in = sample(), out;
	struct wire_frame f;

	wire_put_start(&b, WIRE_EXEC, 7, &in);
	f = only_frame(&b);
	eq_int(f.type, WIRE_EXEC);
	eq_int(f.stream, 7);
	works(wire_start_read(&f, &out));
	eq_str(out.argv[2], "echo \"$A\"");
	is_true(!out.argv[3]);
	eq_str(out.env[1], "A=");
	is_true(!out.env[2]);
	eq_str(out.cwd, "/srv");
	eq_int(out.uid, 1000);
	eq_int(out.gid, 1001);
	eq_int(out.n_groups, 2);
	eq_int(out.groups[1], 4000000000u);
	eq_int(out.flags, in.flags);
	eq_int(out.cols, 80);
	eq_int(out.rows, 65535);
	eq_int(out.runtime_port, 8888);
	is_true(out.keep_caps == in.keep_caps);
	eq_int(out.nofile, 1024);
	wire_start_done(&out);
}

TEST(empty_start_has_empty_lists)
{
	autobuf b = { 0 };
	struct wire_start in = { 0 }, out;
	struct wire_frame f;

	wire_put_start(&b, WIRE_START, 0, &in);
	f = only_frame(&b);
	works(wire_start_read(&f, &out));
	is_true(out.argv && !out.argv[0]);
	is_true(out.env && !out.env[0]);
	eq_str(out.cwd, "");
	wire_start_done(&out);
}

TEST(every_cut_of_a_start_is_malformed)
{
	autobuf b = { 0 };
	struct wire_start in = sample(), out;
	struct wire_frame f;
	size_t whole;

	wire_put_start(&b, WIRE_START, 0, &in);
	f = only_frame(&b);
	whole = f.len;
	for (f.len = 0; f.len < whole; f.len++)
		fails(wire_start_read(&f, &out), ERR_MALFORMED);
	buf_add_char(&b, 'x');
	f.payload = buf_head(&b) + 9;
	f.len = whole + 1;
	fails(wire_start_read(&f, &out), ERR_MALFORMED);
}

TEST(string_with_nul_is_malformed)
{
	autobuf b = { 0 };
	const char payload[] = "\x05\0\0\0\x03\0\0\0a\0b";
	struct wire_frame f;
	char *text = NULL;
	int errnum = 77;

	wire_put(&b, WIRE_FAILED, 1, payload, sizeof(payload) - 1);
	f = only_frame(&b);
	fails(wire_failed_read(&f, &errnum, &text), ERR_MALFORMED);
	eq_int(errnum, 77);
	is_true(!text);
}

TEST(count_beyond_the_frame_is_malformed_without_allocating_it)
{
	autobuf b = { 0 };
	const char payload[] = "\xff\xff\xff\xff\0\0\0\0";
	struct wire_start out;
	struct wire_frame f;

	wire_put(&b, WIRE_START, 0, payload, sizeof(payload) - 1);
	f = only_frame(&b);
	fails(wire_start_read(&f, &out), ERR_MALFORMED);
}

TEST(a_termination_message_has_a_limit)
{
	static char text[WIRE_TEXT_MAX + 1];
	struct wire_state in = { .message = { text, WIRE_TEXT_MAX } }, out;
	uint32_t code, signum;
	bool oom;

	for (int too_long = 0; too_long < 2; too_long++) {
		autobuf a = { 0 }, b = { 0 };
		struct wire_frame ended, state;

		in.message.len = WIRE_TEXT_MAX + (size_t)too_long;
		wire_put_ended(&a, &in);
		wire_put_state(&b, &in);
		ended = only_frame(&a);
		state = only_frame(&b);
		if (too_long) {
			fails(wire_exited_read(&ended, &code, &signum, &oom), ERR_MALFORMED);
			fails(wire_state_read(&state, &out), ERR_MALFORMED);
		} else {
			works(wire_exited_read(&ended, &code, &signum, &oom));
			works(wire_state_read(&state, &out));
		}
	}
}

TEST(small_frames_are_read_as_they_were_written)
{
	autobuf b = { 0 };
	autofree char *text = NULL;
	struct wire_state in = { true, true, 2, 137, 9, true, 1ull << 50, SPAN("why") }, out;
	struct wire_frame f;
	uint32_t code, signum, pair[2] = { 1, 0xdeadbeef }, got[2];
	uint16_t size[2] = { 80, 24 }, got_size[2];
	int errnum;
	bool oom;

	wire_put_state(&b, &in);
	f = only_frame(&b);
	works(wire_state_read(&f, &out));
	is_true(!memcmp(&in.pid, &out.pid, 3 * sizeof(in.pid)) && out.started && out.exited);
	is_true(out.oom && out.exited_at_us == in.exited_at_us && span_eq(out.message, "why"));
	buf_clear(&b);
	wire_put_ended(&b, &in);
	f = only_frame(&b);
	works(wire_exited_read(&f, &code, &signum, &oom));
	is_true(code == 137 && signum == 9 && span_eq(wire_exited_message(&f), "why"));
	buf_clear(&b);
	wire_put_exited(&b, 3, 137, 9, false);
	f = only_frame(&b);
	works(wire_exited_read(&f, &code, &signum, &oom));
	is_true(code == 137 && signum == 9 && !oom);
	buf_clear(&b);
	wire_put_failed(&b, 3, 2, "exec \"x\": No such file or directory");
	f = only_frame(&b);
	works(wire_failed_read(&f, &errnum, &text));
	eq_int(errnum, 2);
	eq_str(text, "exec \"x\": No such file or directory");
	buf_clear(&b);
	wire_put_u32s(&b, WIRE_READY, 0, pair, 2);
	f = only_frame(&b);
	works(wire_u32s_read(&f, got, 2));
	eq_int(got[1], 0xdeadbeef);
	fails(wire_u32s_read(&f, got, 1), ERR_MALFORMED);
	buf_clear(&b);
	wire_put_u16s(&b, WIRE_RESIZE, 5, size, 2);
	f = only_frame(&b);
	works(wire_u16s_read(&f, got_size, 2));
	is_true(got_size[0] == 80 && got_size[1] == 24);
	fails(wire_u16s_read(&f, got_size, 1), ERR_MALFORMED);
}

TEST(a_truth_that_is_neither_0_nor_1_is_malformed)
{
	const char payload[] = "\0\0\0\0\0\0\0\0\2";
	struct wire_frame f = { .type = WIRE_EXITED, .payload = payload, .len = 9 };
	uint32_t code, signum;
	bool oom;

	fails(wire_exited_read(&f, &code, &signum, &oom), ERR_MALFORMED);
}

TEST(a_frame_is_returned_only_when_complete)
{
	autobuf b = { 0 };
	struct wire_frame f;
	size_t used;
	int have;

	wire_put(&b, WIRE_STDIN, 9, "hello", 5);
	for (size_t len = 0; len < b.len; len++) {
		works(wire_next(buf_head(&b), len, &f, &used, &have));
		eq_int(have, 0);
	}
	wire_put(&b, WIRE_STDIN, 9, NULL, 0);
	works(wire_next(buf_head(&b), b.len, &f, &used, &have));
	eq_int(have, 1);
	eq_int(f.len, 5);
	is_true(!memcmp(f.payload, "hello", 5));
	works(wire_next(buf_head(&b) + used, b.len - used, &f, &used, &have));
	eq_int(have, 1);
	eq_int(f.len, 0);
}

TEST(a_bad_length_or_type_is_noticed_before_the_rest_arrives)
{
	struct wire_frame f;
	size_t used;
	int have;

	fails(wire_next("\x04\0\0\0", 4, &f, &used, &have), ERR_MALFORMED);
	fails(wire_next("\x01\0\x04\0", 4, &f, &used, &have), ERR_MALFORMED);
	fails(wire_next("\xff\xff\xff\xff", 4, &f, &used, &have), ERR_MALFORMED);
	fails(wire_next("\x05\0\0\0\x13", 5, &f, &used, &have), ERR_MALFORMED);
}

TEST(a_start_that_is_too_large_is_noticed_before_writing)
{
	autofree char *big = xmalloc(WIRE_MAX);
	const char *env[] = { big, NULL };
	struct wire_start s = sample();

	is_true(wire_start_fits(&s));
	memset(big, 'x', WIRE_MAX - 1);
	big[WIRE_MAX - 1] = 0;
	s.env = env;
	is_false(wire_start_fits(&s));
}
