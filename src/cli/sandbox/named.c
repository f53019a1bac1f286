/* SPDX-License-Identifier: Apache-2.0 */
/* What a NAME on the command line means: a claim and its sandbox, or else a Sandbox. */
#include "api/agents.h"
#include "api/meta.h"
#include "base/mem.h"
#include "cli/sandbox/sandbox_priv.h"

const struct json *condition_of(const struct json *object, const char *type)
{
	return conditions_get(json_at_path(object, "status.conditions"), type);
}

bool is_ready(const struct json *object)
{
	return conditions_true(json_at_path(object, "status.conditions"), "Ready");
}

static struct err *neither(const struct named *t)
{
	return err_new(ERR_NOT_FOUND, "no claim or sandbox named %s in namespace %s; see cay ls",
		       t->name, t->ns);
}

/* The Pod has the Sandbox's name, unless an older controller chose another. */
static void read_pod(struct named *t)
{
	const struct json *notes = json_at_path(json_root(t->doc), "metadata.annotations");
	const char *pod = t->doc ? json_get_str(notes, KEY_POD_NAME) : NULL;

	free(t->pod);
	t->pod = xstrdup(str_or(pod, t->sandbox));
}

static struct err *read_claim(struct named *t)
{
	const struct json *root = json_root(t->claim_doc);
	const struct json *ready = condition_of(root, "Ready");
	const char *sandbox = json_str(json_at_path(root, "status.sandbox.name"));

	t->claim = xstrdup(t->name);
	if (str_empty(sandbox))
		return err_new(ERR_UNAVAILABLE,
			       "claim %s has no sandbox yet (%s: %s); see cay explain %s", t->name,
			       str_or(json_get_str(ready, "reason"), "no reason given"),
			       str_or(json_get_str(ready, "message"), "nothing reported"), t->name);
	t->sandbox = xstrdup(sandbox);
	read_pod(t);
	return NULL;
}

struct err *named_find(struct remote *r, const char *name, struct named *ret)
{
	autofree char *path = NULL;
	const char *fault = meta_bad_dns_subdomain(name);
	struct err *e;

	*ret = (struct named){ .ns = xstrdup(remote_ns(r)), .name = xstrdup(name) };
	if (fault)
		return err_new(ERR_INVALID, "\"%s\" is not a name: %s", name, fault);
	path = path_claims(ret->ns, name);
	e = remote_get(r, path, &ret->claim_doc);
	if (!e)
		return read_claim(ret);
	if (!err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	ret->sandbox = xstrdup(name);
	e = named_load(r, ret);
	if (!err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	return neither(ret);
}

struct err *named_load(struct remote *r, struct named *t)
{
	autofree char *path = path_sandboxes(t->ns, t->sandbox);
	struct err *e;

	if (t->doc)
		return NULL;
	e = remote_get(r, path, &t->doc);
	if (!e)
		read_pod(t);
	else if (err_is(e, ERR_NOT_FOUND) && t->claim)
		e = err_wrap(e, "find the sandbox of claim %s", t->claim);
	return e;
}

struct err *named_trouble(struct remote *r, struct named *t, struct err *e)
{
	const struct json *ready;

	if (!err_is(e, ERR_NOT_FOUND) && !err_is(e, ERR_UNAVAILABLE) && !err_is(e, ERR_MALFORMED))
		return e;
	err_free(named_load(r, t)); /* without it there is nothing to add */
	if (!t->doc || is_ready(json_root(t->doc)))
		return e;
	if (str_eq(json_str(json_at_path(json_root(t->doc), "spec.operatingMode")), "Suspended"))
		return err_wrap(e, "sandbox %s is suspended; wake it with `cay resume %s`",
				t->sandbox, t->name);
	ready = condition_of(json_root(t->doc), "Ready");
	return err_wrap(e, "sandbox %s is not Ready (%s: %s); see `cay explain %s`", t->sandbox,
			str_or(json_get_str(ready, "reason"), "no reason given"),
			str_or(json_get_str(ready, "message"), "nothing reported"), t->name);
}

void named_done(struct named *t)
{
	free(t->ns);
	free(t->name);
	free(t->claim);
	free(t->sandbox);
	free(t->pod);
	json_doc_free(t->claim_doc);
	json_doc_free(t->doc);
	*t = (struct named){ 0 };
}
