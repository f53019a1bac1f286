/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "crypto/crypto.h"
#include "fixture.h"
#include "kinds.h"
#include "tls/tls.h"

/* Who asks, and what they may: tokens and grants. */

static void start(struct fixture *f)
{
	fixture_init(f);
	fixture_listen(f);
}

TEST(a_bad_token_is_unauthorized)
{
	static const char *const headers[] = { "Authorization: Bearer abc\r\n",
					       "Authorization: Bearer a.b.c\r\n",
					       "Authorization: Basic YTpi\r\n",
					       "Authorization: Bearer\r\n" };
	struct fixture f;

	start(&f);
	f.anonymous = true;
	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		f.headers = headers[i];
		autoanswer a = ask(&f, "GET", "/healthz", NULL);
		eq_int(a.status, 401);
		eq_str(at(&a, "reason"), "Unauthorized");
	}
	fixture_done(&f);
}

#define TOKEN(name) "/api/v1/namespaces/default/serviceaccounts/" name "/token"

/* From now on requests carry a token of this account. */
static void become(struct fixture *f, const char *path, const char *body)
{
	free(take(f->token));
	autoanswer t = ask(f, "POST", path, body);
	eq_int(t.status, 201);
	f->token = xstrdup(at(&t, "status.token"));
}

TEST(a_service_account_has_no_rights_but_those_of_its_role)
{
	enum {
		N_ROLES = 4
	};
	static const char *const roles[N_ROLES] = { NULL, "default/default=view",
						    "a/b=view, default/default=edit,",
						    "default/default=admin" };
	static const struct {
		const char *method, *path;
		int status[N_ROLES]; /* by role */
	} rows[] = {
		{ "GET", "/api", { 200, 200, 200, 200 } },
		{ "GET", "/apis/agents.x-k8s.io/v1beta1", { 200, 200, 200, 200 } },
		{ "GET", "/metrics", { 403, 403, 403, 403 } },
		{ "GET", "/api/v1/namespaces/default", { 403, 200, 200, 200 } },
		{ "GET", "/api/v1/namespaces/default/pods", { 403, 200, 200, 200 } },
		{ "GET", "/api/v1/namespaces/default/pods/p", { 403, 404, 404, 404 } },
		{ "GET", "/api/v1/namespaces/default/pods/p/log", { 403, 404, 404, 404 } },
		{ "GET", "/api/v1/namespaces/default/pods/p/status", { 403, 404, 404, 404 } },
		{ "GET", "/api/v1/namespaces/default/pods/p/exec", { 403, 403, 404, 404 } },
		{ "POST", "/api/v1/namespaces/default/pods/p/portforward", { 403, 403, 404, 404 } },
		{ "PATCH", "/api/v1/namespaces/default/pods/p/resize", { 403, 403, 415, 415 } },
		{ "PATCH",
		  "/api/v1/namespaces/default/pods/p/ephemeralcontainers",
		  { 403, 403, 415, 415 } },
		{ "POST", "/api/v1/namespaces/default/pods/p/eviction", { 403, 403, 404, 404 } },
		{ "GET", "/api/v1/namespaces/default/secrets", { 403, 403, 200, 200 } },
		{ "GET",
		  "/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1",
		  { 403, 403, 200, 200 } },
		{ "DELETE", CONFIGS "/c", { 403, 403, 404, 404 } },
		{ "DELETE", "/api/v1/namespaces/default", { 403, 403, 403, 403 } },
		{ "PATCH", "/api/v1/namespaces/default/pods/p/status", { 403, 403, 403, 403 } },
		{ "POST", TOKEN("default"), { 403, 403, 403, 201 } },
		{ "GET", "/api/v1/pods", { 403, 403, 403, 403 } },
		{ "GET", "/api/v1/nodes", { 403, 403, 403, 403 } },
		{ "GET", "/api/v1/namespaces/kube-system", { 403, 403, 403, 403 } },
		{ "GET", "/api/v1/namespaces/kube-system/pods", { 403, 403, 403, 403 } },
	};
	struct fixture f;

	for (size_t role = 0; role < N_ROLES; role++) {
		fixture_init(&f);
		fixture_close(&f);
		f.grants = roles[role];
		works(fixture_open(&f));
		fixture_listen(&f);
		become(&f, TOKEN("default"), "{}");
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			bool reads = str_eq(rows[i].method, "GET");
			autoanswer a = ask(&f, rows[i].method, rows[i].path, reads ? NULL : "{}");

			if (a.status != rows[i].status[role])
				print_message("role %zu: %s %s\n", role, rows[i].method,
					      rows[i].path);
			eq_int(a.status, rows[i].status[role]);
		}
		fixture_done(&f);
	}
}

