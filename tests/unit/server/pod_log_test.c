/* SPDX-License-Identifier: Apache-2.0 */
#include "pod_rig.h"
#include "server/streams/streams_priv.h"
#include "test.h"

TEST(a_log_is_plain_text)
{
	struct pod_rig r;
	autofree char *head = NULL, *body = NULL;

	pod_rig_init(&r);
	pod_ask(&r, "GET /log", "");
	head = read_head(&r);
	is_true(str_starts(head, "HTTP/1.1 200 "));
	is_true(strstr(head, "Content-Type: text/plain\r\n") != NULL);
	body = read_to(&r, "0\r\n\r\n");
	eq_str(body, "8\r\none\ntwo\n\r\n0\r\n\r\n");
	eq_int(r.node.log.tail, -1);
	eq_str(r.node.container, "main");
	pod_rig_done(&r);
}

TEST(options_of_a_log_reach_the_node)
{
	struct pod_rig r;
	autofree char *body = NULL;

	pod_rig_init(&r);
	pod_ask(&r,
		"GET two/log?container=b&previous=true&timestamps=1&tailLines=5&limitBytes=100&"
		"sinceTime=1970-01-01T00:00:10Z&follow=false",
		"");
	body = read_to(&r, "0\r\n\r\n");
	eq_str(r.node.container, "b");
	is_true(r.node.log.previous && r.node.log.timestamps && !r.node.log.follow);
	eq_int(r.node.log.tail, 5);
	eq_int(r.node.log.limit_bytes, 100);
	eq_int(r.node.log.since_us, 10000000);
	pod_rig_done(&r);
}

TEST(seconds_are_counted_back_from_now)
{
	struct pod_rig r;
	autofree char *body = NULL;

	pod_rig_init(&r);
	pod_ask(&r, "GET /log?sinceSeconds=60", "");
	body = read_to(&r, "0\r\n\r\n");
	is_true(clock_wall() - r.node.log.since_us >= 60 * 1000000);
	is_true(clock_wall() - r.node.log.since_us < 90 * 1000000);
	pod_rig_done(&r);
}

TEST(a_bad_option_of_a_log_is_named)
{
	static const struct {
		const char *what, *says;
		int status;
	} rows[] = {
		{ "GET /log?tailLines=-1", "tailLines", 400 },
		{ "GET /log?tailLines=many", "parsing \\\"many\\\"", 400 },
		{ "GET /log?limitBytes=0", "limitBytes", 400 },
		{ "GET /log?sinceSeconds=0", "sinceSeconds", 400 },
		{ "GET /log?sinceSeconds=99999999999999999999", "sinceSeconds", 400 },
		{ "GET /log?sinceTime=noon", "sinceTime", 400 },
		{ "GET /log?sinceSeconds=1&sinceTime=1970-01-01T00:00:10Z", "sinceTime", 400 },
		{ "GET /log?stream=Stderr", "stream", 400 },
		{ "GET two/log", "choose one of: [a b]", 400 },
		{ "GET none/log", "pods \\\"none\\\" not found", 404 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *start = xasprintf("HTTP/1.1 %d ", rows[i].status);
		autofree char *head = NULL, *body = NULL;
		struct pod_rig r;

		pod_rig_init(&r);
		pod_ask(&r, rows[i].what, "");
		head = read_head(&r);
		body = read_to(&r, "\n");
		if (!str_starts(head, start) || !strstr(body, rows[i].says))
			fail_msg("%s: %s%s", rows[i].what, head, body);
		eq_int(r.node.n_started, 0);
		pod_rig_done(&r);
	}
}

TEST(a_log_of_a_completed_pod_can_be_read)
{
	struct pod_rig r;
	autofree char *body = NULL;

	pod_rig_init(&r);
	pod_ask(&r, "GET over/log", "");
	body = read_to(&r, "0\r\n\r\n");
	is_true(strstr(body, "one\ntwo\n") != NULL);
	pod_rig_done(&r);
}

TEST(a_log_that_cannot_be_read_is_a_status_and_a_torn_one_is_cut)
{
	struct pod_rig r;
	autofree char *head = NULL, *body = NULL, *torn = NULL;

	pod_rig_init(&r);
	r.node.silent = true;
	pod_ask(&r, "GET /log", "");
	head = read_head(&r);
	is_true(str_starts(head, "HTTP/1.1 500 "));
	body = read_to(&r, "\n");
	is_true(strstr(body, "\"message\":\"read log\"") != NULL);
	r.node.silent = false;
	r.node.torn = true;
	pod_ask(&r, "GET /log", "");
	torn = read_to(&r, NULL);
	is_true(strstr(torn, "0\r\n\r\n") == NULL);
	pod_rig_done(&r);
}

TEST(a_log_is_cut_with_the_way_to_its_node)
{
	struct pod_rig r;
	autofree char *text = NULL, *end = NULL;

	pod_rig_init(&r);
	pod_ask(&r, "GET /log?follow=true", "");
	text = read_to(&r, "two\n\r\n");
	eq_int(r.pods.n_open, 1);
	streams_cut(&r.pods);
	eq_int(r.node.n_canceled, 1);
	end = read_to(&r, NULL);
	eq_str(end, "");
	pod_rig_done(&r);
}

TEST(a_log_waits_for_its_container)
{
	struct pod_rig r;
	autofree char *head = NULL, *body = NULL;

	pod_rig_init(&r);
	r.node.refuse = err_new(ERR_UNAVAILABLE, "image is pulled");
	pod_ask(&r, "GET /log", "");
	head = read_head(&r);
	is_true(str_starts(head, "HTTP/1.1 400 "));
	body = read_to(&r, "\n");
	is_true(strstr(body, "is waiting to start") != NULL);
	pod_rig_done(&r);
}

TEST(a_follower_that_leaves_ends_the_log)
{
	struct pod_rig r;
	autofree char *text = NULL;

	pod_rig_init(&r);
	pod_ask(&r, "GET /log?follow=true", "");
	text = read_to(&r, "two\n\r\n");
	is_true(r.node.log.follow);
	pod_rig_hang_up(&r);
	while (!r.node.n_canceled)
		loop_turn(r.l, 20);
	pod_rig_done(&r);
}
