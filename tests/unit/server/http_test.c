/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/platform.h"
#include "fixture.h"
#include "kinds.h"

/* Over HTTPS: who may, what is answered, how errors look. */

static char *quoted(const char *text)
{
	char *copy = xstrdup(text);

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

/* ask() with single quotes in the body. */
static struct answer ask_q(struct fixture *f, const char *method, const char *path,
			   const char *body)
{
	autofree char *text = quoted(body);

	return ask(f, method, path, text);
}

static void start(struct fixture *f)
{
	fixture_init(f);
	fixture_listen(f);
}

TEST(u1_post_without_content_type_is_json)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask_q(&f, "POST", SANDBOXES, SANDBOX("a"));
	eq_int(a.status, 201);
	eq_str(at(&a, "metadata.name"), "a");
	is_true(at(&a, "metadata.resourceVersion") != NULL);
	f.headers = "Content-Type: application/json\r\n";
	autoanswer b = ask_q(&f, "POST", SANDBOXES, SANDBOX("b"));
	eq_int(b.status, 201);
	fixture_done(&f);
}

TEST(u2_delete_with_preconditions)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask_q(&f, "POST", SANDBOXES, SANDBOX("a"));
	autoanswer b = ask(&f, "DELETE", SANDBOXES "/a", "{\"preconditions\":{\"uid\":\"x\"}}");
	eq_int(b.status, 409);
	eq_str(at(&b, "reason"), "Conflict");
	autofree char *body =
		xasprintf("{\"preconditions\":{\"uid\":\"%s\"}}", at(&a, "metadata.uid"));
	autoanswer c = ask(&f, "DELETE", SANDBOXES "/a", body);
	eq_int(c.status, 200);
	eq_str(at(&c, "status"), "Success");
	eq_str(at(&c, "details.kind"), "sandboxes");
	autoanswer d = ask_q(&f, "POST", SANDBOXES, SANDBOX("a"));
	eq_int(d.status, 201);
	autoanswer e = ask(&f, "DELETE", SANDBOXES "/a", NULL);
	eq_int(e.status, 200);
	autoanswer g = ask(&f, "GET", SANDBOXES "/a", NULL);
	eq_int(g.status, 404);
	fixture_done(&f);
}

TEST(u4_post_of_an_existing_name_is_already_exists)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask_q(&f, "POST", SANDBOXES, SANDBOX("a"));
	autoanswer b = ask_q(&f, "POST", SANDBOXES, SANDBOX("a"));
	eq_int(b.status, 409);
	eq_str(at(&b, "reason"), "AlreadyExists");
	eq_str(at(&b, "message"), "sandboxes.agents.x-k8s.io \"a\" already exists");
	eq_str(at(&b, "details.name"), "a");
	autoanswer c = ask(&f, "GET", SANDBOXES "/a", NULL);
	eq_str(at(&c, "metadata.resourceVersion"), at(&a, "metadata.resourceVersion"));
	fixture_done(&f);
}

TEST(u12_get_with_a_content_type_works)
{
	struct fixture f;

	start(&f);
	f.headers = "Content-Type: application/json\r\n";
	autoanswer a = ask(&f, "GET", SANDBOXES, NULL);
	eq_int(a.status, 200);
	eq_str(at(&a, "kind"), "SandboxList");
	fixture_done(&f);
}

TEST(an_absent_object_is_not_found)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask(&f, "GET", SANDBOXES "/x", NULL);
	eq_int(a.status, 404);
	eq_str(at(&a, "kind"), "Status");
	eq_str(at(&a, "status"), "Failure");
	eq_str(at(&a, "message"), "sandboxes.agents.x-k8s.io \"x\" not found");
	eq_str(at(&a, "reason"), "NotFound");
	eq_str(at(&a, "details.group"), "agents.x-k8s.io");
	eq_str(at(&a, "details.kind"), "sandboxes");
	eq_int(int_at(&a, "code"), 404);
	autoanswer b = ask(&f, "GET", "/apis/agents.x-k8s.io/v1/sandboxes", NULL);
	eq_int(b.status, 404);
	autoanswer c = ask(&f, "GET", "/apis/extensions.agents.x-k8s.io/v1alpha1/sandboxes", NULL);
	eq_int(c.status, 404);
	fixture_done(&f);
}

