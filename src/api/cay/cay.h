/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The names that the kinds of cay.dev use: the group, the users that agents become, and the labels
 * and annotations by which objects of other groups say whom they are for.
 */
#define GROUP_CAY "cay.dev"
#define API_CAY   GROUP_CAY "/v1alpha1"

/* An agent that has proven itself is the user cay:agent:NAMESPACE:NAME. */
#define AGENT_USER      "cay:agent:"
#define GROUP_OF_AGENTS "cay:agents"
#define GROUP_VERIFIED  "cay:verified"

/* Of the SandboxClaim, and of the Sandbox, that was made for a session or an agent. */
#define KEY_SESSION "cay.dev/session" /* label: the Session's name */
#define KEY_AGENT   "cay.dev/agent"   /* label: the Agent's name */
#define KEY_SHARED  "cay.dev/shared"  /* label: "true": the team's shared one */

/* Of that SandboxClaim, an annotation: the uid of the Session. */
#define KEY_SESSION_UID "cay.dev/session-uid"
/* Of a Sandbox, an annotation: what suspended it, as "budget/NAME". */
#define KEY_SUSPENDED_BY "cay.dev/suspended-by"

/* An annotation that only the server writes: the user who made an Agent, or something else that
 * says whom it is for (visibility.h). */
#define KEY_OWNER "cay.dev/owner"

/* Of a Pod, an annotation: "none" leaves it without an identity socket. */
#define KEY_IDENTITY "cay.dev/identity"

/* The one TeamPolicy of a namespace that counts. */
#define TEAM_POLICY "team"