/* The router asks with the header that it was sent. */
TEST(whoever_may_exec_says_so_in_an_authorization_header)
{
	static const struct {
		const char *scheme, *ns;
		bool valid;
		enum err_code code; /* ERR_CODE_MAX_: allowed */
	} rows[] = {
		{ "Bearer ", "default", true, ERR_CODE_MAX_ },
		{ "  bEARER   ", "default", true, ERR_CODE_MAX_ },
		{ "Bearer ", "kube-system", true, ERR_FORBIDDEN },
		{ "Bearer ", "default", false, ERR_UNAUTHENTICATED },
		{ "Basic ", "default", true, ERR_UNAUTHENTICATED },
		{ "Bearer", "default", true, ERR_UNAUTHENTICATED },
		{ "", "default", true, ERR_UNAUTHENTICATED },
	};
	struct fixture f;
	char *user = NULL;

	fixture_init(&f);
	fixture_close(&f);
	f.grants = "default/default=edit";
	works(fixture_open(&f));
	fixture_listen(&f);
	become(&f, TOKEN("default"), "{}");
	fails(server_may_enter(f.server, NULL, &(struct server_entry){ "default", "p", "exec" },
			       &user),
	      ERR_UNAUTHENTICATED);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *header =
			xasprintf("%s%s", rows[i].scheme, rows[i].valid ? f.token : "nonsense");
		struct err *e = server_may_enter(
			f.server, header, &(struct server_entry){ rows[i].ns, "p", "exec" }, &user);

		if (rows[i].code == ERR_CODE_MAX_)
			works(e);
		else
			fails(e, rows[i].code);
		eq_str(user, rows[i].code == ERR_UNAUTHENTICATED
				     ? NULL
				     : "system:serviceaccount:default:default");
		free(take(user));
	}
	fixture_done(&f);
}

TEST(a_grant_that_is_none_is_an_error_at_start)
{
	static const char *const bad[] = { "default=view",   "default/a=root",    "default/a",
					   "/a=view",        "default/=view",     "a/b/c=view",
					   "a/b=view=x",     "a/b=view,a/b=edit", "*/a=view",
					   "default/*=view", "*=admin",           "a/B=view" };
	struct fixture f;

	start(&f);
	fixture_close(&f);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		f.grants = bad[i];
		fails(fixture_open(&f), ERR_INVALID);
	}
	f.grants = NULL;
	works(fixture_open(&f));
	fixture_done(&f);
}

static char *sa_key(const struct fixture *f)
{
	autofree char *path = xasprintf("%s/sa.key", f->dir);
	char *text;
	size_t len;

	works(file_read(AT_FDCWD, path, 65536, &text, &len));
	return text;
}

/* A token of the default account with these claims, exp and nbf relative to now, signed with key.
 */
struct forged {
	const char *issuer, *audience;
	int exp, nbf;
	const char *key;
};
static char *forge(struct fixture *f, const struct forged *p)
{
	autoptr(object) sa = look(f, kind_named("ServiceAccount"), "default", "default");
	long long now = clock_wall() / 1000000;
	autofree char *text = xasprintf(
		"{\"iss\":\"%s\",\"aud\":[\"%s\"],\"exp\":%lld,\"nbf\":%lld,\"kubernetes.io\":"
		"{\"namespace\":\"default\",\"serviceaccount\":{\"name\":\"default\","
		"\"uid\":\"%s\"}}}",
		p->issuer, p->audience, now + p->exp, now + p->nbf, sa->uid);
	char *token;

	works(tls_token_sign(p->key, text, &token));
	return token;
}

TEST(only_a_token_of_this_server_that_is_in_time_is_valid)
{
	const char *us = "https://kubernetes.default.svc";
	struct fixture f;

	start(&f);
	autofree char *key = sa_key(&f), *other = NULL;
	works(signing_key_make(&other));
	const struct {
		struct forged p;
		int status;
	} rows[] = {
		{ { us, us, 600, 0, key }, 200 },
		{ { us, us, 0, -600, key }, 401 }, /* expires this second */
		{ { us, us, -1, -600, key }, 401 },
		{ { us, us, 600, 60, key }, 401 }, /* not valid yet */
		{ { "https://other", us, 600, 0, key }, 401 },
		{ { us, "https://other", 600, 0, key }, 401 },
		{ { us, us, 600, 0, other }, 401 }, /* which also has another kid */
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		free(take(f.token));
		f.token = forge(&f, &rows[i].p);
		autoanswer a = ask(&f, "GET", "/api", NULL);
		eq_int(a.status, rows[i].status);
	}
	fixture_done(&f);
}

