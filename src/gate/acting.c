/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/cay.h"
#include "base/map.h"
#include "base/str.h"
#include "gate/gate_priv.h"

/*
 * Who acts in a sandbox. A label says for whom it was made, and whoever may write labels may write
 * any: so a label counts only together with an attachment to this very sandbox, of a session that
 * goes on.
 */
static struct object *open_session(struct gate *g, const struct object *attachment)
{
	autoptr(object) s = client_get(g->client, g->session, attachment->ns,
				       attachment_view(attachment)->session);

	return s && !session_view(s)->ended && !session_view(s)->deleting ? take(s) : NULL;
}

static bool is_meant(const struct gate_where *w, const struct object *attachment,
		     const struct object *session)
{
	if (w->attachment)
		return str_eq(w->attachment, attachment->uid);
	if (w->session)
		return str_eq(w->session, session->name);
	return w->agent && str_eq(w->agent, session_view(session)->agent);
}

bool gate_acts(struct gate *g, const struct gate_where *w, struct gate_actor *ret)
{
	autofree char *key = xasprintf("%s/%s", w->ns, w->sandbox);
	autoptr(object) session = NULL;
	const struct object *best = NULL;

	map_each(it, map_get(g->attachments, key)) {
		const struct attachment_view *v = attachment_view(it.value);
		struct object *s =
			v->deleting || !v->ready.is_true ? NULL : open_session(g, it.value);

		if (s && is_meant(w, it.value, s) && attachment_older(it.value, best)) {
			object_unref(session);
			session = object_ref(s);
			best = it.value;
		}
		object_unref(s);
	}
	if (!best)
		return false;
	*ret = (struct gate_actor){ .agent = xstrdup(session_view(session)->agent),
				    .session = xstrdup(session->name),
				    .user = xstrdup(session_view(session)->user),
				    .attachment = xstrdup(best->uid) };
	return true;
}

void gate_actor_done(struct gate_actor *a)
{
	free(a->agent);
	free(a->session);
	free(a->user);
	free(a->attachment);
	*a = (struct gate_actor){ 0 };
}
