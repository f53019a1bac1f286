/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/clock.h"
#include "client/access.h"
#include "json/json.h"
#include "server/read/measure_priv.h"

/*
 * What is shown of metrics.k8s.io is a Pod or a Node, seen by what it uses: lists, selectors and
 * pages are those of the stored kind, and the node is asked for the numbers as each is shown.
 *
 * What a container has used since the start of its Pod is in the same list of quantities, under
 * names of our own. The traffic is the whole Pod's.
 */
#define OWN "cay.dev/"

static bool usage_of(struct access *a, const struct json *meta, const char *container,
		     struct access_usage *ret)
{
	const struct access_target of = {
		.ns = json_get_str(meta, "namespace"),
		.pod = json_get_str(meta, "name"),
		.container = container,
	};

	return a && access_usage(a, &of, ret);
}

static bool usage_of_node(struct access *a, struct access_usage *ret)
{
	return a && access_usage(a, &(struct access_target){ 0 }, ret);
}

static void set(struct json_doc *d, struct json *o, const char *name, const char *unit, int64_t v)
{
	(void)json_set(d, o, name, json_new_strf(d, "%lld%s", (long long)v, unit));
}

static struct json *quantities(struct json_doc *d, const struct access_usage *u)
{
	struct json *o = json_obj(d);

	set(d, o, "cpu", "n", u->cpu_nano);
	set(d, o, "memory", "Ki", u->memory / 1024);
	return o;
}

static void add_sums(struct json_doc *d, struct json *o, const struct access_usage *u)
{
	set(d, o, OWN "cpu-seconds", "u", u->cpu_us);
	set(d, o, OWN "memory-byte-seconds", "", u->memory_byte_s);
	set(d, o, OWN "disk", "", u->disk);
	set(d, o, OWN "disk-byte-seconds", "", u->disk_byte_s);
}

static void add_time(struct json_doc *d, struct json *root, const struct access_usage *u)
{
	char at[CLOCK_TEXT_MAX];

	clock_format(u->at_us, at);
	json_set_str(d, root, "timestamp", at);
	(void)json_set(d, root, "window",
		       json_new_strf(d, "%lld.%03llds", (long long)(u->window_us / 1000000),
				     (long long)(u->window_us / 1000 % 1000)));
}

static void add_traffic(struct json_doc *d, struct json *meta, const struct access_usage *u)
{
	struct json *notes = json_need_obj(d, meta, "annotations");

	set(d, notes, OWN "network-received-bytes", "", u->received);
	set(d, notes, OWN "network-sent-bytes", "", u->sent);
}

static void measure_pod(struct access *a, struct json_doc *d, struct json *root)
{
	struct json *meta = json_get(root, "metadata"), *list = json_arr(d);
	struct access_usage u, last = { 0 };

	json_each(it, json_get(root, "containers")) {
		struct json *c, *usage;

		if (!usage_of(a, meta, json_get_str(it.val, "name"), &u))
			continue;
		c = json_copy(d, it.val);
		usage = json_set(d, c, "usage", quantities(d, &u));
		add_sums(d, usage, &u);
		json_push(d, list, c);
		last = u;
	}
	(void)json_set(d, root, "containers", list);
	add_time(d, root, &last);
	add_traffic(d, meta, &last);
}

void measure(struct access *a, struct json_doc *d)
{
	struct json *root = json_root(d);
	struct access_usage u;

	if (json_get(root, "containers")) {
		measure_pod(a, d, root);
	} else if (usage_of_node(a, &u)) {
		(void)json_set(d, root, "usage", quantities(d, &u));
		add_time(d, root, &u);
	}
}

static bool any_of(struct access *a, const struct object *o, const char *list)
{
	const struct json *meta = json_get(o->root, "metadata");
	struct access_usage u;

	json_each(it, json_get(object_spec(o), list))
		if (usage_of(a, meta, json_get_str(it.val, "name"), &u))
			return true;
	return false;
}

bool measured(struct access *a, const struct object *o)
{
	struct access_usage u;

	if (!json_get(object_spec(o), "containers"))
		return usage_of_node(a, &u);
	return any_of(a, o, "containers") || any_of(a, o, "initContainers");
}
