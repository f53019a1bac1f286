/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/cay/cay.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http.h"
#include "workload/workload_priv.h"

/* What is in a token, and what may be asked for. */
enum {
	DOMAIN_MAX = 255,
};

char *subject_id(const char *domain, const char *ns, const char *name)
{
	return xasprintf("spiffe://%s/ns/%s/sandbox/%s", domain, ns, name);
}

struct err *trust_domain_check(const char *domain)
{
	const size_t len = strlen(domain);

	if (!len || len > DOMAIN_MAX ||
	    strspn(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != len)
		return err_new(
			ERR_INVALID,
			"\"%.64s\" is no trust domain: 1 to %d of a-z, 0-9, '.', '-' and '_'",
			domain, DOMAIN_MAX);
	return NULL;
}

/* It may be a name or a URL; whoever compares it sees all of it. */
static bool is_audience(const char *text)
{
	const size_t len = strlen(text);

	if (!len || len > WORKLOAD_AUDIENCE_MAX || !utf8_valid(text, len))
		return false;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return true;
}

static bool is_in(char *const *list, const char *text)
{
	for (; *list; list++)
		if (str_eq(*list, text))
			return true;
	return false;
}

void audiences_free(char **list)
{
	for (char **a = list; a && *a; a++)
		free(*a);
	free(list);
}

struct err *audiences_read(const char *query, char ***ret)
{
	char **list = xcalloc(WORKLOAD_AUDIENCES_MAX + 1, sizeof(*list)), *text;
	struct err *e = NULL;
	size_t n = 0;

	while (!e && (text = http_query_nth(query, "audience", n))) {
		if (n == WORKLOAD_AUDIENCES_MAX)
			e = err_new(ERR_INVALID, "audience: at most %d of them",
				    WORKLOAD_AUDIENCES_MAX);
		else if (!is_audience(text) || is_in(list, text))
			e = err_new(ERR_INVALID,
				    "audience: 1 to %d bytes without spaces, each audience once",
				    WORKLOAD_AUDIENCE_MAX);
		if (e)
			free(text);
		else
			list[n++] = text;
	}
	if (!e && !n)
		e = err_new(ERR_INVALID,
			    "audience: say whom the token is for, as in /token?audience=NAME");
	if (e) {
		audiences_free(list);
		return e;
	}
	*ret = list;
	return NULL;
}

static void set_unless_empty(struct json_doc *d, struct json *o, const char *name, const char *text)
{
	if (!str_empty(text))
		json_set_str(d, o, name, text);
}

char *claims_write(const struct subject *s, const struct claims_spec *spec)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *aud, *act;

	json_set_str(d, o, "iss", spec->issuer);
	json_set_str(d, o, "sub", s->id);
	aud = json_need_arr(d, o, "aud");
	for (char *const *a = spec->audiences; *a; a++)
		json_push_str(d, aud, *a);
	json_set_int(d, o, "iat", spec->now_s);
	json_set_int(d, o, "nbf", spec->now_s);
	json_set_int(d, o, "exp", spec->now_s + WORKLOAD_TTL_S);
	json_set_str(d, o, "jti", spec->id);
	if (s->acted) {
		autofree char *sub = xasprintf(AGENT_USER "%s:%s", s->ns, s->actor.agent);

		act = json_need_obj(d, o, "act");
		json_set_str(d, act, "sub", sub);
		set_unless_empty(d, act, "session", s->actor.session);
		set_unless_empty(d, act, "user", s->actor.user);
	}
	return json_to_text(o);
}

char *subject_write(const struct subject *s)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_str(d, o, "id", s->id);
	json_set_str(d, o, "namespace", s->ns);
	json_set_str(d, o, "sandbox", s->name);
	if (s->acted) {
		json_set_str(d, o, "agent", s->actor.agent);
		set_unless_empty(d, o, "session", s->actor.session);
		set_unless_empty(d, o, "user", s->actor.user);
	}
	return json_to_text(o);
}
