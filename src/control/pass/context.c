/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pass/context.h"

#include "api/cay/cay.h"
#include "api/registry.h"
#include "control/pass/keys.h"
#include "loop/queue.h"

struct context_kinds context_kinds(const struct kinds *registry)
{
	return (struct context_kinds){
		.sandbox = kinds_need(registry, API_SANDBOX, "Sandbox"),
		.template = kinds_need(registry, API_EXTENSIONS, "SandboxTemplate"),
		.pool = kinds_need(registry, API_EXTENSIONS, "SandboxWarmPool"),
		.claim = kinds_need(registry, API_EXTENSIONS, "SandboxClaim"),
		.pod = kinds_need(registry, "v1", "Pod"),
		.service = kinds_need(registry, "v1", "Service"),
		.pvc = kinds_need(registry, "v1", "PersistentVolumeClaim"),
		.policy = kinds_need(registry, API_NETWORK_POLICY, "NetworkPolicy"),
		.event = kinds_need(registry, API_EVENT, "Event"),
		.agent = kinds_need(registry, API_CAY, "Agent"),
		.session = kinds_need(registry, API_CAY, "Session"),
		.attachment = kinds_need(registry, API_CAY, "Attachment"),
		.approval = kinds_need(registry, API_CAY, "Approval"),
		.team_policy = kinds_need(registry, API_CAY, "TeamPolicy"),
		.budget = kinds_need(registry, API_CAY, "Budget"),
		.ledger = kinds_need(registry, API_CAY, "Ledger"),
	};
}

usec context_now(const struct context *c)
{
	return clock_wall() + c->skew;
}

void context_hold_time(struct context *c)
{
	queue_hold_time(c->queue);
	queue_hold_time(c->chores);
}

void context_step(struct context *c, uint64_t ms)
{
	c->skew += (usec)ms * 1000;
	queue_step(c->queue, ms);
	queue_step(c->chores, ms);
}
