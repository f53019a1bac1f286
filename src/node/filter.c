/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"
#include "api/meta.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "client/client.h"
#include "json/json.h"
#include "node/filter_priv.h"
#include "node/host/filter_watch.h"
#include "node/node_object_priv.h"

#define COMPONENT "cay-node"

struct filter {
	struct filter_spec spec;
	const struct kind *events;
	struct filter_watch *watch;
	struct node_object *object;
	size_t restored;
	bool intact;
};

static void set_condition(const struct filter *f, const char *reason, const char *message)
{
	const struct condition c = { .type = "PacketFilterReady",
				     .status = f->intact ? "True" : "False",
				     .reason = reason,
				     .message = message };

	if (f->object)
		node_object_condition(f->object, &c);
}

/* Events about a Node are in the namespace default, and kubectl finds them by its name as uid. */
static struct json_doc *event_doc(const struct filter *f, const char *reason, const char *message)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d), *meta = json_need_obj(d, o, "metadata"), *about;
	char now[CLOCK_TEXT_MAX];

	clock_format(clock_wall(), now);
	json_set_root(d, o);
	json_set_str(d, o, "apiVersion", "v1");
	json_set_str(d, o, "kind", "Event");
	json_set(d, meta, "name", event_name(d, f->spec.node_name));
	json_set_str(d, meta, "namespace", "default");
	about = json_need_obj(d, o, "involvedObject");
	json_set_str(d, about, "apiVersion", "v1");
	json_set_str(d, about, "kind", "Node");
	json_set_str(d, about, "name", f->spec.node_name);
	json_set_str(d, about, "uid", f->spec.node_name);
	json_set_str(d, o, "reason", reason);
	json_set(d, o, "message", event_text(d, message));
	json_set_str(d, o, "type", "Warning");
	json_set_str(d, json_need_obj(d, o, "source"), "component", COMPONENT);
	json_set_str(d, o, "reportingComponent", COMPONENT);
	json_set_str(d, o, "reportingInstance", f->spec.node_name);
	json_set_str(d, o, "firstTimestamp", now);
	json_set_str(d, o, "lastTimestamp", now);
	json_set_int(d, o, "count", 1);
	return d;
}

static void on_news(void *arg, const struct filter_news *news)
{
	struct filter *f = arg;
	const char *reason = news->intact ? "PacketFilterRestored"
			     : news->e    ? "PacketFilterFailed"
					  : "PacketFilterContested";
	autobuf text = { 0 };

	f->restored = news->restored;
	f->intact = news->intact;
	buf_printf(&text, "another program %s our table of the packet filter; ",
		   news->removed ? "removed" : "changed");
	if (news->intact)
		buf_printf(&text, "it was restored (%zu since the start)", news->restored);
	else if (news->e)
		buf_printf(&text, "it could not be restored: %s; sandboxes have their own filters",
			   err_text(news->e));
	else
		buf_add_str(&text, "as this happens again and again, it is restored after a pause; "
				   "sandboxes have their own filters");
	log_warn("packet filter was touched by another program, going on",
		 KV("what", buf_str(&text)), KV("pause_ms", news->intact ? 0 : news->pause_ms));
	set_condition(f, reason, buf_str(&text));
	client_create(f->spec.client, &(struct client_ref){ .kind = f->events, .ns = "default" },
		      event_doc(f, reason, buf_str(&text)), NULL);
}

struct err *filter_open(const struct filter_spec *spec, struct filter **ret)
{
	struct filter *f = xnew(struct filter);
	const struct filter_watch_spec watch = { .loop = spec->loop,
						 .instance = spec->instance,
						 .open = spec->open,
						 .news = on_news,
						 .arg = f };
	struct err *e;

	f->spec = *spec;
	f->intact = true;
	f->events = kinds_need(client_kinds(spec->client), "v1", "Event");
	e = filter_watch_new(&watch, &f->watch);
	if (e)
		free(f);
	else
		*ret = f;
	return e;
}

void filter_set_object(struct filter *f, struct node_object *o)
{
	f->object = o;
	set_condition(f, "PacketFilterLoaded", "the packet filter is loaded and watched");
}

void filter_metrics(const struct filter *f, struct buf *b)
{
	metrics_counter(b, "cay_packet_filter_restored_total",
			"Restorations of the packet filter after another program touched it.",
			f->restored);
	metrics_gauge(b, "cay_packet_filter_intact",
		      "Whether the packet filter is as it was loaded.", f->intact);
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	filter_watch_free(f->watch);
	free(f);
}
