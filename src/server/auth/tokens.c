/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/token.h"
#include "crypto/crypto.h"
#include "identity/token.h"
#include "json/json.h"
#include "server/auth/auth_priv.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "tls/tls.h"

/*
 * Service-account tokens: JWTs that only this server signs and accepts. A token is valid while its
 * signature, times and audience are, and the account it names (and the Pod it is bound to) still
 * exists with the same uid. Valid signatures are remembered by the token's hash, since checking one
 * costs more than the rest of a small request.
 */
enum {
	REMEMBER_MAX = 4096,
	TOKEN_LEN_MAX = 8192,
	EXPIRE_S = 3600,
	EXPIRE_MIN_S = 600,
	EXPIRE_MAX_S = 365 * 24 * 3600,
	AUDIENCES_MAX = 16,
	DELETED_S = 60,
};

static void claims_free(void *value)
{
	json_doc_free(value);
}

void tokens_init(struct tokens *t, const struct objects *objects, const char *key)
{
	*t = (struct tokens){ .objects = objects, .key = key, .known = map_new(claims_free) };
	agent_tokens_init(&t->agents);
}

struct err *tokens_set_instance(struct tokens *t, const char *ca_pem)
{
	unsigned char id[SHA256_LEN];
	struct err *e = tls_cert_key_id(ca_pem, id);

	if (e)
		return e;
	free(t->agents.audience);
	t->agents.audience = identity_audience(id);
	return NULL;
}

void tokens_done(struct tokens *t)
{
	map_free(take(t->known));
	agent_tokens_done(&t->agents);
	free(take(t->agents.audience));
}

static struct err *claims_verified(struct tokens *t, const char *token, struct json_doc **ret)
{
	autofree char *text = NULL;
	struct err *e = tls_token_verify(t->key, token, &text);

	if (e)
		return e;
	return json_parse(text, strlen(text), NULL, ret);
}

static struct err *claims_of(struct tokens *t, const char *token, const struct json **ret)
{
	unsigned char hash[32];
	char hex[65];
	struct json_doc *d;
	struct err *e;

	if (strlen(token) > TOKEN_LEN_MAX)
		return err_new(ERR_UNAUTHENTICATED, "check token: token is longer than %d bytes",
			       TOKEN_LEN_MAX);
	sha256(token, strlen(token), hash);
	hex_encode(hash, sizeof(hash), hex);
	d = map_get(t->known, hex);
	if (!d) {
		e = claims_verified(t, token, &d);
		if (e)
			return e;
		if (map_len(t->known) >= REMEMBER_MAX) {
			map_free(t->known);
			t->known = map_new(claims_free);
		}
		map_put(t->known, hex, d);
	}
	*ret = json_root(d);
	return NULL;
}

/* wanted NULL: this server alone. */
static bool is_wanted(const struct json *wanted, const char *audience)
{
	if (!wanted)
		return str_eq(audience, TOKEN_ISSUER);
	json_each(it, wanted)
		if (str_eq(json_str(it.val), audience))
			return true;
	return false;
}

/* Those of the token's audiences that are wanted, in the arena; NULL: none is. */
static const char **audiences_of(struct arena *a, const struct json *aud, const struct json *wanted)
{
	const char **list = arena_new_n(a, const char *, json_len(aud) + 2);
	size_t n = 0;

	if (json_str(aud) && is_wanted(wanted, json_str(aud)))
		list[n++] = arena_strdup(a, json_str(aud));
	json_each(it, aud)
		if (json_str(it.val) && is_wanted(wanted, json_str(it.val)))
			list[n++] = arena_strdup(a, json_str(it.val));
	return n ? list : NULL;
}

static bool in_time(const struct json *claims)
{
	int64_t now = clock_wall() / 1000000;

	return (json_get_int(claims, "exp", 0) > now || !wall_stands("token-expiry")) &&
	       json_get_int(claims, "nbf", 0) <= now + 10;
}

/* Its time to end was over a minute ago: only something else holds the object. */
static bool as_good_as_gone(const struct object *o)
{
	const char *text = json_get_str(json_get(o->root, "metadata"), "deletionTimestamp");
	usec when = 0;

	if (!text)
		return false;
	err_free(clock_parse(text, &when));
	return when + (usec)DELETED_S * 1000000 < clock_wall();
}

static bool still_there(const struct objects *os, const struct kind *k, const char *ns,
			const struct json *ref)
{
	const char *name = json_get_str(ref, "name");
	const struct object *o = name && ns ? objects_find(os, k, ns, name) : NULL;

	return o && str_eq(o->uid, json_get_str(ref, "uid")) && !as_good_as_gone(o);
}

