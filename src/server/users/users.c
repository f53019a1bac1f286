/* SPDX-License-Identifier: Apache-2.0 */
#include "server/users/users.h"

#include <ctype.h>
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "net/http_server.h"
#include "server/admit/admit.h"
#include "server/auth/auth.h"
#include "server/auth/keys.h"
#include "server/auth/rbac.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "store/store.h"
#include "tls/tls.h"

/*
 * A record is stored before its credential is made, and the answer waits until it is on disk: there
 * is no credential that could not be taken back. The record is found by the name of its user.
 */
#define USERS      "/cay/v1/users"
#define ANNOTATION "cay.dev/user" /* of a record: who, as JSON */
#define SYSTEM     "kube-system"
enum {
	USERS_MAX = 1000,
	TEXT_MAX = 64, /* what a certificate can hold */
	GROUPS_MAX = 16,
	TTL_MIN_S = 60,
	TTL_MAX_S = 366 * 24 * 3600,
	TTL_S = 90 * 24 * 3600,
};

struct wish {
	const char *name;
	const char *groups[GROUPS_MAX + 2]; /* the last is the key of the record */
	size_t n_groups;
	int64_t ttl_s;
	bool token;
};

bool users_path(const struct route *r)
{
	size_t len = strlen(USERS);

	return !r->resource && str_starts(r->path, USERS) && (!r->path[len] || r->path[len] == '/');
}

/* Records */

static void record_name(const char *user, char ret[CREDENTIAL_NAME_MAX])
{
	unsigned char hash[32];
	char hex[17];

	sha256(user, strlen(user), hash);
	hex_encode(hash, 8, hex);
	(void)snprintf(ret, CREDENTIAL_NAME_MAX, CREDENTIAL_PREFIX "%s", hex);
}

static struct op op_on(const struct users *u, const struct call *c, const char *name)
{
	return (struct op){ .admit = u->admit,
			    .user = c->user.name,
			    .kind = u->admit->objects->secret,
			    .ns = SYSTEM,
			    .name = name,
			    .sub = "" };
}

/* What a record says; NULL: it is none. */
static struct json_doc *record_read(const struct object *o)
{
	const struct json *notes = json_at_path(o->root, "metadata.annotations");
	const char *text = json_get_str(notes, ANNOTATION);
	struct json_doc *d = NULL;
	struct err *e;

	if (!str_eq(json_get_str(o->root, "type"), CREDENTIAL_TYPE) || !text)
		return NULL;
	e = json_parse(text, strlen(text), NULL, &d);
	err_free(e); /* somebody has changed it: it counts as none */
	return d;
}

static bool is_over(const struct json *record)
{
	usec ends = 0;
	struct err *e = clock_parse(str_or(json_get_str(record, "expires"), ""), &ends);

	err_free(e);
	return !e && ends <= clock_wall();
}

static struct json_doc *record_doc(const struct wish *w, const char *expires)
{
	autoptr(json_doc) note = json_doc_new();
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *who = json_obj(note), *groups;
	autofree char *text = NULL;

	json_set_str(note, who, "name", w->name);
	groups = json_set(note, who, "groups", json_arr(note));
	for (size_t i = 0; i < w->n_groups; i++)
		json_push_str(note, groups, w->groups[i]);
	json_set_str(note, who, "credential", w->token ? "token" : "certificate");
	json_set_str(note, who, "expires", expires);
	text = json_to_text(who);
	json_set_root(d, root);
	json_set_str(d, root, "type", CREDENTIAL_TYPE);
	json_set_str(d, json_need_obj(d, json_need_obj(d, root, "metadata"), "annotations"),
		     ANNOTATION, text);
	return d;
}

static struct err *record_remove(const struct users *u, const struct call *c, const char *name)
{
	autoop op = op_on(u, c, name);

	return op_delete(&op, &(struct delete_options){ .grace_s = -1 });
}

/* Calls fn with what each record says. Returns how many there are. */
static size_t each_record(const struct users *u,
			  void (*fn)(void *arg, const struct object *o, struct json *record),
			  void *arg)
{
	const struct objects *os = u->admit->objects;
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };
	size_t n = 0;

	key_prefix(&prefix, os->secret, SYSTEM);
	buf_add_str(&prefix, CREDENTIAL_PREFIX);
	while ((en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(os, en);
		autoptr(json_doc) d = o ? record_read(o) : NULL;

		n += d != NULL;
		if (d && fn)
			fn(arg, o, json_root(d));
	}
	return n;
}

/* The request */

static struct err *bad(const char *what, const char *value, const char *why)
{
	return err_new(ERR_MALFORMED, "%s: \"%s\": %s", what, value, why);
}