TEST(an_invalid_object_names_its_fields)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask_q(&f, "POST", SANDBOXES,
			     "{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{"
			     "'name':'x'},'spec':{}}");
	eq_int(a.status, 422);
	eq_str(at(&a, "reason"), "Invalid");
	eq_str(at(&a, "details.kind"), "Sandbox");
	eq_str(at(&a, "details.causes.0.reason"), "FieldValueRequired");
	eq_str(at(&a, "details.causes.0.field"), "spec.podTemplate");
	fixture_done(&f);
}

TEST(bad_bodies_are_bad_requests)
{
	static const char *const bodies[] = {
		"",
		"{",
		"[]",
		"1",
		"{\"kind\":\"Pod\"}",
		"{\"apiVersion\":\"v1\"}",
		"{\"metadata\":{\"namespace\":\"other\",\"name\":\"x\"}}"
	};
	struct fixture f;

	start(&f);
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		autoanswer a = ask(&f, "POST", SANDBOXES, bodies[i]);

		eq_int(a.status, 400);
		eq_str(at(&a, "reason"), "BadRequest");
	}
	fixture_done(&f);
}

TEST(foreign_bodies_are_unsupported_media)
{
	struct fixture f;

	start(&f);
	f.headers = "Content-Type: application/xml\r\n";
	autoanswer a = ask(&f, "POST", CONFIGS, "<a/>");
	eq_int(a.status, 415);
	eq_str(at(&a, "reason"), "UnsupportedMediaType");
	f.headers = "Content-Type: application/vnd.kubernetes.protobuf\r\n";
	autoanswer c = ask(&f, "POST", CONFIGS, "k8s");
	eq_int(c.status, 400);
	fixture_done(&f);
}

TEST(an_apply_creates_takes_over_and_tells_of_conflicts)
{
	static const char one[] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
				  "data: {a: '1'}\n";
	static const char two[] = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
				  "\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"2\"}}";
	struct fixture f;

	start(&f);
	f.headers = "Content-Type: application/apply-patch+yaml\r\n";
	autoanswer unnamed = ask(&f, "PATCH", CONFIGS "/x", one);
	eq_int(unnamed.status, 422);
	autoanswer typeless = ask(&f, "PATCH", CONFIGS "/x?fieldManager=me", "{}");
	eq_int(typeless.status, 400);
	autoanswer created = ask(&f, "PATCH", CONFIGS "/x?fieldManager=me", one);
	eq_int(created.status, 201);
	eq_str(at(&created, "metadata.managedFields.0.manager"), "me");
	eq_str(at(&created, "metadata.managedFields.0.operation"), "Apply");
	autoanswer refused = ask(&f, "PATCH", CONFIGS "/x?fieldManager=you", two);
	eq_int(refused.status, 409);
	eq_str(at(&refused, "message"),
	       "Apply failed with 1 conflict: conflict with \"me\": .data.a");
	eq_str(at(&refused, "details.causes.0.reason"), "FieldManagerConflict");
	eq_str(at(&refused, "details.causes.0.field"), ".data.a");
	autoanswer forced = ask(&f, "PATCH", CONFIGS "/x?fieldManager=you&force=true", two);
	eq_int(forced.status, 200);
	eq_str(at(&forced, "metadata.managedFields.0.manager"), "you");
	is_true(!json_at_path(json_root(forced.doc), "metadata.managedFields.1"));
	fixture_done(&f);
}

