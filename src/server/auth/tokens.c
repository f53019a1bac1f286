/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "crypto/crypto.h"
#include "server/server_priv.h"

/*
 * Service-account tokens: JWTs that this server signs and alone accepts. A token is good while its
 * signature, times and audience are, and the account it names (and the Pod it is bound to) still
 * exists with the same uid. Good signatures are remembered by the token's hash, since checking one
 * costs more than the rest of a small request.
 */
#define ISSUER "https://kubernetes.default.svc"
enum {
	REMEMBER_MAX = 4096,
	TOKEN_LEN_MAX = 8192,
	EXPIRE_S = 3600,
	EXPIRE_MIN_S = 600,
	EXPIRE_MAX_S = 365 * 24 * 3600,
	AUDIENCES_MAX = 16,
};

struct tokens {
	struct server *s;
	struct map *known; /* SHA-256 of a token, as hex → struct json_doc of its claims */
};

static void claims_free(void *value)
{
	json_doc_free(value);
}

struct tokens *tokens_new(struct server *s)
{
	struct tokens *t = xnew(struct tokens);

	t->s = s;
	t->known = map_new(claims_free);
	return t;
}

void tokens_free(struct tokens *t)
{
	if (!t)
		return;
	map_free(t->known);
	free(t);
}

static struct err *claims_verified(struct tokens *t, const char *token, struct json_doc **ret)
{
	autofree char *text = NULL;
	struct err *e = tls_token_verify(t->s->keys.sa_key, token, &text);

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
		return err_new(ERR_UNAUTHENTICATED, "check token: too long");
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

static bool for_us(const struct json *aud)
{
	if (str_eq(json_str(aud), ISSUER))
		return true;
	json_each(it, aud)
		if (str_eq(json_str(it.val), ISSUER))
			return true;
	return false;
}

static bool in_time(const struct json *claims)
{
	int64_t now = clock_wall() / 1000000;

	return json_get_int(claims, "exp", 0) > now && json_get_int(claims, "nbf", 0) <= now + 10;
}

static bool still_there(const struct server *s, const struct kind *k, const char *ns,
			const struct json *ref)
{
	const char *name = json_get_str(ref, "name");
	const struct object *o = name && ns ? find_object(s, k, ns, name) : NULL;

	return o && str_eq(o->uid, json_get_str(ref, "uid"));
}

static void user_of_account(struct arena *a, const struct json *k8s, struct user *ret)
{
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
	};
}

struct err *token_check(struct call *c, const char *token, struct user *ret)
{
	const struct json *claims = NULL, *k8s, *pod;
	struct err *e = claims_of(c->s->tokens, token, &claims);
	const char *ns;

	if (e)
		return e;
	k8s = json_get(claims, "kubernetes.io");
	ns = json_get_str(k8s, "namespace");
	pod = json_get(k8s, "pod");
	if (!str_eq(json_get_str(claims, "iss"), ISSUER) || !for_us(json_get(claims, "aud")))
		return err_new(ERR_UNAUTHENTICATED, "check token: not for this server");
	if (!in_time(claims))
		return err_new(ERR_UNAUTHENTICATED, "check token: expired");
	if (!still_there(c->s, c->s->kinds.service_account, ns, json_get(k8s, "serviceaccount")) ||
	    (pod && !still_there(c->s, c->s->kinds.pod, ns, pod)))
		return err_new(ERR_UNAUTHENTICATED, "check token: its subject is gone");
	user_of_account(c->arena, k8s, ret);
	return NULL;
}

/* The request for one */

struct token_wish {
	const struct object *account;
	const struct json *audiences; /* NULL: this server */
	const struct json *bound;     /* boundObjectRef, NULL: none */
	int64_t expire_s;
};

static struct err *read_bound(struct call *c, struct token_wish *w)
{
	const char *kind = json_get_str(w->bound, "kind");
	const char *name = json_get_str(w->bound, "name");
	const char *uid = json_get_str(w->bound, "uid");
	const struct object *pod;

