/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "crypto/crypto.h"
#include "fixture.h"
#include "identity/token.h"
#include "kinds.h"
#include "tls/tls.h"

/* Agents that prove themselves with tokens of their own, and what narrowed ones are good for. */
#define AGENTS "/apis/cay.dev/v1alpha1/namespaces/default/agents"
#define SELF   "/apis/authentication.k8s.io/v1/selfsubjectreviews"
#define REVIEW "/apis/authentication.k8s.io/v1/tokenreviews"
#define MAY    "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#define PODS   "/api/v1/namespaces/default/pods"
#define CLAIMS "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxclaims"

struct rig {
	struct fixture f;
	struct ed25519 *key, *second, *others;
	char *audience;
};

static char *public_text(const struct ed25519 *k)
{
	unsigned char pub[ED25519_KEY_LEN];

	ed25519_public(k, pub);
	return base64_encode(pub, sizeof(pub), false);
}

static void make_agent(struct rig *r, const char *name, const char *keys)
{
	autofree char *body = xasprintf("{\"apiVersion\":\"cay.dev/v1alpha1\",\"kind\":\"Agent\","
					"\"metadata\":{\"name\":\"%s\"},\"spec\":{\"keys\":[%s]}}",
					name, keys);
	autoanswer a = ask(&r->f, "POST", AGENTS, body);

	eq_int(a.status, 201);
}

static void find_audience(struct rig *r)
{
	autofree char *path = xasprintf("%s/ca.crt", r->f.dir), *pem = NULL;
	unsigned char id[SHA256_LEN];
	size_t len;

	works(file_read(AT_FDCWD, path, 65536, &pem, &len));
	works(tls_cert_key_id(pem, id));
	r->audience = identity_audience(id);
}

/* The agents coder, with a verified key and another, and other. */
static void rig_init(struct rig *r)
{
	*r = (struct rig){ .key = ed25519_new(), .second = ed25519_new(), .others = ed25519_new() };
	autofree char *a = public_text(r->key), *b = public_text(r->second),
		      *c = public_text(r->others);
	autofree char *coder =
		xasprintf("{\"name\":\"main\",\"publicKey\":\"%s\",\"verified\":true},"
			  "{\"name\":\"second\",\"publicKey\":\"%s\"}",
			  a, b);
	autofree char *other = xasprintf("{\"name\":\"theirs\",\"publicKey\":\"%s\"}", c);

	fixture_init(&r->f);
	fixture_listen(&r->f);
	find_audience(r);
	make_agent(r, "coder", coder);
	make_agent(r, "other", other);
}

static void rig_done(struct rig *r)
{
	ed25519_free(r->key);
	ed25519_free(r->second);
	ed25519_free(r->others);
	free(r->audience);
	fixture_done(&r->f);
}

static struct identity_claims claims(const struct rig *r)
{
	return (struct identity_claims){ .ns = "default",
					 .agent = "coder",
					 .key_name = "main",
					 .audience = r->audience,
					 .now_s = clock_wall() / 1000000,
					 .ttl_s = 300 };
}

static void use(struct rig *r, const struct ed25519 *key, const struct identity_claims *c)
{
	free(take(r->f.token));
	works(identity_mint(key, c, &r->f.token));
}

/* From now on, requests carry the token of the agent with this block, in single quotes; NULL: as it
 * is. */
static void become(struct rig *r, const char *block)
{
	const struct identity_claims c = claims(r);
	autoptr(json_doc) d = block ? parse(block) : NULL;
	char *narrow = NULL;

	use(r, r->key, &c);
	if (!block)
		return;
	works(identity_narrow(r->f.token, json_root(d), false, &narrow));
	free(r->f.token);
	r->f.token = narrow;
}

static int status_of(struct rig *r, const char *method, const char *path, const char *body)
{
	autoanswer a = ask(&r->f, method, path, body);

	return a.status;
}

static void as_admin(struct rig *r)
{
	free(take(r->f.token));
}

static bool has_group(const struct answer *a, const char *group)
{
	json_each(it, json_at_path(json_root(a->doc), "status.userInfo.groups"))
		if (str_eq(json_str(it.val), group))
			return true;
	return false;
}

TEST(an_agent_is_known_by_its_key)
{
	struct identity_claims c;
	struct rig r;

	rig_init(&r);
	c = claims(&r);
	for (int sealed = 0; sealed < 2; sealed++) {
		c.sealed = sealed;
		use(&r, r.key, &c);
		autoanswer a = ask(&r.f, "POST", SELF, "{}");
		eq_int(a.status, 201);
		eq_str(at(&a, "status.userInfo.username"), "cay:agent:default:coder");
		is_true(has_group(&a, "cay:agents") && has_group(&a, "cay:agents:default"));
		is_true(has_group(&a, "system:authenticated") && has_group(&a, "cay:verified"));
		/* What binds it is not shown. */
		eq_int(json_len(json_at_path(json_root(a.doc), "status.userInfo.groups")), 4);
	}
	c.key_name = "second";
	use(&r, r.second, &c);
	autoanswer b = ask(&r.f, "POST", SELF, "{}");
	eq_int(b.status, 201);
	is_false(has_group(&b, "cay:verified"));
	c.key_name = NULL; /* all are tried */
	use(&r, r.second, &c);
	eq_int(status_of(&r, "POST", SELF, "{}"), 201);
	rig_done(&r);
}

