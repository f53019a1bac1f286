/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/cay/approval.h"
#include "api/cay/session.h"
#include "base/err.h"

struct access;
struct buf;
struct client;
struct loop;

/*
 * The gate: one decision about every way into a sandbox.
 *
 * Users who are no agents go by RBAC, which was asked before. An agent, the user
 * cay:agent:NAMESPACE:NAME, goes in by an Attachment of one of its sessions, with the rights that
 * the attachment has and that the agent and all of its parents still have; what its rules, and its
 * parents', say about the operation decides whether it goes on, is refused, or waits for a person.
 *
 * On the loop's thread. Objects are reached through client/ alone.
 */
struct gate;

struct gate_spec {
	struct loop *loop;
	struct client *client;
	struct access *access; /* whose ways in it guards; NULL: there are none here */
};
struct gate *gate_new(const struct gate_spec *spec);
void gate_free(struct gate *g); /* before the client and the access */
AUTOPTR(gate)

/* What can be asked for. Each way into a sandbox is one of these; doors[] in doors.c has what it
 * takes. */
enum gate_door {
	GATE_EXEC,
	GATE_ATTACH,
	GATE_LOGS,
	GATE_PORT,    /* a connection */
	GATE_RUNTIME, /* a connection to a port behind which the runtime APIs run commands */
	GATE_DOOR_MAX_,
};
const char *gate_door_name(enum gate_door d);
enum gate_door gate_door_of_port(uint16_t port);

struct gate_ask {
	const char *user;
	const char *ns;
	const char *pod, *sandbox; /* either; the other NULL */
	enum gate_door door;
	struct deed deed;
};
struct gate_answer {
	enum verdict verdict;
	struct err *why;                /* of VERDICT_DENY; the caller's */
	const char *agent, *attachment; /* borrowed, until an object changes; NULL: no agent */
	const char *uid;                /* of the attachment */
	const char *session, *sandbox;
	enum attachment_viewpoint view;
};
/* ret->verdict is VERDICT_ASK where a person must be asked: gate_ask() is for those who wait. */
void gate_decide(struct gate *g, const struct gate_ask *ask, struct gate_answer *ret);

/*
 * What an agent may do through the API because of its attachments, without a role: enter the Pods
 * that it is attached to, and look at them.
 */
enum gate_word {
	GATE_SILENT, /* it is no agent, or not about a sandbox: others decide */
	GATE_YES,
	GATE_NO,
};
struct gate_act {
	const char *verb, *group, *plural, *ns, *name, *sub; /* "" where there is none */
};
enum gate_word gate_may(struct gate *g, const char *user, const struct gate_act *act,
			struct err **ret_why);
bool gate_is_agent(const char *user);
void gate_metrics(const struct gate *g, struct buf *b); /* lines of /metrics */
