/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/view_template.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim_priv.h"
#include "control/pass/keys.h"

/*
 * What a claim may ask for beyond the template (docs/reference/agent-sandbox.md §6.4 to §6.6). The
 * texts are part of the API.
 */

void trouble_done(struct trouble *t)
{
	err_free(t->e);
	*t = (struct trouble){ 0 };
}

/* The prefix of a key, lower case; "" when it has none. */
static char *domain_of(const char *key)
{
	const char *slash = strchr(key, '/');
	char *domain = xstrndup(key, slash ? (size_t)(slash - key) : 0);

	for (char *c = domain; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	return domain;
}

static bool in_domain(const char *domain, const char *of)
{
	size_t len = strlen(domain), of_len = strlen(of);

	if (len < of_len || !str_eq(domain + len - of_len, of))
		return false;
	return len == of_len || domain[len - of_len - 1] == '.';
}

static bool in_domains(const char *domain, const char *const *list)
{
	for (; *list; list++)
		if (in_domain(domain, *list))
			return true;
	return false;
}

static struct err *check_label(const char *key, const char *value, const char *const *domains)
{
	autofree char *domain = domain_of(key);
	const char *bad;

	if (str_eq_nocase(key, "app") && str_eq_nocase(value, "sandbox-router"))
		return err_new(ERR_INVALID,
			       "restricted system label value: \"%s\"=\"%s\" is not allowed in "
			       "AdditionalPodMetadata",
			       key, value);
	bad = meta_bad_qualified_name(key);
	if (bad)
		return err_new(ERR_INVALID, "invalid label key: %s", bad);
	if (!*domain)
		return err_new(ERR_INVALID,
			       "label \"%s\" must have a domain prefix (e.g. "
			       "'sandbox.users.io/my-label') to prevent opting into unintended "
			       "policy domains",
			       key);
	if (!in_domains(domain, domains))
		return err_new(ERR_INVALID, "label domain \"%s\" is not in the allowlist", domain);
	bad = meta_bad_label_value(value);
	if (bad)
		return err_new(ERR_INVALID,
			       "invalid label value: \"%s\" does not match allowed pattern: %s",
			       value, bad);
	return NULL;
}

static struct err *check_annotation(const char *key)
{
	static const char *const system[] = { "kubernetes.io", "k8s.io", GROUP_AGENTS, NULL };
	autofree char *domain = domain_of(key);
	const char *bad = meta_bad_qualified_name(key);

	if (bad)
		return err_new(ERR_INVALID, "invalid annotation key: %s", bad);
	if (str_eq(key, KEY_SAFE_TO_EVICT))
		return NULL;
	if (in_domains(domain, system))
		return err_new(ERR_INVALID,
			       "restricted system domain: \"%s\" is not allowed in "
			       "AdditionalPodMetadata",
			       key);
	return NULL;
}

struct err *claim_check_metadata(const struct object *claim, const char *const *domains)
{
	struct err *e;

	json_each(it, claim_view(claim)->pod_labels) {
		e = check_label(it.key, str_or(json_str(it.val), ""), domains);
		if (e)
			return err_wrap(e,
					"invalid additionalPodMetadata: failed to validate label "
					"\"%s\"",
					it.key);
	}
	json_each(it, claim_view(claim)->pod_annotations) {
		e = check_annotation(it.key);
		if (e)
			return err_wrap(e,
					"invalid additionalPodMetadata: failed to validate "
					"annotation \"%s\"",
					it.key);
	}
	return NULL;
}

struct err *claim_merge_metadata(struct json_doc *d, struct json *metadata,
				 const struct object *claim)
{
	const struct claim_view *v = claim_view(claim);
	const struct {
		const char *map, *word;
		const struct json *wanted;
	} both[] = {
		{ "labels", "label", v->pod_labels },
		{ "annotations", "annotation", v->pod_annotations },
	};

	for (size_t i = 0; i < ARRAY_LEN(both); i++)
		json_each(it, both[i].wanted) {
			struct json *map = json_need_obj(d, metadata, both[i].map);
			const char *have = json_get_str(map, it.key);
			const char *want = str_or(json_str(it.val), "");

			if (have && !str_eq(have, want))
				return err_new(
					ERR_CONFLICT,
					"metadata override conflict: %s \"%s\" is defined in "
					"template with value \"%s\", but claim requests \"%s\"",
					both[i].word, it.key, have, want);
			json_set_str(d, map, it.key, want);
		}
	return NULL;
}

/* Volume claims */

static struct json *vct_find(const struct json *list, const char *name)
{
	json_each(it, list)
		if (str_eq(volume_template_name(it.val), name))
			return it.val;
	return NULL;
}

static struct err *vcts_check(const struct json *list)
{
	for (size_t i = 0; i < json_len(list); i++) {
		const char *name = volume_template_name(json_at(list, i));

		if (!*name)
			return err_new(ERR_INVALID,
				       "invalid volume claim templates: name at index %zu is empty",
				       i);
		if (vct_find(list, name) != json_at(list, i))
			return err_new(ERR_INVALID,
				       "invalid volume claim templates: duplicate name \"%s\"",
				       name);
	}
	return NULL;
}

/* Both lists were checked. replace: the claim's entry wins where names are the same. */
static struct err *vcts_join(struct json_doc *d, const struct json *template,
			     const struct json *claim, bool replace, struct json **ret)
{
	struct json *all = json_arr(d);

	json_each(it, template) {
		const struct json *other = vct_find(claim, volume_template_name(it.val));

		if (other && !replace)
			return err_new(ERR_FORBIDDEN,
				       "overriding volume claim templates is forbidden by the "
				       "template: cannot override template volume \"%s\"",
				       volume_template_name(it.val));
		json_push(d, all, json_copy(d, other ? other : it.val));
	}
	json_each(it, claim)
		if (!vct_find(template, volume_template_name(it.val)))
			json_push(d, all, json_copy(d, it.val));
	*ret = all;
	return NULL;
}

struct err *claim_merge_vcts(struct json_doc *d, const struct object *template,
			     const struct object *claim, struct json **ret)
{
	const struct json *theirs = template_view(template)->blueprint.volume_templates;
	const struct json *ours = claim_view(claim)->volume_templates;
	enum template_policy policy = template_view(template)->volume_policy;
	struct err *e;

	e = vcts_check(theirs);
	if (!json_len(ours)) {
		*ret = json_copy(d, theirs);
		return err_wrap(e, "invalid volume claim templates in template");
	}
	if (e)
		return err_wrap(e, "failed to merge volume claim templates: template");
	e = vcts_check(ours);
	if (e)
		return err_wrap(e, "failed to merge volume claim templates: claim");
	if (policy == TEMPLATE_DISALLOWED)
		return err_new(ERR_FORBIDDEN,
			       "failed to merge volume claim templates: volume claim "
			       "templates are disallowed by the template");
	return err_wrap(vcts_join(d, theirs, ours, policy == TEMPLATE_OVERRIDES, ret),
			"failed to merge volume claim templates");
}

/* Environment */

static struct json *container_find(const struct json *pod_spec, const char *name)
{
	static const char *const lists[] = { "initContainers", "containers" };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(pod_spec, lists[i]))
			if (str_eq(json_get_str(it.val, "name"), name))
				return it.val;
	return NULL;
}

