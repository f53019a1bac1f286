/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/quota.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "server/policy/agents.h"
#include "server/policy/limits.h"
#include "server/policy/priority.h"

/*
 * What an object that is otherwise fine may still be refused for, in the order in which Kubernetes
 * asks: LimitRanges, Pod Security, priority classes, and last the quotas. Before those, agents and
 * their parents.
 */

static struct err *refused(const struct op *op, const struct json *obj, const char *why)
{
	return why ? err_forbidden(op->kind, json_get_str(json_get(obj, "metadata"), "name"), why)
		   : NULL;
}

struct err *policies_complete(struct op *op, struct json_doc *d)
{
	const struct objects *os = op->admit->objects;
	struct json_doc *before;
	autofree char *why = NULL;

	if (kind_storage(op->kind) != os->pod)
		return NULL;
	before = track_before(op, d);
	if (limits_fill(os, op->ns, d))
		json_set_str(d, json_need_obj(d, json_root(d), "status"), "qosClass",
			     pod_qos(json_get(json_root(d), "spec")));
	why = priority_settle(os, d);
	track_after(op, before, d);
	return refused(op, json_root(d), why);
}

static char *limits_refuse(const struct op *op, const struct json *obj, const struct json *old)
{
	const struct objects *os = op->admit->objects;
	const struct kind *k = kind_storage(op->kind);

	if (json_get(json_get(old, "metadata"), "deletionTimestamp"))
		return NULL;
	if (k == os->pod && (!old || str_eq(op->sub, "resize")))
		return limits_refuse_pod(os, op->ns, obj);
	return k == os->claim && !*op->sub ? limits_refuse_claim(os, op->ns, obj) : NULL;
}

/* Of the kinds of cay.dev: what others of them say. */
static struct err *agents_allow(struct op *op, const struct json *obj, const struct json *old)
{
	const struct objects *os = op->admit->objects;
	const struct kind *k = kind_storage(op->kind);

	if (json_get(json_get(old, "metadata"), "deletionTimestamp"))
		return NULL;
	if (k == os->agent)
		agent_check(os, op->ns, obj, old, &op->causes);
	else if (k == os->session)
		session_check(os, op->ns, obj, old, &op->causes);
	else if (k == os->approval)
		approval_check(obj, old, &op->causes);
	if (!op->causes.n)
		return NULL;
	return err_invalid(op->kind, json_get_str(json_get(obj, "metadata"), "name"), &op->causes);
}

struct err *policies_allow(struct op *op, const struct json *obj, const struct json *old)
{
	const struct objects *os = op->admit->objects;
	autofree char *why = limits_refuse(op, obj, old);
	struct err *e;

	if (!why && kind_storage(op->kind) == os->priority_class)
		why = priority_refuse(os, obj, old);
	e = refused(op, obj, why);
	if (!e)
		e = security_allows(op, obj, old);
	if (!e)
		e = agents_allow(op, obj, old);
	return e ? e : quota_allows(op, obj, old);
}

struct err *priority_classes_bootstrap(struct admit *a)
{
	struct err *e = NULL;

	for (const struct system_class *s = system_classes; s->name && !e; s++) {
		struct json_doc *d = json_doc_new();

		json_set_root(d, json_obj(d));
		json_set_int(d, json_root(d), "value", s->value);
		json_set_str(d, json_root(d), "description", s->description);
		e = op_need(a, a->objects->priority_class, "", s->name, d);
		e = err_wrap(e, "create PriorityClass %s", s->name);
	}
	return e;
}
