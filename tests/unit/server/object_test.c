/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "fixture.h"
#include "kinds.h"

/* Objects through the client of this process: what admission and deletion do. */

TEST(bootstrap_makes_namespaces_and_service_accounts)
{
	static const char *const names[] = { "default", "kube-system", "agent-sandbox-system" };
	struct fixture f;

	fixture_init(&f);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		autoptr(object) ns = look(&f, kind_named("Namespace"), NULL, names[i]);
		autoptr(object) sa = look(&f, kind_named("ServiceAccount"), names[i], "default");

		is_true(ns != NULL);
		eq_str(json_get_str(object_status(ns), "phase"), "Active");
		is_true(sa != NULL);
	}
	fixture_done(&f);
}

TEST(a_second_server_on_the_same_directory_is_refused_and_told_of_the_first)
{
	struct fixture f;
	struct server_spec spec = { .kinds = test_kinds(), .listen = "127.0.0.1:0" };
	struct server *second = NULL;
	struct err *e;
	char pid[32];

	fixture_init(&f);
	fixture_listen(&f);
	spec.data_dir = f.dir;
	e = server_open(f.loop, &spec, &second);
	is_true(err_is(e, ERR_CONFLICT));
	(void)snprintf(pid, sizeof(pid), "pid %d at https://", (int)getpid());
	is_true(strstr(err_text(e), pid) != NULL);
	is_true(strstr(err_text(e), server_address(f.server)) != NULL);
	is_true(strstr(err_text(e), f.dir) != NULL);
	err_free(e);
	fixture_done(&f);
}

TEST(create_fills_in_metadata_and_defaults)
{
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("Sandbox"), "default", SANDBOX("a"), &o));
	eq_str(o->ns, "default");
	eq_int(strlen(o->uid), 36);
	eq_int(o->rev, store_rev(server_store(f.server)));
	eq_int(object_generation(o), 1);
	is_true(json_at_path(o->root, "metadata.creationTimestamp") != NULL);
	fails(make(&f, kind_named("Sandbox"), "default", SANDBOX("a"), NULL), ERR_EXISTS);
	fails(make(&f, kind_named("Sandbox"), "nowhere", SANDBOX("a"), NULL), ERR_NOT_FOUND);
	fixture_done(&f);
}

/* The longest name there may be is 253; keys beyond 255 characters are not written on the stack. */
TEST(objects_with_keys_of_any_length_are_found)
{
	const struct kind *k = kind_named("ConfigMap");
	struct fixture f;

	fixture_init(&f);
	for (int len = 230; len <= 253; len++) {
		autofree char *name = xasprintf("%0*d", len, 7);
		autofree char *other = xasprintf("%0*d", len, 8);
		autofree char *text = xasprintf("{'metadata':{'name':'%s'}}", name);
		autoptr(object) o = NULL;

		works(make(&f, k, "default", text, NULL));
		o = look(&f, k, "default", name);
		is_true(o != NULL);
		eq_str(o->name, name);
		is_true(look(&f, k, "default", other) == NULL);
		works(drop(&f, k, "default", name, NULL));
		is_true(look(&f, k, "default", name) == NULL);
	}
	fixture_done(&f);
}

TEST(generate_name_makes_names)
{
	struct fixture f;

	fixture_init(&f);
	for (int i = 0; i < 50; i++) {
		autoptr(object) o = NULL;

		works(make(&f, kind_named("ConfigMap"), "default",
			   "{'metadata':{'generateName':'x-'}}", &o));
		is_true(str_starts(o->name, "x-"));
		eq_int(strlen(o->name), 7);
	}
	fixture_done(&f);
}

