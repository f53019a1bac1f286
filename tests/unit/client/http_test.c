/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "kinds.h"
#include "rig.h"

#define ITEM(name, uid, rev)                                                            \
	"{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"default\",\"uid\":\"" uid \
	"\",\"resourceVersion\":\"" rev "\"}}"
#define LIST(rev, more, items) \
	"{\"metadata\":{\"resourceVersion\":\"" rev "\"" more "},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define STATUS(code, reason)                                                                 \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":" code ",\"reason\":\"" reason \
	"\",\"message\":\"said so\"}"
#define MAPS "/api/v1/namespaces/default/configmaps"

static struct client_watch *watch_maps(struct api *a, struct diary *d)
{
	return client_watch(
		a->client,
		&(struct client_watch_spec){ .kind = kind_named("ConfigMap"), .ns = "default" },
		&diary_events, d);
}

/* A client that has listed one map, "a" at 5, and watches from 10. */
static struct ask *started(struct api *a, struct diary *d, struct client_watch **ret)
{
	struct ask *w;

	api_start(a);
	api_client(a);
	*ret = watch_maps(a, d);
	ask_answer(api_next(a, "GET " MAPS "?limit=500"), 200,
		   LIST("10", "", ITEM("a", "u1", "5")));
	w = api_next(a, "watch=true");
	ask_stream(w);
	eq_str(buf_str(&d->text), "+a S ");
	buf_clear(&d->text);
	return w;
}

static struct json_doc *doc(const char *text)
{
	struct json_doc *d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return d;
}

TEST(list_then_watch_tells_each_change_once)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *k = started(&a, &d, &w);
	autoptr(object) o = NULL;

	is_true(strstr(k->target, "resourceVersion=10"));
	is_true(strstr(k->target, "allowWatchBookmarks=true"));
	is_true(strstr(k->target, "timeoutSeconds="));
	ask_send(k, EVENT("ADDED", ITEM("b", "u2", "11")) "\n" EVENT("MODIFIED",
								     ITEM("a", "u1", "12")));
	ask_send(k, "{\"type\":\"DELETED\","); /* an event in two pieces */
	until(a.l, d.text.len >= 6);
	ask_send(k, "\"object\":" ITEM("b", "u2", "13") "}\n");
	until(a.l, d.text.len >= 9);
	eq_str(buf_str(&d.text), "+b ~a -b ");
	o = client_get(a.client, kind_named("ConfigMap"), "default", "a");
	eq_int(o->rev, 12);
	eq_str(json_get_str(o->root, "kind"), "ConfigMap");
	is_false(client_get(a.client, kind_named("ConfigMap"), "default", "b"));
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_long_list_comes_in_pages)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;

	api_start(&a);
	api_client(&a);
	w = watch_maps(&a, &d);
	ask_answer(api_next(&a, "limit=500"), 200,
		   LIST("10", ",\"continue\":\"x/y=\"", ITEM("a", "u1", "5")));
	ask_answer(api_next(&a, "continue=x%2Fy%3D"), 200, LIST("10", "", ITEM("b", "u2", "6")));
	until(a.l, api_has(&a, "watch=true"));
	eq_str(buf_str(&d.text), "+a +b S ");
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_cut_watch_goes_on_where_it_was)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *k = started(&a, &d, &w);

	ask_send(k, EVENT("MODIFIED", ITEM("a", "u1", "12")));
	ask_send(k, EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"40\"}}"));
	until(a.l, d.text.len >= 3);
	ask_cut(k);
	k = api_next(&a, "watch=true");
	is_true(strstr(k->target, "resourceVersion=40"));
	ask_stream(k);
	ask_send(k, EVENT("MODIFIED", ITEM("a", "u1", "41")));
	until(a.l, d.text.len >= 6);
	ask_end(k); /* as agreed: no pause */
	k = api_next(&a, "watch=true");
	is_true(strstr(k->target, "resourceVersion=41"));
	eq_str(buf_str(&d.text), "~a ~a ");
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

static void expect_fresh_list(struct api *a, struct diary *d)
{
	struct ask *k = api_next(a, "limit=500");

	ask_answer(k, 200, LIST("90", "", ITEM("b", "u9", "80")));
	k = api_next(a, "watch=true");
	is_true(strstr(k->target, "resourceVersion=90"));
	eq_str(buf_str(&d->text), "+b -a "); /* and no second S */
}

