/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/diff.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/sandbox_pod.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/pass/draft.h"
#include "control/pass/keys.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/sandbox_priv.h"

/*
 * The Pod of a Sandbox (docs/reference/agent-sandbox.md §3.6): which one it is, what a new one
 * looks like, and how the metadata of a living one follows the template.
 */

static bool reserved_annotation(const char *key)
{
	return sandbox_label_reserved(key) || str_eq(key, KEY_TRACE);
}

/* Labels and annotations follow the same rules, apart from these. */
struct realm {
	const char *member, *list_key;
	bool (*reserved)(const char *key);
};
static const struct realm realms[] = {
	{ "labels", KEY_PROPAGATED_LABELS, sandbox_label_reserved },
	{ "annotations", KEY_PROPAGATED_ANNOTATIONS, reserved_annotation },
};

static const struct json *template_map(const struct object *sandbox, const struct realm *r)
{
	return json_get(sandbox_view(sandbox)->blueprint.pod_metadata, r->member);
}

/* The keys that go to the Pod, sorted, with commas. */
static char *propagated_list(const struct json *template, const struct realm *r)
{
	autofree const char **keys = xnew_n(const char *, json_len(template) + 1);
	struct buf out = { 0 };
	size_t n = 0;

	json_each(it, template)
		if (!r->reserved(it.key))
			keys[n++] = it.key;
	str_sort(keys, n);
	for (size_t i = 0; i < n; i++)
		buf_printf(&out, "%s%s", i ? "," : "", keys[i]);
	return buf_steal(&out, NULL);
}

static void put_template(struct json_doc *d, struct json *map, const struct json *template,
			 const struct realm *r)
{
	json_each(it, template)
		if (!r->reserved(it.key))
			json_set(d, map, it.key, json_copy(d, it.val));
}

/* Building */

struct json *volumes_merge(struct json_doc *d, const struct json *volumes, const struct json *vcts,
			   const char *sandbox_name)
{
	struct json *out = json_arr(d);

	json_each(v, volumes) {
		bool replaced = false;

		json_each(t, vcts)
			replaced = replaced ||
				   str_eq(volume_template_name(t.val), json_get_str(v.val, "name"));
		if (!replaced)
			json_push(d, out, json_copy(d, v.val));
	}
	json_each(t, vcts) {
		autofree char *pvc = pvc_name(t.val, sandbox_name);
		struct json *v = json_obj(d);

		json_set_str(d, v, "name", volume_template_name(t.val));
		json_set_str(d, json_need_obj(d, v, "persistentVolumeClaim"), "claimName", pvc);
		json_push(d, out, v);
	}
	return out;
}

static void put_meta(struct json_doc *d, struct json *root, const struct object *sandbox)
{
	struct json *meta = draft_meta(d, root, sandbox->name, sandbox), *annotations;

	for (size_t i = 0; i < ARRAY_LEN(realms); i++)
		put_template(d, json_need_obj(d, meta, realms[i].member),
			     template_map(sandbox, &realms[i]), &realms[i]);
	sandbox_system_labels(d, json_get(meta, "labels"), sandbox);
	annotations = json_get(meta, "annotations");
	for (size_t i = 0; i < ARRAY_LEN(realms); i++) {
		autofree char *list =
			propagated_list(template_map(sandbox, &realms[i]), &realms[i]);

		json_set_str(d, annotations, realms[i].list_key, str_or(list, NULL));
	}
}

struct json_doc *sandbox_pod_build(const struct object *sandbox)
{
	const struct blueprint_view *from = &sandbox_view(sandbox)->blueprint;
	struct json_doc *d = json_doc_new();
	struct json *root = draft_root(d, "v1", "Pod"), *spec;

	put_meta(d, root, sandbox);
	spec = json_copy(d, from->pod_spec);
	if (!spec)
		spec = json_obj(d);
	json_set(d, root, "spec", spec);
	if (json_len(from->volume_templates))
		json_set(d, spec, "volumes",
			 volumes_merge(d, json_get(spec, "volumes"), from->volume_templates,
				       sandbox->name));
	return d;
}

/* Following */

static bool list_owned_by_us(const char *key)
{
	return str_eq(key, KEY_NAME_HASH) || str_eq(key, KEY_PROPAGATED_LABELS) ||
	       str_eq(key, KEY_PROPAGATED_ANNOTATIONS);
}

/* Removes what an earlier pass propagated and the template no longer has. */
static void drop_stale(struct json *map, const char *listed, const struct json *template,
		       const struct realm *r)
{
	struct span rest = SPAN(str_or(listed, ""));

	while (rest.p && rest.len) {
		struct span part = span_trim(span_cut(rest, ',', &rest));
		autofree char *key = xstrndup(part.p, part.len);

		if (list_owned_by_us(key))
			continue;
		if (r->reserved(key) || !json_get(template, key))
			(void)json_del(map, key);
	}
}

struct json_doc *sandbox_pod_sync(const struct object *sandbox, const struct object *pod)
{
	autoptr(json_doc) d = json_doc_new();
	const struct json *have = json_get(pod->root, "metadata");
	struct json *root = json_obj(d), *meta = json_need_obj(d, root, "metadata");
	struct json *want[ARRAY_LEN(realms)];