TEST(spec_changes_count_generations_and_status_does_not)
{
	autoptr(object) a = NULL;
	autoptr(object) b = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("Sandbox"), "default", SANDBOX("a"), NULL));
	works(merge(&f, &(struct client_ref){ kind_named("Sandbox"), "default", "a", "status" },
		    "{'status':{'serviceFQDN':'a'},'spec':{'operatingMode':'Suspended'}}"));
	a = look(&f, kind_named("Sandbox"), "default", "a");
	eq_int(object_generation(a), 1);
	eq_str(json_get_str(object_status(a), "serviceFQDN"), "a");
	works(merge(&f, &(struct client_ref){ kind_named("Sandbox"), "default", "a", NULL },
		    "{'status':{'serviceFQDN':'b'},'spec':{'operatingMode':'Suspended'}}"));
	b = look(&f, kind_named("Sandbox"), "default", "a");
	eq_int(object_generation(b), 2);
	eq_str(json_get_str(object_status(b), "serviceFQDN"), "a");
	fixture_done(&f);
}

TEST(a_write_that_changes_nothing_writes_nothing)
{
	struct fixture f;
	uint64_t rev;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	rev = store_rev(server_store(f.server));
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'data':{'a':'1'}}"));
	eq_int(store_rev(server_store(f.server)), rev);
	fixture_done(&f);
}

TEST(an_old_resource_version_conflicts)
{
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	fails(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'metadata':{'resourceVersion':'1'},'data':{'a':'2'}}"),
	      ERR_CONFLICT);
	fails(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'metadata':{'uid':'other'},'data':{'a':'2'}}"),
	      ERR_CONFLICT);
	fails(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "b", NULL },
		    "{}"),
	      ERR_NOT_FOUND);
	fixture_done(&f);
}

TEST(u2_delete_with_another_uid_conflicts)
{
	struct client_delete_spec spec = { .uid = "other", .grace_s = -1 };
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), &o));
	fails(drop(&f, kind_named("ConfigMap"), "default", "a", &spec), ERR_CONFLICT);
	spec.uid = o->uid;
	works(drop(&f, kind_named("ConfigMap"), "default", "a", &spec));
	fails(drop(&f, kind_named("ConfigMap"), "default", "a", NULL), ERR_NOT_FOUND);
	fixture_done(&f);
}

TEST(finalizers_hold_an_object_until_the_last_is_gone)
{
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default",
		   "{'metadata':{'name':'a','finalizers':['x.io/hold']}}", NULL));
	works(drop(&f, kind_named("ConfigMap"), "default", "a", NULL));
	o = look(&f, kind_named("ConfigMap"), "default", "a");
	is_true(o && object_deleting(o));
	fails(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'metadata':{'finalizers':['x.io/hold','x.io/more']}}"),
	      ERR_INVALID);
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "a", NULL },
		    "{'metadata':{'finalizers':null}}"));
	is_true(look(&f, kind_named("ConfigMap"), "default", "a") == NULL);
	fixture_done(&f);
}

#define POD(name) \
	"{'metadata':{'name':'" name "'},'spec':{'containers':[{'name':'c','image':'i'}]}}"

/* A patch with a text of this length at path, "a.b.c". */
static struct err *write_text(struct fixture *f, const struct client_ref *to, const char *path,
			      size_t len)
{
	autofree char *pad = xmalloc(len + 1);
	autobuf b = { 0 };
	int depth = 1;

	memset(pad, 'x', len);
	pad[len] = '\0';
	buf_add_str(&b, "{'");
	for (; *path; path++) {
		depth += *path == '.';
		if (*path == '.')
			buf_add_str(&b, "':{'");
		else
			buf_add_char(&b, *path);
	}
	buf_printf(&b, "':'%s'", pad);
	while (depth--)
		buf_add_char(&b, '}');
	return merge(f, to, buf_str(&b));
}

