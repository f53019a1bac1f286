/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"
#include "rig.h"

/* The ends of writes over HTTPS, and who hears of them. */

static const char answer[] = "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"u\","
			     "\"resourceVersion\":\"7\"}}";

static const struct client_ref *pod(const char *name)
{
	static struct client_ref refs[2];
	struct client_ref *r = &refs[*name == 'b'];

	*r = (struct client_ref){ kind_named("Pod"), "ns", name };
	return r;
}

static void open_api(struct api *a)
{
	api_start(a);
	api_client(a);
}

static struct client_watch *watch_pods(struct api *a, struct diary *d)
{
	struct client_watch *w = client_watch(
		a->client, &(struct client_watch_spec){ .kind = kind_named("Pod"), .ns = "ns" },
		&diary_events, d);

	ask_answer(api_next(a, "?limit="), 200, "{\"metadata\":{\"resourceVersion\":\"1\"}}");
	ask_stream(api_next(a, "watch=true"));
	eq_str(buf_str(&d->text), "S ");
	buf_clear(&d->text);
	return w;
}

TEST(a_cancelled_write_takes_effect_in_silence)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *watch;
	struct client_write *w = diary_write(&d);
	struct ask *k;

	open_api(&a);
	watch = watch_pods(&a, &d);
	client_patch(a.client, pod("a"), PATCH_MERGE, json_doc_new(), w);
	k = api_next(&a, "PATCH");
	client_cancel(w);
	client_cancel(w);
	ask_answer(k, 200, "%s", answer);
	until(a.l, d.text.len >= 3);
	api_settle(&a);
	eq_str(buf_str(&d.text), "+a ");
	client_watch_free(watch);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_write_that_was_never_started_can_be_cancelled)
{
	struct diary d = { 0 };

	client_cancel(diary_write(&d));
	diary_done(&d);
}

TEST(a_cancelled_write_can_be_used_again)
{
	struct api a;
	struct diary d = { 0 };
	struct client_write *w = diary_write(&d);
	struct ask *k;

	open_api(&a);
	client_delete(a.client, pod("a"), NULL, w);
	k = api_next(&a, "/a");
	client_cancel(w);
	client_delete(a.client, pod("b"), NULL, w);
	ask_answer(k, 500, "{}");
	ask_answer(api_next(&a, "/b"), 404, "{}");
	until(a.l, d.n_done == 1);
	api_settle(&a);
	eq_int(d.n_done, 1);
	fails(take(d.e), ERR_NOT_FOUND);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_write_nobody_waits_for_is_in_the_cache)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *watch;

	open_api(&a);
	watch = watch_pods(&a, &d);
	client_create(a.client, pod("a"), json_doc_new(), NULL);
	ask_answer(api_next(&a, "POST"), 201, "%s", answer);
	client_delete(a.client, pod("b"), NULL, NULL);
	ask_answer(api_next(&a, "DELETE"), 404, "{}");
	until(a.l, d.text.len >= 3);
	api_settle(&a);
	eq_str(buf_str(&d.text), "+a ");
	client_watch_free(watch);
	api_stop(&a);
	diary_done(&d);
}

/* Two writes that cancel each other: only the first to end is heard of. */
struct rivals {
	struct client_write a, b;
	unsigned n_done;
};

static void a_done(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct rivals *r = container_of(w, struct rivals, a);

	err_free(e);
	r->n_done++;
	client_cancel(&r->a); /* nothing is under way any more */
	client_cancel(&r->b);
}

static void b_done(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct rivals *r = container_of(w, struct rivals, b);

	err_free(e);
	r->n_done++;
	client_cancel(&r->a);
}

TEST(the_end_of_one_write_may_cancel_another)
{
	struct rivals r = { .a.done = a_done, .b.done = b_done };
	struct api a;
	struct ask *ka, *kb;

	open_api(&a);
	client_delete(a.client, pod("a"), NULL, &r.a);
	client_delete(a.client, pod("b"), NULL, &r.b);
	ka = api_next(&a, "/a");
	kb = api_next(&a, "/b");
	ask_answer(ka, 200, "%s", answer);
	ask_answer(kb, 200, "%s", answer);
	until(a.l, r.n_done);
	api_settle(&a);
	eq_int(r.n_done, 1);
	api_stop(&a);
}

