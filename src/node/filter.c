/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"
#include "api/meta.h"
#include "api/object.h"
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

/* kubectl finds the Events about a Node by its name as uid. */
static struct object *node_ref(const struct filter *f)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d), *meta = json_need_obj(d, o, "metadata");

	json_set_root(d, o);
	json_set_str(d, meta, "name", f->spec.node_name);
	json_set_str(d, meta, "uid", f->spec.node_name);
	return object_new(kinds_need(client_kinds(f->spec.client), "v1", "Node"), d);
}

static void tell(const struct filter *f, const char *reason, const char *message)
{
	autoptr(object) node = node_ref(f);
	const struct node_event event = { .about = node,
					  .warning = true,
					  .reason = reason,
					  .message = message,
					  .node = f->spec.node_name,
					  .now = clock_wall() };

	client_create(f->spec.client,
		      &(struct client_ref){ .kind = f->events, .ns = node_event_ns(node) },
		      node_event_doc(&event), NULL);
}

/* Nobody touched it, but its rules are to change. */
static void tell_of_change(const struct filter *f, const struct filter_news *news)
{
	if (news->intact) {
		set_condition(f, "PacketFilterLoaded", "the packet filter is loaded and watched");
		return;
	}
	log_warn("packet filter could not be changed, going on with what it was; it is tried again",
		 KV("err", news->e));
	set_condition(f, "PacketFilterFailed", err_text(news->e));
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
	if (news->ours) {
		tell_of_change(f, news);
		return;
	}
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
	tell(f, reason, buf_str(&text));
}

static void on_in_force(void *arg)
{
	const struct filter *f = arg;

	if (f->spec.in_force)
		f->spec.in_force(f->spec.arg);
}

struct err *filter_open(const struct filter_spec *spec, struct filter **ret)
{
	struct filter *f = xnew(struct filter);
	const struct filter_watch_spec watch = { .loop = spec->loop,
						 .instance = spec->instance,
						 .rules = spec->rules,
						 .news = on_news,
						 .in_force = on_in_force,
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

void filter_change(struct filter *f, const struct firewall_rules *rules, void (*loaded)(void *arg),
		   void *arg)
{
	filter_watch_change(f->watch, rules, loaded, arg);
}

unsigned filter_policies(const struct filter *f)
{
	return filter_watch_policies(f->watch);
}

unsigned filter_limits(const struct filter *f)
{
	return filter_watch_limits(f->watch);
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
