/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pass/event.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/random.h"
#include "base/str.h"
#include "client/client.h"
#include "control/pass/control_state.h"
#include "control/pass/keys.h"

/*
 * Events. The name of one is that of the object it is about, with a random suffix.
 */
#define NOTE_MAX   1024
#define NAME_MOST  236 /* leaves room for the suffix */
#define SUFFIX_LEN 16
#define INSTANCE   "cay"

static struct json *regarding(struct json_doc *d, const struct object *about)
{
	struct json *r = json_obj(d);

	json_set_str(d, r, "apiVersion", kind_api_version(about->kind));
	json_set_str(d, r, "kind", about->kind->kind);
	json_set_str(d, r, "namespace", about->ns);
	json_set_str(d, r, "name", about->name);
	json_set_str(d, r, "uid", about->uid);
	if (about->rev)
		json_set(d, r, "resourceVersion",
			 json_new_strf(d, "%llu", (unsigned long long)about->rev));
	return r;
}

struct json_doc *event_build(const struct event_spec *s, usec now)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;
	char suffix[SUFFIX_LEN + 1], stamp[CLOCK_TEXT_MAX];
	size_t len = strlen(s->note);

	random_hex(suffix, SUFFIX_LEN);
	clock_format_micro(now, stamp);
	json_set_root(d, root);
	json_set_str(d, root, "apiVersion", API_EVENT);
	json_set_str(d, root, "kind", "Event");
	meta = json_need_obj(d, root, "metadata");
	json_set(d, meta, "name", json_new_strf(d, "%.*s.%s", NAME_MOST, s->about->name, suffix));
	json_set_str(d, meta, "namespace", s->about->ns);
	json_set_str(d, root, "eventTime", stamp);
	json_set_str(d, root, "reportingController", s->who);
	json_set_str(d, root, "reportingInstance", INSTANCE);
	json_set_str(d, root, "action", s->action);
	json_set_str(d, root, "reason", s->reason);
	json_set(d, root, "regarding", regarding(d, s->about));
	json_set(d, root, "note",
		 json_new_strn(d, s->note, len > NOTE_MAX ? utf8_prefix(s->note, NOTE_MAX) : len));
	json_set_str(d, root, "type", s->type);
	return d;
}

void event_send(struct control *c, struct json_doc *event)
{
	autofree char *ns = NULL;

	if (!event)
		return;
	ns = xstrdup(json_get_str(json_get(json_root(event), "metadata"), "namespace"));
	client_create(c->client, &(struct client_ref){ .kind = c->kinds.event, .ns = ns }, event,
		      NULL);
}
