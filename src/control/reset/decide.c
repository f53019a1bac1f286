/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "control/reset/reset_priv.h"

/*
 * The policy of resets: pure, and in doubt for the deletion. What a name leads to must have an end
 * before the name is given to somebody else, so whatever still goes by it keeps it from coming
 * back.
 */
static const char *why_not(const struct reset_seen *s)
{
	if (!s->claimed)
		return "no claim had it";
	if (s->claim_lives)
		return "its claim has not ended";
	if (!s->pool)
		return "its pool is gone";
	if (!s->template)
		return "its template is gone";
	if (!s->resets)
		return "its template does not reset Sandboxes any more";
	if (s->held)
		return "it has finalizers of others";
	if (s->strange)
		return "a Pod, Service or volume of its name is not its own";
	if (s->members >= s->desired)
		return "its pool is full";
	return NULL;
}

struct reset_plan reset_decide(const struct reset_seen *s)
{
	const char *why = why_not(s);

	if (why)
		return (struct reset_plan){ RESET_STEP_RELEASE, why };
	if (s->left || s->foreground)
		return (struct reset_plan){ .step = RESET_STEP_WIPE };
	/* Those that end with the claim had the time of the wipe for it. */
	if (s->named)
		return (struct reset_plan){ RESET_STEP_RELEASE,
					    "a session or attachment names it" };
	return (struct reset_plan){ .step = RESET_STEP_RETURN };
}