/* What Kubernetes tells of a token beside whose it is. */
static void add_extra(struct arena *a, const struct json *claims, struct user *u)
{
	static const struct {
		const char *object, *member, *key;
	} rows[] = {
		{ "node", "name", "authentication.kubernetes.io/node-name" },
		{ "node", "uid", "authentication.kubernetes.io/node-uid" },
		{ "pod", "name", "authentication.kubernetes.io/pod-name" },
		{ "pod", "uid", "authentication.kubernetes.io/pod-uid" },
	};
	const struct json *k8s = json_get(claims, "kubernetes.io");
	struct user_extra *list = arena_new_n(a, struct user_extra, ARRAY_LEN(rows) + 1);
	const char *id = json_get_str(claims, "jti");

	if (id)
		list[u->n_extra++] =
			(struct user_extra){ "authentication.kubernetes.io/credential-id",
					     arena_printf(a, "JTI=%s", id) };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *value = json_get_str(json_get(k8s, rows[i].object), rows[i].member);

		if (value)
			list[u->n_extra++] =
				(struct user_extra){ rows[i].key, arena_strdup(a, value) };
	}
	u->extra = list;
}

static void user_of_account(struct arena *a, const struct json *claims, struct user *ret)
{
	const struct json *k8s = json_get(claims, "kubernetes.io");
	const struct json *sa = json_get(k8s, "serviceaccount");
	const char *ns = json_get_str(k8s, "namespace");
	const char **groups = arena_new_n(a, const char *, 4);

	groups[0] = "system:serviceaccounts";
	groups[1] = arena_printf(a, "system:serviceaccounts:%s", ns);
	groups[2] = "system:authenticated";
	*ret = (struct user){
		.name = arena_printf(a, "system:serviceaccount:%s:%s", ns,
				     json_get_str(sa, "name")),
		.uid = arena_strdup(a, json_get_str(sa, "uid")),
		.groups = groups,
		.sa_ns = arena_strdup(a, ns),
		.expires = json_get_int(claims, "exp", 0),
		.renewed = true,
		.pod_uid = arena_strdup(a, json_get_str(json_get(k8s, "pod"), "uid")),
	};
	add_extra(a, claims, ret);
}

struct err *token_check(struct tokens *t, struct call *c, const char *token,
			const struct json *audiences, struct token_owner *ret)
{
	const struct objects *os = t->objects;
	const struct json *claims = NULL, *k8s, *pod;
	const char *ns;
	struct err *e;

	if (identity_token_looks_so(token))
		return agent_token_check(t, c, token, audiences, ret);
	e = claims_of(t, token, &claims);
	if (e)
		return e;
	k8s = json_get(claims, "kubernetes.io");
	ns = json_get_str(k8s, "namespace");
	pod = json_get(k8s, "pod");
	ret->audiences = audiences_of(c->arena, json_get(claims, "aud"), audiences);
	if (!str_eq(json_get_str(claims, "iss"), TOKEN_ISSUER) || !ret->audiences)
		return err_new(ERR_UNAUTHENTICATED,
			       "check token: issuer or audience is not the one that is wanted");
	if (!in_time(claims))
		return err_new(ERR_UNAUTHENTICATED,
			       "check token: token has expired or is not valid yet");
	if (json_get(claims, TOKEN_PAGE)) {
		e = page_token_user(c->arena, claims, &ret->user);
		return e ? e : credential_check(os, ret->user.groups);
	}
	if (json_get(claims, TOKEN_USER)) {
		credential_user(c->arena, claims, &ret->user);
		return credential_check(os, ret->user.groups);
	}
	if (!still_there(os, os->service_account, ns, json_get(k8s, "serviceaccount")) ||
	    (pod && !still_there(os, os->pod, ns, pod) && wall_stands("token-binding")))
		return err_new(ERR_UNAUTHENTICATED,
			       "check token: its ServiceAccount or Pod no longer exists");
	user_of_account(c->arena, claims, &ret->user);
	return NULL;
}

/* The request for one */

struct token_wish {
	const struct object *account;
	const struct object *pod;     /* what it is bound to, NULL: nothing */
	const struct object *node;    /* of that; NULL: none */
	const struct json *audiences; /* NULL: this server */
	const char *audience;         /* without those; NULL: this server */
	int64_t expire_s;
};

