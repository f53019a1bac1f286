/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "base/str.h"
#include "json/json.h"

/*
 * Conversion between versions of a kind, in place.
 *
 * Sandbox: v1alpha1 counts replicas where v1beta1 names a mode. Upstream keeps a copy of every
 * v1alpha1 object in an annotation of the stored one; the one thing that cannot be derived is that
 * replicas was not given, so we keep that alone. Readers of v1alpha1 never see the annotation.
 */
#define SANDBOX_STATE "api.agents.x-k8s.io/v1alpha1-sandbox-state"

static void drop_annotation(struct json *root, const char *key)
{
	struct json *meta = json_get(root, "metadata"),
		    *annotations = json_get(meta, "annotations");

	if (json_is(annotations, JSON_OBJ) && json_del(annotations, key) && !json_len(annotations))
		json_del(meta, "annotations");
}

/* Renames a member; an absent one stays absent. */
static void rename_member(struct json_doc *d, struct json *obj, const char *from, const char *to)
{
	struct json *v = json_get(obj, from);

	if (!v)
		return;
	json_del(obj, from);
	json_set(d, obj, to, v);
}

static void note_unset_replicas(struct json_doc *d, struct json *root)
{
	struct json *meta = json_need_obj(d, root, "metadata");

	json_set_str(d, json_need_obj(d, meta, "annotations"), SANDBOX_STATE, "{\"spec\":{}}");
}

/* Created through v1alpha1 without replicas. An annotation that we cannot read says nothing. */
static bool replicas_were_unset(const struct json *root)
{
	const struct json *annotations = json_at_path(root, "metadata.annotations");
	const char *text = json_get_str(annotations, SANDBOX_STATE);
	autoptr(json_doc) state = NULL;
	struct err *e;

	if (!text)
		return false;
	e = json_parse(text, strlen(text), NULL, &state);
	if (e) {
		err_free(e); /* somebody else's text: nothing to restore */
		return false;
	}
	return json_is(json_root(state), JSON_OBJ) &&
	       !json_at_path(json_root(state), "spec.replicas");
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
		note_unset_replicas(d, root);
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

/* Events: one stored object, two sets of names. */
static const struct {
	const char *events, *core;
} event_names[] = {
	{ "note", "message" },
	{ "regarding", "involvedObject" },
	{ "reportingController", "reportingComponent" },
	{ "deprecatedCount", "count" },
	{ "deprecatedFirstTimestamp", "firstTimestamp" },
	{ "deprecatedLastTimestamp", "lastTimestamp" },
	{ "deprecatedSource", "source" },
};

struct err *convert_event_to_core(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d);

	json_set_str(d, root, "apiVersion", "v1");
	for (size_t i = 0; i < ARRAY_LEN(event_names); i++)
		rename_member(d, root, event_names[i].events, event_names[i].core);
	return NULL;
}

struct err *convert_event_from_core(const struct kind *k unused, struct json_doc *d)
{
	struct json *root = json_root(d);

	json_set_str(d, root, "apiVersion", "events.k8s.io/v1");
	for (size_t i = 0; i < ARRAY_LEN(event_names); i++)
		rename_member(d, root, event_names[i].core, event_names[i].events);
	return NULL;
}

/* metrics.k8s.io: whose object it is. The server adds what was measured. */

static struct json *metrics_head(struct json_doc *d, const char *kind)
{
	static const char *const kept[] = { "name", "namespace", "labels", "creationTimestamp" };
	const struct json *meta = json_get(json_root(d), "metadata");
	struct json *o = json_obj(d), *own = json_obj(d);

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (json_get(meta, kept[i]))
			(void)json_set(d, own, kept[i], json_copy(d, json_get(meta, kept[i])));
	json_set_str(d, o, "kind", kind);
	json_set_str(d, o, "apiVersion", "metrics.k8s.io/v1beta1");
	(void)json_set(d, o, "metadata", own);
	return o;
}

static void add_names(struct json_doc *d, struct json *to, const struct json *containers)
{
	json_each(it, containers) {
		struct json *c = json_obj(d);

		json_set_str(d, c, "name", json_get_str(it.val, "name"));
		json_push(d, to, c);
	}
}

struct err *convert_pod_to_metrics(const struct kind *k unused, struct json_doc *d)
{
	const struct json *spec = json_get(json_root(d), "spec");
	struct json *o = metrics_head(d, "PodMetrics");
	struct json *containers = json_set(d, o, "containers", json_arr(d));

	add_names(d, containers, json_get(spec, "initContainers"));
	add_names(d, containers, json_get(spec, "containers"));
	json_set_root(d, o);
	return NULL;
}

struct err *convert_node_to_metrics(const struct kind *k unused, struct json_doc *d)
{
	json_set_root(d, metrics_head(d, "NodeMetrics"));
	return NULL;
}