TEST(a_token_that_is_not_the_agents_is_unauthorized)
{
	struct identity_claims fine, rows[8];
	struct rig r;

	rig_init(&r);
	fine = claims(&r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		rows[i] = fine;
	rows[0].audience = "cay:instance:0000";
	rows[1].audience = "https://kubernetes.default.svc";
	rows[2].now_s -= 301; /* expired */
	rows[3].now_s += 60;  /* not yet valid */
	rows[4].agent = "other";
	rows[5].agent = "nobody";
	rows[6].ns = "kube-system";
	rows[7].key_name = "second"; /* which is not the one that signed */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		use(&r, r.key, &rows[i]);
		eq_int(status_of(&r, "POST", SELF, "{}"), 401);
	}
	use(&r, r.others, &fine); /* forged */
	eq_int(status_of(&r, "POST", SELF, "{}"), 401);
	fine.key_name = "theirs"; /* the kid of another agent */
	use(&r, r.others, &fine);
	eq_int(status_of(&r, "POST", SELF, "{}"), 401);
	fine.key_name = NULL;
	use(&r, r.others, &fine);
	eq_int(status_of(&r, "POST", SELF, "{}"), 401);
	rig_done(&r);
}

/* The claims are fine, and the signature is what such an algorithm would have. */
static char *with_head(struct rig *r, const char *head, bool hmac)
{
	unsigned char pub[ED25519_KEY_LEN], mac[SHA256_LEN];
	autofree char *first = base64_encode(head, strlen(head), true), *sig = NULL, *text = NULL;
	const char *end;

	become(r, NULL);
	as_admin(r);
	struct identity_claims c = claims(r);
	c.sealed = true;
	use(r, r->key, &c);
	end = strchr(r->f.token, '.') + 1;
	text = xasprintf("%s.%.*s", first, (int)strcspn(end, "."), end);
	ed25519_public(r->key, pub);
	hmac_sha256(pub, sizeof(pub), text, strlen(text), mac);
	sig = base64_encode(mac, hmac ? sizeof(mac) : 0, true);
	return xasprintf("%s.%s", text, sig);
}

TEST(the_token_of_an_agent_chooses_no_algorithm)
{
	struct rig r;

	rig_init(&r);
	for (int hmac = 0; hmac < 2; hmac++) {
		char *token =
			with_head(&r,
				  hmac ? "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"main\"}"
				       : "{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"main\"}",
				  hmac);

		free(r.f.token);
		r.f.token = token;
		eq_int(status_of(&r, "POST", SELF, "{}"), 401);
	}
	rig_done(&r);
}

TEST(a_key_that_is_removed_and_an_agent_that_is_deleted_end_at_once)
{
	autofree char *kept = NULL;
	struct rig r;

	rig_init(&r);
	become(&r, NULL);
	eq_int(status_of(&r, "POST", SELF, "{}"), 201);
	kept = take(r.f.token);
	const struct client_ref ref = { .kind = kind_named("Agent"),
					.ns = "default",
					.name = "coder" };
	autofree char *second = public_text(r.second);
	autofree char *patch =
		xasprintf("{'spec':{'keys':[{'name':'main','publicKey':'%s'}]}}", second);
	works(merge(&r.f, &ref, patch)); /* the same name, another key */
	r.f.token = xstrdup(kept);
	eq_int(status_of(&r, "POST", SELF, "{}"), 401);
	as_admin(&r);
	struct identity_claims c = claims(&r);
	use(&r, r.second, &c);
	eq_int(status_of(&r, "POST", SELF, "{}"), 201);
	works(drop(&r.f, kind_named("Agent"), "default", "coder", NULL));
	eq_int(status_of(&r, "POST", SELF, "{}"), 401);
	rig_done(&r);
}

#define BINDING(role)                                                                             \
	"{'metadata':{'name':'" role                                                              \
	"'},'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':'" role \
	"'},'subjects':[{'apiGroup':'rbac.authorization.k8s.io','kind':'User','name':'cay:agent:default:coder'}]}"

static void give(struct rig *r, const char *binding)
{
	works(make(&r->f, kind_named("RoleBinding"), "default", binding, NULL));
}

