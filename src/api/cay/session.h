/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/view.h"

/* Sessions, and the attachments that put sandboxes into them. */
enum session_phase {
	SESSION_PENDING, /* its sandbox is not there yet */
	SESSION_ACTIVE,
	SESSION_ENDED, /* spec.ended; its sandbox is kept for a while */
	SESSION_FAILED,
	SESSION_PHASE_MAX_,
};
const char *session_phase_name(enum session_phase p);

struct session_view {
	const char *agent, *user, *title; /* "" where there is none */
	const char *sandbox;              /* spec: a name, "new", "none"; "": as the mode says */
	usec retain;                      /* < 0: as the agent says */
	bool ended;
	enum session_phase phase; /* status */
	const char *claim;        /* status: made for this session; "" */
	usec ended_at;            /* status */
	usec created;
	int64_t generation;
	bool deleting;
};
extern const struct view_type session_view_type;
const struct session_view *session_view(const struct object *o);

enum attachment_viewpoint {
	VIEW_SHARED,
	VIEW_READ_ONLY,
	VIEW_SCRATCH,
	VIEW_MAX_,
};
const char *attachment_viewpoint_name(enum attachment_viewpoint v); /* "Shared" */
/* Of an attachment that names none, as a set of 1 << right. */
unsigned attachment_rights(enum attachment_viewpoint v);

struct attachment_view {
	const char *session, *sandbox;
	const char *agent; /* of the session, as the status has it; "": not yet */
	unsigned rights;   /* as it asks for; capability.h */
	enum attachment_viewpoint view;
	usec created;
	int64_t generation;
	struct condition_view ready;
	bool deleting;
};
extern const struct view_type attachment_view_type;
const struct attachment_view *attachment_view(const struct object *o);
