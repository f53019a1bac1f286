/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "client/access.h"
#include "fixture.h"
#include "kinds.h"

/* Watches over HTTPS. */

static void start(struct fixture *f)
{
	fixture_init(f);
	fixture_listen(f);
}

TEST(u3_every_way_to_say_watch_streams_uncompressed_chunks)
{
	static const char *const ways[] = { "watch=true", "watch=True", "watch=1" };
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	settle(&f);
	f.headers = "Accept-Encoding: gzip\r\n";
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		autofree char *path = xasprintf(CONFIGS "?%s", ways[i]);
		struct stream_test *s = stream_open(&f, "GET", path, NULL);

		is_true(stream_until(s, "{\"type\":\"ADDED\",\"object\":{"));
		is_true(strstr(stream_text(s), "Transfer-Encoding: chunked") != NULL);
		is_true(strstr(stream_text(s), "Content-Encoding") == NULL);
		stream_test_free(s);
	}
	autoanswer a = ask(&f, "GET", CONFIGS "?watch=false", NULL);
	eq_str(at(&a, "kind"), "ConfigMapList");
	fixture_done(&f);
}

TEST(a_watch_from_a_created_object_sees_what_came_after)
{
	autoptr(object) o = NULL;
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), &o));
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'data':{'a':'2'}}"));
	settle(&f);
	autofree char *path =
		xasprintf(CONFIGS "?watch=1&fieldSelector=metadata.name%%3Da&resourceVersion=%llu",
			  (unsigned long long)o->rev);
	struct stream_test *s = stream_open(&f, "GET", path, NULL);
	is_true(stream_until(s, "\"type\":\"MODIFIED\""));
	is_true(strstr(stream_text(s), "ADDED") == NULL);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("ab"), NULL));
	works(drop(&f, kind_named("ConfigMap"), "default", "a", NULL));
	is_true(stream_until(s, "\"type\":\"DELETED\""));
	is_true(strstr(stream_text(s), "\"ab\"") == NULL);
	stream_test_free(s);
	fixture_done(&f);
}

TEST(objects_that_leave_a_selection_are_deleted_to_its_watch)
{
	struct fixture f;
	struct stream_test *s;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	settle(&f);
	s = stream_open(&f, "GET", CONFIGS "?watch=1&labelSelector=on%3Dyes", NULL);
	is_true(stream_until(s, "\r\n\r\n"));
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'metadata':{'labels':{'on':'yes'}}}"));
	is_true(stream_until(s, "\"type\":\"ADDED\""));
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'metadata':{'labels':{'on':'no'}}}"));
	is_true(stream_until(s, "\"type\":\"DELETED\""));
	is_true(strstr(stream_text(s), "\"on\":\"no\"") == NULL);
	stream_test_free(s);
	fixture_done(&f);
}

TEST(initial_events_end_with_a_marked_bookmark)
{
	struct fixture f;
	struct stream_test *s;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	settle(&f);
	s = stream_open(&f, "GET",
			CONFIGS "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
				"&resourceVersionMatch=NotOlderThan",
			NULL);
	is_true(stream_until(s, "\"k8s.io/initial-events-end\":\"true\""));
	is_true(strstr(stream_text(s), "ADDED") != NULL);
	stream_test_free(s);
	autoanswer a = ask(&f, "GET", CONFIGS "?watch=1&sendInitialEvents=true", NULL);
	eq_int(a.status, 422);
	fixture_done(&f);
}

TEST(u8_a_watch_ends_cleanly_at_its_timeout)
{
	struct fixture f;
	struct stream_test *s;

	start(&f);
	s = stream_open(&f, "GET", CONFIGS "?watch=1&timeoutSeconds=1&allowWatchBookmarks=1", NULL);
	is_true(stream_until(s, "BOOKMARK"));
	is_true(stream_ended(s));
	is_true(str_ends(stream_text(s), "\r\n0\r\n\r\n"));
	stream_test_free(s);
	fixture_done(&f);
}

/* Requests are somebody's with all rights, for so many seconds. */
static void be_for(struct fixture *f, int64_t seconds)
{
	static const char *const groups[] = { "system:masters", NULL };

	free(take(f->token));
	works(server_page_token(f->server,
				&(struct access_target){ .user = "ann", .groups = groups },
				clock_wall() / 1000000 + seconds, &f->token));
}