TEST(the_bearer_of_a_token_chooses_no_algorithm)
{
	static const char *const heads[] = { "{\"alg\":\"none\"}",
					     "{\"alg\":\"HS256\",\"kid\":\"%s\"}",
					     "{\"alg\":\"ES256\",\"kid\":\"other\"}",
					     "{\"alg\":\"ES256\"}" };
	struct fixture f;

	start(&f);
	become(&f, TOKEN("default"), "{}");
	autofree char *good = xstrdup(f.token);
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		autofree char *head = base64_encode(heads[i], strlen(heads[i]), true);

		free(take(f.token));
		f.token = xasprintf("%s%s", head, strchr(good, '.'));
		autoanswer a = ask(&f, "GET", "/api", NULL);
		eq_int(a.status, 401);
		*strrchr(f.token, '.') = '\0'; /* no signature at all */
		autoanswer b = ask(&f, "GET", "/api", NULL);
		eq_int(b.status, 401);
	}
	/* Another signature */
	free(take(f.token));
	f.token = xstrdup(good);
	f.token[strlen(good) - 10] = good[strlen(good) - 10] == 'A' ? 'B' : 'A';
	autoanswer c = ask(&f, "GET", "/api", NULL);
	eq_int(c.status, 401);
	fixture_done(&f);
}

#define POD(name)                                                                   \
	"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'" name                 \
	"'},'spec':{'containers':[{'name':'c','image':'i'}],'serviceAccountName':'" \
	"default'}}"
#define BOUND(name) "{\"spec\":{\"boundObjectRef\":{\"kind\":\"Pod\",\"name\":\"" name "\"}}}"

TEST(a_token_ends_with_what_it_names)
{
	const struct client_delete_spec now = { .grace_s = 0 };
	struct fixture f;

	start(&f);
	works(make(&f, kind_named("Pod"), "default", POD("p"), NULL));
	become(&f, TOKEN("default"), BOUND("p"));
	autoanswer a = ask(&f, "GET", "/api", NULL);
	eq_int(a.status, 200);
	/* A Pod of the same name is another Pod. */
	works(drop(&f, kind_named("Pod"), "default", "p", &now));
	works(make(&f, kind_named("Pod"), "default", POD("p"), NULL));
	settle(&f);
	autoanswer b = ask(&f, "GET", "/api", NULL);
	eq_int(b.status, 401);
	become(&f, TOKEN("default"), "{}");
	works(drop(&f, kind_named("ServiceAccount"), "default", "default", NULL));
	settle(&f);
	autoanswer c = ask(&f, "GET", "/api", NULL);
	eq_int(c.status, 401);
	fixture_done(&f);
}

TEST(a_token_gets_no_better_token)
{
	struct fixture f;

	fixture_init(&f);
	fixture_close(&f);
	f.grants = "default/default=admin";
	works(fixture_open(&f));
	fixture_listen(&f);
	works(make(&f, kind_named("Pod"), "default", POD("p"), NULL));
	works(make(&f, kind_named("Pod"), "default", POD("q"), NULL));
	works(make(&f, kind_named("ServiceAccount"), "default", "{'metadata':{'name':'other'}}",
		   NULL));
	settle(&f);
	autoanswer n = ask(&f, "POST", TOKEN("other"), BOUND("p"));
	eq_int(n.status, 400); /* the Pod has another account */

	become(&f, TOKEN("default"), "{\"spec\":{\"expirationSeconds\":900}}");
	autoanswer a = ask(&f, "POST", TOKEN("default"), "{\"spec\":{\"expirationSeconds\":7200}}");
	eq_int(a.status, 201);
	is_true(int_at(&a, "spec.expirationSeconds") <= 900);
	autoanswer b = ask(&f, "POST", TOKEN("other"), "{\"spec\":{\"expirationSeconds\":7200}}");
	is_true(int_at(&b, "spec.expirationSeconds") <= 900);

	become(&f, TOKEN("default"), BOUND("p"));
	autoanswer c = ask(&f, "POST", TOKEN("default"), "{}");
	eq_int(c.status, 403);
	autoanswer d = ask(&f, "POST", TOKEN("default"), BOUND("q"));
	eq_int(d.status, 403);
	autoanswer e = ask(&f, "POST", TOKEN("default"), BOUND("p"));
	eq_int(e.status, 201);
	fixture_done(&f);
}

TEST(token_requests_are_checked)
{
	struct fixture f;

	start(&f);
	autoanswer a =
		ask(&f, "POST", "/api/v1/namespaces/default/serviceaccounts/none/token", "{}");
	eq_int(a.status, 404);
	autoanswer b = ask(&f, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token",
			   "{\"spec\":{\"expirationSeconds\":5}}");
	eq_int(b.status, 422);
	eq_str(at(&b, "details.causes.0.field"), "spec.expirationSeconds");
	autoanswer c = ask(&f, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token",
			   "{\"spec\":{\"audiences\":[\"elsewhere\"]}}");
	eq_int(c.status, 201);
	f.token = xstrdup(at(&c, "status.token"));
	autoanswer d = ask(&f, "GET", "/api", NULL);
	eq_int(d.status, 401);
	fixture_done(&f);
}
