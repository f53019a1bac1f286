/* SPDX-License-Identifier: Apache-2.0 */
#include "router/callers/reviews.h"

#include <assert.h>

#include "api/agents.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/view_sandbox.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "client/client.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "router/callers/reviews_priv.h"
#include "router/router.h"

/*
 * A review is one question to the API server and its answer. Requests that need the answer wait in
 * the review; when it is there, the router asks for each of them again, and finds it:
 *
 *   request → access known? → yes/no
 *                | no
 *             token known? → ask TokenReview, wait, from the start
 *                | yes
 *             ask SubjectAccessReview, wait, from the start
 *
 * An answer is used at once by those who waited for it, so no limit on what is remembered can make
 * a request go round in circles.
 */
enum {
	ASK_MS = 3000,
	UNDER_WAY_MAX = 256, /* strangers can make us ask at will */
	FAILURE_MIN_MS = 1000,
	KEY_LEN = 2 + 2 * SHA256_LEN, /* a letter, the digest as hex, and its NUL */
};

enum review_state {
	REVIEW_ASKING,
	REVIEW_YES,
	REVIEW_NO,
	REVIEW_FAILED,
	REVIEW_STATE_MAX_,
};

struct review {
	struct client_write write;
	struct reviews *rs;
	char key[KEY_LEN];
	struct list link;       /* in reviews.asking or reviews.known */
	struct list waiting;    /* requests, while asking */
	struct timer *deadline; /* while asking */
	enum review_state state;
	usec until;
	struct json_doc *who; /* of a token that is valid: its user */
	char *user;           /* the name of whom it is about, for the record; NULL: nobody's */
};

struct reviews {
	struct loop *loop;
	struct client *client;
	struct router *router;
	const struct kind *sandboxes;
	struct kind *token_reviews, *access_reviews;
	struct reviews_spec spec;
	struct map *all;    /* key → struct review; borrows the keys */
	struct list asking; /* struct review.link */
	struct list known;  /* the same; the one that was used last is last */
	struct reviews_stats stats;
	usec quiet_until; /* failures are not logged: strangers cause them at will */
};

static void review_free(struct review *rv)
{
	assert(list_empty(&rv->waiting));
	client_cancel(&rv->write);
	list_del(&rv->link);
	timer_free(rv->deadline);
	json_doc_free(rv->who);
	free(rv->user);
	free(rv);
}

static void forget(struct reviews *rs, struct review *rv)
{
	(void)map_take(rs->all, rv->key);
	review_free(rv);
}

static uint64_t memory_ms(const struct reviews *rs, enum review_state state)
{
	if (state != REVIEW_FAILED)
		return rs->spec.ttl_ms;
	return MAX(rs->spec.ttl_ms / 3, (uint64_t)FAILURE_MIN_MS);
}

/* The answer is there. rv may be gone afterwards. */
static void settle(struct review *rv, enum review_state state)
{
	struct reviews *rs = rv->rs;

	assert(rv->state == REVIEW_ASKING);
	rv->state = state;
	rv->until = clock_mono() + (usec)memory_ms(rs, state) * 1000;
	rs->stats.under_way--;
	timer_free(take(rv->deadline));
	list_del(&rv->link);
	list_add_tail(&rs->known, &rv->link);
	router_resume(rs->router, &rv->waiting);
	while (map_len(rs->all) - rs->stats.under_way > rs->spec.max)
		forget(rs, list_first(&rs->known, struct review, link));
}

/* Takes e over. rv may be gone afterwards. */
static void on_failed(struct review *rv, struct err *e)
{
	usec now = clock_mono();

	if (now >= rv->rs->quiet_until) {
		log_warn("the API server did not answer about a caller, requests fail",
			 KV("err", e));
		rv->rs->quiet_until = now + FAILURE_MIN_MS * 1000;
	}
	err_free(e);
	settle(rv, REVIEW_FAILED);
}

static void on_late(void *arg)
{
	struct review *rv = arg;

	client_cancel(&rv->write);
	on_failed(rv, err_new(ERR_TIMEOUT, "no answer within %u ms", rv->rs->spec.ask_ms));
}

static void on_token(struct client_write *w, struct err *e, struct object *o)
{
	struct review *rv = container_of(w, struct review, write);

	if (e) {
		on_failed(rv, e);
		return;
	}
	rv->who = review_read_token(o->root, rv->rs->spec.audiences);
	if (rv->who)
		rv->user = xstrdup(json_get_str(json_root(rv->who), "username"));
	settle(rv, rv->who ? REVIEW_YES : REVIEW_NO);
}

static void on_access(struct client_write *w, struct err *e, struct object *o)
{
	struct review *rv = container_of(w, struct review, write);

	if (e)
		on_failed(rv, e);
	else
		settle(rv, review_read_access(o->root) ? REVIEW_YES : REVIEW_NO);
}

