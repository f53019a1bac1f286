/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/cay/capability.h"
#include "api/cay/team.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/client.h"
#include "json/json.h"
#include "outlet/outlet_priv.h"

/*
 * Which Credential a request gets, and its value. An address does not tell which of several agents
 * acts, so each of them must be allowed to use it. The value is read for every request anew.
 */

/* A name is more precise than any pattern, and of patterns the longer one is. */
static size_t precision(const char *pattern, const char *host)
{
	if (!host_matches(pattern, host))
		return 0;
	return strchr(pattern, '*') ? strlen(pattern) : SIZE_MAX;
}

static bool all_may(const struct credential_view *v, const char *name,
		    const struct credential_ask *ask)
{
	if (!wall_stands("credential-agents"))
		return true;
	for (size_t i = 0; ask->agents[i]; i++)
		if (!capabilities_list_has(v->agents, ask->agents[i]))
			return false;
	return ask->agents[0] && capabilities_list_has(ask->capabilities->credentials, name);
}

size_t credential_rank(const struct credential_view *v, const char *name,
		       const struct credential_ask *ask)
{
	size_t best = 0;

	for (size_t i = 0; v->hosts[i]; i++)
		best = MAX(best, precision(v->hosts[i], ask->host));
	return best && all_may(v, name, ask) ? best : 0;
}

struct choice {
	const struct credential_ask *ask;
	struct object *best; /* a reference */
	size_t rank;
};

static bool consider(void *arg, struct object *o)
{
	struct choice *c = arg;
	size_t rank = credential_rank(credential_view(o), o->name, c->ask);

	if (!rank || rank < c->rank || (rank == c->rank && strcmp(o->name, c->best->name) > 0))
		return true;
	object_unref(c->best);
	c->best = object_ref(o);
	c->rank = rank;
	return true;
}

static struct err *unusable(const struct object *o, const char *field, const char *what,
			    const char *name)
{
	return err_new(ERR_UNAVAILABLE, "Credential %s: spec.secretRef.%s: %s %s", o->name, field,
		       name, what);
}

static bool is_text(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)value[i] < ' ' || value[i] == 0x7f)
			return false;
	return len;
}

static struct err *read_value(struct outlet *o, const struct object *credential, char **ret)
{
	const struct credential_view *v = credential_view(credential);
	autoptr(object) secret = client_get(o->spec.client, o->secret, credential->ns, v->secret);
	const char *text = secret ? json_get_str(json_get(secret->root, "data"), v->key) : NULL;
	void *bytes = NULL;
	size_t len = 0;
	struct err *e;

	if (!secret)
		return unusable(credential, "name", "is no Secret of this namespace", v->secret);
	if (!text)
		return unusable(credential, "key", "is not a key of the Secret", v->key);
	e = base64_decode(text, false, &bytes, &len);
	if (e)
		return err_wrap(err_recode(e, ERR_UNAVAILABLE), "Credential %s", credential->name);
	if (is_text(bytes, len) && len <= CREDENTIAL_MAX)
		*ret = xstrndup(bytes, len);
	else
		e = unusable(credential, "key",
			     "is empty, longer than 8 KiB, or has line breaks or other control "
			     "characters",
			     v->key);
	explicit_bzero(bytes, len);
	free(bytes);
	return e;
}

struct err *credential_find(struct outlet *o, const char *ns, const struct credential_ask *ask,
			    struct credential_use *ret)
{
	struct choice c = { .ask = ask };
	struct err *e = NULL;

	client_each(o->spec.client, o->credential, ns, consider, &c);
	*ret = (struct credential_use){ .object = c.best };
	if (c.best)
		e = read_value(o, c.best, &ret->value);
	if (e)
		credential_done(ret);
	else if (c.best)
		ret->text = xasprintf("%s%s", credential_view(c.best)->prefix, ret->value);
	return e;
}

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void credential_done(struct credential_use *u)
{
	wipe(u->text);
	wipe(u->value);
	object_unref(u->object);
	*u = (struct credential_use){ 0 };
}
