/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

#include "base/bytes.h"
#include "fixture.h"
#include "store/store.h"

/* Kinds that come and go while the server runs, and objects whose kind it does not know. */
#define TOYS       "/apis/toys.example.com/v1/namespaces/default/toys"
#define TOY        "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"1\"}}"
#define TOY_KEY    "toys.toys.example.com/default/a"
#define GROUP_PAGE "/apis/toys.example.com/v1"
#define OPENAPI    "/openapi/v3/apis/toys.example.com/v1"

static const struct column columns[] = {
	{ "X", "string", ".data.x", "What it says" },
	{ 0 },
};

/* A reference that the caller drops. */
static const struct kind *toy_add(void)
{
	const struct kind like = { .group = "toys.example.com",
				   .version = "v1",
				   .api_version = "toys.example.com/v1",
				   .kind = "Toy",
				   .list_kind = "ToyList",
				   .plural = "toys",
				   .singular = "toy",
				   .flags = KIND_NAMESPACED,
				   .type = kind_named("ConfigMap")->type,
				   .columns = columns };
	const struct kind *k = kind_new(&like);

	works(kinds_add(test_kinds(), k));
	return k;
}

static void toy_remove(const struct kind *k)
{
	works(kinds_remove(test_kinds(), k));
	kind_unref(k);
}

static void eq_status(struct fixture *f, const char *method, const char *path, int status)
{
	autoanswer a = ask(f, method, path, NULL);

	eq_int(a.status, status);
}

static char *header_of(const struct answer *a, const char *name)
{
	const char *p = strstr(a->head, name);

	is_true(p != NULL);
	p += strlen(name);
	return xstrndup(p, strcspn(p, "\r"));
}

TEST(a_kind_is_served_from_the_moment_it_is_registered)
{
	const struct kind *k;
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	eq_status(&f, "GET", TOYS, 404);
	eq_status(&f, "GET", GROUP_PAGE, 404);
	eq_status(&f, "GET", OPENAPI, 404);
	k = toy_add();
	eq_status(&f, "GET", OPENAPI, 200);
	{
		autoanswer page = ask(&f, "GET", GROUP_PAGE, NULL);
		autoanswer made = ask(&f, "POST", TOYS, TOY);
		autoanswer got = ask(&f, "GET", TOYS "/a", NULL);
		autoanswer list = ask(&f, "GET", TOYS, NULL);
		autoanswer table;

		f.headers = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n";
		table = ask(&f, "GET", TOYS, NULL);
		f.headers = "";
		eq_str(at(&page, "resources.0.name"), "toys");
		eq_int(made.status, 201);
		eq_str(at(&made, "kind"), "Toy");
		eq_str(at(&got, "data.x"), "1");
		eq_str(at(&list, "kind"), "ToyList");
		eq_str(at(&list, "items.0.metadata.name"), "a");
		eq_str(at(&table, "columnDefinitions.1.name"), "X");
		eq_str(at(&table, "rows.0.cells.1"), "1");
	}
	toy_remove(k);
	eq_status(&f, "GET", TOYS, 404);
	eq_status(&f, "GET", OPENAPI, 404); /* which was made, and kept, a moment ago */
	fixture_done(&f);
}

TEST(a_removed_kind_is_not_found_and_its_objects_stay)
{
	struct stream_test *watch;
	const struct kind *k;
	struct fixture f;
	uint64_t rev;

	fixture_init(&f);
	fixture_listen(&f);
	k = toy_add();
	works(make(&f, k, "default", "{'metadata':{'name':'a'},'data':{'x':'1'}}", NULL));
	settle(&f);
	watch = stream_open(&f, "GET", TOYS "?watch=1", NULL);
	is_true(stream_until(watch, "ADDED"));
	rev = store_rev(server_store(f.server));
	toy_remove(k);
	is_true(stream_ended(watch));
	stream_test_free(watch);
	eq_status(&f, "GET", TOYS "/a", 404);
	eq_status(&f, "GET", OPENAPI, 404);
	eq_status(&f, "DELETE", TOYS "/a", 404);
	settle(&f);
	is_true(store_get(server_store(f.server), TOY_KEY) != NULL);
	is_true(store_rev(server_store(f.server)) == rev);

	k = toy_add(); /* another value of the same names: the object is of that kind now */
	{
		autoanswer got = ask(&f, "GET", TOYS "/a", NULL);
		autoanswer past = ask(&f, "GET", TOYS "?limit=1", NULL);

		eq_str(at(&got, "data.x"), "1");
		eq_str(at(&past, "items.0.metadata.name"), "a");
	}
	eq_status(&f, "DELETE", TOYS "/a", 200);
	toy_remove(k);
	fixture_done(&f);
}

TEST(discovery_carries_a_version_that_changes_with_the_kinds)
{
	static const char *const pages[] = { "/apis", "/api", "/api/v1", "/openapi/v3" };
	const struct kind *k;
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		autofree char *etag = NULL, *same = NULL;
		autoanswer before = ask(&f, "GET", pages[i], NULL);
		autoanswer again, after;

		etag = header_of(&before, "ETag: ");
		same = xasprintf("If-None-Match: %s\r\n", etag);
		f.headers = same;
		again = ask(&f, "GET", pages[i], NULL);
		k = toy_add();
		after = ask(&f, "GET", pages[i], NULL);
		toy_remove(k);
		f.headers = "";
		eq_int(again.status, 304);
		eq_int(after.status, 200);
	}
	fixture_done(&f);
}

