/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "pod_rig.h"
#include "server/streams/streams_priv.h"
#include "test.h"

#define SUCCESS "{\"metadata\":{},\"status\":\"Success\"}"
#define EXEC    "GET /exec?stdout=1&stderr=true&command="
#define V4      "v4.channel.k8s.io"
#define V5      "v5.channel.k8s.io"

/* Turns the loop until cond holds. */
#define until(r, cond)                                                    \
	do {                                                              \
		usec until_end_ = clock_mono() + 10 * 1000000;            \
		while (!(cond)) {                                         \
			if (clock_mono() > until_end_)                    \
				fail_msg("waited in vain for %s", #cond); \
			loop_turn((r)->l, 20);                            \
		}                                                         \
	} while (0)

TEST(output_comes_on_its_channels_and_then_the_status)
{
	static const char *const protocols[] = { V4, V5, (V5 ", " V4) };

	for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
		struct pod_rig r;

		pod_rig_init(&r);
		ws_open(&r, EXEC "say", protocols[i]);
		ws_expect(&r, 1, "out");
		ws_expect(&r, 2, "err");
		ws_expect(&r, 3, SUCCESS);
		ws_expect_close(&r, 1000);
		eq_str(r.node.container, "main");
		eq_str(r.node.user, "eve");
		pod_rig_done(&r);
	}
}

static void expect_exit(const char *what, const char *code)
{
	struct pod_rig r;
	autobuf b = { 0 };
	autoptr(json_doc) d = NULL;
	const struct json *cause;

	pod_rig_init(&r);
	ws_open(&r, what, V4);
	ws_expect(&r, 1, "out");
	ws_expect(&r, 2, "err");
	eq_int(ws_next(&r, &b), 2);
	works(json_parse(buf_str(&b) + 1, b.len - 1, NULL, &d));
	eq_str(json_get_str(json_root(d), "status"), "Failure");
	eq_str(json_get_str(json_root(d), "reason"), "NonZeroExitCode");
	cause = json_at_path(json_root(d), "details.causes.0");
	eq_str(json_get_str(cause, "reason"), "ExitCode");
	eq_str(json_get_str(cause, "message"), code);
	pod_rig_done(&r);
}

TEST(a_failed_command_tells_its_exit_code)
{
	expect_exit(EXEC "say&command=7", "7");
	expect_exit(EXEC "say&command=0&command=9", "137");
	/* What cannot be written as JSON is not shown. */
	expect_exit(EXEC "say&command=7&command=0&command=%ff", "7");
}

TEST(an_old_client_is_told_nothing_of_success)
{
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, EXEC "say", NULL);
	ws_expect(&r, 1, "out");
	ws_expect(&r, 2, "err");
	ws_expect_close(&r, 1000);
	pod_rig_done(&r);
}

TEST(a_client_of_version_5_ends_the_input)
{
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, EXEC "cat&stdin=1", V5);
	ws_send(&r, "", 0);
	ws_send(&r, "\0", 1);
	ws_send(&r, "\0hello", 6);
	ws_expect(&r, 1, "hello");
	ws_send(&r, "\1wrong way", 10);
	ws_send(&r, "\x77nowhere", 8);
	ws_send(&r, "\377\0", 2);
	ws_expect(&r, 3, SUCCESS);
	ws_expect_close(&r, 1000);
	pod_rig_done(&r);
}

TEST(input_that_was_not_asked_for_is_dropped)
{
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, EXEC "cat", V5);
	ws_send(&r, "\0hello", 6);
	ws_send(&r, "\377\0", 2);
	for (int i = 0; i < 10; i++)
		loop_turn(r.l, 0);
	eq_int(r.node.written, 0);
	pod_rig_done(&r);
}

TEST(a_terminal_takes_sizes_and_has_one_output)
{
	static const char first[] = "\4{\"Width\":80,\"Hei";
	static const char second[] =
		"\4ght\":24}{\"Width\":0,\"Height\":1}{\"Width\":132,\"Height\":50}\n";
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, EXEC "size&tty=true&stdin=1", V5);
	ws_send(&r, first, strlen(first));
	ws_send(&r, second, strlen(second));
	ws_expect(&r, 1, "80x24 132x50 "); /* both come in one turn */
	ws_send(&r, "\377\0", 2);
	ws_expect(&r, 3, SUCCESS);
	pod_rig_done(&r);
}

TEST(a_slow_reader_holds_the_output_back_and_loses_nothing)
{
	struct pod_rig r;
	autobuf b = { 0 };
	size_t got = 0;

	pod_rig_init(&r);
	ws_open(&r, EXEC "flood&command=9000000", V4);
	until(&r, r.node.n_paused);
	for (;;) {
		eq_int(ws_next(&r, &b), 2);
		if (buf_head(&b)[0] != 1)
			break;
		got += b.len - 1;
	}
	eq_int(got, 9000000);
	eq_str(buf_str(&b), "\3" SUCCESS);
	ws_expect_close(&r, 1000);
	pod_rig_done(&r);
}