TEST(on_a_full_disk_what_is_being_deleted_does_not_grow)
{
	static const char data[] = "data.a", label[] = "metadata.labels.a",
			  status[] = "status.message";
	const struct client_ref map = { kind_named("ConfigMap"), "default", "a", NULL };
	const struct client_ref pod = { kind_named("Pod"), "default", "p", "status" };
	struct fixture f;

	fixture_init(&f);
	works(make(&f, map.kind, "default",
		   "{'metadata':{'name':'a','finalizers':['x.io/a','x.io/b']},"
		   "'data':{'a':'123456789012345678901234567890'}}",
		   NULL));
	works(make(&f, pod.kind, "default",
		   "{'metadata':{'name':'p','finalizers':['x.io/a']},"
		   "'spec':{'containers':[{'name':'c','image':'i'}]}}",
		   NULL));
	fixture_close(&f);
	f.store_reserve = 1ull << 43;
	works(fixture_open(&f));
	eq_int(store_state(server_store(f.server)), STORE_SHORT);
	fails(write_text(&f, &pod, status, 100), ERR_UNAVAILABLE);
	works(drop(&f, map.kind, "default", "a", NULL));
	works(drop(&f, pod.kind, "default", "p", NULL));
	fails(write_text(&f, &map, data, 1000000), ERR_UNAVAILABLE);
	fails(write_text(&f, &map, data, 100), ERR_UNAVAILABLE);
	fails(write_text(&f, &map, label, 60), ERR_UNAVAILABLE);
	works(write_text(&f, &map, data, 10));
	works(write_text(&f, &pod, status, 10000));
	fails(write_text(&f, &pod, status, 20000), ERR_UNAVAILABLE);
	works(merge(&f, &map, "{'metadata':{'finalizers':['x.io/b']}}"));
	works(merge(&f, &map, "{'metadata':{'finalizers':null}}"));
	is_true(look(&f, map.kind, "default", "a") == NULL);
	fixture_done(&f);
}

TEST(a_bound_pod_stays_until_its_node_lets_go)
{
	struct client_delete_spec now = { .grace_s = 0 };
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	fixture_close(&f);
	f.node_name = "n1";
	works(fixture_open(&f));
	works(make(&f, kind_named("Pod"), "default", POD("a"), NULL));
	works(drop(&f, kind_named("Pod"), "default", "a", NULL));
	o = look(&f, kind_named("Pod"), "default", "a");
	is_true(o && object_deleting(o));
	eq_str(json_get_str(object_spec(o), "nodeName"), "n1");
	eq_int(json_get_int(json_get(o->root, "metadata"), "deletionGracePeriodSeconds", 0), 30);
	works(drop(&f, kind_named("Pod"), "default", "a", &now));
	is_true(look(&f, kind_named("Pod"), "default", "a") == NULL);
	fixture_done(&f);
}

TEST(an_unbound_pod_goes_at_once)
{
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("Pod"), "default", POD("a"), NULL));
	works(drop(&f, kind_named("Pod"), "default", "a", NULL));
	is_true(look(&f, kind_named("Pod"), "default", "a") == NULL);
	fixture_done(&f);
}

TEST(a_missing_field_is_invalid)
{
	struct fixture f;
	struct err *e;

	fixture_init(&f);
	e = make(&f, kind_named("Sandbox"), "default", "{'metadata':{'name':'x'},'spec':{}}", NULL);
	is_true(err_is(e, ERR_INVALID));
	eq_str(err_text(e),
	       "Sandbox.agents.x-k8s.io \"x\" is invalid: [spec.podTemplate: Required value, <nil>: "
	       "Invalid value: null: some validation rules were not checked because the object was "
	       "invalid; correct the existing errors to complete validation]");
	err_free(e);
	fixture_done(&f);
}

TEST(old_sandboxes_are_converted_both_ways)
{
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("agents.x-k8s.io/v1alpha1 Sandbox"), "default",
		   "{'metadata':{'name':'a'},'spec':{'replicas':0,'podTemplate':{'spec':"
		   "{'containers':[{'name':'c','image':'i'}]}}}}",
		   NULL));
	o = look(&f, kind_named("Sandbox"), "default", "a");
	is_true(o != NULL);
	eq_str(json_get_str(o->root, "apiVersion"), "agents.x-k8s.io/v1beta1");
	eq_str(json_get_str(object_spec(o), "operatingMode"), "Suspended");
	fixture_done(&f);
}

