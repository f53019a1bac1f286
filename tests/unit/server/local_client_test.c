/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"
#include "kinds.h"

/* The ends of writes and syncs in one process, and who hears of them. */

struct wait {
	struct client_write write;
	unsigned n_done;
};

static void on_done(struct client_write *w, struct err *e, struct object *obj unused)
{
	works(e);
	container_of(w, struct wait, write)->n_done++;
}

static void free_done(struct client_write *w, struct err *e, struct object *obj)
{
	works(e);
	eq_str(obj->name, "a");
	free(container_of(w, struct wait, write));
}

TEST(done_may_free_its_write_before_the_call_returns)
{
	struct wait *w = xnew(struct wait);
	struct fixture f;

	fixture_init(&f);
	w->write.done = free_done;
	client_create(f.client, &(struct client_ref){ kind_named("ConfigMap"), "default" },
		      parse(CONFIG("a")), &w->write);
	fixture_done(&f);
}

static void cancel_wait(void *arg, struct object *was unused, struct object *now)
{
	struct wait **w = arg;

	if (now) {
		client_cancel(&(*w)->write);
		free(take(*w));
	}
}

TEST(a_watch_may_free_the_write_that_it_hears_of)
{
	static const struct client_watch_events ev = { .changed = cancel_wait };
	struct client_watch_spec spec = { .kind = kind_named("ConfigMap") };
	struct wait *w = xnew(struct wait);
	struct client_watch *watch;
	struct fixture f;

	fixture_init(&f);
	watch = client_watch(f.client, &spec, &ev, &w);
	w->write.done = on_done;
	client_create(f.client, &(struct client_ref){ kind_named("ConfigMap"), "default" },
		      parse(CONFIG("a")), &w->write);
	is_false(w);
	client_watch_free(watch);
	fixture_done(&f);
}

TEST(an_update_goes_to_the_object_that_the_ref_names)
{
	const struct client_ref to = { kind_named("ConfigMap"), "default", "a" };
	struct wait w = { .write.done = on_done };
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	client_update(f.client, &to, parse("{'metadata':{'name':'a'},'data':{'b':'2'}}"), &w.write);
	eq_int(w.n_done, 1);
	o = look(&f, kind_named("ConfigMap"), "default", "a");
	eq_str(json_str(json_at_path(o->root, "data.b")), "2");
	fixture_done(&f);
}

TEST(a_cancelled_sync_ends_in_silence)
{
	struct wait cancelled = { .write.done = on_done }, kept = { .write.done = on_done };
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	client_sync(f.client, &cancelled.write);
	client_sync(f.client, &kept.write);
	client_cancel(&cancelled.write);
	settle(&f);
	eq_int(cancelled.n_done, 0);
	eq_int(kept.n_done, 1);
	fixture_done(&f);
}

TEST(a_sync_ends_in_silence_with_its_client)
{
	struct wait w = { .write.done = on_done };
	struct fixture f;

	fixture_init(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	client_sync(f.client, &w.write);
	client_free(take(f.client));
	f.client = server_client(f.server, "test");
	settle(&f);
	eq_int(w.n_done, 0);
	client_cancel(&w.write);
	fixture_done(&f);
}

static void gone_wrong(struct client_write *w, struct err *e, struct object *obj unused)
{
	fails(e, ERR_CONFLICT);
	container_of(w, struct wait, write)->n_done++;
}

TEST(a_patch_of_the_whole_is_one_write_and_one_generation)
{
	static const char *const subs[] = { CLIENT_WHOLE, CLIENT_AT_ONCE };
	const struct kind *k = kind_named("Sandbox");

	for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
		const struct client_ref to = { k, "default", "a", subs[i] };
		struct wait w = { .write.done = on_done }, late = { .write.done = gone_wrong };
		autoptr(object) was = NULL;
		autoptr(object) o = NULL;
		struct fixture f;

		fixture_init(&f);
		works(make(&f, k, "default",
			   "{'metadata':{'name':'a'},'spec':{'podTemplate':{'spec':{'containers':["
			   "{'name':'c','image':'i'}]}}}}",
			   NULL));
		was = look(&f, k, "default", "a");
		client_patch(f.client, &to, PATCH_MERGE,
			     parse("{'metadata':{'labels':{'l':'1'}},'spec':{'operatingMode':"
				   "'Suspended'},'status':{'nodeName':'n'}}"),
			     &w.write);
		eq_int(w.n_done, 1);
		o = look(&f, k, "default", "a");
		eq_int(o->rev, was->rev + 1);
		eq_int(object_generation(o), 2);
		eq_str(object_label(o, "l"), "1");
		eq_str(json_str(json_at_path(o->root, "status.nodeName")), "n");
		client_patch(
			f.client, &to, PATCH_MERGE,
			parse("{'metadata':{'resourceVersion':'1'},'status':{'nodeName':'m'}}"),
			&late.write);
		eq_int(late.n_done, 1);
		fixture_done(&f);
	}
}
