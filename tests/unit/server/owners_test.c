/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/str.h"
#include "fixture.h"
#include "json/json.h"
#include "kinds.h"

/* Who is recorded as the owner of a field, by clients over HTTP and by this process. */

static void begin(struct fixture *f)
{
	fixture_init(f);
	fixture_listen(f);
}

static char *owners_text(const struct json *obj)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *all = json_obj(d);

	json_each(it, json_at_path(obj, "metadata.managedFields")) {
		autofree char *key = xasprintf("%s %s %s", json_get_str(it.val, "manager"),
					       json_get_str(it.val, "operation"),
					       str_or(json_get_str(it.val, "subresource"), "-"));

		json_add(d, all, key, json_copy(d, json_get(it.val, "fieldsV1")));
	}
	return json_to_text(all);
}

static void eq_owners(struct fixture *f, const char *kind, const char *name, const char *want)
{
	autoptr(object) o = look(f, kind_named(kind), "default", name);
	autofree char *have = owners_text(o->root);
	autoptr(json_doc) d = parse(want);
	autoptr(json_doc) got = NULL;

	works(json_parse(have, strlen(have), NULL, &got));
	if (json_equal(json_root(d), json_root(got)))
		return;
	print_error("have %s\nwant %s\n", have, want);
	fail();
}

static void apply(struct fixture *f, const char *path, const char *body, int status)
{
	f->headers = "Content-Type: application/apply-patch+yaml\r\n";
	autoanswer a = ask(f, "PATCH", path, body);

	if (a.status != status)
		print_error("%s\n", a.text ? a.text : at(&a, "message"));
	eq_int(a.status, status);
	f->headers = NULL;
}

#define MAP(data) "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {" data "}}"
#define X         CONFIGS "/x"

TEST(what_this_process_writes_has_no_owner)
{
	struct fixture f;

	begin(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("x"), NULL));
	eq_owners(&f, "ConfigMap", "x", "{}");
	works(merge(&f, &(struct client_ref){ kind_named("ConfigMap"), "default", "x", NULL },
		    "{'data':{'b':'2'}}"));
	eq_owners(&f, "ConfigMap", "x", "{}");
	fixture_done(&f);
}

TEST(this_process_is_recorded_when_it_takes_a_field)
{
	const struct client_ref x = { kind_named("ConfigMap"), "default", "x", NULL };
	struct fixture f;

	begin(&f);
	apply(&f, X "?fieldManager=me", MAP("a: '1', b: '2'"), 201);
	works(merge(&f, &x, "{'data':{'c':'3'}}"));
	eq_owners(&f, "ConfigMap", "x", "{'me Apply -':{'f:data':{'f:a':{},'f:b':{}}}}");
	works(merge(&f, &x, "{'data':{'a':'9'}}"));
	eq_owners(&f, "ConfigMap", "x",
		  "{'me Apply -':{'f:data':{'f:b':{}}},'cay Update -':{'f:data':{'f:a':{}}}}");
	apply(&f, X "?fieldManager=me", MAP("a: '1', b: '2'"), 409);
	works(merge(&f, &x, "{'data':{'b':null}}"));
	eq_owners(&f, "ConfigMap", "x", "{'cay Update -':{'f:data':{'f:a':{}}}}");
	fixture_done(&f);
}

TEST(a_write_without_a_change_keeps_the_version_and_the_owners)
{
	autoptr(object) before = NULL;
	autoptr(object) after = NULL;
	struct fixture f;

	begin(&f);
	apply(&f, X "?fieldManager=me", MAP("a: '1'"), 201);
	before = look(&f, kind_named("ConfigMap"), "default", "x");
	apply(&f, X "?fieldManager=me", MAP("a: '1'"), 200);
	f.headers = "Content-Type: application/merge-patch+json\r\nUser-Agent: other/1\r\n";
	autoanswer a = ask(&f, "PATCH", X, "{\"data\":{\"a\":\"1\"}}");
	eq_int(a.status, 200);
	after = look(&f, kind_named("ConfigMap"), "default", "x");
	eq_int(before->rev, after->rev);
	fixture_done(&f);
}

TEST(a_manager_is_named_by_the_program_that_asks)
{
	struct fixture f;

	begin(&f);
	f.headers = "Content-Type: application/json\r\nUser-Agent: tool/1.2 (linux)\r\n";
	autoanswer a =
		ask(&f, "POST", CONFIGS, "{\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"1\"}}");
	eq_int(a.status, 201);
	f.headers = "Content-Type: application/merge-patch+json\r\nUser-Agent: tool/1.2\r\n";
	autoanswer b = ask(&f, "PATCH", X "?fieldManager=said", "{\"data\":{\"b\":\"1\"}}");
	eq_int(b.status, 200);
	eq_owners(&f, "ConfigMap", "x",
		  "{'tool Update -':{'f:data':{'.':{},'f:a':{}}},"
		  "'said Update -':{'f:data':{'f:b':{}}}}");
	fixture_done(&f);
}