/* NULL: too many are under way. Takes body over. */
static struct review *ask(struct reviews *rs, const char *key, const struct kind *kind,
			  struct json_doc *body)
{
	struct review *rv;

	if (rs->stats.under_way >= UNDER_WAY_MAX) {
		json_doc_free(body);
		return NULL;
	}
	rv = xnew(struct review);
	rv->rs = rs;
	rv->write.done = kind == rs->token_reviews ? on_token : on_access;
	(void)snprintf(rv->key, sizeof(rv->key), "%s", key);
	list_init(&rv->waiting);
	list_init(&rv->link);
	list_add_tail(&rs->asking, &rv->link);
	map_put(rs->all, rv->key, rv);
	rv->deadline = timer_new(rs->loop, on_late, rv);
	timer_set(rv->deadline, rs->spec.ask_ms);
	rs->stats.under_way++;
	rs->stats.asked++;
	client_create(rs->client, &(struct client_ref){ .kind = kind }, body, &rv->write);
	return rv;
}

/* What is known under the key, or being asked; NULL: nothing, or no longer. */
static struct review *recall(struct reviews *rs, const char *key)
{
	struct review *rv = map_get(rs->all, key);

	if (!rv)
		return NULL;
	if (rv->state == REVIEW_ASKING)
		return rv;
	if (clock_mono() > rv->until) {
		forget(rs, rv);
		return NULL;
	}
	rs->stats.remembered++;
	list_del(&rv->link);
	list_add_tail(&rs->known, &rv->link);
	return rv;
}

/* Who asks: what keys are made of, and a token or a certificate. */
struct guest {
	char digest[2 * SHA256_LEN + 1];
	char *token;      /* NULL: he has a certificate */
	const char *user; /* that it names: a SPIFFE ID, else a DNS name, else the common name */
	const char *const *groups;
};

static void digest_of(const char *const *parts, char ret[2 * SHA256_LEN + 1])
{
	autoptr(sha256) s = sha256_new();
	unsigned char sum[SHA256_LEN];

	for (; *parts; parts++)
		sha256_add(s, *parts, strlen(*parts) + 1); /* the NUL ends each part */
	sha256_end(s, sum);
	hex_encode(sum, sizeof(sum), ret);
}

static void identify_named(struct guest *g)
{
	autofree const char **parts = NULL;
	size_t n = 0;

	while (g->groups[n])
		n++;
	parts = xnew_n(const char *, n + 3);
	parts[0] = "certificate";
	parts[1] = g->user;
	memcpy(parts + 2, g->groups, n * sizeof(*parts));
	digest_of(parts, g->digest);
}

/* False: nobody says who it is. */
static bool identify(const struct router_ask *a, struct guest *g)
{
	struct span token;

	if (http_bearer(http_request_header(a->request, "Authorization"), &token))
		g->token = xstrndup(token.p, token.len);
	g->user = a->user_alt ? a->user_alt : a->user;
	g->groups = a->groups;
	if (g->token)
		digest_of((const char *const[]){ "token", g->token, NULL }, g->digest);
	else if (g->user)
		identify_named(g);
	return g->token || g->user;
}

/* What a review that is settled says; NULL: yes. */
static struct err *verdict(const struct review *rv)
{
	bool of_token = rv->key[0] == 't';

	switch (rv->state) {
	case REVIEW_YES:
		return NULL;
	case REVIEW_NO:
		return of_token ? err_new(ERR_UNAUTHENTICATED, "unauthenticated")
				: err_new(ERR_FORBIDDEN, "forbidden");
	case REVIEW_FAILED:
		return err_new(ERR_UNAVAILABLE, "%s: the API server gave no answer",
			       of_token ? "tokenreview" : "subjectaccessreview");
	case REVIEW_ASKING:
	case REVIEW_STATE_MAX_:
		break;
	}
	assert(!"a review that is not settled");
	return NULL;
}

/* Waits for rv, or says what it says, and of whom. NULL rv: it could not be asked. */
static struct err *await(const struct router_ask *a, struct review *rv, struct list **ret_wait)
{
	if (!rv)
		return err_new(ERR_EXHAUSTED, "too many callers are being checked");
	if (rv->user)
		router_ask_is(a, "%s", rv->user);
	if (rv->state != REVIEW_ASKING)
		return verdict(rv);
	*ret_wait = &rv->waiting;
	return NULL;
}

/* The review of a guest's token, settled or not; NULL: it could not be asked. */
static struct review *token_review(struct reviews *rs, const struct guest *g)
{
	char key[KEY_LEN];
	struct review *rv;

	(void)snprintf(key, sizeof(key), "t%s", g->digest);
	rv = recall(rs, key);
	return rv ? rv
		  : ask(rs, key, rs->token_reviews, review_token(g->token, rs->spec.audiences));
}

