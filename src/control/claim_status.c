/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/meta.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim_priv.h"
#include "control/control_priv.h"
#include "control/diff_priv.h"
#include "control/keys_priv.h"

/*
 * What a claim has and what it reports (reference/api.md §6.2, §6.7, §6.9).
 */

static const struct json *conditions_of(const struct object *o)
{
	return json_get(object_status(o), "conditions");
}

/* Finding */

const char *claim_assigned(const struct object *claim)
{
	const char *name = object_annotation(claim, KEY_SANDBOX_NAME);

	return str_or(name, str_or(object_label(claim, KEY_SANDBOX_NAME), NULL));
}

bool member_fits_claim(const struct object *sandbox, const struct object *claim)
{
	return !object_deleting(sandbox) && str_eq(sandbox->ns, claim->ns) &&
	       object_label(sandbox, KEY_POOL) && object_label(sandbox, KEY_TEMPLATE_REF_HASH) &&
	       controlled_by_kind(sandbox, "SandboxWarmPool") &&
	       str_eq(json_get_str(object_controller(sandbox), "name"), claim_pool(claim));
}

enum find claim_find(const struct claim_seen *seen, struct object **ret)
{
	struct object *const mine[] = { seen->by_status, seen->assigned, seen->by_owner,
					seen->by_name };

	for (size_t i = 0; i < ARRAY_LEN(mine); i++)
		if (mine[i] && object_controlled_by(mine[i], seen->claim->uid)) {
			*ret = mine[i];
			return FIND_USE;
		}
	if (seen->assigned && member_fits_claim(seen->assigned, seen->claim)) {
		*ret = seen->assigned;
		return FIND_COMPLETE;
	}
	if (seen->assigned_name)
		return FIND_FORGET;
	return seen->by_name ? FIND_NAME_USED : FIND_NEW;
}

/* A claim hears of its Sandbox only what it mirrors. */
bool claim_cares(const struct object *was, const struct object *now)
{
	static const char *const mirrored[] = { "Ready", "Finished" };

	if (!was || !now || object_deleting(was) != object_deleting(now))
		return true;
	if (!str_eq(json_get_str(object_controller(was), "uid"),
		    json_get_str(object_controller(now), "uid")) ||
	    !semantic_equal(json_get(object_status(was), "podIPs"),
			    json_get(object_status(now), "podIPs")))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(mirrored); i++)
		if (!semantic_equal(conditions_get(conditions_of(was), mirrored[i]),
				    conditions_get(conditions_of(now), mirrored[i])))
			return true;
	return false;
}

/* Expiry */

const char *claim_shutdown_policy(const struct object *claim)
{
	return str_or(json_get_str(json_get(object_spec(claim), "lifecycle"), "shutdownPolicy"),
		      "Retain");
}

static usec time_of(const struct json *text)
{
	usec at = 0;

	if (!str_empty(json_str(text)))
		err_free(clock_parse(json_str(text), &at)); /* the schema lets only times through */
	return at;
}

usec claim_expires_at(const struct object *claim, const struct json *status)
{
	const struct json *lifecycle = json_get(object_spec(claim), "lifecycle");
	const struct json *finished = conditions_get(json_get(status, "conditions"), "Finished");
	int64_t ttl = json_get_int(lifecycle, "ttlSecondsAfterFinished", -1);
	usec at = time_of(json_get(lifecycle, "shutdownTime"));
	usec ended = time_of(json_get(finished, "lastTransitionTime"));

	if (ttl < 0 || !ended || !str_eq(json_get_str(finished, "status"), "True"))
		return at;
	ended += ttl * 1000000;
	return at && at < ended ? at : ended;
}

/* Ready */

static void say_ready(struct json_doc *d, const struct claim_view *v, const char *reason,
		      const char *message)
{
	struct json *conditions = json_get(json_root(d), "conditions");
	const struct condition c = { "Ready", "False", reason, message, object_generation(v->claim),
				     NULL };

	conditions_upsert(d, conditions, &c, v->now);
}

static void say_trouble(struct json_doc *d, const struct claim_view *v)
{
	static const char *const reasons[] = {
		[TROUBLE_TEMPLATE] = "TemplateNotFound",
		[TROUBLE_POOL] = "WarmPoolNotFound",
		[TROUBLE_CONFLICT] = "AdoptionConflict",
		[TROUBLE_LAG] = "SandboxCreatePending",
		[TROUBLE_METADATA] = "InvalidMetadata",
		[TROUBLE_ENV] = "EnvVarsInjectionRejected",
		[TROUBLE_NOT_OWNED] = "ClaimExpired",
		[TROUBLE_VCT] = "VolumeClaimTemplatesError",
		[TROUBLE_OTHER] = "ReconcilerError",
	};
	const char *text = err_text(v->trouble->e);
	autofree char *message = NULL;

	if (v->trouble->kind == TROUBLE_OTHER)
		message = xasprintf("Error seen: %s", text);
	else if (v->trouble->kind == TROUBLE_NOT_OWNED)
		message = xasprintf("Claim expired. %s; deletion skipped.", text);
	say_ready(d, v, reasons[v->trouble->kind], message ? message : text);
}