TEST(aliases_cannot_grow_what_is_applied)
{
	autobuf body = { 0 };
	struct fixture f;

	start(&f);
	buf_add_str(&body,
		    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: &t '");
	for (int i = 0; i < 200000; i++)
		buf_add_char(&body, 'x');
	buf_add_str(&body, "'\n");
	for (int i = 0; i < 200; i++)
		buf_printf(&body, "  k%d: *t\n", i);
	f.headers = "Content-Type: application/apply-patch+yaml\r\n";
	autoanswer a = ask(&f, "PATCH", CONFIGS "/x?fieldManager=me", buf_str(&body));
	eq_int(a.status, 413);
	fixture_done(&f);
}

TEST(no_credential_is_anonymous_and_may_see_health_alone)
{
	static const struct {
		const char *path;
		int status;
	} rows[] = { { "/healthz", 200 }, { "/readyz", 200 },  { "/livez?verbose", 200 },
		     { "/version", 200 }, { "/api", 403 },     { "/apis", 403 },
		     { "/metrics", 403 }, { "/nowhere", 403 }, { "/api/v1/pods", 403 } };
	struct fixture f;

	start(&f);
	f.anonymous = true;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoanswer a = ask(&f, "GET", rows[i].path, NULL);

		eq_int(a.status, rows[i].status);
	}
	autoanswer b = ask(&f, "GET", "/api/v1/namespaces/default/pods", NULL);
	eq_str(at(&b, "reason"), "Forbidden");
	eq_str(at(&b, "message"), "pods is forbidden: User \"system:anonymous\" cannot list "
				  "resource \"pods\" in API group \"\" in the namespace "
				  "\"default\"");
	fixture_done(&f);
}

TEST(discovery_comes_in_both_forms)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask(&f, "GET", "/apis", NULL);
	eq_str(at(&a, "kind"), "APIGroupList");
	autoanswer b = ask(&f, "GET", "/api/v1", NULL);
	eq_str(at(&b, "kind"), "APIResourceList");
	is_true(strstr(b.text, "\"pods/status\"") != NULL);
	is_true(strstr(b.text, "\"serviceaccounts/token\"") != NULL);
	f.headers = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
		    "application/json\r\n";
	autoanswer c = ask(&f, "GET", "/apis", NULL);
	eq_str(at(&c, "kind"), "APIGroupDiscoveryList");
	eq_str(at(&c, "apiVersion"), "apidiscovery.k8s.io/v2");
	autoanswer d = ask(&f, "GET", "/version", NULL);
	eq_str(at(&d, "major"), "1");
	eq_str(at(&d, "platform"), "linux/" PLATFORM_ARCH);
	fixture_done(&f);
}

TEST(lists_come_in_pages_of_one_revision)
{
	struct fixture f;

	start(&f);
	for (int i = 0; i < 5; i++) {
		autofree char *text = xasprintf("{'metadata':{'name':'c%d'}}", i);

		works(make(&f, kind_named("ConfigMap"), "default", text, NULL));
	}
	settle(&f);
	autoanswer a = ask(&f, "GET", CONFIGS "?limit=2", NULL);
	eq_int(json_len(json_at_path(json_root(a.doc), "items")), 2);
	eq_int(int_at(&a, "metadata.remainingItemCount"), 3);
	works(drop(&f, kind_named("ConfigMap"), "default", "c3", NULL));
	works(make(&f, kind_named("ConfigMap"), "default", "{'metadata':{'name':'c33'}}", NULL));
	autofree char *path =
		xasprintf(CONFIGS "?limit=9&continue=%s", at(&a, "metadata.continue"));
	autoanswer b = ask(&f, "GET", path, NULL);
	eq_int(json_len(json_at_path(json_root(b.doc), "items")), 3);
	eq_str(at(&b, "items.1.metadata.name"), "c3");
	eq_str(at(&b, "metadata.resourceVersion"), at(&a, "metadata.resourceVersion"));
	is_true(at(&b, "metadata.continue") == NULL);
	autoanswer c = ask(&f, "GET", CONFIGS "?continue=junk", NULL);
	eq_int(c.status, 400);
	fixture_done(&f);
}

TEST(selectors_narrow_a_list)
{
	static const struct {
		const char *query;
		size_t n;
	} rows[] = { { "?labelSelector=on%3Dyes", 1 },
		     { "?labelSelector=on", 2 },
		     { "?fieldSelector=metadata.name%3Da", 1 },
		     { "?fieldSelector=metadata.name%21%3Da", 2 },
		     { "?fieldSelector=metadata.name%3Dnone", 0 },
		     { "?fieldSelector=metadata.namespace%3Dother", 0 } };
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default",
		   "{'metadata':{'name':'a','labels':{'on':'yes'}}}", NULL));
	works(make(&f, kind_named("ConfigMap"), "default",
		   "{'metadata':{'name':'b','labels':{'on':'no'}}}", NULL));
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("c"), NULL));
	settle(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *path = xasprintf(CONFIGS "%s", rows[i].query);
		autoanswer a = ask(&f, "GET", path, NULL);

		eq_int(json_len(json_at_path(json_root(a.doc), "items")), rows[i].n);
	}
	autoanswer b = ask(&f, "GET", CONFIGS "?labelSelector=a%20b%20c", NULL);
	eq_int(b.status, 400);
	fixture_done(&f);
}

