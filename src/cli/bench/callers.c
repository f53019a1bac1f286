/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two who ask to be let into a sandbox: a service account with a role, and an agent with an
 * attachment. Both show a token, so that nothing but what the server makes of it differs.
 */
#include <stdio.h>

#include "api/cay/cay.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/bench/doors_priv.h"
#include "cli/cli.h"
#include "identity/token.h"

enum {
	PARENTS = 3,
	ANSWER_MS = 60000,
	RENEW_S = IDENTITY_TTL_MAX_S - 60,
};

/* All that the ways through the router take; lifecycle is not among it. */
#define RIGHTS "[\"exec\",\"read\",\"write\",\"ports\"]"

/* Objects */

char *callers_path(const struct bench *b, const char *kind)
{
	autofree char *plural = xasprintf("%ss", kind);

	for (char *p = plural; *p; p++)
		*p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
	return xasprintf("/apis/" API_CAY "/namespaces/%s/%s", b->ns, plural);
}

char *callers_body(const char *kind, const char *name, const char *spec)
{
	return xasprintf("{\"apiVersion\":\"" API_CAY
			 "\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\"},\"spec\":%s}",
			 kind, name, spec);
}

struct err *callers_post(struct bench *b, const char *kind, const char *name, const char *spec)
{
	autofree char *path = callers_path(b, kind);
	autofree char *body = callers_body(kind, name, spec);

	return world_ask(b, &(struct ask){ .method = "POST", .path = path, .body = body }, NULL);
}

/* The i-th of the agent's chain: the last is the agent itself. */
static struct err *post_agent(struct bench *b, const struct callers *c, int i, const char *key)
{
	autofree char *parent =
		i ? xasprintf("\"parent\":\"%s-%d\",", c->name, i - 1) : xstrdup("");
	autofree char *name = i < PARENTS ? xasprintf("%s-%d", c->name, i) : xstrdup(c->name);
	autofree char *keys =
		i < PARENTS
			? xstrdup("")
			: xasprintf("\"keys\":[{\"name\":\"main\",\"publicKey\":\"%s\"}],", key);
	autofree char *spec = xasprintf("{%s%s\"sandbox\":{\"mode\":\"UserChooses\"},"
					"\"capabilities\":{\"rights\":" RIGHTS "}}",
					parent, keys);

	return callers_post(b, "Agent", name, spec);
}

static struct err *post_agents(struct bench *b, struct callers *c)
{
	autofree char *spec = xasprintf("{\"agent\":\"%s\",\"sandbox\":\"none\"}", c->name);
	unsigned char public[ED25519_KEY_LEN];
	autofree char *key = NULL;
	struct err *e = NULL;

	c->key = ed25519_new();
	ed25519_public(c->key, public);
	key = base64_encode(public, sizeof(public), false);
	for (int i = 0; !e && i <= PARENTS; i++)
		e = post_agent(b, c, i, key);
	return e ? e : callers_post(b, "Session", c->name, spec);
}

struct err *callers_attach(struct bench *b, const struct callers *c, const char *sandbox)
{
	autofree char *name = xasprintf("%s-%s", c->name, sandbox);
	autofree char *spec = xasprintf(
		"{\"session\":\"%s\",\"sandbox\":\"%s\",\"rights\":" RIGHTS "}", c->name, sandbox);
	autofree char *all = callers_path(b, "Attachment");
	autofree char *path = xasprintf("%s/%s", all, name);
	autofree char *what = xasprintf("Attachment %s", name);
	struct err *e = callers_post(b, "Attachment", name, spec);

	return e ? e : world_ready(b, path, what);
}

static struct err *post_user(struct bench *b, const struct callers *c)
{
	autofree char *accounts = xasprintf("/api/v1/namespaces/%s/serviceaccounts", b->ns);
	autofree char *bindings =
		xasprintf("/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings", b->ns);
	autofree char *account = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\","
					   "\"metadata\":{\"name\":\"%s\"}}",
					   c->name);
	autofree char *binding = xasprintf(
		"{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":\"RoleBinding\","
		"\"metadata\":{\"name\":\"%s\"},\"roleRef\":{\"apiGroup\":\"rbac.authorization.k8s.io\","
		"\"kind\":\"ClusterRole\",\"name\":\"edit\"},\"subjects\":[{\"kind\":\"ServiceAccount\","
		"\"name\":\"%s\",\"namespace\":\"%s\"}]}",
		c->name, c->name, b->ns);
	struct err *e = world_ask(
		b, &(struct ask){ .method = "POST", .path = accounts, .body = account }, NULL);

	return e ? e
		 : world_ask(b,
			     &(struct ask){ .method = "POST", .path = bindings, .body = binding },
			     NULL);
}

