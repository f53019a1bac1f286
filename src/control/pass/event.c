/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pass/event.h"

#include "api/event.h"
#include "api/object.h"
#include "base/str.h"
#include "client/client.h"
#include "control/pass/context.h"
#include "control/pass/keys.h"

#define INSTANCE "cay"

struct json_doc *event_build(const struct event_spec *s, usec now)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;
	char stamp[CLOCK_TEXT_MAX];

	clock_format_micro(now, stamp);
	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", API_EVENT);
	json_set_str(d, root, "kind", "Event");
	meta = json_need_obj(d, root, "metadata");
	json_set(d, meta, "name", event_name(d, s->about->name));
	json_set_str(d, meta, "namespace", s->about->ns);
	json_set_str(d, root, "eventTime", stamp);
	json_set_str(d, root, "reportingController", s->who);
	json_set_str(d, root, "reportingInstance", INSTANCE);
	json_set_str(d, root, "action", s->action);
	json_set_str(d, root, "reason", s->reason);
	json_set(d, root, "regarding", event_about(d, s->about));
	json_set(d, root, "note", event_text(d, s->note));
	json_set_str(d, root, "type", s->type);
	return d;
}

void event_send(struct context *c, struct json_doc *event)
{
	autofree char *ns = NULL;

	if (!event)
		return;
	ns = xstrdup(json_get_str(json_get(json_root(event), "metadata"), "namespace"));
	client_create(c->client, &(struct client_ref){ .kind = c->kinds.event, .ns = ns }, event,
		      NULL);
}