TEST(tables_and_metadata_come_on_request)
{
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	settle(&f);
	f.headers = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json\r\n";
	autoanswer a = ask(&f, "GET", CONFIGS, NULL);
	eq_str(at(&a, "kind"), "Table");
	eq_str(at(&a, "rows.0.cells.0"), "a");
	is_true(at(&a, "metadata.resourceVersion") != NULL);
	autoanswer b = ask(&f, "GET", CONFIGS "/a", NULL);
	eq_str(at(&b, "kind"), "Table");
	f.headers = "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io\r\n";
	autoanswer c = ask(&f, "GET", CONFIGS, NULL);
	eq_str(at(&c, "kind"), "PartialObjectMetadataList");
	eq_str(at(&c, "items.0.kind"), "PartialObjectMetadata");
	f.headers = "Accept: application/vnd.kubernetes.protobuf,application/json\r\n";
	autoanswer d = ask(&f, "GET", CONFIGS, NULL);
	is_true(strstr(d.head, "application/vnd.kubernetes.protobuf") != NULL);
	is_true(!strncmp(d.text, "k8s", 4));
	f.headers = "Accept: text/html\r\n";
	autoanswer e = ask(&f, "GET", CONFIGS, NULL);
	eq_int(e.status, 406);
	fixture_done(&f);
}

TEST(dry_run_stores_nothing)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask_q(&f, "POST", CONFIGS "?dryRun=All", CONFIG("a"));
	eq_int(a.status, 201);
	is_true(look(&f, kind_named("ConfigMap"), "default", "a") == NULL);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	autoanswer b = ask(&f, "DELETE", CONFIGS "/a?dryRun=All", NULL);
	eq_int(b.status, 200);
	autoptr(object) o = look(&f, kind_named("ConfigMap"), "default", "a");
	is_true(o != NULL);
	autoanswer c = ask_q(&f, "POST", CONFIGS "?dryRun=Some", CONFIG("b"));
	eq_int(c.status, 422);
	fixture_done(&f);
}

TEST(unknown_fields_are_refused_warned_of_or_ignored)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask(&f, "POST", CONFIGS "?fieldValidation=Strict",
			   "{\"metadata\":{\"name\":\"a\"},\"extra\":1}");
	eq_int(a.status, 400);
	is_true(strstr(at(&a, "message"), "strict decoding error: unknown field \"extra\"") !=
		NULL);
	autoanswer b = ask(&f, "POST", CONFIGS, "{\"metadata\":{\"name\":\"b\"},\"extra\":1}");
	eq_int(b.status, 201);
	is_true(strstr(b.head, "Warning: 299 - \"unknown field \\\"extra\\\"\"") != NULL);
	is_true(at(&b, "extra") == NULL);
	autoanswer c = ask(&f, "POST", CONFIGS "?fieldValidation=Ignore",
			   "{\"metadata\":{\"name\":\"c\"},\"extra\":1}");
	eq_int(c.status, 201);
	is_true(strstr(c.head, "Warning:") == NULL);
	fixture_done(&f);
}

TEST(three_kinds_of_patch_work)
{
	static const struct {
		const char *type, *body, *value;
	} rows[] = {
		{ "application/merge-patch+json", "{'data':{'a':'2'}}", "2" },
		{ "application/strategic-merge-patch+json", "{'data':{'a':'3'}}", "3" },
		{ "application/json-patch+json",
		  "[{'op':'test','path':'/data/a','value':'3'},"
		  "{'op':'replace','path':'/data/a','value':'4'}]",
		  "4" },
	};
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *type = xasprintf("Content-Type: %s\r\n", rows[i].type);
		f.headers = type;
		autoanswer a = ask_q(&f, "PATCH", CONFIGS "/a", rows[i].body);

		eq_int(a.status, 200);
		eq_str(at(&a, "data.a"), rows[i].value);
	}
	f.headers = "Content-Type: application/json-patch+json\r\n";
	autoanswer b =
		ask_q(&f, "PATCH", CONFIGS "/a", "[{'op':'test','path':'/data/a','value':'9'}]");
	eq_int(b.status, 422);
	fixture_done(&f);
}

