/* SPDX-License-Identifier: Apache-2.0 */
#include "node/hold/hold.h"

#include <fcntl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "kinds.h"
#include "loop/loop.h"
#include "node/hold/record.h"
#include "rig.h"

/* The addresses of Sandboxes that have no Pod: who gets them, and what is written down. */

static void sandbox(struct rig *r, const char *name)
{
	autofree char *text = xasprintf(
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{'name':'%s'},"
		"'spec':{'podTemplate':{'metadata':{'labels':{'role':'%s'}},'spec':{'containers':["
		"{'name':'a','image':'img','ports':[{'name':'web','containerPort':80}]}]}}}}",
		name, name);

	create(r, kind_named("Sandbox"), text);
}

/* A Pod that says that this Sandbox controls it. */
static void pod_of(struct rig *r, const char *name, const char *sandbox_name)
{
	autoptr(object) o = client_get(r->client, kind_named("Sandbox"), NS, sandbox_name);
	autofree char *text = xasprintf(
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','ownerReferences':["
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':'%s','uid':'%s',"
		"'controller':true}]},'spec':{'containers':[{'name':'a','image':'img'}]}}",
		name, o->name, o->uid);

	create(r, kind_named("Pod"), text);
}

static void run(struct rig *r, const char *name)
{
	pod_of(r, name, name);
	fake_start(fake_last(&r->rt));
	until(r, str_eq(ready_of(r, name), "True"));
}

static void mode(struct rig *r, const char *name, const char *to)
{
	autofree char *text = xasprintf("{'spec':{'operatingMode':'%s'}}", to);

	patch_sandbox(r, name, text);
}

/* Its Pod ends, as the controllers would have it. */
static void end(struct rig *r, const char *name)
{
	pod_delete(r, name, 20);
	fake_end(fake_last(&r->rt));
	until(r, !pod_there(r, name));
}

static void suspend(struct rig *r, const char *name)
{
	mode(r, name, "Suspended");
	end(r, name);
}

static size_t n_written(struct rig *r, const char *address)
{
	autofree char *path = hold_file_path(r->data_dir);
	autoptr(arena) a = arena_new();
	struct hold_file f;
	size_t n = 0;

	works(hold_file_read(path, a, &f));
	for (size_t i = 0; i < f.n_holds; i++)
		n += !address || str_eq(f.holds[i].address, address);
	return n;
}

TEST(the_address_of_a_suspended_sandbox_is_its_own_again)
{
	struct rig r;

	rig_open(&r);
	sandbox(&r, "s");
	run(&r, "s");
	eq_str(told(&r, "s", "podIP"), "10.9.0.1");
	suspend(&r, "s");
	is_true(map_has(r.rt.reserved, "10.9.0.1"));
	eq_int(n_written(&r, "10.9.0.1"), 1); /* before the Pod is gone */
	mode(&r, "s", "Running");
	run(&r, "s");
	eq_str(told(&r, "s", "podIP"), "10.9.0.1");
	until(&r, !n_written(&r, NULL));
	is_true(!map_has(r.rt.reserved, "10.9.0.1"));
	rig_done(&r);
}

TEST(an_address_stays_held_until_its_pod_is_ready)
{
	struct rig r;

	rig_open(&r);
	sandbox(&r, "s");
	run(&r, "s");
	suspend(&r, "s");
	mode(&r, "s", "Running");
	pod_of(&r, "s", "s");
	step(&r, 1000); /* it has a network, and says so */
	eq_str(told(&r, "s", "podIP"), "10.9.0.1");
	is_true(map_has(r.rt.reserved, "10.9.0.1"));
	pod_delete(&r, "s", 0); /* it never got there */
	fake_end(fake_last(&r.rt));
	turn(&r);
	run(&r, "s");
	eq_str(told(&r, "s", "podIP"), "10.9.0.1");
	is_true(!map_has(r.rt.reserved, "10.9.0.1"));
	rig_done(&r);
}

TEST(a_pod_that_only_says_whose_it_is_gets_no_address)
{
	static const char *const names[] = { "thief", "s" };
	struct rig r;

	rig_open(&r);
	sandbox(&r, "s");
	sandbox(&r, "other");
	run(&r, "s");
	suspend(&r, "s");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		pod_of(&r, names[i], "s"); /* which is suspended */
		fake_start(fake_last(&r.rt));
		until(&r, *told(&r, names[i], "podIP"));
		is_true(!str_eq(told(&r, names[i], "podIP"), "10.9.0.1"));
		end(&r, names[i]);
		eq_int(n_written(&r, "10.9.0.1"), 1);
		eq_int(n_written(&r, NULL), 1);
	}
	mode(&r, "s", "Running");
	pod_of(&r, "thief", "s"); /* not the Pod that it tracks */
	fake_start(fake_last(&r.rt));
	until(&r, *told(&r, "thief", "podIP"));
	is_true(!str_eq(told(&r, "thief", "podIP"), "10.9.0.1"));
	run(&r, "s");
	eq_str(told(&r, "s", "podIP"), "10.9.0.1");
	rig_done(&r);
}