/* Into the store file of a server that does not run. */
static void plant(struct fixture *f, const char *key, const char *value)
{
	autofree char *path = xasprintf("%s/store.db", f->dir);
	autoptr(bytes) text = bytes_new(value, strlen(value));
	const struct store_spec spec = { .path = path };
	autoptr(store) s = NULL;

	works(store_open(f->loop, &spec, &s));
	works(store_put(s, key, text, NULL, STORE_ANY));
	works(store_commit_now(s));
}

TEST(objects_of_an_unknown_kind_outlive_restarts_untouched)
{
	static const char text[] = "{\"metadata\":{\"name\":\"a\",\"namespace\":\"default\","
				   "\"uid\":\"toy-uid\"},\"data\":{\"x\":\"7\"}}";
	const struct kind *k;
	struct fixture f;

	fixture_init(&f);
	settle(&f);
	fixture_close(&f);
	plant(&f, TOY_KEY, text);
	plant(&f, "odd/one", "this is no JSON");
	for (int i = 0; i < 2; i++) {
		struct store_entry *en;

		works(fixture_open(&f));
		settle(&f);
		en = store_get(server_store(f.server), TOY_KEY);
		is_true(en && !en->tag);
		is_true(en->value->len == strlen(text) &&
			!memcmp(en->value->data, text, strlen(text)));
		is_true(store_get(server_store(f.server), "odd/one") != NULL);
		fixture_close(&f);
	}
	works(fixture_open(&f));
	k = toy_add(); /* it is known after all */
	{
		autoptr(object) o = look(&f, k, "default", "a");

		eq_str(json_str(json_at_path(o->root, "data.x")), "7");
	}
	toy_remove(k);
	fixture_done(&f);
}

TEST(a_field_selector_names_fields_that_the_kind_lists)
{
	static const struct {
		const char *path;
		int status;
	} rows[] = {
		{ "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", 200 },
		{ "/api/v1/pods?fieldSelector=spec.hostname%3Dn", 400 },
		{ "/api/v1/configmaps?fieldSelector=metadata.name%3Da", 200 },
		{ "/api/v1/configmaps?fieldSelector=data.a%3D1", 400 },
		{ "/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Da", 200 },
		{ "/apis/events.k8s.io/v1/events?fieldSelector=involvedObject.name%3Da", 400 },
	};
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_status(&f, "GET", rows[i].path, rows[i].status);
	fixture_done(&f);
}

TEST(events_are_selected_by_the_fields_of_either_group)
{
	static const char *const paths[] = {
		"/api/v1/events?fieldSelector=involvedObject.name%3Dx",
		"/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Dx",
	};
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	works(make(&f, kind_named("Event"), "default",
		   "{'metadata':{'name':'e1'},'involvedObject':{'namespace':'default','name':'x'}}",
		   NULL));
	works(make(&f, kind_named("Event"), "default",
		   "{'metadata':{'name':'e2'},'involvedObject':{'namespace':'default','name':'y'}}",
		   NULL));
	settle(&f);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		autoanswer a = ask(&f, "GET", paths[i], NULL);

		eq_int(json_len(json_get(json_root(a.doc), "items")), 1);
		eq_str(at(&a, "items.0.metadata.name"), "e1");
	}
	fixture_done(&f);
}

TEST(a_list_whose_kind_goes_away_is_cut)
{
	const struct kind *k = toy_add();
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	for (int i = 0; i < 5000; i++) {
		autofree char *text =
			xasprintf("{'metadata':{'name':'t%d'},'data':{'x':'%02500d'}}", i, 1);

		works(make(&f, k, "default", text, NULL));
	}
	settle(&f);
	struct stream_test *s = stream_open(&f, "GET", TOYS, NULL);
	is_true(stream_until(s, "\"items\":["));
	is_true(!strstr(stream_text(s), "t4999"));
	toy_remove(k);
	is_true(stream_ended(s));
	is_true(!strstr(stream_text(s), "]}") && !strstr(stream_text(s), "\r\n0\r\n"));
	stream_test_free(s);
	fixture_done(&f);
}

#define MEASURED_PODS "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"

TEST(a_pod_that_was_not_measured_has_no_metrics_and_is_not_written_through_them)
{
	static const char *const writes[] = { "POST", "DELETE" };
	static const char pod[] = "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":"
				  "[{\"name\":\"c\",\"image\":\"i\"}]}}";
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	{
		autoanswer made = ask(&f, "POST", "/api/v1/namespaces/default/pods", pod);
		autoanswer list = ask(&f, "GET", MEASURED_PODS, NULL);

		eq_int(made.status, 201);
		eq_int(list.status, 200);
		eq_str(at(&list, "kind"), "PodMetricsList");
		eq_int(json_len(json_get(json_root(list.doc), "items")), 0);
	}
	eq_status(&f, "GET", MEASURED_PODS "/p", 404);
	eq_status(&f, "GET", "/apis/metrics.k8s.io/v1beta1/nodes", 200);
	eq_status(&f, "DELETE", MEASURED_PODS "/p", 405);
	eq_status(&f, "GET", MEASURED_PODS "?watch=1", 405);
	for (size_t i = 0; i < ARRAY_LEN(writes); i++)
		eq_status(&f, writes[i], MEASURED_PODS, 405);
	eq_status(&f, "GET", "/api/v1/namespaces/default/pods/p", 200);
	fixture_done(&f);
}