static struct err *bind_pod(const struct objects *os, struct token_wish *w, const char *name,
			    const char *uid)
{
	const char *node;

	w->pod = objects_find(os, os->pod, w->account->ns, name);
	if (!w->pod)
		return err_absent(os->pod, name);
	if (!str_empty(uid) && !str_eq(uid, w->pod->uid))
		return err_changed(os->pod, name,
				   "the UID in the bound object reference does "
				   "not match the UID in record");
	if (!str_eq(str_or(json_get_str(object_spec(w->pod), "serviceAccountName"), "default"),
		    w->account->name))
		return err_new(ERR_MALFORMED,
			       "cannot bind token for serviceaccount \"%s\" to pod running with "
			       "different serviceaccount name.",
			       w->account->name);
	node = json_get_str(object_spec(w->pod), "nodeName");
	w->node = str_empty(node) ? NULL : objects_find(os, os->node, "", node);
	return NULL;
}

static struct err *read_bound(const struct objects *os, struct call *c, const struct json *bound,
			      struct token_wish *w)
{
	const char *kind = json_get_str(bound, "kind");
	const char *name = json_get_str(bound, "name");
	const char *uid = json_get_str(bound, "uid");

	if (!bound || json_is(bound, JSON_NULL))
		return NULL;
	if (!str_eq(kind, "Pod") || str_empty(name)) {
		causes_add(&c->causes, CAUSE_UNSUPPORTED, "spec.boundObjectRef.kind",
			   "Unsupported value: \"%s\": supported values: \"Pod\"",
			   kind ? kind : "");
		return NULL;
	}
	return bind_pod(os, w, name, uid);
}

/* A token is no way to get a better one: not to one that lives longer, nor to one that outlives the
 * Pod that this one is bound to. */
static struct err *limit_wish(const struct objects *os, const struct user *u, struct token_wish *w)
{
	if (!u->expires || !wall_stands("token-mint"))
		return NULL;
	if (u->pod_uid && (!w->pod || !str_eq(u->pod_uid, w->pod->uid)))
		return err_forbidden(os->service_account, w->account->name,
				     "a token that is bound to a Pod can only request tokens that "
				     "are bound to the same Pod; set spec.boundObjectRef");
	w->expire_s = MIN(w->expire_s, u->expires - clock_wall() / 1000000);
	return NULL;
}

static struct err *read_wish(const struct objects *os, struct call *c, const struct json *body,
			     struct token_wish *w)
{
	const struct json *spec = json_get(body, "spec");

	w->audiences = json_get(spec, "audiences");
	w->expire_s = json_get_int(spec, "expirationSeconds", EXPIRE_S);
	if (!json_len(w->audiences))
		w->audiences = NULL;
	if (json_len(w->audiences) > AUDIENCES_MAX)
		causes_add(&c->causes, CAUSE_TOO_LONG, "spec.audiences",
			   "Too many: %zu: must have at most %d items", json_len(w->audiences),
			   AUDIENCES_MAX);
	json_each(it, w->audiences)
		if (!json_str(it.val))
			causes_add(&c->causes, CAUSE_TYPE, "spec.audiences",
				   "Invalid value: must be strings");
	if (w->expire_s < EXPIRE_MIN_S || w->expire_s > (1LL << 32))
		causes_add(&c->causes, CAUSE_INVALID, "spec.expirationSeconds",
			   "Invalid value: %lld: may not specify a duration %s",
			   (long long)w->expire_s,
			   w->expire_s < EXPIRE_MIN_S ? "less than 10 minutes"
						      : "larger than 2^32 seconds");
	w->expire_s = MIN(w->expire_s, (int64_t)EXPIRE_MAX_S);
	return read_bound(os, c, json_get(spec, "boundObjectRef"), w);
}

static struct json *ref_claim(struct json_doc *d, const struct object *o)
{
	struct json *ref = json_obj(d);

	json_set_str(d, ref, "name", o->name);
	json_set_str(d, ref, "uid", o->uid);
	return ref;
}

