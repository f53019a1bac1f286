/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/diff.h"
#include "api/meta.h"
#include "api/view_sandbox.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/claim/claim.h"
#include "control/claim/claim_priv.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"

/*
 * What a claim reports (docs/reference/agent-sandbox.md §6.2, §6.9).
 */

/* A change of its Sandbox matters to a claim only in what the claim mirrors. */
bool claim_cares(const struct object *was, const struct object *now)
{
	const struct sandbox_view *a, *b;

	if (!was || !now)
		return true;
	a = sandbox_view(was);
	b = sandbox_view(now);
	return a->deleting != b->deleting || !str_eq(a->owner.uid, b->owner.uid) ||
	       !semantic_equal(a->pod_ips, b->pod_ips) ||
	       !semantic_equal(a->ready.tree, b->ready.tree) ||
	       !semantic_equal(a->finished.tree, b->finished.tree);
}

/* Ready */

static void say_ready(struct json_doc *d, const struct claim_facts *f, const char *reason,
		      const char *message)
{
	struct json *conditions = json_get(json_root(d), "conditions");
	const struct condition c = {
		"Ready", "False", reason, message, claim_view(f->claim)->generation, NULL
	};

	conditions_upsert(d, conditions, &c, f->now);
}

static void say_trouble(struct json_doc *d, const struct claim_facts *f)
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
	const char *text = err_text(f->trouble->e);
	autofree char *message = NULL;

	if (f->trouble->kind == TROUBLE_OTHER)
		message = xasprintf("Error seen: %s", text);
	else if (f->trouble->kind == TROUBLE_NOT_OWNED)
		message = xasprintf("Claim expired. %s; deletion skipped.", text);
	say_ready(d, f, reasons[f->trouble->kind], message ? message : text);
}

/* The Sandbox's words, but with the claim's generation. */
static void forward_ready(struct json_doc *d, const struct claim_facts *f,
			  const struct condition_view *ready)
{
	const struct condition c = {
		.type = "Ready",
		.status = str_or(ready->status, "Unknown"),
		.reason = ready->reason,
		.message = ready->message,
		.observed_generation = claim_view(f->claim)->generation,
		.transition = ready->transition,
	};

	conditions_upsert(d, json_get(json_root(d), "conditions"), &c, f->now);
}

static void put_ready(struct json_doc *d, const struct claim_facts *f)
{
	const struct sandbox_view *sandbox = f->sandbox ? sandbox_view(f->sandbox) : NULL;

	if (f->trouble->kind != TROUBLE_NONE)
		say_trouble(d, f);
	else if (f->expired)
		claim_mark_expired(d, f->claim, f->now);
	else if (!sandbox)
		say_ready(d, f, "SandboxMissing", "Sandbox does not exist");
	else if (!sandbox->ready.tree)
		say_ready(d, f, "SandboxNotReady", "Sandbox is not ready");
	else if (sandbox_says_expired(sandbox))
		say_ready(d, f, "SandboxExpired",
			  "Underlying Sandbox resource has expired independently of the Claim.");
	else
		forward_ready(d, f, &sandbox->ready);
}

void claim_mark_expired(struct json_doc *d, const struct object *claim, usec now)
{
	const struct condition c = { "Ready",
				     "False",
				     "ClaimExpired",
				     "Claim expired. Sandbox cleanup initiated.",
				     claim_view(claim)->generation,
				     NULL };

	conditions_upsert(d, json_need_arr(d, json_root(d), "conditions"), &c, now);
}

/* The rest of the status */

static void put_finished(struct json_doc *d, const struct claim_facts *f)
{
	struct json *conditions = json_get(json_root(d), "conditions");
	const struct json *finished = NULL;

	if (!f->sandbox && (f->expired || f->trouble->kind != TROUBLE_NONE))
		return; /* keep what is known */
	if (f->sandbox)
		finished = sandbox_view(f->sandbox)->finished.tree;
	conditions_remove(conditions, "Finished");
	if (finished)
		json_insert(d, conditions, 0, json_copy(d, finished)); /* sorted by type */
}

static void put_sandbox(struct json_doc *d, const struct claim_facts *f)
{
	struct json *status = json_root(d), *sandbox;
	const struct json *ips;

	if (!f->sandbox) {
		if (f->trouble->kind == TROUBLE_NONE || f->trouble->kind == TROUBLE_NOT_OWNED)
			(void)json_del(status, "sandbox");
		return;
	}
	ips = sandbox_view(f->sandbox)->pod_ips;
	sandbox = json_obj(d);
	json_set_str(d, sandbox, "name", f->sandbox->name);
	if (json_len(ips))
		json_set(d, sandbox, "podIPs", json_copy(d, ips));
	json_set(d, status, "sandbox", sandbox);
}

struct json_doc *claim_status(const struct claim_facts *f)
{
	struct json_doc *d = draft_status(f->claim);

	(void)json_need_arr(d, json_root(d), "conditions");
	put_ready(d, f);
	put_finished(d, f);
	put_sandbox(d, f);
	return d;
}

struct json_doc *claim_status_patch(const struct object *claim, const struct json *want)
{
	struct json_doc *d = draft_status_patch(claim, want);

	if (d)
		draft_guard(d, json_need_obj(d, json_root(d), "metadata"), claim);
	return d;
}

/* Stamps */

static void stamp_time(struct json_doc *d, struct json *annotations, const char *key, usec at)
{
	char text[CLOCK_TEXT_MAX];

	clock_format_nano(at, text);
	json_set_str(d, annotations, key, text);
}

static void stamp_times(struct json_doc *d, struct json *annotations, const struct claim_stamps *s)
{
	const struct claim_view *claim = claim_view(s->claim);

	if (s->observability && str_empty(claim->first_observed))
		stamp_time(d, annotations, KEY_FIRST_OBSERVED, s->first_seen);
	if (s->trace)
		json_set_str(d, annotations, KEY_TRACE, s->trace);
	if (!s->ready || !str_empty(claim->first_ready))
		return;
	if (s->ready_at)
		stamp_time(d, annotations, KEY_FIRST_READY, s->ready_at);
	else
		json_set_str(d, annotations, KEY_FIRST_READY, "unknown");
}

/* True when one was missing. */
static bool stamp(struct json_doc *d, struct json *meta, const struct claim_stamps *s)
{
	struct json *annotations = json_obj(d);
	bool old_label = s->sandbox && claim_view(s->claim)->assigned_by_label;

	stamp_times(d, annotations, s);
	if (s->sandbox && sandbox_view(s->sandbox)->warm &&
	    !str_eq(object_annotation(s->claim, KEY_SANDBOX_NAME), s->sandbox->name))
		json_set_str(d, annotations, KEY_SANDBOX_NAME, s->sandbox->name);
	if (json_len(annotations))
		json_set(d, meta, "annotations", annotations);
	if (old_label)
		json_set(d, json_need_obj(d, meta, "labels"), KEY_SANDBOX_NAME, json_new_null(d));
	return json_len(annotations) || old_label;
}

struct json_doc *claim_report(const struct json *want, const struct claim_stamps *s)
{
	autoptr(json_doc) d = claim_status_patch(s->claim, want);
	bool status = d;

	if (!d) {
		d = json_doc_new();
		json_set_root(d, json_obj(d));
		draft_guard_uid(d, json_need_obj(d, json_root(d), "metadata"), s->claim);
	}
	if (!stamp(d, json_get(json_root(d), "metadata"), s) && !status)
		return NULL;
	return take(d);
}