TEST(a_watch_told_410_lists_again)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *k = started(&a, &d, &w);

	ask_send(k, EVENT("ERROR", STATUS("410", "Expired")));
	expect_fresh_list(&a, &d);
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_watch_answered_410_lists_again)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *k = started(&a, &d, &w);

	ask_cut(k);
	ask_answer(api_next(&a, "watch=true"), 410, STATUS("410", "Gone"));
	expect_fresh_list(&a, &d);
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_watch_that_sends_rubbish_starts_again)
{
	static const char *const rubbish[] = { "nonsense\n", "[]\n", "{\"type\":\"ADDED\"}\n",
					       "{\"type\":\"ADDED\",\"object\":{}} x\n" };
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *k = started(&a, &d, &w);

	ask_send(k, "%s", rubbish[0]);
	for (size_t i = 1; i < ARRAY_LEN(rubbish); i++) {
		k = api_next(&a, "watch=true");
		ask_stream(k);
		ask_send(k, EVENT("MODIFIED", ITEM("a", "u1", "1%zu")), i);
		ask_send(k, "%s", rubbish[i]);
	}
	(void)api_next(&a, "watch=true");
	eq_str(buf_str(&d.text), "~a ~a ~a ");
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_server_that_refuses_watches_is_not_asked_in_a_hot_loop)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *k = started(&a, &d, &w);
	usec began = clock_mono();

	ask_end(k); /* at once, with nothing in it */
	for (int i = 0; i < 3; i++)
		ask_answer(api_next(&a, "watch=true"), 500, STATUS("500", "InternalError"));
	(void)api_next(&a, "watch=true");
	is_true(clock_mono() - began > (250 + 500 + 1000 + 2000) * 1000);
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_write_is_in_the_cache_before_done)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *watch = started(&a, &d, &w), *k;
	autoptr(object) o = NULL;

	client_create(a.client, &(struct client_ref){ kind_named("ConfigMap"), "default" },
		      doc("{\"metadata\":{\"name\":\"n\"}}"), diary_write(&d));
	k = api_next(&a, "POST " MAPS);
	eq_str(k->type, "application/json");
	eq_str(k->body,
	       "{\"metadata\":{\"name\":\"n\"},\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}");
	ask_answer(k, 201, ITEM("n", "u3", "30"));
	until(a.l, d.n_done == 1);
	eq_str(buf_str(&d.text), "+n D ");
	eq_int(d.o->rev, 30);
	ask_send(watch,
		 EVENT("ADDED", ITEM("n", "u3", "29")) EVENT("ADDED", ITEM("z", "u4", "31")));
	until(a.l, d.text.len >= 8);
	eq_str(buf_str(&d.text), "+n D +z ");
	o = client_get(a.client, kind_named("ConfigMap"), "default", "n");
	eq_int(o->rev, 30);
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(an_answer_that_the_watch_has_overtaken_brings_nothing_back)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *k = started(&a, &d, &w), *patch;
	const struct client_ref to = { kind_named("ConfigMap"), "default", "a", NULL };

	client_patch(a.client, &to, PATCH_MERGE, doc("{\"data\":{}}"), diary_write(&d));
	patch = api_next(&a, "PATCH");
	ask_send(k,
		 EVENT("MODIFIED", ITEM("a", "u1", "11")) EVENT("DELETED", ITEM("a", "u1", "12")));
	until(a.l, d.text.len >= 6);
	ask_answer(patch, 200, ITEM("a", "u1", "11"));
	until(a.l, d.n_done == 1);
	eq_str(buf_str(&d.text), "~a -a D ");
	is_false(d.e);
	is_false(client_get(a.client, kind_named("ConfigMap"), "default", "a"));
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_delete_is_in_the_cache_before_done)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;
	struct ask *watch = started(&a, &d, &w), *k;

	client_delete(a.client, &(struct client_ref){ kind_named("ConfigMap"), "default", "a" },
		      &(struct client_delete_spec){ .uid = "u1", .rev = 5, .grace_s = 0 },
		      diary_write(&d));
	k = api_next(&a, "DELETE " MAPS "/a");
	eq_str(k->body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"preconditions\":"
			"{\"uid\":\"u1\",\"resourceVersion\":\"5\"},\"gracePeriodSeconds\":0}");
	ask_answer(k, 200,
		   "{\"kind\":\"Status\",\"status\":\"Success\",\"details\":{\"uid\":\"u1\"}}");
	until(a.l, d.n_done == 1);
	eq_str(buf_str(&d.text), "-a D ");
	is_false(d.o);
	ask_send(watch,
		 EVENT("MODIFIED", ITEM("a", "u1", "11")) EVENT("DELETED", ITEM("a", "u1", "12"))
			 EVENT("ADDED", ITEM("a", "u7", "13")));
	until(a.l, d.text.len >= 8);
	eq_str(buf_str(&d.text), "-a D +a ");
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_deleted_object_with_finalizers_stays)
{
	struct api a;
	struct diary d = { 0 };
	struct client_watch *w;

	(void)started(&a, &d, &w);
	client_delete(a.client, &(struct client_ref){ kind_named("ConfigMap"), "default", "a" },
		      NULL, diary_write(&d));
	ask_answer(api_next(&a, "DELETE"), 200,
		   "{\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"u1\","
		   "\"resourceVersion\":\"20\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
		   "\"deletionGracePeriodSeconds\":0,\"finalizers\":[\"f\"]}}");
	until(a.l, d.n_done == 1);
	eq_str(buf_str(&d.text), "~a D ");
	is_true(d.o && object_deleting(d.o));
	client_patch(a.client, &(struct client_ref){ kind_named("ConfigMap"), "default", "a" },
		     PATCH_MERGE, doc("{\"metadata\":{\"finalizers\":null}}"), diary_write(&d));
	ask_answer(api_next(&a, "PATCH"), 200,
		   "{\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"u1\","
		   "\"resourceVersion\":\"20\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
		   "\"deletionGracePeriodSeconds\":0}}");
	until(a.l, d.n_done == 2);
	eq_str(buf_str(&d.text), "~a D -a D ");
	client_watch_free(w);
	api_stop(&a);
	diary_done(&d);
}

