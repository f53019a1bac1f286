/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/session.h"

#include "api/cay/capability.h"
#include "api/cay/read_priv.h"
#include "api/object.h"
#include "base/str.h"

static const char *const phases[] = { "Pending", "Active", "Ended", "Failed", NULL };
static const char *const viewpoints[] = { "Shared", "ReadOnly", "Scratch", NULL };

const char *session_phase_name(enum session_phase p)
{
	return phases[p];
}

static void decode_session(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *status = object_status(o);
	struct session_view *v = view;

	v->agent = read_text(spec, "agent");
	v->user = read_text(spec, "user");
	v->title = read_text(spec, "title");
	v->sandbox = read_text(spec, "sandbox");
	v->retain = read_duration(spec, "retain", -1);
	v->ended = json_get_bool(spec, "ended", false);
	v->phase = read_word(status, "phase", phases, SESSION_PENDING);
	v->claim = read_text(status, "claim");
	v->ended_at = view_time(json_get_str(status, "endedAt"));
	v->created = view_created(o);
	v->generation = object_generation(o);
	v->deleting = object_deleting(o);
}

const struct view_type session_view_type = { sizeof(struct session_view), decode_session, NULL };

const struct session_view *session_view(const struct object *o)
{
	return object_view(o, &session_view_type);
}

const char *attachment_viewpoint_name(enum attachment_viewpoint v)
{
	return viewpoints[v];
}

unsigned attachment_rights(enum attachment_viewpoint v)
{
	return v == VIEW_READ_ONLY ? RIGHTS_DEFAULT & ~(1U << RIGHT_WRITE) : RIGHTS_DEFAULT;
}

static void decode_attachment(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *rights = json_get(spec, "rights");
	struct attachment_view *v = view;

	v->session = read_text(spec, "session");
	v->sandbox = read_text(spec, "sandbox");
	v->agent = read_text(object_status(o), "agent");
	/* What is written there and is none of them can only mean less. */
	v->view = read_word(spec, "view", viewpoints,
			    json_get(spec, "view") ? VIEW_READ_ONLY : VIEW_SHARED);
	v->rights = json_is(rights, JSON_ARR) ? rights_read(rights) : attachment_rights(v->view);
	if (v->view == VIEW_READ_ONLY)
		v->rights &= ~(1U << RIGHT_WRITE);
	v->created = view_created(o);
	v->generation = object_generation(o);
	v->ready = condition_view_of(json_get(object_status(o), "conditions"), "Ready");
	v->deleting = object_deleting(o);
}

const struct view_type attachment_view_type = { sizeof(struct attachment_view), decode_attachment,
						NULL };

const struct attachment_view *attachment_view(const struct object *o)
{
	return object_view(o, &attachment_view_type);
}