TEST(updates_are_guarded_by_the_resource_version)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask_q(&f, "POST", SANDBOXES, SANDBOX("a"));
	autoanswer b = ask_q(&f, "PUT", SANDBOXES "/a", SANDBOX("a"));
	eq_int(b.status, 422); /* custom resources need a version */
	autoanswer c = ask(&f, "PUT", SANDBOXES "/a", a.text);
	eq_int(c.status, 200);
	eq_str(at(&c, "metadata.resourceVersion"), at(&a, "metadata.resourceVersion"));
	works(merge(&f, &(struct client_ref){ kind_named("Sandbox"), "default", "a", NULL },
		    "{'metadata':{'labels':{'x':'y'}}}"));
	autoanswer d = ask(&f, "PUT", SANDBOXES "/a", a.text);
	eq_int(d.status, 409);
	eq_str(at(&d, "reason"), "Conflict");
	autoanswer e = ask(&f, "PUT", SANDBOXES "/b", a.text);
	eq_int(e.status, 404);
	fixture_done(&f);
}

#define POOLS "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxwarmpools"

TEST(scale_reads_and_writes_replicas)
{
	struct fixture f;

	start(&f);
	autoanswer a = ask_q(&f, "POST", POOLS,
			     "{'apiVersion':'extensions.agents.x-k8s.io/v1beta1','kind':"
			     "'SandboxWarmPool','metadata':{'name':'p'},'spec':{'replicas':2,"
			     "'sandboxTemplateRef':{'name':'t'}}}");
	eq_int(a.status, 201);
	autoanswer b = ask(&f, "GET", POOLS "/p/scale", NULL);
	eq_str(at(&b, "kind"), "Scale");
	eq_int(int_at(&b, "spec.replicas"), 2);
	f.headers = "Content-Type: application/merge-patch+json\r\n";
	autoanswer c = ask(&f, "PATCH", POOLS "/p/scale", "{\"spec\":{\"replicas\":5}}");
	eq_int(c.status, 200);
	eq_int(int_at(&c, "spec.replicas"), 5);
	autoanswer d = ask(&f, "PATCH", POOLS "/p/scale", "{\"spec\":{\"replicas\":-1}}");
	eq_int(d.status, 422);
	f.headers = "";
	autoanswer e = ask(&f, "PUT", POOLS "/p/scale", c.text);
	eq_int(e.status, 200);
	fixture_done(&f);
}

#define OLD_SANDBOXES "/apis/agents.x-k8s.io/v1alpha1/namespaces/default/sandboxes"

TEST(scale_of_an_old_sandbox_is_its_mode)
{
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("Sandbox"), "default", SANDBOX("a"), NULL));
	autoanswer a = ask(&f, "GET", OLD_SANDBOXES "/a/scale", NULL);
	eq_int(int_at(&a, "spec.replicas"), 1);
	f.headers = "Content-Type: application/merge-patch+json\r\n";
	autoanswer b = ask(&f, "PATCH", OLD_SANDBOXES "/a/scale", "{\"spec\":{\"replicas\":0}}");
	eq_int(b.status, 200);
	eq_int(int_at(&b, "spec.replicas"), -1); /* none are left out */
	f.headers = "";
	autoanswer c = ask(&f, "GET", SANDBOXES "/a", NULL);
	eq_str(at(&c, "spec.operatingMode"), "Suspended");
	fixture_done(&f);
}

TEST(delete_collection_deletes_what_is_selected)
{
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default",
		   "{'metadata':{'name':'a','labels':{'on':'yes'}}}", NULL));
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("b"), NULL));
	autoanswer a = ask(&f, "DELETE", CONFIGS "?labelSelector=on%3Dyes", NULL);
	eq_int(a.status, 200);
	autoanswer b = ask(&f, "GET", CONFIGS, NULL);
	eq_int(json_len(json_at_path(json_root(b.doc), "items")), 1);
	fixture_done(&f);
}