/* Goes once more from within its own end, then frees itself. */
struct twice {
	struct client_write write;
	struct client *client;
	unsigned *n_done;
};

static void twice_done(struct client_write *w, struct err *e, struct object *obj unused)
{
	struct twice *t = container_of(w, struct twice, write);

	err_free(e);
	if (++*t->n_done == 1)
		client_delete(t->client, pod("b"), NULL, w);
	else
		free(t);
}

TEST(done_may_start_the_next_write_and_free_it)
{
	struct twice *t = xnew(struct twice);
	unsigned n_done = 0;
	struct api a;

	open_api(&a);
	*t = (struct twice){ { .done = twice_done }, a.client, &n_done };
	client_delete(a.client, pod("a"), NULL, &t->write);
	ask_answer(api_next(&a, "/a"), 200, "%s", answer);
	ask_answer(api_next(&a, "/b"), 200, "%s", answer);
	until(a.l, n_done == 2);
	api_stop(&a);
}

TEST(writes_end_in_silence_with_their_client)
{
	struct api a;
	struct diary d = { 0 };
	struct client_write *running = diary_write(&d), *unsent = diary_write(&d);

	open_api(&a);
	client_delete(a.client, pod("a"), NULL, running);
	(void)api_next(&a, "/a");
	client_delete(a.client, pod("b"), NULL, unsent);
	client_free(take(a.client));
	client_cancel(running); /* they are on no list any more */
	client_cancel(unsent);
	api_settle(&a);
	eq_int(d.n_done, 0);
	api_client(&a);
	client_delete(a.client, pod("a"), NULL, running); /* and free for the next client */
	ask_answer(api_next(&a, "/a"), 200, "%s", answer);
	until(a.l, d.n_done == 1);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_sync_over_https_ends_at_once)
{
	struct api a;
	struct diary d = { 0 };

	open_api(&a);
	client_sync(a.client, diary_write(&d));
	eq_int(d.n_done, 1);
	works(take(d.e));
	api_stop(&a);
	diary_done(&d);
}

/* Both halves of an object, in two requests. */

static struct json_doc *doc_of(const char *text)
{
	struct json_doc *d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return d;
}

static void patch_whole(struct api *a, struct diary *d, const char *text)
{
	const struct client_ref to = { kind_named("Pod"), "ns", "a", CLIENT_WHOLE };

	client_patch(a->client, &to, PATCH_MERGE, doc_of(text), diary_write(d));
}

static const char whole[] =
	"{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"6\",\"labels\":{\"l\":\"1\"}},"
	"\"status\":{\"phase\":\"Running\"}}";

TEST(a_patch_of_the_whole_sends_the_status_first_and_ends_with_the_rest)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *watch;
	struct ask *k;

	open_api(&a);
	watch = watch_pods(&a, &d);
	patch_whole(&a, &d, whole);
	k = api_next(&a, "PATCH /api/v1/namespaces/ns/pods/a/status");
	eq_str(k->body, "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"6\"},"
			"\"status\":{\"phase\":\"Running\"}}");
	eq_str(k->type, "application/merge-patch+json");
	api_settle(&a);
	is_false(api_has(&a, "PATCH")); /* one after the other */
	ask_answer(k, 200, "%s", answer);
	k = api_next(&a, "PATCH");
	is_true(str_ends(k->target, "/pods/a"));
	eq_str(k->body, "{\"metadata\":{\"uid\":\"u\",\"labels\":{\"l\":\"1\"}}}");
	eq_int(d.n_done, 0);
	ask_answer(k, 200,
		   "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"u\","
		   "\"resourceVersion\":\"8\"}}");
	until(a.l, d.n_done == 1);
	works(take(d.e));
	eq_str(buf_str(&d.text), "+a ~a D ");
	eq_int(d.o->rev, 8);
	client_watch_free(watch);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_patch_of_the_whole_ends_with_its_first_error)
{
	static const struct {
		int status, rest; /* 0: not asked for */
		enum err_code code;
	} rows[] = {
		{ 409, 0, ERR_CONFLICT }, /* the rest is not even sent */
		{ 404, 0, ERR_NOT_FOUND },
		{ 200, 403, ERR_FORBIDDEN },
		{ 200, 404, ERR_NOT_FOUND }, /* it ended in between */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct api a;
		struct diary d = { 0 };

		open_api(&a);
		patch_whole(&a, &d, whole);
		ask_answer(api_next(&a, "/pods/a/status"), rows[i].status, "%s",
			   rows[i].status == 200 ? answer : "{}");
		if (rows[i].rest)
			ask_answer(api_next(&a, "/pods/a"), rows[i].rest, "{}");
		until(a.l, d.n_done == 1);
		api_settle(&a);
		is_false(api_has(&a, "PATCH"));
		eq_int(d.n_done, 1);
		fails(take(d.e), rows[i].code);
		api_stop(&a);
		diary_done(&d);
	}
}