TEST(a_full_program_holds_the_input_back)
{
	char message[1001] = { 0 };
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, EXEC "stuck&stdin=1", V5);
	for (int i = 0; i < 50; i++)
		ws_send(&r, message, sizeof(message));
	until(&r, r.node.written);
	for (int i = 0; i < 10; i++)
		loop_turn(r.l, 0);
	eq_int(r.node.written, 1000);
	for (int i = 0; i < 49; i++) {
		size_t before = r.node.written;

		node_drain(&r);
		until(&r, r.node.written > before);
	}
	eq_int(r.node.written, 50000);
	pod_rig_done(&r);
}

TEST(a_client_that_leaves_ends_what_it_started)
{
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, EXEC "hang", V5);
	eq_int(r.pods.n_open, 1);
	pod_rig_hang_up(&r);
	until(&r, r.node.n_canceled == 1 && !r.pods.n_open);
	pod_rig_done(&r);
}

TEST(a_server_that_ends_cuts_its_streams)
{
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, EXEC "hang", V5);
	streams_cut(&r.pods);
	eq_int(r.node.n_canceled, 1);
	pod_rig_done(&r);
}

#define WS                                                                \
	"Connection: Upgrade\r\nUpgrade: websocket\r\n"                   \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: " V5 "\r\n" \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