/* The Sandbox's word, but of the claim's generation. */
static void forward_ready(struct json_doc *d, const struct claim_view *v, const struct json *ready)
{
	const struct condition c = {
		.type = "Ready",
		.status = str_or(json_get_str(ready, "status"), "Unknown"),
		.reason = json_get_str(ready, "reason"),
		.message = json_get_str(ready, "message"),
		.observed_generation = object_generation(v->claim),
		.transition = json_get_str(ready, "lastTransitionTime"),
	};

	conditions_upsert(d, json_get(json_root(d), "conditions"), &c, v->now);
}

static void put_ready(struct json_doc *d, const struct claim_view *v)
{
	const struct json *ready = NULL;

	if (v->trouble->kind != TROUBLE_NONE) {
		say_trouble(d, v);
		return;
	}
	if (v->expired) {
		claim_mark_expired(d, v->claim, v->now);
		return;
	}
	if (!v->sandbox) {
		say_ready(d, v, "SandboxMissing", "Sandbox does not exist");
		return;
	}
	ready = conditions_get(conditions_of(v->sandbox), "Ready");
	if (!ready)
		say_ready(d, v, "SandboxNotReady", "Sandbox is not ready");
	else if (str_eq(json_get_str(ready, "reason"), "SandboxExpired"))
		say_ready(d, v, "SandboxExpired",
			  "Underlying Sandbox resource has expired independently of the Claim.");
	else
		forward_ready(d, v, ready);
}

void claim_mark_expired(struct json_doc *d, const struct object *claim, usec now)
{
	const struct condition c = { "Ready",
				     "False",
				     "ClaimExpired",
				     "Claim expired. Sandbox cleanup initiated.",
				     object_generation(claim),
				     NULL };

	conditions_upsert(d, json_need_arr(d, json_root(d), "conditions"), &c, now);
}

/* The rest of the status */

static void put_finished(struct json_doc *d, const struct claim_view *v)
{
	struct json *conditions = json_get(json_root(d), "conditions");
	const struct json *finished = NULL;

	if (!v->sandbox && (v->expired || v->trouble->kind != TROUBLE_NONE))
		return; /* what it was stays known */
	if (v->sandbox)
		finished = conditions_get(conditions_of(v->sandbox), "Finished");
	conditions_remove(conditions, "Finished");
	if (finished)
		json_insert(d, conditions, 0, json_copy(d, finished)); /* sorted by type */
}

static void put_sandbox(struct json_doc *d, const struct claim_view *v)
{
	struct json *status = json_root(d), *sandbox;
	const struct json *ips;

	if (!v->sandbox) {
		if (v->trouble->kind == TROUBLE_NONE || v->trouble->kind == TROUBLE_NOT_OWNED)
			(void)json_del(status, "sandbox");
		return;
	}
	ips = json_get(object_status(v->sandbox), "podIPs");
	sandbox = json_obj(d);
	json_set_str(d, sandbox, "name", v->sandbox->name);
	if (json_len(ips))
		json_set(d, sandbox, "podIPs", json_copy(d, ips));
	json_set(d, status, "sandbox", sandbox);
}

struct json_doc *claim_status(const struct claim_view *v)
{
	struct json_doc *d = json_doc_new();
	struct json *status = json_copy(d, object_status(v->claim));

	if (!status)
		status = json_obj(d);
	json_set_root(d, status);
	(void)json_need_arr(d, status, "conditions");
	put_ready(d, v);
	put_finished(d, v);
	put_sandbox(d, v);
	return d;
}

struct json_doc *claim_status_patch(const struct object *claim, const struct json *want)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d), *diff = diff_merge(d, object_status(claim), want);

	if (!diff)
		return NULL;
	json_set_root(d, root);
	json_set(d, json_need_obj(d, root, "metadata"), "resourceVersion",
		 json_copy(d, json_get(json_get(claim->root, "metadata"), "resourceVersion")));
	json_set(d, root, "status", diff);
	return take(d);
}

/* Stamps */

static void stamp_time(struct json_doc *d, struct json *annotations, const char *key, usec at)
{
	char text[CLOCK_TEXT_MAX];

	clock_format_nano(at, text);
	json_set_str(d, annotations, key, text);
}

struct json_doc *claim_stamp(const struct claim_stamps *s)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");
	struct json *annotations = json_obj(d);
	bool warm = s->sandbox && str_eq(object_label(s->sandbox, KEY_LAUNCH_TYPE), "warm");

	json_set_root(d, root);
	if (s->observability && str_empty(object_annotation(s->claim, KEY_FIRST_OBSERVED)))
		stamp_time(d, annotations, KEY_FIRST_OBSERVED, s->first_seen);
	if (warm && !str_eq(object_annotation(s->claim, KEY_SANDBOX_NAME), s->sandbox->name))
		json_set_str(d, annotations, KEY_SANDBOX_NAME, s->sandbox->name);
	if (conditions_true(conditions_of(s->claim), "Ready") &&
	    str_empty(object_annotation(s->claim, KEY_FIRST_READY))) {
		if (s->ready_at)
			stamp_time(d, annotations, KEY_FIRST_READY, s->ready_at);
		else
			json_set_str(d, annotations, KEY_FIRST_READY, "unknown");
	}
	if (json_len(annotations))
		json_set(d, meta, "annotations", annotations);
	if (s->sandbox && object_label(s->claim, KEY_SANDBOX_NAME))
		json_set(d, json_need_obj(d, meta, "labels"), KEY_SANDBOX_NAME, json_new_null(d));
	return json_len(meta) ? take(d) : NULL;
}
