/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of `cay serve`: what the API server, the ways into Pods, and the node's packet filter
 * and name server ask about agents.
 */
#include "gate/gate.h"

#include "api/object.h"
#include "base/str.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "server/server.h"

static enum server_word opinion(void *arg, const char *user, const struct server_act *act,
				struct err **ret_why)
{
	static const enum server_word words[] = {
		[GATE_SILENT] = SERVER_SILENT,
		[GATE_YES] = SERVER_YES,
		[GATE_NO] = SERVER_NO,
	};
	const struct gate_act asked = { .verb = act->verb,
					.group = str_or(act->group, ""),
					.plural = str_or(act->plural, ""),
					.ns = str_or(act->ns, ""),
					.name = str_or(act->name, ""),
					.sub = str_or(act->sub, "") };

	return words[gate_may(arg, user, &asked, ret_why)];
}

/* The ways into Pods are the gate's own to review; requests through the router are not. */
static void rights_changed(void *arg)
{
	serve_review_router(arg);
}

static struct err *may_pass(void *arg, const struct access_target *to)
{
	return server_may_pass(((struct serve *)arg)->server, to);
}

/* The way out */

static bool limits_any(void *arg)
{
	return gate_limits_any(arg);
}

static enum reach_state limits_of(void *arg, const struct object *pod, struct arena *a,
				  struct capabilities *ret)
{
	autofree char *sandbox = gate_sandbox_of(pod);
	struct gate_egress e;

	if (!sandbox || !gate_sandbox_stays(arg, pod))
		return REACH_UNKNOWN;
	gate_egress(arg, pod->ns, sandbox, a, &e);
	*ret = e.capabilities;
	return e.limited && !e.capabilities.all_egress ? REACH_LIMITED : REACH_FREE;
}

struct lookup {
	struct gate_lookup gate;
	struct reach_question *q;
};

static void on_decided(struct gate_lookup *l, enum verdict v)
{
	static const enum reach_word words[VERDICT_MAX_] = {
		[VERDICT_ALLOW] = REACH_YES,
		[VERDICT_ASK] = REACH_LATER,
		[VERDICT_DENY] = REACH_NO,
	};
	struct lookup *k = container_of(l, struct lookup, gate);
	struct reach_question *q = k->q;

	gate_lookup_done(l);
	free(k);
	q->decided(q, words[v]);
}

static void ask_host(void *arg, const struct object *pod, const char *host,
		     struct reach_question *q)
{
	autofree char *sandbox = gate_sandbox_of(pod);
	struct lookup *k;

	if (!sandbox) {
		q->decided(q, REACH_NO);
		return;
	}
	k = xnew(struct lookup);
	k->q = q;
	k->gate.decided = on_decided;
	q->state = k;
	gate_lookup(arg, &(struct gate_way_out){ .ns = pod->ns, .sandbox = sandbox, .host = host },
		    &k->gate);
}

static void cancel_host(void *arg unused, struct reach_question *q)
{
	struct lookup *k = q->state;

	gate_lookup_done(&k->gate);
	free(k);
}

static bool host_stands(void *arg, const struct object *pod, const char *host)
{
	autofree char *sandbox = gate_sandbox_of(pod);

	return sandbox &&
	       gate_lookup_stands(arg, &(struct gate_way_out){
					       .ns = pod->ns, .sandbox = sandbox, .host = host });
}

static void host_refused(void *arg, const struct object *pod, const char *host)
{
	autofree char *sandbox = gate_sandbox_of(pod);

	if (sandbox && gate_sandbox_stays(arg, pod)) /* its name may be another one's by now */
		gate_refused(arg, &(struct gate_way_out){
					  .ns = pod->ns, .sandbox = sandbox, .host = host });
}

static void egress_changed(void *arg)
{
	struct serve *s = arg;

	if (s->node)
		node_reach_changed(s->node);
}

struct reach_judge serve_judge(struct serve *s)
{
	return (struct reach_judge){ .any = limits_any,
				     .limits = limits_of,
				     .ask = ask_host,
				     .cancel = cancel_host,
				     .stands = host_stands,
				     .refused = host_refused,
				     .arg = s->gate };
}

/* Before the node: its first packet filter contains what the gate says. */
void serve_start_gate(struct serve *s)
{
	s->gate = gate_new(&(struct gate_spec){ .loop = s->loop,
						.client = s->gate_client,
						.audit = s->audit,
						.changed = rights_changed,
						.may_pass = may_pass,
						.egress_changed = egress_changed,
						.arg = s });
}

void serve_connect_gate(struct serve *s)
{
	gate_set_access(s->gate, node_access(s->node));
	server_set_opinion(s->server, opinion, s->gate);
}

void serve_stop_gate(struct serve *s)
{
	if (s->server)
		server_set_opinion(s->server, NULL, NULL);
	if (s->node)
		node_forget_judge(s->node);
	gate_free(take(s->gate));
}
