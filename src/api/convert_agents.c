/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "base/str.h"
#include "json/json.h"

/*
 * The agent kinds between v1alpha1, which is only spoken, and v1beta1, which is stored
 * (docs/reference/cases.md, 1 to 26). In place.
 *
 * Upstream keeps a copy of every v1alpha1 object in an annotation of the stored one. We keep what
 * cannot be derived and no more: that a Sandbox's replicas was not given, and which template and
 * warmpool a claim named. Readers of v1alpha1 never see the annotation, and one that we cannot read
 * says nothing.
 */
#define STATE(kind)    "api.agents.x-k8s.io/v1alpha1-" kind "-state"
#define SANDBOX_STATE  STATE("sandbox")
#define CLAIM_STATE    STATE("sandboxclaim")
#define TEMPLATE_STATE STATE("sandboxtemplate")
#define POOL_STATE     STATE("sandboxwarmpool")
/* What a template of v1alpha1 has in the place of spec.volumeClaimTemplatesPolicy. */
#define VOLUMES_POLICY "api.agents.x-k8s.io/v1beta1-volume-claim-templates-policy"

/* Annotations */

static const char *annotation(const struct json *root, const char *key)
{
	return json_get_str(json_at_path(root, "metadata.annotations"), key);
}

static void annotate(struct json_doc *d, struct json *root, const char *key, const char *value)
{
	struct json *meta = json_need_obj(d, root, "metadata");

	json_set_str(d, json_need_obj(d, meta, "annotations"), key, value);
}

static void drop_annotation(struct json *root, const char *key)
{
	struct json *meta = json_get(root, "metadata"),
		    *annotations = json_get(meta, "annotations");

	if (json_is(annotations, JSON_OBJ) && json_del(annotations, key) && !json_len(annotations))
		json_del(meta, "annotations");
}

/* What was kept when the object was written; NULL: nothing that we can read. */
static struct json_doc *kept_state(const struct json *root, const char *key)
{
	const char *text = annotation(root, key);
	struct json_doc *state = NULL;
	struct err *e = text ? json_parse(text, strlen(text), NULL, &state) : NULL;

	if (e) {
		err_free(e); /* somebody else's text: nothing to restore */
		return NULL;
	}
	if (state && !json_is(json_root(state), JSON_OBJ)) {
		json_doc_free(state);
		return NULL;
	}
	return state;
}

/* Sandbox: a number of replicas in v1alpha1, a mode in v1beta1. */

/* Created through v1alpha1 without replicas. */
static bool replicas_were_unset(const struct json *root)
{
	autoptr(json_doc) state = kept_state(root, SANDBOX_STATE);

	return state && !json_at_path(json_root(state), "spec.replicas");
}

struct err *convert_sandbox_to_v1beta1(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d), *spec = json_get(root, "spec");
	struct json *status = json_get(root, "status");
	struct json *replicas = json_get(spec, "replicas");

	json_set_str(d, root, "apiVersion", GROUP_AGENTS "/v1beta1");
	drop_annotation(root, SANDBOX_STATE);
	if (json_is(status, JSON_OBJ))
		json_del(status, "replicas");
	if (!json_is(spec, JSON_OBJ))
		return NULL;
	if (!replicas)
		annotate(d, root, SANDBOX_STATE, "{\"spec\":{}}");
	json_set_str(d, spec, "operatingMode",
		     replicas && json_int(replicas, 1) == 0 ? "Suspended" : "Running");
	json_del(spec, "replicas");
	return NULL;
}

struct err *convert_sandbox_to_v1alpha1(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d), *spec = json_get(root, "spec");
	bool suspended = str_eq(json_get_str(spec, "operatingMode"), "Suspended");
	bool unset = replicas_were_unset(root);
	struct json *status;

	json_set_str(d, root, "apiVersion", GROUP_AGENTS "/v1alpha1");
	drop_annotation(root, SANDBOX_STATE);
	if (!json_is(spec, JSON_OBJ))
		return NULL;
	json_del(spec, "operatingMode");
	if (suspended || !unset)
		json_set_int(d, spec, "replicas", suspended ? 0 : 1);
	status = json_need_obj(d, root, "status");
	json_del(status, "nodeName");
	json_set_int(d, status, "replicas", suspended ? 0 : 1);
	return NULL;
}

/* SandboxTemplate: the same, but for a policy that v1alpha1 has in an annotation. */

struct err *convert_template_to_v1beta1(const struct kind *k unused, struct json_doc *d)
{
	static const char *const policies[] = { "Disallowed", "Allowed", "Overrides", NULL };
	struct json *root = json_root(d), *spec = json_get(root, "spec");
	const char *policy = annotation(root, VOLUMES_POLICY);

	if (policy && !str_in(policy, policies))
		return err_new(ERR_MALFORMED,
			       "invalid VolumeClaimTemplatesPolicy annotation value: \"%s\"",
			       policy);
	json_set_str(d, root, "apiVersion", API_EXTENSIONS);
	if (policy && json_is(spec, JSON_OBJ))
		json_set_str(d, spec, "volumeClaimTemplatesPolicy", policy);
	drop_annotation(root, VOLUMES_POLICY);
	drop_annotation(root, TEMPLATE_STATE);
	return NULL;
}

struct err *convert_template_to_v1alpha1(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d), *spec = json_get(root, "spec");
	const char *policy = json_get_str(spec, "volumeClaimTemplatesPolicy");

	json_set_str(d, root, "apiVersion", GROUP_EXTENSIONS "/v1alpha1");
	drop_annotation(root, TEMPLATE_STATE);
	if (str_empty(policy))
		drop_annotation(root, VOLUMES_POLICY);
	else
		annotate(d, root, VOLUMES_POLICY, policy);
	if (json_is(spec, JSON_OBJ))
		json_del(spec, "volumeClaimTemplatesPolicy");
	return NULL;
}