	json_set_root(d, root);
	for (size_t i = 0; i < ARRAY_LEN(realms); i++) {
		const struct json *template = template_map(sandbox, &realms[i]);

		want[i] = json_copy(d, json_get(have, realms[i].member));
		if (!want[i])
			want[i] = json_obj(d);
		drop_stale(want[i], object_annotation(pod, realms[i].list_key), template,
			   &realms[i]);
		put_template(d, want[i], template, &realms[i]);
	}
	sandbox_system_labels(d, want[0], sandbox);
	for (size_t i = 0; i < ARRAY_LEN(realms); i++) {
		autofree char *list =
			propagated_list(template_map(sandbox, &realms[i]), &realms[i]);

		if (*list || !str_empty(json_get_str(want[1], realms[i].list_key)))
			json_set_str(d, want[1], realms[i].list_key, list);
	}
	for (size_t i = 0; i < ARRAY_LEN(realms); i++)
		json_set(d, meta, realms[i].member,
			 diff_strings(d, json_get(have, realms[i].member), want[i]));
	if (ownership_of(pod, sandbox) == UNOWNED)
		draft_adopt(d, meta, pod, sandbox);
	return json_len(meta) ? take(d) : NULL;
}

/* Every key of a that goes to the Pod has its value in b too. */
static bool is_within(const struct json *a, const struct json *b, const struct realm *r)
{
	json_each(it, a)
		if (!r->reserved(it.key) && !str_eq(it.key, KEY_SAFE_TO_EVICT) &&
		    !json_equal(it.val, json_get(b, it.key)))
			return false;
	return true;
}

bool sandbox_can_wait(const struct object *was, const struct object *now)
{
	const struct sandbox_view *a = sandbox_view(was), *b = sandbox_view(now);
	const struct json *evict = json_get(template_map(now, &realms[1]), KEY_SAFE_TO_EVICT);

	if (a->deleting != b->deleting || a->suspended != b->suspended ||
	    a->shutdown_at != b->shutdown_at || !str_eq(a->template_ref_hash, b->template_ref_hash))
		return false;
	if (evict && !json_equal(evict, json_get(template_map(was, &realms[1]), KEY_SAFE_TO_EVICT)))
		return false; /* a word of the claim's own */
	for (size_t i = 0; i < ARRAY_LEN(realms); i++)
		if (!is_within(template_map(was, &realms[i]), template_map(now, &realms[i]),
			       &realms[i]) ||
		    !is_within(template_map(now, &realms[i]), template_map(was, &realms[i]),
			       &realms[i]))
			return false;
	return true;
}

/* Deciding */

static void decide_suspended(struct sandbox_pod_plan *plan, bool annotated)
{
	if (plan->owned && !object_deleting(plan->pod))
		plan->step = (struct step){ STEP_DELETE, .uid = plan->pod->uid };
	else if (!plan->owned)
		plan->forget_name = annotated;
}

static void decide_running(struct sandbox_pod_plan *plan, const struct object *sandbox,
			   bool annotated)
{
	char hash[9];

	name_hash(sandbox->name, hash);
	switch (ownership_of(plan->pod, sandbox)) {
	case FOREIGN:
		plan->e = err_foreign("pod", plan->pod, sandbox);
		plan->forget_name = annotated;
		plan->pod = NULL;
		return;
	case UNOWNED:
		if (!adoption_allowed(plan->pod, hash)) {
			plan->e = err_unadoptable("pod", plan->pod);
			plan->pod = NULL;
			return;
		}
		break;
	case OWNED:
		if (object_deleting(plan->pod))
			return; /* its successor is created once it is gone */
		break;
	}
	plan->step.doc = sandbox_pod_sync(sandbox, plan->pod);
	plan->step.verb = plan->step.doc ? STEP_PATCH : STEP_NONE;
}

struct sandbox_pod_plan sandbox_pod_decide(const struct sandbox_pod_seen *seen)
{
	const struct sandbox_view *v = sandbox_view(seen->sandbox);
	bool annotated = v->pod_name_annotated;
	struct sandbox_pod_plan plan = { .n_owned = seen->n_owned };

	if (seen->n_owned > 1)
		return plan; /* refuses to choose */
	plan.pod = seen->n_owned ? seen->owned[0] : seen->tracked;
	plan.owned = plan.pod && ownership_of(plan.pod, seen->sandbox) == OWNED;
	if (annotated && (!plan.pod || (plan.owned && !str_eq(plan.pod->name, v->pod_name)))) {
		plan.forget_name = true;
		return plan; /* once the annotation is gone, the next pass sees what is really there
			      */
	}
	if (v->suspended) {
		decide_suspended(&plan, annotated);
	} else if (plan.pod) {
		decide_running(&plan, seen->sandbox, annotated);
	} else {
		plan.step.verb = STEP_CREATE;
		plan.step.doc = sandbox_pod_build(seen->sandbox);
	}
	return plan;
}