/* Names and groups: what a certificate, a path and a line of a log can hold. */
static struct err *check_text(const char *what, const char *text)
{
	if (str_empty(text) || strlen(text) > TEXT_MAX)
		return bad(what, text ? text : "", "must have 1 to 64 bytes");
	for (const char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p) || strchr("/%\"\\", *p))
			return bad(what, text,
				   "must not contain /, %, quotes, backslashes or control "
				   "characters");
	return NULL;
}

static struct err *check_name(const char *name)
{
	struct err *e = check_text("name", name);

	if (!e && (str_starts(name, "system:") || str_starts(name, "cay:")))
		e = bad("name", name, "names that begin with system: or cay: are the server's own");
	return e;
}

static struct err *check_group(const char *group)
{
	static const char *const open[] = { "system:masters", "system:monitoring", NULL };
	struct err *e = check_text("groups", group);

	if (!e && (str_starts(group, "system:") || str_starts(group, "cay:")) &&
	    !str_in(group, open))
		e = bad("groups", group,
			"of the groups that begin with system: or cay:, only system:masters and "
			"system:monitoring can be given");
	return e;
}

static struct err *read_wish(struct call *c, const struct json *body, struct wish *w)
{
	const char *credential = json_get_str(body, "credential");
	struct err *e;

	w->name = json_get_str(body, "name");
	e = check_name(w->name);
	json_each(it, e ? NULL : json_get(body, "groups")) {
		e = check_group(json_str(it.val));
		if (!e && w->n_groups == GROUPS_MAX)
			e = bad("groups", json_str(it.val), "there are more than 16");
		if (e)
			return e;
		w->groups[w->n_groups++] = arena_strdup(c->arena, json_str(it.val));
	}
	if (e)
		return e;
	w->token = str_eq(credential, "token");
	if (credential && !w->token && !str_eq(credential, "certificate"))
		return bad("credential", credential, "must be certificate or token");
	w->ttl_s = json_get_int(body, "ttlSeconds", TTL_S);
	if (w->ttl_s < TTL_MIN_S || w->ttl_s > TTL_MAX_S)
		return err_new(ERR_MALFORMED, "ttlSeconds: %lld: must be from 60 to 31622400",
			       (long long)w->ttl_s);
	return NULL;
}

/* To have somebody's credential is to act as them. */
static struct err *may_make(const struct users *u, const struct call *c, const struct wish *w)
{
	struct act a = { .resource = true,
			 .verb = "impersonate",
			 .group = "",
			 .plural = "users",
			 .sub = "",
			 .ns = "",
			 .name = w->name,
			 .path = "" };
	struct err *e = user_may(u->by, &c->user, &a);

	a.plural = "groups";
	for (size_t i = 0; i < w->n_groups && !e; i++) {
		a.name = w->groups[i];
		e = user_may(u->by, &c->user, &a);
	}
	return e;
}

static struct err *make_room(const struct users *u, struct call *c, const struct wish *w,
			     const char *name)
{
	const struct objects *os = u->admit->objects;
	struct object *o = objects_find(os, os->secret, SYSTEM, name);
	autoptr(json_doc) had = o ? record_read(o) : NULL;

	if (o && !is_over(had ? json_root(had) : NULL))
		return err_new(ERR_EXISTS,
			       "user \"%s\" already exists; remove it first: cay user rm %s",
			       w->name, w->name);
	if (o)
		return record_remove(u, c, name);
	if (each_record(u, NULL, NULL) >= USERS_MAX)
		return err_new(ERR_EXHAUSTED, "there are %d users; remove some with cay user rm",
			       USERS_MAX);
	return NULL;
}

static struct err *record_make(const struct users *u, struct call *c, struct wish *w,
			       const char *expires)
{
	char name[CREDENTIAL_NAME_MAX];
	struct json_doc *d;
	struct err *e;

	record_name(w->name, name);
	e = make_room(u, c, w, name);
	if (e)
		return e;
	autoop op = op_on(u, c, name);
	e = op_decode(
		&op, &(struct decode_input){ .media = DECODE_TREE, .tree = record_doc(w, expires) },
		&d);
	if (!e)
		e = op_create(&op, d);
	if (!e)
		w->groups[w->n_groups++] = credential_group(c->arena, op.result);
	return e;
}

static struct err *add_certificate(const struct users *u, const struct wish *w, struct json_doc *d,
				   struct json *to)
{
	const struct tls_cert_spec spec = { .common_name = w->name,
					    .organizations = w->groups,
					    .client = true,
					    .valid_for = w->ttl_s * 1000000 };
	struct tls_pair pair = { 0 };
	struct err *e = tls_make_cert(&u->keys->ca, &spec, &pair);