TEST(objects_survive_a_restart)
{
	autoptr(object) before = NULL;
	autoptr(object) after = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("Sandbox"), "default", SANDBOX("a"), &before));
	settle(&f);
	fixture_close(&f);
	works(fixture_open(&f));
	after = look(&f, kind_named("Sandbox"), "default", "a");
	is_true(after != NULL);
	is_true(json_equal(before->root, after->root));
	fixture_done(&f);
}

struct seen {
	int added, changed, deleted;
	bool synced;
};

static void on_changed(void *arg, struct object *was, struct object *now)
{
	struct seen *s = arg;

	s->added += now && !was;
	s->changed += now && was;
	s->deleted += !now && was;
}

static void on_watch_synced(void *arg)
{
	((struct seen *)arg)->synced = true;
}

TEST(a_watch_in_process_sees_writes_at_once_and_by_label)
{
	static const struct client_watch_events ev = { .changed = on_changed,
						       .synced = on_watch_synced };
	struct client_watch_spec spec = { .kind = kind_named("ConfigMap"),
					  .label_selector = "on=yes" };
	struct seen seen = { 0 };
	struct client_watch *w;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default",
		   "{'metadata':{'name':'a','labels':{'on':'yes'}}}", NULL));
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("b"), NULL));
	w = client_watch(f.client, &spec, &ev, &seen);
	is_true(seen.synced);
	eq_int(seen.added, 1);
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "b", NULL },
		    "{'metadata':{'labels':{'on':'yes'}}}"));
	eq_int(seen.added, 2);
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "b", NULL },
		    "{'data':{'a':'9'}}"));
	eq_int(seen.changed, 1);
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "b", NULL },
		    "{'metadata':{'labels':{'on':'no'}}}"));
	eq_int(seen.deleted, 1);
	works(drop(&f, kind_named("ConfigMap"), "default", "a", NULL));
	eq_int(seen.deleted, 2);
	client_watch_free(w);
	fixture_done(&f);
}

static struct err *finalize(struct fixture *f, const char *name)
{
	autofree char *path = xasprintf("/api/v1/namespaces/%s/finalize", name);
	autofree char *text = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
					"\"metadata\":{\"name\":\"%s\"},\"spec\":{}}",
					name);
	autoanswer a = ask(f, "PUT", path, text);

	return a.status == 200 ? NULL : err_new(ERR_INTERNAL, "%s", a.text);
}

TEST(a_namespace_is_held_by_its_finalizers_in_spec_until_finalize)
{
	autoptr(object) marked = NULL;
	struct fixture f;

	fixture_init(&f);
	fixture_listen(&f);
	works(make(&f, kind_named("Namespace"), NULL, "{'metadata':{'name':'n'}}", NULL));
	works(drop(&f, kind_named("Namespace"), NULL, "n", NULL));
	works(merge(&f, &(struct client_ref){ kind_named("Namespace"), NULL, "n", NULL },
		    "{'spec':{'finalizers':null}}"));
	marked = look(&f, kind_named("Namespace"), NULL, "n");
	is_true(marked && object_deleting(marked));
	eq_str(json_get_str(object_status(marked), "phase"), "Terminating");
	fails(make(&f, kind_named("ConfigMap"), "n", CONFIG("c"), NULL), ERR_FORBIDDEN);
	works(finalize(&f, "n"));
	is_true(look(&f, kind_named("Namespace"), NULL, "n") == NULL);
	fails(drop(&f, kind_named("Namespace"), NULL, "default", NULL), ERR_FORBIDDEN);
	fixture_done(&f);
}
