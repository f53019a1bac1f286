/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outlet of `cay serve`: the node knows who asks and what can be reached, the gate what their
 * agents may do, outlet/ how a request is sent.
 */
#include "outlet/outlet.h"

#include <fcntl.h>

#include "api/agents.h"
#include "audit/audit.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/str.h"
#include "cli/cli.h"
#include "gate/gate.h"
#include "loop/loop.h"
#include "node/node.h"
#include "role/serve_priv.h"

enum {
	CA_MAX = 4 * 1024 * 1024,
};

static bool who(void *arg, const char *ip, struct outlet_sandbox *ret)
{
	const struct serve *s = arg;
	struct node_sandbox found;

	if (!node_sandbox_at(s->node, ip, &found) ||
	    !gate_tracks(s->gate, &(struct gate_pod){ found.ns, found.name, found.uid, found.pod }))
		return false;
	*ret = (struct outlet_sandbox){ found.ns, found.name, found.uid, found.place };
	return true;
}

static struct err *refusal(const struct outlet_ask *ask, const struct gate_answer *answer)
{
	if (answer->verdict != VERDICT_ASK)
		return answer->why;
	return err_new(ERR_FORBIDDEN,
		       "a rule of agent %s wants %s approved first, and the outlet asks nobody: a "
		       "person can change the rule",
		       answer->agent, ask->host);
}

static struct err *decide(void *arg, const struct outlet_ask *ask, struct arena *a,
			  struct outlet_verdict *ret)
{
	struct serve *s = arg;
	struct gate_egress *reach = arena_alloc(a, sizeof(*reach));
	struct gate_answer answer;

	gate_egress(s->gate, ask->ns, ask->sandbox, a, reach);
	if (!reach->limited)
		return err_new(ERR_FORBIDDEN,
			       "no agent is attached to sandbox %s: the outlet acts for agents",
			       ask->sandbox);
	gate_decide_egress(s->gate,
			   &(struct gate_way_out){ .ns = ask->ns,
						   .sandbox = ask->sandbox,
						   .host = ask->host,
						   .port = ask->port,
						   .method = ask->method,
						   .path = ask->path },
			   &answer);
	if (answer.verdict != VERDICT_ALLOW)
		return refusal(ask, &answer);
	ret->agents = gate_agents_at(s->gate, ask->ns, ask->sandbox, a);
	ret->capabilities = &reach->capabilities;
	return NULL;
}

static void *look_up(void *arg, unsigned place, const char *name,
		     void (*done)(void *done_arg, const struct ip *addrs, size_t n), void *done_arg)
{
	const struct serve *s = arg;

	return node_lookup(s->node, place, name, done, done_arg);
}

static void look_up_cancel(void *lookup)
{
	node_lookup_cancel(lookup);
}

static bool reach(void *arg, unsigned place, const struct ip *to, uint16_t port)
{
	const struct serve *s = arg;

	return node_may_reach(s->node, place, to, port);
}

static void record(void *arg, const struct outlet_record *r)
{
	const struct serve *s = arg;
	autofree char *user = xasprintf("cay:sandbox:%s:%s", r->ns, r->sandbox);
	autofree char *url = r->host ? xasprintf("%s %s://%s:%u%s", r->method, r->scheme, r->host,
						 r->port, r->path)
				     : NULL;
	autofree char *more = r->unrecorded ? xasprintf("%u", r->unrecorded) : NULL;
	const struct audit_note all[] = { { "request", url },
					  { "credential", r->credential },
					  { "unrecorded", more } };
	struct audit_note notes[ARRAY_LEN(all) + 1] = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].text)
			notes[n++] = all[i];
	audit_write(s->audit, &(struct audit_record){ .user = user,
						      .from = r->from,
						      .verb = "connect",
						      .group = GROUP_AGENTS,
						      .resource = "sandboxes",
						      .sub = "outlet",
						      .ns = r->ns,
						      .name = r->sandbox,
						      .status = r->status,
						      .note = r->note,
						      .received = r->received,
						      .sent = r->sent,
						      .notes = notes,
						      .took = r->took_us });
}

/* For a record; without a log, the loop comes back at once. */
struct record_wait {
	struct audit_wait in_log;
	struct deferred unlogged;
	void (*done)(void *done_arg, struct err *e);
	void *done_arg;
};

static void record_over(struct record_wait *w, struct err *e)
{
	w->done(w->done_arg, e);
	free(w);
}

static void on_logged(struct audit_wait *in_log, struct err *e)
{
	record_over(container_of(in_log, struct record_wait, in_log), e);
}

static void on_unlogged(void *arg)
{
	record_over(arg, NULL);
}

static void *recorded(void *arg, void (*done)(void *done_arg, struct err *e), void *done_arg)
{
	const struct serve *s = arg;
	struct record_wait *w = xnew(struct record_wait);

	w->done = done;
	w->done_arg = done_arg;
	w->in_log.done = on_logged;
	deferred_init(&w->unlogged, s->loop, on_unlogged, w);
	if (s->audit)
		audit_after(s->audit, &w->in_log);
	else
		deferred_call(&w->unlogged);
	return w;
}

static void recorded_cancel(void *wait)
{
	struct record_wait *w = wait;

	audit_after_cancel(&w->in_log);
	deferred_cancel(&w->unlogged);
	free(w);
}

bool serve_wants_outlet(const struct serve *s)
{
	return str_eq(settings_text(s->settings, "outlet"), "on") &&
	       !str_eq(settings_text(s->settings, "egress"), "none");
}

struct err *serve_start_outlet(struct serve *s)
{
	static const struct outlet_ops ops = { .who = who,
					       .decide = decide,
					       .lookup = look_up,
					       .lookup_cancel = look_up_cancel,
					       .reach = reach,
					       .record = record,
					       .recorded = recorded,
					       .recorded_cancel = recorded_cancel };
	const char *file = settings_text(s->settings, "outlet-ca");
	autofree char *ca = NULL;
	char address[16];
	struct err *e = NULL;

	if (!serve_wants_outlet(s))
		return NULL;
	if (file)
		e = file_read(AT_FDCWD, file, CA_MAX, &ca, NULL);
	if (e)
		return err_wrap(e, "--outlet-ca");
	node_gateway(s->node, address);
	e = outlet_new(&(struct outlet_spec){ .loop = s->loop,
					      .client = s->outlet_client,
					      .address = address,
					      .mark = node_mark(s->node),
					      .ca_pem = ca,
					      .ops = &ops,
					      .arg = s },
		       &s->outlet);
	return e ? err_wrap(e, "start the outlet") : NULL;
}

void serve_stop_outlet(struct serve *s)
{
	outlet_free(take(s->outlet));
}

void serve_outlet_metrics(const struct serve *s, struct buf *b)
{
	struct outlet_stats n = { 0 };

	if (s->outlet)
		outlet_stats(s->outlet, &n);
	metrics_counter(b, "cay_outlet_passed_total",
			"Requests of sandboxes through the outlet that were answered by a server.",
			n.passed);
	metrics_counter(b, "cay_outlet_refused_total",
			"Requests of sandboxes through the outlet that were not allowed.",
			n.refused);
	metrics_counter(b, "cay_outlet_failed_total",
			"Requests of sandboxes through the outlet that no server answered.",
			n.failed);
	metrics_gauge(b, "cay_outlet_active",
		      "Requests of sandboxes through the outlet that are under way.", n.active);
}