/* SandboxWarmPool: v1alpha1 always has replicas, and no observedGeneration. */

struct err *convert_pool_to_v1beta1(const struct kind *k unused, struct json_doc *d)
{
	json_set_str(d, json_root(d), "apiVersion", API_EXTENSIONS);
	drop_annotation(json_root(d), POOL_STATE);
	return NULL;
}

struct err *convert_pool_to_v1alpha1(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d), *spec = json_get(root, "spec");
	struct json *status = json_get(root, "status");

	json_set_str(d, root, "apiVersion", GROUP_EXTENSIONS "/v1alpha1");
	drop_annotation(root, POOL_STATE);
	if (json_is(spec, JSON_OBJ) && !json_get(spec, "replicas"))
		json_set_int(d, spec, "replicas", 1);
	if (json_is(status, JSON_OBJ))
		json_del(status, "observedGeneration");
	return NULL;
}

/* SandboxClaim: a template and a word about pools in v1alpha1, the name of a pool in v1beta1. */

static bool names_a_pool(const char *warmpool)
{
	return !str_empty(warmpool) && !str_eq(warmpool, "none") && !str_eq(warmpool, "default");
}

/* A member is called after its pool: "my-pool-abcde". */
static struct span pool_of_member(const char *sandbox)
{
	const char *end = strrchr(sandbox, '-');

	return (struct span){ sandbox, end ? (size_t)(end - sandbox) : strlen(sandbox) };
}

static const char *template_name(const struct json *spec)
{
	return str_or(json_get_str(json_get(spec, "sandboxTemplateRef"), "name"), "");
}

static const char *bound_to(const struct json *root)
{
	return str_or(json_str(json_at_path(root, "status.sandbox.name")), "");
}

static struct json *pool_of_claim(struct json_doc *d, const struct json *root)
{
	const struct json *spec = json_get(root, "spec");
	const char *warmpool = json_get_str(spec, "warmpool"), *sandbox = bound_to(root);
	const char *name = json_get_str(json_get(root, "metadata"), "name");
	struct span pool;

	if (names_a_pool(warmpool))
		return json_new_str(d, warmpool);
	if (!*sandbox || str_eq(sandbox, name)) /* cold, now or in future */
		return json_new_strf(d, SHADOW_POOL "%s", template_name(spec));
	pool = pool_of_member(sandbox);
	return json_new_strf(d, "%.*s", (int)pool.len, pool.p);
}

static void keep_claim(struct json_doc *d, struct json *root)
{
	const struct json *spec = json_get(root, "spec");
	const char *warmpool = json_get_str(spec, "warmpool");
	autoptr(json_doc) state = json_doc_new();
	struct json *kept = json_obj(state), *kept_spec;
	autofree char *text = NULL;

	kept_spec = json_set(state, kept, "spec", json_obj(state));
	json_set_str(state, json_need_obj(state, kept_spec, "sandboxTemplateRef"), "name",
		     template_name(spec));
	if (warmpool)
		json_set_str(state, kept_spec, "warmpool", warmpool);
	text = json_to_text(kept);
	annotate(d, root, CLAIM_STATE, text);
}

struct err *convert_claim_to_v1beta1(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d), *spec = json_get(root, "spec"), *pool;

	json_set_str(d, root, "apiVersion", API_EXTENSIONS);
	if (!json_is(spec, JSON_OBJ))
		return NULL;
	keep_claim(d, root);
	pool = pool_of_claim(d, root);
	json_del(spec, "sandboxTemplateRef");
	json_del(spec, "warmpool");
	(void)json_set(d, json_need_obj(d, spec, "warmPoolRef"), "name", pool);
	return NULL;
}

/* Is pool still what was made of the claim when it was written? */
static bool still_says(const struct json *kept, const char *pool, const char *sandbox)
{
	const char *warmpool = json_get_str(kept, "warmpool");
	const char *expected = names_a_pool(warmpool) ? warmpool : template_name(kept);
	struct span from = pool_of_member(sandbox);

	if (str_eq(pool, expected) ||
	    (str_starts(pool, SHADOW_POOL) && str_eq(pool + strlen(SHADOW_POOL), expected)))
		return true;
	return *sandbox && (str_eq(pool, sandbox) || span_eq(from, pool));
}

struct err *convert_claim_to_v1alpha1(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d), *spec = json_get(root, "spec");
	const char *pool = str_or(json_get_str(json_get(spec, "warmPoolRef"), "name"), "");
	autoptr(json_doc) state = kept_state(root, CLAIM_STATE);
	const struct json *kept = state ? json_get(json_root(state), "spec") : NULL;
	bool shadow = str_starts(pool, SHADOW_POOL);
	const char *template = shadow ? pool + strlen(SHADOW_POOL) : pool;
	const char *warmpool = shadow ? "default" : pool;

	json_set_str(d, root, "apiVersion", GROUP_EXTENSIONS "/v1alpha1");
	drop_annotation(root, CLAIM_STATE);
	if (!json_is(spec, JSON_OBJ))
		return NULL;
	if (kept) {
		template = template_name(kept);
		warmpool = still_says(kept, pool, bound_to(root)) ? json_get_str(kept, "warmpool")
								  : pool;
	}
	json_set_str(d, json_need_obj(d, spec, "sandboxTemplateRef"), "name", template);
	if (warmpool)
		json_set_str(d, spec, "warmpool", warmpool);
	json_del(spec, "warmPoolRef");
	json_del(spec, "volumeClaimTemplates");
	return NULL;
}
