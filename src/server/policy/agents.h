/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct causes;
struct json;
struct objects;

/*
 * What an Agent, a Session or an Approval may be, given the other objects of its namespace. old is
 * NULL on create; what a write leaves as it was is not looked at again, so that those who are given
 * less can still be written. Adds to causes.
 */

/* An Agent stays within its parent, and both within the policy of their team. */
void agent_check(const struct objects *os, const char *ns, const struct json *obj,
		 const struct json *old, struct causes *c);
/* A Session keeps nothing for longer than the policy says. */
void session_check(const struct objects *os, const char *ns, const struct json *obj,
		   const struct json *old, struct causes *c);
/* A question that is closed cannot be decided any more. */
void approval_check(const struct json *obj, const struct json *old, struct causes *c);