	if (!w->bound || json_is(w->bound, JSON_NULL)) {
		w->bound = NULL;
		return NULL;
	}
	if (!str_eq(kind, "Pod") || str_empty(name)) {
		causes_add(&c->causes, CAUSE_UNSUPPORTED, "spec.boundObjectRef.kind",
			   "Unsupported value: \"%s\": supported values: \"Pod\"",
			   kind ? kind : "");
		return NULL;
	}
	pod = find_object(c->s, c->s->kinds.pod, c->route.ns, name);
	if (!pod)
		return err_absent(c->s->kinds.pod, name);
	if (!str_empty(uid) && !str_eq(uid, pod->uid))
		return err_changed(c->s->kinds.pod, name,
				   "the UID in the bound object reference does "
				   "not match the UID in record");
	return NULL;
}

static struct err *read_wish(struct call *c, const struct json *body, struct token_wish *w)
{
	const struct json *spec = json_get(body, "spec");

	w->audiences = json_get(spec, "audiences");
	w->bound = json_get(spec, "boundObjectRef");
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
	return read_bound(c, w);
}

static struct json *ref_claim(struct json_doc *d, const struct object *o)
{
	struct json *ref = json_obj(d);

	json_set_str(d, ref, "name", o->name);
	json_set_str(d, ref, "uid", o->uid);
	return ref;
}

static struct json_doc *claims_new(struct call *c, const struct token_wish *w, int64_t now)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d), *k8s = json_obj(d), *aud;
	char id[37];

	json_set_root(d, o);
	if (w->audiences) {
		(void)json_set(d, o, "aud", json_copy(d, w->audiences));
	} else {
		aud = json_set(d, o, "aud", json_arr(d));
		json_push_str(d, aud, ISSUER);
	}
	json_set_int(d, o, "exp", now + w->expire_s);
	json_set_int(d, o, "iat", now);
	json_set_str(d, o, "iss", ISSUER);
	random_uuid(id);
	json_set_str(d, o, "jti", id);
	json_set_str(d, k8s, "namespace", w->account->ns);
	if (w->bound)
		(void)json_set(d, k8s, "pod",
			       ref_claim(d, find_object(c->s, c->s->kinds.pod, w->account->ns,
							json_get_str(w->bound, "name"))));
	(void)json_set(d, k8s, "serviceaccount", ref_claim(d, w->account));
	(void)json_set(d, o, "kubernetes.io", k8s);
	json_set_int(d, o, "nbf", now);
	(void)json_set(
		d, o, "sub",
		json_new_strf(d, "system:serviceaccount:%s:%s", w->account->ns, w->account->name));
	return d;
}

static struct err *issue(struct call *c, const struct token_wish *w, struct json_doc *d)
{
	usec now = clock_wall();
	autoptr(json_doc) claims = claims_new(c, w, now / 1000000);
	autofree char *text = json_to_text(json_root(claims)), *token = NULL;
	struct json *root = json_root(d), *status, *spec;
	char when[CLOCK_TEXT_MAX];
	struct err *e = tls_token_sign(c->s->keys.sa_key, text, &token);

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

/* d's root becomes the answer. */
static struct err *token_request(struct call *c, struct json_doc *d)
{
	static const struct kind request = { .group = "authentication.k8s.io",
					     .kind = "TokenRequest" };
	struct token_wish w = { .account = find_object(c->s, c->s->kinds.service_account,
						       c->route.ns, c->route.name) };
	struct err *e;

	if (!w.account)
		return err_absent(c->s->kinds.service_account, c->route.name);
	e = read_wish(c, json_root(d), &w);
	if (e)
		return e;
	if (c->causes.n) {
		c->route.kind = &request;
		c->route.name = "";
		return err_invalid(&request, "", &c->causes);
	}
	return issue(c, &w, d);
}

/* A request without a body asks for nothing in particular. */
static struct err *read_request(struct call *c, struct json_doc **ret)
{
	struct decode_input in;
	struct err *e = call_body(c, &in);

	if (!e && !in.len)
		in = (struct decode_input){ .media = DECODE_TREE, .tree = json_doc_new() };
	return e ? e : body_decode(body_token_request, &in, ret);
}

void handle_token(struct call *c)
{
	autoptr(json_doc) d = NULL;
	struct err *e = read_request(c, &d);

	if (!e)
		e = token_request(c, d);
	if (e) {
		call_fail(c, e);
		return;
	}
	log_info("token issued", KV("user", c->user.name), KV("namespace", c->route.ns),
		 KV("serviceaccount", c->route.name));
	call_reply_json(c, STATUS_CREATED, take(d));
}
