/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/pass/context.h"
#include "control/pass/item.h"

struct client_watch;
struct books;
struct idle;
struct loop;
struct pace;
struct resets;
struct sessions;

enum {
	WATCH_TEMPLATES,
	WATCH_POOLS,
	WATCH_CLAIMS,
	WATCH_PODS,
	WATCH_SERVICES,
	WATCH_PVCS,
	WATCH_POLICIES,
	WATCH_TEAM_POLICIES, /* from this to WATCH_LEDGERS only with opt.agents */
	WATCH_AGENTS,
	WATCH_SESSIONS,
	WATCH_ATTACHMENTS,
	WATCH_APPROVALS,
	WATCH_BUDGETS,
	WATCH_LEDGERS,
	WATCH_SANDBOXES,
	WATCH_MAX_,
};

/* What notes and rosters hold besides what the watches tell (when a claim was first seen, who is
 * waiting) may be lost in a crash without harm. */
struct control {
	struct context ctx;
	struct loop *loop;
	char *cluster_domain;
	char **label_domains; /* NULL-terminated */
	struct notes *notes;
	struct pace *pace;
	struct idle *idle;
	struct sessions *sessions;
	struct books *books;
	struct resets *resets;
	struct cluster *cluster; /* NULL: somebody else's business */
	struct client_watch *watches[WATCH_MAX_];
	unsigned n_watches, n_synced;
	uint64_t n_changes;                   /* of Sandboxes, claims and pools */
	size_t n_running;                     /* Sandboxes that are Ready */
	uint64_t n_passes[CONTROL_KIND_MAX_]; /* for tests */
};

void control_watch(struct control *c); /* wake.c: starts the watches */

/* wake_agents.c: the kinds of cay.dev. The first two are told of what others watch too; they do
 * nothing without opt.agents. */
struct object;
void agents_claim_changed(struct control *c, struct object *was, struct object *now);
void agents_sandbox_changed(struct control *c, const struct object *was, const struct object *now);
void agents_pool_changed(struct control *c, const char *ns, const char *pool);
void team_policy_changed(void *arg, struct object *was, struct object *now);
void agent_changed(void *arg, struct object *was, struct object *now);
void session_changed(void *arg, struct object *was, struct object *now);
void attachment_changed(void *arg, struct object *was, struct object *now);
void approval_changed(void *arg, struct object *was, struct object *now);
void budget_changed(void *arg, struct object *was, struct object *now);
void ledger_changed(void *arg, struct object *was, struct object *now);