TEST(ownership_is_reset_replaced_and_kept)
{
	static const char mine[] =
		"{\"metadata\":{\"managedFields\":[{\"manager\":\"z\",\"operation\":\"Update\","
		"\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\","
		"\"fieldsV1\":{\"f:data\":{\"f:a\":{}}}}]}}";
	struct fixture f;

	begin(&f);
	apply(&f, X "?fieldManager=me", MAP("a: '1'"), 201);
	f.headers = "Content-Type: application/merge-patch+json\r\nUser-Agent: t\r\n";
	autoanswer a = ask(&f, "PATCH", X, mine);
	eq_int(a.status, 200);
	eq_owners(&f, "ConfigMap", "x", "{'z Update -':{'f:data':{'f:a':{}}}}");
	autoanswer odd =
		ask(&f, "PATCH", X, "{\"metadata\":{\"managedFields\":[{\"operation\":\"Odd\"}]}}");
	eq_int(odd.status, 200);
	eq_owners(&f, "ConfigMap", "x", "{'z Update -':{'f:data':{'f:a':{}}}}");
	autoanswer b = ask(&f, "PATCH", X, "{\"metadata\":{\"managedFields\":[]}}");
	eq_int(b.status, 200);
	eq_owners(&f, "ConfigMap", "x", "{}");
	autoanswer c = ask(&f, "PATCH", X, "{\"data\":{\"a\":\"2\"}}");
	eq_int(c.status, 200);
	eq_owners(&f, "ConfigMap", "x", "{}");
	apply(&f, X "?fieldManager=me", MAP("a: '2'"), 200);
	eq_owners(&f, "ConfigMap", "x",
		  "{'me Apply -':{'f:data':{'f:a':{}}},"
		  "'before-first-apply Update -':{'f:data':{'.':{},'f:a':{}}}}");
	fixture_done(&f);
}

#define POOLS "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxwarmpools"
#define POOL(n)                                                                    \
	"{apiVersion: extensions.agents.x-k8s.io/v1beta1, kind: SandboxWarmPool, " \
	"metadata: {name: p}, spec: {replicas: " n ", sandboxTemplateRef: {name: t}}}"
#define SCALE(n) "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: p}, spec: {" n "}}"

TEST(a_scale_and_a_status_are_applied)
{
	struct fixture f;

	begin(&f);
	apply(&f, POOLS "/p?fieldManager=me", POOL("1"), 201);
	apply(&f, POOLS "/p/scale?fieldManager=hpa", SCALE("replicas: 2"), 409);
	apply(&f, POOLS "/p/scale?fieldManager=hpa&force=true", SCALE("replicas: 2"), 200);
	eq_owners(&f, "SandboxWarmPool", "p",
		  "{'me Apply -':{'f:spec':{'f:sandboxTemplateRef':{'f:name':{}}}},"
		  "'hpa Apply scale':{'f:spec':{'f:replicas':{}}}}");
	apply(&f, POOLS "/p/status?fieldManager=s",
	      "{apiVersion: extensions.agents.x-k8s.io/v1beta1, kind: SandboxWarmPool, "
	      "metadata: {name: p}, spec: {replicas: 9}, status: {replicas: 3}}",
	      200);
	eq_owners(&f, "SandboxWarmPool", "p",
		  "{'me Apply -':{'f:spec':{'f:sandboxTemplateRef':{'f:name':{}}}},"
		  "'hpa Apply scale':{'f:spec':{'f:replicas':{}}},"
		  "'s Apply status':{'f:status':{'f:replicas':{}}}}");
	autoptr(object) o = look(&f, kind_named("SandboxWarmPool"), "default", "p");
	eq_int(json_int(json_at_path(o->root, "spec.replicas"), 0), 2);
	eq_int(json_int(json_at_path(o->root, "status.replicas"), 0), 3);
	apply(&f, POOLS "/q/status?fieldManager=s",
	      "{apiVersion: extensions.agents.x-k8s.io/v1beta1, kind: SandboxWarmPool, "
	      "metadata: {name: q}}",
	      404);
	fixture_done(&f);
}

TEST(the_owners_of_an_object_are_limited)
{
	autobuf body = { 0 };
	struct fixture f;

	begin(&f);
	apply(&f, X "?fieldManager=m0", MAP("a: '1'"), 201);
	buf_add_str(&body, "{\"metadata\":{\"managedFields\":[");
	for (int i = 0; i < 1000; i++)
		buf_printf(&body,
			   "%s{\"manager\":\"m%d\",\"operation\":\"Apply\",\"apiVersion\":\"v1\","
			   "\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:data\":{\"f:a\":{}}}}",
			   i ? "," : "", i);
	buf_add_str(&body, "]}}");
	f.headers = "Content-Type: application/merge-patch+json\r\nUser-Agent: t\r\n";
	autoanswer a = ask(&f, "PATCH", X, buf_str(&body));
	eq_int(a.status, 200);
	apply(&f, X "?fieldManager=more", MAP("a: '1'"), 413);
	apply(&f, X "?fieldManager=m7", MAP("a: '1'"), 200);
	fixture_done(&f);
}

TEST(what_cannot_be_applied_is_refused)
{
	static const struct {
		const char *body;
		int status;
	} rows[] = {
		{ "{apiVersion: v1, kind: Secret, metadata: {name: x}}", 400 },
		{ "{kind: ConfigMap, metadata: {name: x}}", 400 },
		{ "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, managedFields: []}}",
		  400 },
		{ "{apiVersion: v1, kind: ConfigMap, metadata: {name: y}}", 400 },
		{ "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, huh: 1}", 500 },
		{ "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: 1}}", 500 },
		{ "[1]", 400 },
		{ "{", 400 },
		{ "", 400 },
	};
	struct fixture f;

	begin(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		apply(&f, X "?fieldManager=me", rows[i].body, rows[i].status);
	fixture_done(&f);
}
