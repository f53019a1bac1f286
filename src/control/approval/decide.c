/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "control/approval/approval_priv.h"

/*
 * The life of a question: open until it is decided or expires, then kept for a day, so that people
 * can see what was decided. Whoever asks more than fits loses the newest questions: the others may
 * be under somebody's eyes.
 */
#define KEEP ((usec)24 * 3600 * 1000000)

struct approval_plan approval_decide(const struct approval_seen *s)
{
	struct approval_plan plan = { .step = APPROVAL_STEP_NONE };
	usec closed;

	if (s->v->deleting)
		return plan;
	if (s->v->decision == APPROVAL_OPEN) {
		if (s->v->expires && s->v->expires <= s->now)
			plan.step = APPROVAL_STEP_EXPIRE;
		else if (s->n_open > APPROVALS_OPEN_MAX)
			plan.step = APPROVAL_STEP_DELETE;
		else
			plan.look_at = s->v->expires;
		return plan;
	}
	closed = s->v->decision == APPROVAL_EXPIRED ? s->v->expires : s->decided_at;
	if (!closed)
		closed = MAX(s->v->created, s->v->expires);
	if (closed + KEEP <= s->now)
		plan.step = APPROVAL_STEP_DELETE;
	else
		plan.look_at = closed + KEEP;
	return plan;
}