TEST(patches_name_their_type_and_subresource)
{
	struct api a;
	struct diary d = { 0 };
	struct ask *k;

	api_start(&a);
	api_client(&a);
	client_patch(a.client, &(struct client_ref){ kind_named("Sandbox"), "ns", "s", "status" },
		     PATCH_STRATEGIC, doc("{}"), diary_write(&d));
	k = api_next(&a, "PATCH /apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes/s/status");
	eq_str(k->type, "application/merge-patch+json"); /* custom: no strategic merge */
	client_patch(a.client, &(struct client_ref){ kind_named("Pod"), "ns", "p" },
		     PATCH_STRATEGIC, doc("{}"), diary_write(&d));
	k = api_next(&a, "PATCH /api/v1/namespaces/ns/pods/p");
	eq_str(k->type, "application/strategic-merge-patch+json");
	client_update(a.client, &(struct client_ref){ kind_named("Namespace"), NULL, "x" },
		      doc("{\"metadata\":{\"name\":\"x\"}}"), diary_write(&d));
	(void)api_next(&a, "PUT /api/v1/namespaces/x");
	api_stop(&a);
	diary_done(&d);
}

TEST(refusals_become_codes)
{
	static const struct {
		int status;
		const char *reason;
		enum err_code code;
	} rows[] = {
		{ 404, "NotFound", ERR_NOT_FOUND },
		{ 409, "AlreadyExists", ERR_EXISTS },
		{ 409, "Conflict", ERR_CONFLICT },
		{ 422, "Invalid", ERR_INVALID },
		{ 403, "Forbidden", ERR_FORBIDDEN },
		{ 401, "Unauthorized", ERR_UNAUTHENTICATED },
		{ 410, "Expired", ERR_GONE },
		{ 504, "ServerTimeout", ERR_TIMEOUT },
		{ 500, "InternalError", ERR_INTERNAL },
		{ 503, "", ERR_UNAVAILABLE },
		{ 400, "BadRequest", ERR_MALFORMED },
		{ 502, "", ERR_UNAVAILABLE },
	};
	struct api a;
	struct diary d = { 0 };

	api_start(&a);
	api_client(&a);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		client_delete(a.client, &(struct client_ref){ kind_named("Pod"), "ns", "p" }, NULL,
			      diary_write(&d));
		ask_answer(api_next(&a, "DELETE"), rows[i].status, "{\"reason\":\"%s\"}",
			   rows[i].reason);
		until(a.l, d.n_done == i + 1);
		fails(take(d.e), rows[i].code);
	}
	client_delete(a.client, &(struct client_ref){ kind_named("Pod"), "ns", "p" }, NULL,
		      diary_write(&d));
	ask_answer(api_next(&a, "DELETE"), 200, "no JSON");
	until(a.l, d.n_done == ARRAY_LEN(rows) + 1);
	fails(take(d.e), ERR_MALFORMED);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_429_is_sent_again_when_its_time_has_come)
{
	struct api a;
	struct diary d = { 0 };
	struct http_headers h = { 0 };
	struct ask *k;
	usec began;

	api_start(&a);
	api_client(&a);
	client_create(a.client, &(struct client_ref){ kind_named("Pod"), "ns" },
		      doc("{\"metadata\":{}}"), diary_write(&d));
	k = api_next(&a, "POST");
	http_headers_add(&h, "Retry-After", "1");
	http_respond(k->r, 429, &h, (struct http_body){ "application/json", "{}", 2 });
	http_headers_done(&h);
	began = clock_mono();
	k = api_next(&a, "POST");
	is_true(clock_mono() - began >= 900 * 1000);
	eq_str(k->body, "{\"metadata\":{},\"apiVersion\":\"v1\",\"kind\":\"Pod\"}");
	ask_answer(k, 201, ITEM("p", "u", "1"));
	until(a.l, d.n_done == 1);
	works(take(d.e));
	api_stop(&a);
	diary_done(&d);
}

