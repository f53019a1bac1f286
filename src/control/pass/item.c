/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pass/item.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

static const char *const kind_names[CONTROL_KIND_MAX_] = {
	[CONTROL_SANDBOX] = "sandbox",
	[CONTROL_TEMPLATE] = "template",
	[CONTROL_POOL] = "pool",
	[CONTROL_CLAIM] = "claim",
	[CONTROL_RESET] = "reset",
	[CONTROL_GC] = "gc",
	[CONTROL_NAMESPACE] = "namespace",
	[CONTROL_PVC] = "pvc",
	[CONTROL_DEFINITION] = "definition",
	[CONTROL_EVENT_EXPIRY] = "event-expiry",
	[CONTROL_ENDPOINTS] = "endpoints",
	[CONTROL_REPLICA_SET] = "replica-set",
	[CONTROL_DEPLOYMENT] = "deployment",
	[CONTROL_EVENTS] = "events",
	[CONTROL_IDLE] = "idle",
	[CONTROL_AGENT] = "agent",
	[CONTROL_SESSION] = "session",
	[CONTROL_ATTACHMENT] = "attachment",
	[CONTROL_APPROVAL] = "approval",
	[CONTROL_BUDGET] = "budget",
	[CONTROL_LEDGER] = "ledger",
};

void item_wake(struct queue *q, enum control_kind kind, const char *ns, const char *name)
{
	autofree char *key = xasprintf("%s/%s/%s", kind_names[kind], ns, name);

	(void)queue_add(q, key);
}

void item_wake_later(struct queue *q, const struct key *k, uint64_t ms)
{
	autofree char *key = xasprintf("%s/%s/%s", kind_names[k->kind], k->ns, k->name);

	queue_add_later(q, key, ms);
}

static enum control_kind kind_of(const char *key, size_t len)
{
	unsigned kind = 0;

	while (kind < CONTROL_KIND_MAX_ &&
	       (strncmp(kind_names[kind], key, len) || kind_names[kind][len]))
		kind++;
	assert(kind < CONTROL_KIND_MAX_);
	return kind;
}

void item_init(void *arg unused, struct queue_item *q)
{
	struct item *it = container_of(q, struct item, q);
	size_t len = strcspn(q->key, "/");
	char *name;

	it->ns = xstrdup(q->key + len + 1);
	name = it->ns + strcspn(it->ns, "/");
	*name++ = '\0';
	it->key = (struct key){ kind_of(q->key, len), it->ns, name };
}

void item_done(void *arg unused, struct queue_item *q)
{
	struct item *it = container_of(q, struct item, q);

	for (size_t i = 0; i < WRITES_MAX; i++)
		err_free(it->outcomes[i].e);
	free(it->ns);
}

void item_slowed(void *arg unused, const struct queue_item *q, const struct err *e)
{
	log_warn("pass failed, trying again later", KV("key", q->key),
		 KV("failures", q->n_failures), KV("err", e));
}