TEST(a_patch_of_the_whole_sends_only_the_halves_that_it_has)
{
	static const struct {
		const char *patch, *target, *body;
	} rows[] = {
		{ "{\"metadata\":{\"uid\":\"u\"},\"status\":{\"x\":1}}", "/pods/a/status",
		  "{\"metadata\":{\"uid\":\"u\"},\"status\":{\"x\":1}}" },
		{ "{\"status\":{\"x\":1}}", "/pods/a/status",
		  "{\"metadata\":{},\"status\":{\"x\":1}}" },
		{ "{\"metadata\":{\"resourceVersion\":\"6\",\"labels\":{}}}", "/pods/a",
		  "{\"metadata\":{\"resourceVersion\":\"6\",\"labels\":{}}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct api a;
		struct diary d = { 0 };
		struct ask *k;

		open_api(&a);
		patch_whole(&a, &d, rows[i].patch);
		k = api_next(&a, "PATCH");
		is_true(str_ends(k->target, rows[i].target));
		eq_str(k->body, rows[i].body);
		ask_answer(k, 200, "%s", answer);
		until(a.l, d.n_done == 1);
		works(take(d.e));
		api_settle(&a);
		is_false(api_has(&a, "PATCH"));
		api_stop(&a);
		diary_done(&d);
	}
}

TEST(only_a_patch_may_be_of_the_whole)
{
	static const char *const subs[] = { CLIENT_WHOLE, CLIENT_AT_ONCE };
	struct api a;
	struct diary d = { 0 };

	api_start(&a);
	api_client(&a);
	for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
		const struct client_ref to = { kind_named("Pod"), "ns", "a", subs[i] };

		client_update(a.client, &to, doc_of(whole), diary_write(&d));
		eq_int(d.n_done, i + 1);
		fails(take(d.e), ERR_INVALID);
	}
	api_settle(&a);
	eq_int(a.n_asks, 0);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_client_that_is_freed_between_the_halves_sends_no_more)
{
	struct api a;
	struct diary d = { 0 };

	open_api(&a);
	patch_whole(&a, &d, whole);
	ask_answer(api_next(&a, "/pods/a/status"), 200, "%s", answer);
	(void)api_next(&a, "PATCH");
	client_free(take(a.client));
	api_settle(&a);
	eq_int(d.n_done, 0);
	api_client(&a);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_status_that_would_cost_a_second_request_is_left_out)
{
	const struct client_ref to = { kind_named("Pod"), "ns", "a", CLIENT_AT_ONCE };
	struct api a;
	struct diary d = { 0 };
	struct ask *k;

	open_api(&a);
	client_patch(a.client, &to, PATCH_MERGE, doc_of(whole), diary_write(&d));
	k = api_next(&a, "PATCH");
	is_true(str_ends(k->target, "/pods/a"));
	eq_str(k->body, "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"6\","
			"\"labels\":{\"l\":\"1\"}}}");
	ask_answer(k, 200, "%s", answer);
	until(a.l, d.n_done == 1);
	works(take(d.e));
	api_settle(&a);
	is_false(api_has(&a, "PATCH"));
	api_stop(&a);
	diary_done(&d);
}