	if (!e) {
		json_set_str(d, to, "certificate", pair.cert_pem);
		json_set_str(d, to, "key", pair.key_pem);
	}
	tls_pair_done(&pair);
	return e;
}

static struct err *add_token(const struct users *u, const struct wish *w, struct json_doc *d,
			     struct json *to)
{
	autofree char *token = NULL;
	struct err *e = token_for_user(u->keys->sa_key, w->name, w->groups, w->ttl_s, &token);

	if (!e)
		json_set_str(d, to, "token", token);
	return e;
}

static struct err *make(const struct users *u, struct call *c, const struct json *body,
			struct json_doc *d)
{
	struct json *to = json_obj(d), *groups;
	struct wish w = { 0 };
	char expires[CLOCK_TEXT_MAX];
	struct err *e = read_wish(c, body, &w);

	json_set_root(d, to);
	if (!e)
		e = may_make(u, c, &w);
	if (e)
		return e;
	clock_format(clock_wall() + w.ttl_s * 1000000, expires);
	e = record_make(u, c, &w, expires);
	if (!e)
		e = w.token ? add_token(u, &w, d, to) : add_certificate(u, &w, d, to);
	if (e)
		return e;
	json_set_str(d, to, "name", w.name);
	groups = json_set(d, to, "groups", json_arr(d));
	for (size_t i = 0; i + 1 < w.n_groups; i++)
		json_push_str(d, groups, w.groups[i]);
	json_set_str(d, to, "credential", w.token ? "token" : "certificate");
	json_set_str(d, to, "expires", expires);
	json_set_str(d, to, "ca", u->keys->ca.cert_pem);
	log_info("credential made", KV("user", w.name), KV("by", c->user.name),
		 KV("expires", expires));
	return NULL;
}

static struct err *add(const struct users *u, struct call *c, struct json_doc *d)
{
	autoptr(json_doc) body = NULL;
	struct err *e = json_parse(c->body ? c->body : "", c->body_len, NULL, &body);

	if (e)
		return err_recode(err_wrap(e, "read the body"), ERR_MALFORMED);
	if (!json_is(json_root(body), JSON_OBJ))
		return err_new(ERR_MALFORMED, "the body must be an object with a name");
	return make(u, c, json_root(body), d);
}

/* The others */

struct listing {
	struct json_doc *d;
	struct json *items;
};

static void list_one(void *arg, const struct object *o, struct json *record)
{
	struct listing *l = arg;
	struct json *item = json_copy(l->d, record);

	json_set_str(l->d, item, "created",
		     json_str(json_at_path(o->root, "metadata.creationTimestamp")));
	json_set_bool(l->d, item, "expired", is_over(record));
	json_push(l->d, l->items, item);
}

static void list(const struct users *u, struct json_doc *d)
{
	struct listing l = { .d = d };

	json_set_root(d, json_obj(d));
	l.items = json_set(d, json_root(d), "items", json_arr(d));
	(void)each_record(u, list_one, &l);
}

static struct err *drop(const struct users *u, struct call *c, const char *user, struct json_doc *d)
{
	const struct objects *os = u->admit->objects;
	char name[CREDENTIAL_NAME_MAX];
	struct err *e;

	record_name(user, name);
	if (!objects_find(os, os->secret, SYSTEM, name))
		return err_new(ERR_NOT_FOUND,
			       "there is no user \"%s\" that this server has made; "
			       "see cay user ls",
			       user);
	e = record_remove(u, c, name);
	if (e)
		return e;
	json_set_root(d, json_obj(d));
	json_set_str(d, json_root(d), "name", user);
	log_info("credential ended", KV("user", user), KV("by", c->user.name));
	return NULL;
}

void users_answer(const struct users *u, struct call *c)
{
	const char *user = c->route.path + strlen(USERS) + (strlen(c->route.path) > strlen(USERS));
	autoptr(json_doc) d = json_doc_new();
	struct err *e = NULL;
	bool added = str_eq(c->method, "POST") && !*user;

	if (added)
		e = add(u, c, d);
	else if (str_eq(c->method, "GET") && !*user)
		list(u, d);
	else if (str_eq(c->method, "DELETE") && *user)
		e = drop(u, c, user, d);
	else
		e = err_no_method();
	if (e)
		call_fail(c, e);
	else
		call_reply_durably(c, added ? STATUS_CREATED : STATUS_OK,
				   json_to_bytes(json_root(d)));
}