TEST(a_watch_of_an_agent_ends_with_its_key)
{
	struct rig r;

	rig_init(&r);
	give(&r, BINDING("view"));
	become(&r, NULL);
	struct stream_test *s = stream_open(&r.f, "GET", CONFIGS "?watch=1", NULL);
	is_true(stream_until(s, "200 OK"));
	const struct client_ref ref = { .kind = kind_named("Agent"),
					.ns = "default",
					.name = "coder" };
	works(merge(&r.f, &ref, "{'spec':{'budget':null}}"));
	settle(&r.f);
	works(make(&r.f, kind_named("ConfigMap"), "default", CONFIG("still"), NULL));
	is_true(stream_until(s, "still"));
	works(merge(&r.f, &ref, "{'spec':{'keys':[]}}"));
	is_true(stream_ended(s));
	stream_test_free(s);
	rig_done(&r);
}

/* Rights by blocks: what each leaves of an administrator of the namespace. */
TEST(a_narrowed_token_is_good_for_what_it_leaves)
{
	enum {
		N = 6
	};
	static const char *const blocks[N] = { "{'exp':99999999999}",
					       "{'rights':['read']}",
					       "{'rights':['exec']}",
					       "{'rights':['ports']}",
					       "{'rights':['lifecycle','write']}",
					       "{'rights':['read','exec'],'egress':[]}" };
	static const struct {
		const char *method, *path, *body;
		int status[N]; /* by block */
	} rows[] = {
		{ "GET", PODS, NULL, { 200, 200, 403, 403, 403, 200 } },
		{ "GET", PODS "/p", NULL, { 404, 404, 403, 403, 403, 404 } },
		{ "GET", PODS "/p/log", NULL, { 404, 404, 403, 403, 403, 404 } },
		{ "GET", SANDBOXES, NULL, { 200, 200, 403, 403, 403, 200 } },
		{ "POST", PODS "/p/exec?command=x", NULL, { 404, 403, 404, 403, 403, 403 } },
		{ "GET", PODS "/p/exec?command=x", NULL, { 404, 403, 404, 403, 403, 403 } },
		{ "POST", PODS "/p/attach", NULL, { 404, 403, 404, 403, 403, 403 } },
		{ "POST", PODS "/p/portforward", NULL, { 404, 403, 403, 404, 403, 403 } },
		{ "GET", PODS "/p/proxy", NULL, { 404, 403, 403, 404, 403, 403 } },
		{ "POST", CLAIMS, "{}", { 400, 403, 403, 403, 400, 403 } },
		{ "DELETE", SANDBOXES "/s", NULL, { 404, 403, 403, 403, 404, 403 } },
		{ "DELETE", SANDBOXES, NULL, { 200, 403, 403, 403, 403, 403 } },
		{ "DELETE", PODS "/p", NULL, { 404, 403, 403, 403, 403, 403 } },
		{ "POST", CONFIGS, "{}", { 422, 403, 403, 403, 403, 403 } },
		{ "POST", PODS "/p/eviction", "{}", { 404, 403, 403, 403, 403, 403 } },
		{ "POST",
		  "/api/v1/namespaces/default/serviceaccounts/default/token",
		  "{}",
		  { 201, 403, 403, 403, 403, 403 } },
		{ "GET", "/apis", NULL, { 200, 200, 200, 200, 200, 200 } },
		{ "GET", "/version", NULL, { 200, 200, 200, 200, 200, 200 } },
		{ "POST", SELF, "{}", { 201, 201, 201, 201, 201, 201 } },
	};
	struct rig r;

	rig_init(&r);
	give(&r, BINDING("admin"));
	works(make(
		&r.f, kind_named("ClusterRole"), "",
		"{'metadata':{'name':'all'},'rules':[{'apiGroups':['*'],'resources':['*'],'verbs':['*']}]}",
		NULL));
	give(&r, BINDING("all"));
	for (int b = 0; b < N; b++) {
		become(&r, blocks[b]);
		for (size_t i = 0; i < ARRAY_LEN(rows); i++)
			eq_int(status_of(&r, rows[i].method, rows[i].path, rows[i].body),
			       rows[i].status[b]);
	}
	rig_done(&r);
}

TEST(a_narrowed_token_gives_no_right)
{
	struct rig r;

	rig_init(&r);
	become(&r, "{'rights':['read','lifecycle']}");
	eq_int(status_of(&r, "GET", PODS, NULL), 403);
	eq_int(status_of(&r, "POST", CLAIMS, "{}"), 403);
	rig_done(&r);
}

