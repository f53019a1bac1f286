/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "base/str.h"
#include "json/json.h"

/*
 * One stored object, shown by several kinds: Events of two groups, and what Pods and Nodes use.
 */

/* Renames a member; an absent one stays absent. */
static void rename_member(struct json_doc *d, struct json *obj, const char *from, const char *to)
{
	struct json *v = json_get(obj, from);

	if (!v)
		return;
	json_del(obj, from);
	json_set(d, obj, to, v);
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
	static const char *const omitted[] = { "reportingController", "reportingInstance" };
	struct json *root = json_root(d);

	json_set_str(d, root, "apiVersion", "events.k8s.io/v1");
	for (size_t i = 0; i < ARRAY_LEN(event_names); i++)
		rename_member(d, root, event_names[i].core, event_names[i].events);
	for (size_t i = 0; i < ARRAY_LEN(omitted); i++)
		if (str_eq(json_get_str(root, omitted[i]), ""))
			(void)json_del(root, omitted[i]);
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
