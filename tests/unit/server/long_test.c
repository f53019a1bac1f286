/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "fixture.h"
#include "kinds.h"
#include "server/call/budget.h"
#include "server/call/call.h"

/* Long answers: lists and the beginnings of watches that take many turns of the loop. */
enum {
	N = 5000
};

static void fill(struct fixture *f)
{
	struct buf pad = { 0 };

	fixture_init(f);
	fixture_listen(f);
	for (int i = 0; i < 2500; i++)
		buf_add_char(&pad, 'x');
	for (int i = 0; i < N; i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'name':'c%04d','labels':{'even':'%s'}},'data':{'pad':'%s'}}",
			i, i % 2 ? "no" : "yes", buf_str(&pad));

		works(make(f, kind_named("ConfigMap"), "default", text, NULL));
	}
	settle(f);
	buf_done(&pad);
}

static void disturb(struct fixture *f)
{
	const struct client_ref c = { kind_named("ConfigMap"), "default", "c4900", NULL };

	works(drop(f, c.kind, "default", "c4800", NULL));
	works(make(f, c.kind, "default", CONFIG("c4850a"), NULL));
	works(merge(f, &c, "{'data':{'new':'1'}}"));
	settle(f);
}

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

TEST(a_long_list_shows_one_state_while_others_write)
{
	struct fixture f;

	fill(&f);
	struct stream_test *s = stream_open(&f, "GET", CONFIGS, NULL);
	is_true(stream_until(s, "\"items\":["));
	is_true(!strstr(stream_text(s), "c4800")); /* so far from complete */
	disturb(&f);
	autoanswer a = stream_answer(s);
	eq_int(json_len(json_at_path(json_root(a.doc), "items")), N);
	eq_str(at(&a, "items.4800.metadata.name"), "c4800");
	eq_str(at(&a, "items.4900.metadata.name"), "c4900");
	is_true(at(&a, "items.4900.data.new") == NULL);
	fixture_done(&f);
}

TEST(a_long_list_is_whole_in_every_form)
{
	static const struct {
		const char *query, *accept, *list;
		size_t n;
	} rows[] = {
		{ "", "application/json;as=Table;v=v1;g=meta.k8s.io", "rows", N },
		{ "", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "items",
		  N },
		{ "?labelSelector=even%3Dyes", "application/json", "items", N / 2 },
		{ "?labelSelector=even%3Dneither", "application/json", "items", 0 },
		{ "?limit=4700", "application/json", "items", 4700 },
		{ "?limit=4700", "application/json;as=Table;v=v1;g=meta.k8s.io", "rows", 4700 },
	};
	struct fixture f;

	fill(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *path = xasprintf(CONFIGS "%s", rows[i].query);
		autofree char *accept = xasprintf("Accept: %s\r\n", rows[i].accept);

		f.headers = accept;
		autoanswer a = ask(&f, "GET", path, NULL);
		eq_int(a.status, 200);
		eq_int(json_len(json_at_path(json_root(a.doc), rows[i].list)), rows[i].n);
		is_true(at(&a, "metadata.resourceVersion") != NULL);
		if (rows[i].n == 4700)
			eq_int(int_at(&a, "metadata.remainingItemCount"), N - 4700);
		f.headers = "";
	}
	fixture_done(&f);
}

TEST(pages_say_how_much_is_left_of_their_own_state)
{
	struct fixture f;

	fill(&f);
	autoanswer a = ask(&f, "GET", CONFIGS "?limit=100", NULL);
	eq_int(int_at(&a, "metadata.remainingItemCount"), N - 100);
	disturb(&f); /* later than the list */
	autofree char *path =
		xasprintf(CONFIGS "?limit=300&continue=%s", at(&a, "metadata.continue"));
	autoanswer b = ask(&f, "GET", path, NULL);
	eq_int(int_at(&b, "metadata.remainingItemCount"), N - 400);
	fixture_done(&f);
}

TEST(a_watch_sends_what_existed_and_then_what_came_after)
{
	struct fixture f;
	const char *mark, *later;

	fill(&f);
	struct stream_test *s = stream_open(
		&f, "GET",
		CONFIGS "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
			"allowWatchBookmarks=true",
		NULL);
	is_true(stream_until(s, "ADDED"));
	is_true(!strstr(stream_text(s), "c4800"));
	disturb(&f);
	is_true(stream_until(s, "\"MODIFIED\""));
	eq_int(count_of(stream_text(s), "\"type\":\"ADDED\""), N + 1);
	mark = strstr(stream_text(s), "initial-events-end");
	later = strstr(stream_text(s), "\"type\":\"DELETED\"");
	is_true(mark && later && mark < later && later < strstr(later, "c4850a"));
	stream_test_free(s);
	fixture_done(&f);
}

static long metric(struct fixture *f, const char *name)
{
	autofree char *start = xasprintf("\n%s ", name);
	autoanswer a = ask(f, "GET", "/metrics", NULL);
	const char *line = strstr(a.text, start);

	is_true(line != NULL);
	return strtol(line + strlen(start), NULL, 10);
}

static long encoded(struct fixture *f)
{
	return metric(f, "cay_api_events_encoded_total");
}