TEST(what_cannot_be_is_said_before_the_upgrade)
{
	static const struct {
		const char *what, *headers;
		int status;
		const char *says;
	} rows[] = {
		{ EXEC "cat", "", 400, "Upgrade request required" },
		{ "POST /exec?stdout=1&command=cat", "Content-Length: 0\r\n", 400, "Upgrade" },
		{ "GET none/exec?stdout=1&command=cat", WS, 404, "pods \\\"none\\\" not found" },
		{ "GET two/exec?stdout=1&command=cat", WS, 400,
		  "a container name must be specified for pod two, choose one of: [a b]" },
		{ "GET two/exec?stdout=1&command=cat&container=c", WS, 400,
		  "container c is not valid for pod two" },
		{ "GET over/exec?stdout=1&command=cat", WS, 400, "current phase is Succeeded" },
		{ "GET /exec?stdout=1", WS, 400, "command" },
		{ "GET /exec?stdout=1&command=%zz", WS, 400, "command" },
		{ "GET /exec?command=cat&stdout=false&stdin=0", WS, 400, "at least 1 of stdin" },
		{ "GET /attach?stdin=1&stdout=1", WS, 400, "stdin: " },
		{ EXEC "cat",
		  "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		  "Sec-WebSocket-Protocol: v9.channel.k8s.io\r\n",
		  400, "negotiate" },
		{ EXEC "cat",
		  "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		  "Sec-WebSocket-Protocol: " V5 "\r\n",
		  400, "Sec-WebSocket-Version" },
		{ "GET none/portforward", WS, 404, "not found" },
		{ "GET /portforward", WS, 400, "ports: " },
		{ "GET /portforward?ports=0", WS, 400, "ports: " },
		{ "GET /portforward",
		  "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		  "Sec-WebSocket-Protocol: v9.channel.k8s.io\r\n",
		  400, "negotiate" },
		{ "GET over/portforward", WS, 400, "current phase is Succeeded" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *start = xasprintf("HTTP/1.1 %d ", rows[i].status);
		autofree char *head = NULL, *body = NULL;
		struct pod_rig r;

		pod_rig_init(&r);
		pod_ask(&r, rows[i].what, rows[i].headers);
		head = read_head(&r);
		body = read_to(&r, "\n");
		if (!str_starts(head, start) || !strstr(body, rows[i].says))
			fail_msg("%s: %s%s", rows[i].what, head, body);
		eq_int(r.node.n_started, r.node.n_canceled);
		pod_rig_done(&r);
	}
}

TEST(what_the_node_refuses_is_said_before_the_upgrade)
{
	struct pod_rig r;
	autofree char *head = NULL, *body = NULL;

	pod_rig_init(&r);
	r.node.refuse = err_new(ERR_UNAVAILABLE, "it starts yet");
	pod_ask(&r, EXEC "cat", WS);
	head = read_head(&r);
	is_true(str_starts(head, "HTTP/1.1 400 "));
	body = read_to(&r, "\n");
	is_true(strstr(body, "container not found (\\\"main\\\"): it starts yet") != NULL);
	pod_rig_done(&r);
}

TEST(without_a_node_nothing_can_be_reached)
{
	struct pod_rig r;
	struct access *a;
	autofree char *head = NULL;

	pod_rig_init(&r);
	a = take(r.pods.access);
	pod_ask(&r, EXEC "cat", WS);
	head = read_head(&r);
	is_true(str_starts(head, "HTTP/1.1 503 "));
	r.pods.access = a;
	pod_rig_done(&r);
}

TEST(attach_follows_the_output_from_now_on)
{
	struct pod_rig r;

	pod_rig_init(&r);
	ws_open(&r, "GET /attach?stdout=1&stderr=1", V4);
	ws_expect(&r, 1, "one\ntwo\n");
	is_true(r.node.log.follow);
	eq_int(r.node.log.tail, 0);
	pod_rig_hang_up(&r);
	until(&r, r.node.n_canceled == 1);
	pod_rig_done(&r);
}

/* SPDY */

#define POST "POST /exec?stdout=1&stderr=1&command="

TEST(spdy_streams_carry_the_channels)
{
	struct pod_rig r;
	autobuf b = { 0 };

	pod_rig_init(&r);
	spdy_open(&r, POST "cat&stdin=1",
		  "X-Stream-Protocol-Version: v5.channel.k8s.io\r\n"
		  "X-Stream-Protocol-Version: v4.channel.k8s.io, v3.channel.k8s.io\r\n");
	spdy_put_stream(&r, &b, 1, "error", NULL);
	spdy_put_data(&b, 1, true, "");
	spdy_put_stream(&r, &b, 3, "stdin", NULL);
	spdy_put_stream(&r, &b, 5, "stdout", NULL);
	send_buf(&r, &b);
	for (int i = 0; i < 10; i++)
		loop_turn(r.l, 0);
	eq_int(r.node.n_started, 0); /* one is missing */
	spdy_put_stream(&r, &b, 7, "stderr", NULL);
	spdy_put_data(&b, 3, false, "hello");
	send_buf(&r, &b);
	spdy_expect(&r, 5, "hello", false);
	spdy_put_data(&b, 3, true, "");
	send_buf(&r, &b);
	spdy_expect(&r, 1, SUCCESS, false);
	spdy_expect(&r, 3, "", true);
	spdy_expect(&r, 5, "", true);
	spdy_expect(&r, 7, "", true);
	spdy_expect(&r, 1, "", true);
	pod_rig_hang_up(&r);
	until(&r, !r.pods.n_open);
	pod_rig_done(&r);
}

TEST(an_old_spdy_client_gets_a_text)
{
	struct pod_rig r;
	autobuf b = { 0 };
	bool end;

	pod_rig_init(&r);
	spdy_open(&r, "POST /exec?stdout=1&command=say&command=7",
		  "X-Stream-Protocol-Version: channel.k8s.io\r\n");
	spdy_put_stream(&r, &b, 1, "error", NULL);
	spdy_put_stream(&r, &b, 3, "surprise", NULL);
	spdy_put_stream(&r, &b, 5, "stdout", NULL);
	send_buf(&r, &b);
	spdy_expect(&r, 3, "", true);
	spdy_expect(&r, 5, "out", false);
	eq_int(spdy_next(&r, &b, &end), 1);
	is_true(str_starts(buf_str(&b), "command terminated with non-zero exit code: "));
	pod_rig_done(&r);
}

TEST(over_spdy_a_refusal_comes_on_the_error_stream)
{
	struct pod_rig r;
	autobuf b = { 0 };
	bool end;

	pod_rig_init(&r);
	spdy_open(&r, "POST /exec?stdout=1&command=cat",
		  "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n");
	r.node.refuse = err_new(ERR_UNAVAILABLE, "it starts yet");
	spdy_put_stream(&r, &b, 1, "error", NULL);
	spdy_put_stream(&r, &b, 3, "stdout", NULL);
	send_buf(&r, &b);
	eq_int(spdy_next(&r, &b, &end), 1);
	is_true(strstr(buf_str(&b), "it starts yet") != NULL);
	pod_rig_done(&r);
}

TEST(spdy_data_before_its_time_ends_the_session)
{
	struct pod_rig r;
	autobuf b = { 0 };

	pod_rig_init(&r);
	spdy_open(&r, POST "cat&stdin=1", "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n");
	spdy_put_stream(&r, &b, 1, "stdin", NULL);
	spdy_put_data(&b, 1, false, "too early");
	send_buf(&r, &b);
	pod_rig_hang_up(&r);
	until(&r, !r.pods.n_open);
	eq_int(r.node.n_started, 0);
	pod_rig_done(&r);
}

static bool wakes(unused void *arg, unused const char *ns, unused const char *pod)
{
	return true;
}

TEST(a_user_has_a_share_of_the_places_to_wait_in_and_leaves_them)
{
	struct pod_rig r;
	autofree char *head = NULL;
	int first;

	pod_rig_init(&r);
	r.pods.wake = wakes;
	r.pods.n_waking = 510; /* those of others */
	pod_ask(&r, EXEC "cat", "");
	until(&r, r.pods.n_waking == 511);
	first = pod_rig_another(&r);
	pod_ask(&r, EXEC "cat", "");
	head = read_head(&r);
	is_true(strstr(head, " 429 ") != NULL);
	eq_int(r.pods.n_waking, 511);
	(void)close(first);
	until(&r, r.pods.n_waking == 510);
	r.pods.n_waking = 0;
	pod_rig_done(&r);
}