TEST(at_most_64_requests_are_under_way)
{
	struct api a;
	struct diary d = { 0 };
	autoptr(json_doc) counts = NULL;

	api_start(&a);
	api_client(&a);
	for (int i = 0; i < 100; i++)
		client_delete(a.client, &(struct client_ref){ kind_named("Pod"), "ns", "p" }, NULL,
			      diary_write(&d));
	until(a.l, a.n_asks == 64);
	api_settle(&a);
	eq_int(a.n_asks, 64);
	client_delete(a.client, &(struct client_ref){ kind_named("Lease"), "ns", "l" }, NULL,
		      diary_write(&d)); /* but who leads may */
	ask_answer(api_next(&a, "/leases/l"), 404, "{}");
	for (int i = 0; i < 100; i++)
		ask_answer(api_next(&a, "/pods/p"), 200, ITEM("p", "u", "1"));
	until(a.l, d.n_done == 101);
	counts = client_http_counts(a.client);
	eq_int(json_get_int(json_root(counts), "DELETE pods", 0), 100);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_changed_token_file_is_read_again)
{
	char path[] = "/tmp/cay-token-XXXXXX";
	struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	struct api a;
	struct diary d = { 0 };
	struct ask *k;
	int fd = mkstemp(path);

	works(fd_write_all(fd, "one\n", 4));
	(void)close(fd);
	eq_int(utimensat(AT_FDCWD, path, old, 0), 0);
	api_start(&a);
	a.config.token_file = xstrdup(path);
	api_client(&a);
	client_delete(a.client, &(struct client_ref){ kind_named("Pod"), "ns", "p" }, NULL,
		      diary_write(&d));
	k = api_next(&a, "DELETE");
	eq_str(k->auth, "Bearer one");
	works(file_write_atomic(AT_FDCWD, path, "two", 3, 0600));
	ask_answer(k, 401, STATUS("401", "Unauthorized"));
	k = api_next(&a, "DELETE"); /* once more, with the new one */
	eq_str(k->auth, "Bearer two");
	ask_answer(k, 401, STATUS("401", "Unauthorized"));
	until(a.l, d.n_done == 1);
	fails(take(d.e), ERR_UNAUTHENTICATED);
	(void)unlink(path);
	api_stop(&a);
	diary_done(&d);
}

TEST(a_server_we_cannot_trust_gets_nothing)
{
	struct api a;
	struct diary d = { 0 };

	api_start(&a);
	free(a.config.ca_pem);
	a.config.ca_pem = NULL; /* the system's authorities do not know it */
	a.config.token = xstrdup("secret");
	api_client(&a);
	client_delete(a.client, &(struct client_ref){ kind_named("Pod"), "ns", "p" }, NULL,
		      diary_write(&d));
	until(a.l, d.n_done == 1);
	fails(take(d.e), ERR_UNAVAILABLE);
	eq_int(a.n_asks, 0);
	client_free(a.client);
	a.config.insecure = true;
	api_client(&a);
	client_delete(a.client, &(struct client_ref){ kind_named("Pod"), "ns", "p" }, NULL,
		      diary_write(&d));
	eq_str(api_next(&a, "DELETE")->auth, "Bearer secret");
	api_stop(&a);
	diary_done(&d);
}

TEST(watches_of_the_same_share_an_informer)
{
	struct api a;
	struct diary d = { 0 }, second = { 0 };
	struct client_watch *w, *w2;
	struct ask *k = started(&a, &d, &w);
	size_t n = a.n_asks;

	w2 = watch_maps(&a, &second);
	eq_str(buf_str(&second.text), "+a S ");
	client_watch_free(w);
	ask_send(k, EVENT("DELETED", ITEM("a", "u1", "12")));
	until(a.l, second.text.len >= 8);
	eq_str(buf_str(&second.text), "+a S -a ");
	eq_str(buf_str(&d.text), "");
	eq_int(a.n_asks, n);
	client_watch_free(w2);
	until(a.l, !k->r); /* the watch is over with its last listener */
	api_stop(&a);
	diary_done(&d);
	diary_done(&second);
}