TEST(methods_that_do_not_fit_are_refused)
{
	static const struct {
		const char *method, *path;
		int status;
	} rows[] = { { "POST", CONFIGS "/a", 405 },         { "PUT", CONFIGS, 405 },
		     { "POST", "/api/v1/configmaps", 405 }, { "POST", "/version", 405 },
		     { "OPTIONS", CONFIGS, 405 },           { "GET", CONFIGS "/a/nothing", 404 },
		     { "DELETE", CONFIGS "/a/status", 404 } };
	struct fixture f;

	start(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoanswer a = ask(&f, rows[i].method, rows[i].path, NULL);

		eq_int(a.status, rows[i].status);
	}
	fixture_done(&f);
}

TEST(a_body_beyond_the_limit_is_too_large)
{
	struct fixture f;
	size_t len = (3 << 20) + 1;
	char *big = xmalloc(len + 1);

	start(&f);
	memset(big, ' ', len);
	big[len] = '\0';
	autoanswer a = ask(&f, "POST", CONFIGS, big);
	eq_int(a.status, 413);
	eq_str(at(&a, "reason"), "RequestEntityTooLarge");
	free(big);
	fixture_done(&f);
}

TEST(the_kubeconfig_is_private_and_complete)
{
	struct fixture f;
	struct stat st;
	char path[128];

	start(&f);
	works(server_write_kubeconfig(f.server));
	(void)snprintf(path, sizeof(path), "%s/admin.kubeconfig", f.dir);
	eq_int(stat(path, &st), 0);
	eq_int(st.st_mode & 0777, 0600);
	(void)snprintf(path, sizeof(path), "%s/ca.key", f.dir);
	eq_int(stat(path, &st), 0);
	eq_int(st.st_mode & 0777, 0600);
	eq_int(stat(f.dir, &st), 0);
	eq_int(st.st_mode & 0777, 0700);
	fixture_done(&f);
}

TEST(old_versions_are_served_with_a_warning)
{
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("Sandbox"), "default", SANDBOX("a"), NULL));
	settle(&f);
	autoanswer a =
		ask(&f, "GET", "/apis/agents.x-k8s.io/v1alpha1/namespaces/default/sandboxes", NULL);
	eq_int(a.status, 200);
	eq_str(at(&a, "items.0.apiVersion"), "agents.x-k8s.io/v1alpha1");
	eq_int(int_at(&a, "items.0.spec.replicas"), 1);
	fixture_done(&f);
}

static void limit_files(rlim_t max)
{
	struct rlimit r;

	(void)getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = max;
	eq_int(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* A file that must not grow stands for a full disk. */
TEST(a_full_disk_refuses_writes_while_reads_go_on)
{
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	settle(&f);
	(void)signal(SIGXFSZ, SIG_IGN);
	limit_files(4096);
	autoanswer a = ask_q(&f, "POST", CONFIGS, CONFIG("b"));
	eq_int(a.status, 504); /* nobody knows whether it will be kept */
	eq_str(at(&a, "reason"), "Timeout");
	autoanswer b = ask_q(&f, "POST", CONFIGS, CONFIG("c"));
	eq_int(b.status, 503);
	eq_str(at(&b, "reason"), "ServiceUnavailable");
	autoanswer c = ask(&f, "GET", CONFIGS, NULL);
	eq_int(c.status, 200);
	eq_int(json_len(json_at_path(json_root(c.doc), "items")), 1);
	autoanswer d = ask(&f, "GET", CONFIGS "/b", NULL);
	eq_int(d.status, 404); /* it is not on disk */
	autoanswer g = ask(&f, "GET", "/readyz?verbose", NULL);
	eq_int(g.status, 503);
	autoanswer g1 = ask(&f, "GET", "/readyz/store", NULL);
	eq_int(g1.status, 503);
	autoanswer g2 = ask(&f, "GET", "/readyz?exclude=store", NULL);
	eq_int(g2.status, 200);
	autoanswer h = ask(&f, "GET", "/livez", NULL);
	eq_int(h.status, 200);
	limit_files(RLIM_INFINITY);
	for (int status = 0; status != 201;) {
		autoanswer e = ask_q(&f, "POST", CONFIGS, CONFIG("c"));

		status = e.status;
		is_true(status == 201 || status == 503);
	}
	fixture_done(&f);
}
