/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay/approval.h"

enum {
	APPROVALS_OPEN_MAX = 1000, /* of a namespace */
};

enum approval_step {
	APPROVAL_STEP_NONE,
	APPROVAL_STEP_EXPIRE, /* say that it has expired */
	APPROVAL_STEP_DELETE,
};
struct approval_seen {
	const struct approval_view *v;
	usec decided_at; /* 0: not known */
	size_t n_open;   /* of its namespace, this one included */
	usec now;
};
struct approval_plan {
	enum approval_step step;
	usec look_at; /* when something is due; 0: never */
};
struct approval_plan approval_decide(const struct approval_seen *s);