TEST(a_token_for_one_sandbox_is_about_nothing_else)
{
	static const struct {
		const char *method, *path;
		bool may;
	} rows[] = {
		{ "GET", SANDBOXES "/mine", true },
		{ "GET", SANDBOXES "/yours", false },
		{ "GET", SANDBOXES, false },
		{ "GET", PODS "/body", true },
		{ "GET", PODS "/body/log", true },
		{ "GET", PODS "/mine", false },
		{ "GET", PODS "/yours", false },
		{ "GET", PODS, false },
		{ "POST", PODS "/body/exec?command=x", true },
		{ "POST", PODS "/yours/exec?command=x", false },
		{ "GET", "/api/v1/namespaces/default/services/mine", true },
		{ "GET", "/api/v1/namespaces/default/services/yours", false },
		{ "GET", CONFIGS "/mine", false },
		{ "GET", "/api/v1/namespaces/kube-system/pods/body", false },
		{ "DELETE", SANDBOXES "/yours", false },
		{ "POST", SANDBOXES, false },
	};
	struct rig r;

	rig_init(&r);
	works(make(&r.f, kind_named("ClusterRoleBinding"), "", BINDING("edit"), NULL));
	works(make(&r.f, kind_named("Sandbox"), "default",
		   "{'metadata':{'name':'mine','annotations':{'agents.x-k8s.io/pod-name':'body'}},"
		   "'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'i'}]}}}}",
		   NULL));
	works(make(&r.f, kind_named("Sandbox"), "default", SANDBOX("yours"), NULL));
	become(&r, "{'sandbox':'mine'}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(status_of(&r, rows[i].method, rows[i].path, NULL) != 403, rows[i].may);
	become(&r, "{'sandbox':''}");
	eq_int(status_of(&r, "GET", SANDBOXES "/mine", NULL), 403);
	rig_done(&r);
}

TEST(reviews_tell_what_a_narrowed_token_leaves)
{
	struct rig r;

	rig_init(&r);
	give(&r, BINDING("admin"));
	become(&r, "{'rights':['read']}");
	autofree char *token = take(r.f.token);
	autofree char *body = xasprintf("{\"spec\":{\"token\":\"%s\"}}", token);
	autofree char *for_us = xasprintf(
		"{\"spec\":{\"token\":\"%s\",\"audiences\":[\"x\",\"%s\"]}}", token, r.audience);
	autofree char *for_them = xasprintf(
		"{\"spec\":{\"token\":\"%s\",\"audiences\":[\"https://kubernetes.default.svc\"]}}",
		token);
	autoanswer a = ask(&r.f, "POST", REVIEW, body);
	eq_int(a.status, 201);
	is_true(json_bool(json_at_path(json_root(a.doc), "status.authenticated"), false));
	eq_str(at(&a, "status.user.username"), "cay:agent:default:coder");
	eq_str(at(&a, "status.audiences.0"), r.audience);
	const struct json *extra = json_at_path(json_root(a.doc), "status.user.extra");
	const char *grant = json_str(json_at(json_get(extra, "cay.dev/grant"), 0));
	is_true(str_starts(grant, "{\"rights\":[\"read\"],\"exp\":"));

	/* Whoever passes on what they were told is told what the token leaves. */
	autoptr(json_doc) d = json_doc_new();
	for (int narrowed = 0; narrowed < 2; narrowed++) {
		struct json *ask_for = json_obj(d), *spec = json_need_obj(d, ask_for, "spec");
		struct json *what = json_need_obj(d, spec, "resourceAttributes");
		autofree char *text = NULL;

		json_set_str(d, spec, "user", "cay:agent:default:coder");
		json_set_str(d, what, "verb", "delete");
		json_set_str(d, what, "resource", "pods");
		json_set_str(d, what, "namespace", "default");
		if (narrowed)
			(void)json_set(d, spec, "extra", json_copy(d, extra));
		text = json_to_text(ask_for);
		autoanswer b = ask(&r.f, "POST", MAY, text);
		eq_int(json_bool(json_at_path(json_root(b.doc), "status.allowed"), narrowed),
		       !narrowed);
	}

	autoanswer us = ask(&r.f, "POST", REVIEW, for_us);
	is_true(json_bool(json_at_path(json_root(us.doc), "status.authenticated"), false));
	autoanswer them = ask(&r.f, "POST", REVIEW, for_them);
	is_false(json_bool(json_at_path(json_root(them.doc), "status.authenticated"), true));
	rig_done(&r);
}

/* The tokens that are remembered are few, and the oldest are no more valid than others. */
TEST(many_tokens_are_checked_each)
{
	enum {
		MANY = 1100
	};
	struct identity_claims c;
	struct rig r;

	rig_init(&r);
	c = claims(&r);
	for (int i = 0; i < MANY; i++) {
		use(&r, i % 100 ? r.key : r.second, &c);
		autofree char *body = xasprintf("{\"spec\":{\"token\":\"%s\"}}", r.f.token);
		as_admin(&r);
		autoanswer a = ask(&r.f, "POST", REVIEW, body);
		eq_int(json_bool(json_at_path(json_root(a.doc), "status.authenticated"), false),
		       i % 100 != 0);
	}
	rig_done(&r);
}