static struct err *env_put(struct json_doc *d, struct json *container, const struct json *entry,
			   bool overrides)
{
	struct json *env = json_need_arr(d, container, "env"), *fresh = json_obj(d);
	const char *name = str_or(json_get_str(entry, "name"), "");

	if (!overrides && json_len(json_get(container, "envFrom")))
		return err_new(ERR_FORBIDDEN,
			       "environment variable injection rejected: container \"%s\" uses "
			       "EnvFrom sources; Allowed policy cannot safely prevent overriding "
			       "EnvFrom-provided variables",
			       str_or(json_get_str(container, "name"), ""));
	json_set_str(d, fresh, "name", name);
	json_set_str(d, fresh, "value", str_or(json_get_str(entry, "value"), ""));
	for (size_t i = 0; i < json_len(env); i++) {
		if (!str_eq(json_get_str(json_at(env, i), "name"), name))
			continue;
		if (!overrides)
			return err_new(ERR_INVALID,
				       "environment variable override is not allowed by the "
				       "template policy for variable \"%s\"",
				       name);
		json_remove(env, i);
		json_insert(d, env, i, fresh);
		return NULL;
	}
	json_push(d, env, fresh);
	return NULL;
}

static struct err *env_check_targets(const struct json *pod_spec, const struct json *env)
{
	json_each(it, env) {
		const char *target = json_get_str(it.val, "containerName");

		if (!str_empty(target) && !container_find(pod_spec, target))
			return err_new(ERR_INVALID,
				       "target container \"%s\" not found in template for "
				       "environment variable \"%s\"",
				       target, str_or(json_get_str(it.val, "name"), ""));
	}
	return NULL;
}

struct err *claim_inject_env(struct json_doc *d, struct json *pod_spec,
			     const struct object *template, const struct object *claim)
{
	const struct json *env = claim_view(claim)->env;
	enum template_policy policy = template_view(template)->env_policy;
	bool overrides = policy == TEMPLATE_OVERRIDES;
	struct err *e;

	if (!json_len(env))
		return NULL;
	if (policy == TEMPLATE_DISALLOWED)
		return err_new(ERR_FORBIDDEN,
			       "environment variable injection rejected: environment "
			       "variable injection is not allowed by the template "
			       "policy");
	e = env_check_targets(pod_spec, env);
	/* Those that name their container come first, the others go to the first main one. */
	for (int named = 1; named >= 0 && !e; named--)
		json_each(it, env) {
			const char *target = json_get_str(it.val, "containerName");
			struct json *container =
				named ? container_find(pod_spec, str_or(target, ""))
				      : json_at(json_get(pod_spec, "containers"), 0);

			if (!e && container && str_empty(target) == !named)
				e = env_put(d, container, it.val, overrides);
		}
	return e;
}