static struct json_doc *claims_new(const struct token_wish *w, int64_t now)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d), *k8s = json_obj(d), *aud;
	char id[37];

	json_set_root(d, o);
	if (w->audiences) {
		(void)json_set(d, o, "aud", json_copy(d, w->audiences));
	} else {
		aud = json_set(d, o, "aud", json_arr(d));
		json_push_str(d, aud, str_or(w->audience, TOKEN_ISSUER));
	}
	json_set_int(d, o, "exp", now + w->expire_s);
	json_set_int(d, o, "iat", now);
	json_set_str(d, o, "iss", TOKEN_ISSUER);
	random_uuid(id);
	json_set_str(d, o, "jti", id);
	json_set_str(d, k8s, "namespace", w->account->ns);
	if (w->node)
		(void)json_set(d, k8s, "node", ref_claim(d, w->node));
	if (w->pod)
		(void)json_set(d, k8s, "pod", ref_claim(d, w->pod));
	(void)json_set(d, k8s, "serviceaccount", ref_claim(d, w->account));
	(void)json_set(d, o, "kubernetes.io", k8s);
	json_set_int(d, o, "nbf", now);
	(void)json_set(
		d, o, "sub",
		json_new_strf(d, "system:serviceaccount:%s:%s", w->account->ns, w->account->name));
	return d;
}

/* For the node of this process, which asks for nobody but the Pod. */
struct err *token_for_pod(void *arg, const struct pod_token_wish *pod, char **ret,
			  int64_t *ret_expires)
{
	const struct tokens *t = arg;
	const struct objects *os = t->objects;
	struct token_wish w = { .account = objects_find(os, os->service_account, pod->ns,
							pod->account),
				.audience = str_empty(pod->audience) ? NULL : pod->audience,
				.expire_s = MIN(pod->expire_s, (int64_t)EXPIRE_MAX_S) };
	autoptr(json_doc) claims = NULL;
	autofree char *text = NULL;
	struct err *e;

	if (!w.account)
		return err_absent(os->service_account, pod->account);
	e = bind_pod(os, &w, pod->pod, pod->pod_uid);
	if (e)
		return e;
	claims = claims_new(&w, clock_wall() / 1000000);
	text = json_to_text(json_root(claims));
	*ret_expires = json_get_int(json_root(claims), "exp", 0);
	return err_wrap(tls_token_sign(t->key, text, ret), "sign token");
}

/* d's root becomes the answer. */
static struct err *issue(const struct tokens *t, const struct token_wish *w, struct json_doc *d)
{
	usec now = clock_wall();
	autoptr(json_doc) claims = claims_new(w, now / 1000000);
	autofree char *text = json_to_text(json_root(claims)), *token = NULL;
	struct json *root = json_root(d), *status, *spec;
	char when[CLOCK_TEXT_MAX];
	struct err *e = tls_token_sign(t->key, text, &token);

	if (e)
		return err_wrap(e, "sign token");
	json_set_str(d, root, "kind", "TokenRequest");
	json_set_str(d, root, "apiVersion", "authentication.k8s.io/v1");
	(void)json_set(d, root, "metadata", ref_claim(d, w->account));
	json_set_str(d, json_get(root, "metadata"), "namespace", w->account->ns);
	spec = json_need_obj(d, root, "spec");
	json_set_int(d, spec, "expirationSeconds", w->expire_s);
	(void)json_set(d, spec, "audiences", json_copy(d, json_get(json_root(claims), "aud")));
	status = json_set(d, root, "status", json_obj(d));
	json_set_str(d, status, "token", token);
	clock_format(now + w->expire_s * 1000000, when);
	json_set_str(d, status, "expirationTimestamp", when);
	return NULL;
}

static struct err *token_request(const struct tokens *t, struct call *c, struct json_doc *d)
{
	static const struct kind request = { .group = "authentication.k8s.io",
					     .kind = "TokenRequest" };
	const struct objects *os = t->objects;
	struct token_wish w = { .account = objects_find(os, os->service_account, c->route.ns,
							c->route.name) };
	struct err *e;

	if (!w.account)
		return err_absent(os->service_account, c->route.name);
	e = read_wish(os, c, json_root(d), &w);
	if (e)
		return e;
	if (c->causes.n) {
		c->route.kind = &request;
		c->route.name = "";
		return err_invalid(&request, "", &c->causes);
	}
	e = limit_wish(os, &c->user, &w);
	return e ? e : issue(t, &w, d);
}

void token_issue(struct tokens *t, struct call *c)
{
	autoptr(json_doc) d = NULL;
	struct err *e = body_tree(c, body_token_request, &body_kind_token_request, &d);

	if (!e)
		e = token_request(t, c, d);
	if (e) {
		call_fail(c, e);
		return;
	}
	log_info("token issued", KV("user", c->user.name), KV("namespace", c->route.ns),
		 KV("serviceaccount", c->route.name));
	call_reply_tree(c, STATUS_CREATED, take(d), body_token_request);
}