TEST(a_watch_ends_with_its_credential)
{
	struct fixture f;
	struct stream_test *first, *second, *lasting;

	start(&f);
	be_for(&f, 3600);
	lasting = stream_open(&f, "GET", CONFIGS "?watch=true", NULL);
	be_for(&f, 6);
	second = stream_open(&f, "GET", CONFIGS "?watch=true", NULL);
	be_for(&f, 4);
	first = stream_open(&f, "GET", CONFIGS "?watch=true", NULL);
	is_true(stream_until(lasting, "200 OK"));
	is_true(stream_until(second, "200 OK"));
	is_true(stream_until(first, "200 OK"));
	is_true(stream_ended(first));
	is_true(stream_ended(second));
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("later"), NULL));
	settle(&f);
	is_true(stream_until(lasting, "later"));
	stream_test_free(first);
	stream_test_free(second);
	stream_test_free(lasting);
	fixture_done(&f);
}

TEST(dataplane_180_a_revision_from_before_a_restart_is_gone)
{
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	fixture_close(&f);
	works(fixture_open(&f));
	fixture_listen(&f);
	autoanswer a = ask(&f, "GET", CONFIGS "?watch=1&resourceVersion=1", NULL);
	eq_int(a.status, 410);
	eq_str(at(&a, "reason"), "Expired");
	autoanswer b = ask(&f, "GET", CONFIGS "?watch=1&resourceVersion=99999", NULL);
	eq_int(b.status, 410);
	fixture_done(&f);
}

TEST(post_with_wait_answers_when_ready)
{
	autofree char *body = xstrdup(SANDBOX("a"));
	struct fixture f;
	struct stream_test *s;

	for (char *p = body; *p; p++)
		if (*p == '\'')
			*p = '"';
	start(&f);
	s = stream_open(&f, "POST", SANDBOXES "?wait=Ready", body);
	for (autoptr(object) o = NULL; !o; o = look(&f, kind_named("Sandbox"), "default", "a"))
		(void)loop_turn(f.loop, 10);
	settle(&f);
	eq_str(stream_text(s), "");
	works(merge(&f, &(struct client_ref){ kind_named("Sandbox"), "default", "a", "status" },
		    "{'status':{'conditions':[{'type':'Ready','status':'True','reason':'R',"
		    "'message':'','lastTransitionTime':'2026-01-01T00:00:00Z'}]}}"));
	is_true(stream_until(s, "\"Ready\""));
	is_true(str_starts(stream_text(s), "HTTP/1.1 201 "));
	stream_test_free(s);
	autoanswer b = ask(&f, "POST", SANDBOXES "?wait=Soon", body);
	eq_int(b.status, 400);
	fixture_done(&f);
}

/* It skips thousands of events, and no turn of the loop may take so long. */
TEST(a_watch_that_matches_nothing_leaves_time_for_others)
{
	const struct client_ref to = { kind_named("ConfigMap"), "default", "a", NULL };
	autoptr(object) first = NULL;
	autobuf path = { 0 };
	struct stream_test *s;
	struct fixture f;

	start(&f);
	works(make(&f, to.kind, "default", CONFIG("a"), &first));
	for (int i = 0; i < 8000; i++) {
		autofree char *text = xasprintf("{'data':{'a':'%d'}}", i);

		works(merge(&f, &to, text));
	}
	works(merge(&f, &to, "{'metadata':{'labels':{'last':'yes'}}}"));
	settle(&f);
	buf_printf(&path, CONFIGS "?watch=1&resourceVersion=%llu&labelSelector=",
		   (unsigned long long)first->rev);
	for (int i = 0; i < 250; i++) /* all are true, so that each event takes its time */
		buf_printf(&path, "!k%d,", i);
	buf_add_str(&path, "last");
	s = stream_open(&f, "GET", buf_str(&path), NULL);
	is_true(stream_until(s, "\r\n\r\n"));
	is_true(!strstr(stream_text(s), "ADDED"));
	is_true(stream_until(s, "\"ADDED\"")); /* it goes on by itself */
	works(merge(&f, &to, "{'data':{'a':'x'}}"));
	is_true(stream_until(s, "\"MODIFIED\""));
	stream_test_free(s);
	fixture_done(&f);
}

TEST(a_watch_shows_tables)
{
	struct fixture f;
	struct stream_test *s;

	start(&f);
	f.headers = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n";
	s = stream_open(&f, "GET", CONFIGS "?watch=1", NULL);
	is_true(stream_until(s, "\r\n\r\n"));
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	is_true(stream_until(s, "\"kind\":\"Table\""));
	stream_test_free(s);
	fixture_done(&f);
}

TEST(a_server_that_ends_cuts_its_watches)
{
	struct fixture f;
	struct stream_test *s;

	start(&f);
	s = stream_open(&f, "GET", CONFIGS "?watch=1", NULL);
	is_true(stream_until(s, "\r\n\r\n"));
	fixture_close(&f);
	is_true(stream_ended(s));
	stream_test_free(s);
	fixture_done(&f);
}
