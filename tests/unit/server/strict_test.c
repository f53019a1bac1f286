/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"
#include "kinds.h"
#include "server/call/status.h"

/* What a client might get away with: preconditions, deadlines, fields that are the server's. */

TEST(each_error_has_the_status_that_clients_act_on)
{
	static const struct {
		enum err_code code;
		int status;
	} rows[] = {
		{ ERR_MALFORMED, 400 },   { ERR_UNAUTHENTICATED, 401 },
		{ ERR_FORBIDDEN, 403 },   { ERR_NOT_FOUND, 404 },
		{ ERR_METHOD, 405 },      { ERR_EXISTS, 409 },
		{ ERR_CONFLICT, 409 },    { ERR_GONE, 410 },
		{ ERR_TOO_LARGE, 413 },   { ERR_MEDIA_TYPE, 415 },
		{ ERR_INVALID, 422 },     { ERR_EXHAUSTED, 429 },
		{ ERR_UNAVAILABLE, 503 }, { ERR_TIMEOUT, 504 },
		{ ERR_INTERNAL, 500 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(status_of(rows[i].code), rows[i].status);
}

TEST(delete_at_an_old_revision_conflicts)
{
	struct client_delete_spec spec = { .grace_s = -1 };
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), &o));
	spec.rev = o->rev - 1;
	fails(drop(&f, kind_named("ConfigMap"), "default", "a", &spec), ERR_CONFLICT);
	spec.rev = o->rev;
	works(drop(&f, kind_named("ConfigMap"), "default", "a", &spec));
	fixture_done(&f);
}

static int64_t grace_after(struct fixture *f, int64_t grace_s)
{
	autoptr(object) o = NULL;

	works(drop(f, kind_named("Pod"), "default", "a",
		   &(struct client_delete_spec){ .grace_s = grace_s }));
	o = look(f, kind_named("Pod"), "default", "a");
	is_true(o && object_deleting(o));
	return json_get_int(json_get(o->root, "metadata"), "deletionGracePeriodSeconds", -1);
}

TEST(a_second_delete_brings_the_end_forward_and_never_puts_it_off)
{
	struct fixture f;

	fixture_init(&f);
	fixture_close(&f);
	f.node_name = "n1";
	works(fixture_open(&f));
	works(make(&f, kind_named("Pod"), "default",
		   "{'metadata':{'name':'a'},'spec':{'containers':[{'name':'c','image':'i'}]}}",
		   NULL));
	eq_int(grace_after(&f, 30), 30);
	eq_int(grace_after(&f, 60), 30);
	eq_int(grace_after(&f, 10), 10);
	fixture_done(&f);
}

TEST(what_the_server_decides_about_an_object_stays_as_it_decided)
{
	autoptr(object) was = NULL;
	autoptr(object) now = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default",
		   "{'metadata':{'name':'a','uid':'mine','creationTimestamp':"
		   "'2001-01-01T00:00:00Z','deletionTimestamp':'2001-01-01T00:00:00Z'}}",
		   &was));
	is_false(str_eq(was->uid, "mine"));
	is_false(object_deleting(was));
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'metadata':{'creationTimestamp':'2001-01-01T00:00:00Z',"
		    "'deletionTimestamp':'2001-01-01T00:00:00Z'},'data':{'a':'2'}}"));
	now = look(&f, kind_named("ConfigMap"), "default", "a");
	is_true(now && !object_deleting(now));
	eq_str(json_str(json_at_path(now->root, "metadata.creationTimestamp")),
	       json_str(json_at_path(was->root, "metadata.creationTimestamp")));
	fixture_done(&f);
}

TEST(an_encoded_slash_names_nothing)
{
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	autoanswer a = ask(&f, "GET", "/api/v1/namespaces/default%2Fconfigmaps/a", NULL);
	eq_int(a.status, 404);
	autoanswer b = ask(&f, "GET", CONFIGS "/x%2Fa", NULL);
	eq_int(b.status, 404);
	fixture_done(&f);
}

TEST(a_path_that_begins_like_an_open_page_is_closed)
{
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	f.anonymous = true;
	autoanswer a = ask(&f, "GET", "/healthz", NULL);
	eq_int(a.status, 200);
	autoanswer b = ask(&f, "GET", "/healthzzz", NULL);
	eq_int(b.status, 403);
	fixture_done(&f);
}