TEST(a_restart_keeps_what_is_held_also_for_a_pod_that_was_just_deleted)
{
	struct rig r;

	rig_open(&r);
	sandbox(&r, "s");
	sandbox(&r, "t");
	run(&r, "s");
	suspend(&r, "s");
	run(&r, "t");
	eq_str(told(&r, "t", "podIP"), "10.9.0.2");
	mode(&r, "t", "Suspended");
	rig_stop(&r);
	pod_delete(&r, "t", 0); /* its object is gone, and its state file has the address */
	fake_last(&r.rt)->state = FAKE_GONE;
	rig_start(&r);
	until(&r, n_written(&r, "10.9.0.2") == 1);
	eq_int(n_written(&r, "10.9.0.1"), 1);
	is_true(map_has(r.rt.reserved, "10.9.0.1") && map_has(r.rt.reserved, "10.9.0.2"));
	mode(&r, "t", "Running");
	run(&r, "t");
	eq_str(told(&r, "t", "podIP"), "10.9.0.2");
	rig_done(&r);
}

TEST(a_sandbox_that_is_gone_holds_nothing)
{
	const struct client_ref ref = { .kind = kind_named("Sandbox"), .ns = NS, .name = "s" };
	struct rig r;

	rig_open(&r);
	for (int away = 0; away < 2; away++) {
		sandbox(&r, "s");
		run(&r, "s");
		suspend(&r, "s");
		eq_int(n_written(&r, NULL), 1);
		if (away)
			rig_stop(&r);
		client_delete(r.client, &ref, NULL, NULL);
		turn(&r);
		if (away)
			rig_start(&r);
		until(&r, !n_written(&r, NULL));
		eq_int(map_len(r.rt.reserved), 0);
	}
	rig_done(&r);
}

TEST(the_oldest_of_too_many_holds_is_let_go)
{
	static const char *const names[] = { "one", "two", "three" };
	struct rig r;

	rig_open(&r);
	r.max_holds = 2;
	rig_restart(&r);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		sandbox(&r, names[i]);
		run(&r, names[i]);
		suspend(&r, names[i]);
	}
	eq_int(n_written(&r, NULL), 2);
	is_true(!map_has(r.rt.reserved, "10.9.0.1"));
	is_true(map_has(r.rt.reserved, "10.9.0.2") && map_has(r.rt.reserved, "10.9.0.3"));
	is_true(event_says(&r, "AddressReleased", "slept longest"));
	rig_done(&r);
}

static void write_record(struct rig *r, const char *text)
{
	autofree char *path = hold_file_path(r->data_dir);

	works(file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600));
}

TEST(a_damaged_file_holds_nothing_and_a_damaged_entry_costs_only_itself)
{
	static const char *const damaged[] = {
		"", "{", "garbage", "[]", "{\"holds\":7}", "{\"holds\":[7]}"
	};
	autofree char *path = NULL;
	autoptr(arena) a = arena_new();
	struct hold_file f;
	struct rig r;

	rig_open(&r);
	sandbox(&r, "s");
	run(&r, "s");
	suspend(&r, "s");
	path = hold_file_path(r.data_dir);
	works(hold_file_read(path, a, &f));
	eq_int(f.n_holds, 1);
	{
		struct hold_record many[] = {
			{ "a", "x", "x", "10.9.0", 1 },     { "b", "x", "x", "10.8.0.9", 1 },
			{ "c", "x", "x", "10.9.0.1", 1 },   f.holds[0],
			{ "d", NULL, NULL, "10.9.0.9", 1 }, { NULL, "x", "x", "10.9.0.8", 1 },
		};
		autobuf text = { 0 };

		many[2].address = "10.9.47.255"; /* not a sandbox's */
		hold_file_text(&(struct hold_file){ many, ARRAY_LEN(many) }, &text);
		write_record(&r, buf_str(&text));
	}
	rig_restart(&r);
	eq_int(map_len(r.rt.reserved), 1);
	is_true(map_has(r.rt.reserved, "10.9.0.1"));
	for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
		write_record(&r, damaged[i]);
		rig_restart(&r);
		eq_int(map_len(r.rt.reserved), 0);
	}
	mode(&r, "s", "Running");
	run(&r, "s"); /* at any address */
	rig_done(&r);
}

static void note_pod(void *arg, struct object *pod)
{
	struct buf *b = arg;

	buf_printf(b, "%s/%s %s %s %s", pod->ns, pod->name, object_label(pod, "role"),
		   json_get_str(object_status(pod), "podIP"),
		   json_str(json_at_path(object_spec(pod), "containers.0.ports.0.name")));
}

TEST(policies_see_the_pod_that_a_suspended_sandbox_would_have)
{
	autobuf seen = { 0 };
	struct rig r;

	rig_open(&r);
	sandbox(&r, "s");
	run(&r, "s");
	holds_each(r.holds, note_pod, &seen);
	eq_str(buf_str(&seen), "");
	suspend(&r, "s");
	holds_each(r.holds, note_pod, &seen);
	eq_str(buf_str(&seen), NS "/s s 10.9.0.1 web");
	buf_clear(&seen);
	patch_sandbox(&r, "s", "{'spec':{'podTemplate':{'metadata':{'labels':{'role':'other'}}}}}");
	holds_each(r.holds, note_pod, &seen);
	eq_str(buf_str(&seen), NS "/s other 10.9.0.1 web");
	rig_done(&r);
}
