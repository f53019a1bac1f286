# SPDX-License-Identifier: Apache-2.0
"""Faults in seats and views: what ends with an attachment, and what is counted for it. tools/mutate supplies mutation()."""

VIEWS = "pytest integration/test_views.py -k"

MUTATIONS = (
    mutation("detached-goes-on", "gate/gate.c", "	if (rights)\n		end_detached(g);\n", "	if (rights && !g)\n		end_detached(g);\n",
             "what was started by an attachment ends with it", f"{VIEWS} 'what_was_started_ends and Shared and attachment'"),
    mutation("view-change-goes-on", "gate/gate.c", " || map_has(g->reseen, uid))", ")",
             "commands do not keep a view that was changed", f"{VIEWS} 'what_was_started_ends and Scratch and view'"),
    mutation("ended-session-keeps", "gate/gate.c",
             "	if (!session || session_view(session)->ended || session_view(session)->deleting)\n", "	if (!session)\n",
             "what was started ends with its session", f"{VIEWS} 'what_was_started_ends and Shared and session'"),
    mutation("lost-attachment-keeps", "gate/gate.c",
             "v->deleting || !v->ready.is_true || map_has(g->reseen, uid))\n", "v->deleting || map_has(g->reseen, uid))\n",
             "what was started ends when its attachment grants nothing any more", f"{VIEWS} 'what_was_started_ends and Shared and wall'"),
    mutation("left-seats-unknown", "node/runtime/attach.c", "		seats_found(t);\n", "",
             "after a restart, what an attachment left that is gone is ended", f"{VIEWS} after_a_crash"),
    mutation("part-removed-uncounted", "node/runtime/seats.c", "	if (n->seats_ev && !n->ending)\n", "	if (false)\n",
             "a part is removed after it was counted", f"{VIEWS} 'counted_once and Shared'"),
    mutation("part-made-anew-is-the-old", "node/pod/usage_attached.c", "	if (!str_eq(m->task, part))\n", "	if (false)\n",
             "a part that was made anew counts from zero", "unit node parts_that_were_made_anew"),
    mutation("views-fall-back", "node/pod/seat.c", "	if (spec->view == RUNTIME_VIEW_SHARED) {\n", "	if (spec->view != RUNTIME_VIEW_SCRATCH) {\n",
             "a view that cannot be built is refused", f"{VIEWS} 'oci and runc'"),
    mutation("volumes-writable", "node/launch/view.c", "mount_setattr(AT_FDCWD, \"/\", AT_RECURSIVE,", "mount_setattr(AT_FDCWD, \"/\", 0,",
             "every mount of a read-only view is read-only", f"{VIEWS} every_mount_of_a_read_only"),
)