static char *pod_of(struct reviews *rs, const struct router_ask *a)
{
	autoptr(object) sb = client_get(rs->client, rs->sandboxes, a->ns, a->sandbox);

	return xstrdup(sb ? sandbox_view(sb)->pod_name : a->sandbox);
}

static struct err *check_access(struct reviews *rs, const struct router_ask *a,
				const struct guest *g, struct list **ret_wait)
{
	autofree char *pod = pod_of(rs, a), *user = NULL;
	const struct review_object what = { a->ns, pod };
	char digest[2 * SHA256_LEN + 1], key[KEY_LEN];
	struct review *rv, *token;

	digest_of((const char *const[]){ g->digest, a->ns, pod, NULL }, digest);
	(void)snprintf(key, sizeof(key), "a%s", digest);
	rv = recall(rs, key);
	if (rv)
		return await(a, rv, ret_wait);
	token = g->token ? token_review(rs, g) : NULL;
	if (g->token && (!token || token->state != REVIEW_YES))
		return await(a, token, ret_wait);
	user = xstrdup(token ? token->user : g->user);
	rv = ask(rs, key, rs->access_reviews,
		 token ? review_access(json_root(token->who), &what)
		       : review_access_named(g->user, g->groups, &what));
	if (rv)
		rv->user = take(user);
	return await(a, rv, ret_wait);
}

static struct err *check(struct reviews *rs, const struct router_ask *a, const struct guest *g,
			 struct list **ret_wait)
{
	switch (rs->spec.mode) {
	case REVIEWS_ALLOW:
		return NULL;
	case REVIEWS_TOKEN:
		return g->token ? await(a, token_review(rs, g), ret_wait) : NULL;
	case REVIEWS_RBAC:
		return check_access(rs, a, g, ret_wait);
	case REVIEWS_NOBODY:
		return err_new(ERR_UNAUTHENTICATED, "unauthenticated");
	case REVIEWS_MODE_MAX_:
		break;
	}
	assert(!"unknown mode");
	return NULL;
}

static struct err *decide(void *arg, const struct router_ask *a, struct list **ret_wait)
{
	struct reviews *rs = arg;
	struct guest g = { 0 };
	bool known = identify(a, &g);
	bool needed = rs->spec.mode == REVIEWS_RBAC ||
		      (rs->spec.mode == REVIEWS_TOKEN && !rs->spec.token_optional);
	struct err *e;

	if (g.user && !g.token)
		router_ask_is(a, "%s", g.user);
	if (needed && !known)
		e = err_new(ERR_UNAUTHENTICATED, "unauthenticated");
	else
		e = check(rs, a, &g, ret_wait);
	if (g.token)
		explicit_bzero(g.token, strlen(g.token));
	free(g.token);
	return e;
}

struct reviews *reviews_new(struct loop *l, struct client *c, const struct reviews_spec *spec)
{
	static const struct kind token_review = { .group = "authentication.k8s.io",
						  .version = "v1",
						  .api_version = "authentication.k8s.io/v1",
						  .kind = "TokenReview",
						  .plural = "tokenreviews",
						  .flags = KIND_URGENT | KIND_BRIEF };
	static const struct kind access_review = { .group = "authorization.k8s.io",
						   .version = "v1",
						   .api_version = "authorization.k8s.io/v1",
						   .kind = "SubjectAccessReview",
						   .plural = "subjectaccessreviews",
						   .flags = KIND_URGENT | KIND_BRIEF };
	struct reviews *rs = xnew(struct reviews);

	rs->loop = l;
	rs->client = c;
	rs->spec = *spec;
	if (!rs->spec.ask_ms)
		rs->spec.ask_ms = ASK_MS;
	rs->sandboxes = kinds_need(client_kinds(c), API_SANDBOX, "Sandbox");
	rs->token_reviews = kind_new(&token_review);
	rs->access_reviews = kind_new(&access_review);
	rs->all = map_new_borrowing(NULL);
	list_init(&rs->asking);
	list_init(&rs->known);
	return rs;
}

void reviews_guard(struct reviews *rs, struct router *r)
{
	rs->router = r;
	router_set_policy(r, decide, rs);
}

void reviews_free(struct reviews *rs)
{
	if (!rs)
		return;
	while (!list_empty(&rs->asking))
		forget(rs, list_first(&rs->asking, struct review, link));
	while (!list_empty(&rs->known))
		forget(rs, list_first(&rs->known, struct review, link));
	map_free(rs->all);
	kind_unref(rs->token_reviews);
	kind_unref(rs->access_reviews);
	free(rs);
}

void reviews_stats(const struct reviews *rs, struct reviews_stats *ret)
{
	*ret = rs->stats;
	ret->known = map_len(rs->all) - rs->stats.under_way;
}
