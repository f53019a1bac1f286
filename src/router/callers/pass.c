/* SPDX-License-Identifier: Apache-2.0 */
#include "router/callers/pass.h"

#include "api/meta.h"
#include "base/str.h"
#include "base/wall.h"
#include "json/json.h"
#include "router/route/route.h"

/*
 * Passes: sealed claims that let whoever has them into one sandbox. Two kinds are ours, the
 * parameter of a signed URL and the cookie that it is exchanged for; the third, a scoped token, has
 * the format that other routers of this API accept.
 *
 *   u1.SEALED  c1.SEALED   {"ns","name","uid","port","exp"} and perhaps "path" and "methods"
 *   v1.SEALED              {"ns","name","exp"}
 *
 * They are sealed under different labels, so a cookie is not good as a URL, or either as a token.
 */
static const struct {
	const char *prefix, *label;
} kinds[PASS_KIND_MAX_] = {
	[PASS_URL] = { "u1.", "cay/signed-url/v1." },
	[PASS_COOKIE] = { "c1.", "cay/cookie/v1." },
	[PASS_SCOPED] = { "v1.", "agent-sandbox/scoped-token/v1." },
};

bool pass_is(enum pass_kind kind, const char *text)
{
	return str_starts(text, kinds[kind].prefix);
}

char *pass_seal(const struct tls_seal_key *k, enum pass_kind kind, const struct pass *p)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	autofree char *text = NULL, *sealed = NULL;

	json_set_root(d, o);
	json_set_str(d, o, "ns", p->ns);
	json_set_str(d, o, "name", p->id);
	json_set_int(d, o, "exp", p->expires);
	if (kind != PASS_SCOPED) {
		json_set_str(d, o, "uid", p->uid);
		json_set_int(d, o, "port", p->port);
	}
	if (*p->path)
		json_set_str(d, o, "path", p->path);
	if (*p->methods)
		json_set_str(d, o, "methods", p->methods);
	text = json_to_text(o);
	sealed = tls_seal(k, kinds[kind].label, text);
	return xasprintf("%s%s", kinds[kind].prefix, sealed);
}

/* Absent is "". False: it is something else than a text that fits. */
static bool read_text(const struct json *o, const char *key, char *ret, size_t size)
{
	const struct json *v = json_get(o, key);
	const char *text = json_str(v);

	ret[0] = '\0';
	if (!v)
		return true;
	if (!text || strlen(text) >= size)
		return false;
	memcpy(ret, text, strlen(text) + 1);
	return true;
}

static bool read_claims(const struct json *o, enum pass_kind kind, struct pass *ret)
{
	int64_t port = json_get_int(o, "port", 0);

	if (!json_is(o, JSON_OBJ) || !read_text(o, "ns", ret->ns, sizeof(ret->ns)) ||
	    !read_text(o, "name", ret->id, sizeof(ret->id)) || !*ret->ns || !*ret->id)
		return false;
	if (!json_is(json_get(o, "exp"), JSON_INT))
		return false;
	ret->expires = json_get_int(o, "exp", 0);
	if (kind == PASS_SCOPED)
		return true;
	ret->port = port > 0 && port <= 65535 ? (uint16_t)port : 0;
	return read_text(o, "uid", ret->uid, sizeof(ret->uid)) && *ret->uid && ret->port &&
	       read_text(o, "path", ret->path, sizeof(ret->path)) &&
	       read_text(o, "methods", ret->methods, sizeof(ret->methods));
}

bool pass_open(const struct tls_seal_key *k, enum pass_kind kind, const char *text,
	       struct pass *ret)
{
	autoptr(json_doc) d = NULL;
	autofree char *claims = NULL;
	struct pass p = { 0 };
	struct err *e;

	if (!pass_is(kind, text) ||
	    !tls_unseal(k, kinds[kind].label, text + strlen(kinds[kind].prefix), &claims))
		return false;
	e = json_parse(claims, strlen(claims), NULL, &d);
	if (e) {
		err_free(e);
		return false;
	}
	if (!read_claims(json_root(d), kind, &p))
		return false;
	*ret = p;
	return true;
}

/*
 * Whether a path can be compared with a prefix at all: what a server may take for a step up, or for
 * another slash, cannot, and neither can what it might decode twice.
 */
static bool is_plain(const char *path)
{
	for (const char *c = path; *c; c++) {
		if (*c == '\\')
			return false;
		if (!strncasecmp(c, "%2e", 3) || !strncasecmp(c, "%2f", 3) ||
		    !strncasecmp(c, "%5c", 3) || !strncmp(c, "%25", 3))
			return false;
		if (*c == '/' && (c[1] == '/' || c[1] == '.'))
			return false;
	}
	return true;
}

bool pass_path_valid(const char *path)
{
	return path[0] == '/' && strlen(path) < sizeof(((struct pass *)0)->path) &&
	       is_plain(path) && !strpbrk(path, "?# ");
}

static bool covers(const char *prefix, const char *path)
{
	size_t len = strlen(prefix);

	if (!len)
		return true;
	if (!is_plain(path) || strncmp(path, prefix, len) != 0)
		return false;
	return prefix[len - 1] == '/' || !path[len] || path[len] == '/';
}

static bool allows(const char *methods, const char *method)
{
	struct span rest = SPAN(methods);

	if (!*methods)
		return true;
	while (rest.len)
		if (span_eq(span_cut(rest, ',', &rest), method))
			return true;
	return false;
}

static bool same_sandbox(const struct pass *p, const struct pass_use *u)
{
	if (!wall_stands("pass-target"))
		return true;
	return str_eq(p->ns, u->route->ns) && str_eq(p->id, u->route->id) &&
	       (!p->port || p->port == u->route->port);
}

static bool same_uid(const struct pass *p, const struct pass_use *u)
{
	return !wall_stands("pass-uid") || !*p->uid || !u->uid || str_eq(p->uid, u->uid);
}

struct err *pass_check(const struct pass *p, const struct pass_use *u)
{
	if (u->now >= p->expires && wall_stands("pass-expiry"))
		return err_new(ERR_UNAUTHENTICATED,
			       "unauthenticated: the signed URL or token has expired");
	if (!same_sandbox(p, u))
		return err_new(ERR_FORBIDDEN, "forbidden: the signed URL or token is for another "
					      "sandbox or port");
	if (!same_uid(p, u))
		return err_new(ERR_FORBIDDEN,
			       "forbidden: the sandbox that the URL was signed for is gone, and "
			       "this is another one of its name");
	if (!*p->uid && u->others_had && wall_stands("pass-reset"))
		return err_new(ERR_FORBIDDEN,
			       "forbidden: the token names the sandbox by its name alone, and "
			       "others have had a sandbox of this name (cay.dev/resets); use a "
			       "signed URL");
	if (!allows(p->methods, u->method))
		return err_new(ERR_FORBIDDEN, "forbidden: the URL was signed for %s only",
			       p->methods);
	if (!covers(p->path, u->path))
		return err_new(ERR_FORBIDDEN, "forbidden: the URL was signed for paths below %s",
			       p->path);
	return NULL;
}