TEST(an_event_is_encoded_once_for_all_who_want_it_alike)
{
	enum {
		WATCHES = 8
	};
	struct stream_test *s[WATCHES];
	struct fixture f;
	long before;

	fixture_init(&f);
	fixture_listen(&f);
	for (size_t i = 0; i < WATCHES; i++) {
		f.headers = i % 2 ? "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n" : "";
		s[i] = stream_open(&f, "GET", CONFIGS "?watch=1", NULL);
		is_true(stream_until(s[i], "\r\n\r\n"));
	}
	f.headers = "";
	before = encoded(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	for (size_t i = 0; i < WATCHES; i++)
		is_true(stream_until(s[i], i % 2 ? "\"cells\":[\"a\"" : "\"name\":\"a\""));
	eq_int(encoded(&f) - before, 2); /* once in each form */
	for (size_t i = 0; i < WATCHES; i++)
		stream_test_free(s[i]);
	fixture_done(&f);
}

TEST(a_long_object_arrives_whole)
{
	struct fixture f;
	struct buf pad = { 0 };

	fixture_init(&f);
	fixture_listen(&f);
	for (int i = 0; i < 900 * 1024; i++)
		buf_add_char(&pad, (char)('a' + i % 26));
	autofree char *text =
		xasprintf("{'metadata':{'name':'a'},'data':{'pad':'%s'}}", buf_str(&pad));
	works(make(&f, kind_named("ConfigMap"), "default", text, NULL));
	settle(&f);
	autoanswer a = ask(&f, "GET", CONFIGS "/a", NULL);
	eq_str(at(&a, "data.pad"), buf_str(&pad));
	is_true(strstr(a.head, "Content-Length") != NULL);
	buf_done(&pad);
	fixture_done(&f);
}

TEST(a_user_who_reads_nothing_runs_out_of_budget)
{
	static const char *const groups[] = { "system:authenticated", NULL };
	static const char *const masters[] = { "system:masters", "system:authenticated", NULL };
	const struct user a = { .name = "a", .groups = groups },
			  b = { .name = "b", .groups = groups };
	const struct user admin = { .name = "admin", .groups = masters };
	struct budget x;

	budget_init(&x, 10);
	works(budget_check(&x, &a));
	budget_change(&x, &a, 0, 5 << 20);
	fails(budget_check(&x, &a), ERR_EXHAUSTED);
	works(budget_check(&x, &b));
	budget_change(&x, &b, 0, 40 << 20); /* together too much for all but the administrator */
	budget_change(&x, &a, 5 << 20, 0);
	fails(budget_check(&x, &a), ERR_EXHAUSTED);
	works(budget_check(&x, &admin));
	budget_change(&x, &b, 40 << 20, 0);
	works(budget_check(&x, &a));
	eq_int(x.total, 0);
	budget_done(&x);
}

TEST(no_user_takes_the_requests_of_another)
{
	static const char *const groups[] = { "system:authenticated", NULL };
	static const char *const masters[] = { "system:masters", "system:authenticated", NULL };
	const struct user a = { .name = "a", .groups = groups },
			  b = { .name = "b", .groups = groups };
	const struct user admin = { .name = "admin", .groups = masters };
	struct budget x;

	budget_init(&x, 8);
	for (int i = 0; i < 4; i++)
		works(budget_enter(&x, &a));
	fails(budget_enter(&x, &a), ERR_EXHAUSTED); /* half of all, and no more */
	works(budget_enter(&x, &b));
	works(budget_enter(&x, &b));
	fails(budget_enter(&x, &b), ERR_EXHAUSTED); /* as many as are still free */
	for (int i = 0; i < 66; i++)
		works(budget_enter(&x, &admin));
	fails(budget_enter(&x, &admin), ERR_EXHAUSTED);
	for (int i = 0; i < 66; i++)
		budget_leave(&x, &admin);
	for (int i = 0; i < 4; i++)
		budget_leave(&x, &a);
	works(budget_enter(&x, &b));
	for (int i = 0; i < 3; i++)
		budget_leave(&x, &b);
	eq_int(x.n_calls, 0);
	budget_done(&x);
}

/* The text is the object's own, which may be deleted while the answer still holds it. */
TEST(a_long_object_is_charged_in_full_until_it_is_read)
{
	enum {
		LEN = 12 * 1024 * 1024 /* more than the sockets take */
	};
	autofree char *pad = xmalloc(LEN + 1), *text = NULL;
	struct stream_test *s;
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	memset(pad, 'x', LEN);
	pad[LEN] = '\0';
	text = xasprintf("{'metadata':{'name':'a'},'spec':{'podTemplate':{'spec':{'containers':["
			 "{'name':'c','image':'i','env':[{'name':'E','value':'%s'}]}]}}}}",
			 pad);
	works(make(&f, kind_named("Sandbox"), "default", text, NULL));
	settle(&f);
	s = stream_open(&f, "GET", SANDBOXES "/a", NULL);
	is_true(stream_until(s, "HTTP/1.1 200"));
	stream_stall(s);
	works(drop(&f, kind_named("Sandbox"), "default", "a", NULL));
	settle(&f);
	is_true(metric(&f, "cay_api_answer_bytes") >= LEN);
	stream_test_free(s);
	eq_int(metric(&f, "cay_api_answer_bytes"), 0);
	fixture_done(&f);
}