/* Tokens */

static void show(struct caller *w, const char *token)
{
	free(w->authorization);
	w->authorization = xasprintf("Bearer %s", token);
	w->api.authorization = w->router.authorization = w->authorization;
}

static struct err *request_token(struct bench *b, struct callers *c)
{
	autofree char *path =
		xasprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", b->ns, c->name);
	autoptr(json_doc) answer = NULL;
	struct err *e =
		world_ask(b,
			  &(struct ask){ .method = "POST",
					 .path = path,
					 .body = "{\"apiVersion\":\"authentication.k8s.io/v1\","
						 "\"kind\":\"TokenRequest\",\"spec\":{}}" },
			  &answer);

	if (!e)
		show(&c->user,
		     str_or(json_str(json_at_path(json_root(answer), "status.token")), ""));
	return e;
}

struct err *callers_renew(struct bench *b, struct callers *c)
{
	const struct identity_claims claims = { .ns = b->ns,
						.agent = c->name,
						.key_name = "main",
						.audience = c->audience,
						.now_s = clock_wall() / 1000000,
						.ttl_s = IDENTITY_TTL_MAX_S,
						.sealed = true };
	autofree char *token = NULL;
	struct err *e;

	if (c->minted && clock_mono() < c->minted + (usec)RENEW_S * 1000000)
		return NULL;
	e = identity_mint(c->key, &claims, &token);
	if (e)
		return err_wrap(e, "mint a token");
	c->minted = clock_mono();
	show(&c->agent, token);
	return NULL;
}

/* Connections */

static void caller_init(struct bench *b, struct caller *w, const char *name)
{
	w->name = name;
	w->api = b->api;
	w->router = b->router;
	w->router.stranger = true;
	lane_init(&w->to_api, &w->api);
	lane_init(&w->to_router, &w->router);
}

static void caller_done(struct caller *w)
{
	if (!w->name)
		return;
	lane_done(&w->to_api);
	lane_done(&w->to_router);
	free(w->authorization);
}

/* A router that lets in whoever comes asks the gate nothing. */
static struct err *check_router(struct bench *b, const char *sandbox)
{
	struct api nobody = b->router;
	struct call c = { 0 };
	struct lane lane;
	struct err *e;

	if (!*b->router.addr)
		return NULL;
	nobody.stranger = true;
	lane_init(&lane, &nobody);
	call_start(&c, &lane,
		   &(struct ask){ .method = "GET", .path = "/", .sandbox = sandbox, .ns = b->ns });
	e = bench_until(b, &c.over, ANSWER_MS);
	if (!e && c.err)
		e = err_wrap(err_copy(c.err),
			     "ask the router at %s (--router names another; if it is empty, only "
			     "the API is measured)",
			     b->router.addr);
	else if (!e && c.status != 401)
		e = err_new(ERR_UNSUPPORTED,
			    "the router lets us in without a token (status %d), so it would not "
			    "ask who an agent is: run this as root, or as a user whom it does not "
			    "trust",
			    c.status);
	call_done(&c);
	lane_done(&lane);
	return e;
}

struct err *callers_open(struct bench *b, const char *name, struct callers *ret)
{
	struct err *e = cli_audience(settings_text(b->settings, "kubeconfig"), &ret->audience);

	ret->name = name;
	caller_init(b, &ret->user, "user");
	caller_init(b, &ret->agent, "agent");
	if (!e)
		e = world_sandbox(b, name, NULL);
	if (!e)
		e = post_user(b, ret);
	if (!e)
		e = request_token(b, ret);
	if (!e)
		e = post_agents(b, ret);
	if (!e)
		e = callers_attach(b, ret, name);
	if (!e)
		e = callers_renew(b, ret);
	return e ? e : check_router(b, name);
}

void callers_close(struct callers *c)
{
	caller_done(&c->user);
	caller_done(&c->agent);
	ed25519_free(c->key);
	free(c->audience);
}
