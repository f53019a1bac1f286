/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/random.h"
#include "base/str.h"

#define NODE_COMPONENT "cay-node"

enum {
	TEXT_MAX = 1024,
	SUFFIX_LEN = 16,
	NAME_MOST = 253 - SUFFIX_LEN - 1,
};

struct json *event_name(struct json_doc *d, const char *about)
{
	char suffix[SUFFIX_LEN + 1];

	random_hex(suffix, SUFFIX_LEN);
	return json_new_strf(d, "%.*s.%s", NAME_MOST, about, suffix);
}

struct json *event_text(struct json_doc *d, const char *text)
{
	size_t len = strlen(text);

	return json_new_strn(d, text, len > TEXT_MAX ? utf8_prefix(text, TEXT_MAX) : len);
}

struct json *event_about(struct json_doc *d, const struct object *about)
{
	struct json *r = json_obj(d);

	json_set_str(d, r, "apiVersion", kind_api_version(about->kind));
	json_set_str(d, r, "kind", about->kind->kind);
	json_set_str(d, r, "namespace", str_or(about->ns, NULL));
	json_set_str(d, r, "name", about->name);
	json_set_str(d, r, "uid", str_or(about->uid, NULL));
	if (about->rev)
		json_set(d, r, "resourceVersion",
			 json_new_strf(d, "%llu", (unsigned long long)about->rev));
	return r;
}

const char *node_event_ns(const struct object *about)
{
	return str_or(about->ns, "default");
}

struct json_doc *node_event_doc(const struct node_event *e)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d), *meta = json_need_obj(d, o, "metadata"), *source;
	char now[CLOCK_TEXT_MAX];

	clock_format(e->now, now);
	json_set_root(d, o);
	json_set_str(d, o, "apiVersion", "v1");
	json_set_str(d, o, "kind", "Event");
	json_set(d, meta, "name", event_name(d, e->about->name));
	json_set_str(d, meta, "namespace", node_event_ns(e->about));
	json_set(d, o, "involvedObject", event_about(d, e->about));
	json_set_str(d, o, "reason", e->reason);
	json_set(d, o, "message", event_text(d, e->message));
	json_set_str(d, o, "type", e->warning ? "Warning" : "Normal");
	source = json_need_obj(d, o, "source");
	json_set_str(d, source, "component", NODE_COMPONENT);
	json_set_str(d, source, "host", e->node);
	json_set_str(d, o, "reportingComponent", NODE_COMPONENT);
	json_set_str(d, o, "reportingInstance", e->node);
	json_set_str(d, o, "firstTimestamp", now);
	json_set_str(d, o, "lastTimestamp", now);
	json_set_int(d, o, "count", 1);
	return d;
}
