/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/cay.h"
#include "audit/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "gate/gate_priv.h"

/*
 * The record of what sandboxes look up. Code in a sandbox can look up as many names as it likes, so
 * each host has a line once in a while, and a sandbox no more of them than a person would read;
 * what is left out is counted.
 */
enum {
	RECORDS_BURST = 32,       /* lines of one sandbox at once */
	RECORDS_PER_MINUTE = 12,  /* and after that */
	RECORDED_HOSTS_MAX = 256, /* that are not recorded again in a while */
	RECORDED_AGAIN_S = 600,
};

/* Of one sandbox. */
struct recorded {
	struct map *hosts; /* verdict and host: recorded of late */
	usec hosts_since, since;
	unsigned spent;
	uint64_t unsaid; /* lines that were left out */
};

static void recorded_free(void *p)
{
	struct recorded *r = p;

	map_free(r->hosts);
	free(r);
}

struct map *records_new(void)
{
	return map_new(recorded_free);
}

/* Those that are gone, whose Pods are still stopping, share one. */
static struct recorded *recorded_of(struct gate *g, const char *ns, const char *sandbox)
{
	autoptr(object) o = client_get(g->client, g->sandbox, ns, sandbox);
	autofree char *key = o ? xasprintf("%s/%s", ns, sandbox) : xstrdup("");
	struct recorded *r = map_get(g->records, key);

	if (r)
		return r;
	r = xnew(struct recorded);
	r->hosts = map_new(NULL);
	r->since = r->hosts_since = clock_mono();
	map_put(g->records, key, r);
	return r;
}

void records_forget(struct gate *g, const struct object *sandbox)
{
	autofree char *key = xasprintf("%s/%s", sandbox->ns, sandbox->name);

	(void)map_del(g->records, key);
}

static bool may_record(struct recorded *a)
{
	usec now = clock_mono();
	unsigned back = (unsigned)((now - a->since) * RECORDS_PER_MINUTE / (60 * 1000000LL));

	if (back) {
		a->spent = a->spent > back ? a->spent - back : 0;
		a->since = now;
	}
	if (a->spent >= RECORDS_BURST)
		return false;
	a->spent++;
	return true;
}

/* The same host is recorded once in a while. */
static bool is_news(struct recorded *a, const char *key)
{
	usec now = clock_mono();

	if (map_len(a->hosts) >= RECORDED_HOSTS_MAX ||
	    now - a->hosts_since > RECORDED_AGAIN_S * 1000000LL) {
		map_free(a->hosts);
		a->hosts = map_new(NULL);
		a->hosts_since = now;
	}
	if (map_has(a->hosts, key))
		return false;
	map_put(a->hosts, key, a);
	return true;
}

static bool first_agent(void *arg, const struct limiter *l)
{
	*(const char **)arg = l->agent;
	return false;
}

void way_out_record(struct gate *g, const struct gate_way_out *w, enum verdict v, const char *why)
{
	struct recorded *of = recorded_of(g, w->ns, w->sandbox);
	autofree char *key = xasprintf("%s %s", verdict_name(v), w->host);
	const char *agent = NULL;
	autofree char *user = NULL;
	autobuf note = { 0 };

	if (!is_news(of, key))
		return;
	if (!may_record(of)) {
		of->unsaid++;
		return;
	}
	each_limiter(g, w->ns, w->sandbox, first_agent, &agent);
	user = xasprintf("%s%s:%s", AGENT_USER, w->ns, str_or(agent, ""));
	buf_printf(&note, "to %s%s%s", w->host, why ? ": " : "", why ? why : "");
	if (of->unsaid)
		buf_printf(&note, "; %llu more before were not recorded",
			   (unsigned long long)of->unsaid);
	of->unsaid = 0;
	audit_write(g->audit, &(struct audit_record){ .user = user,
						      .verb = "connect",
						      .group = GROUP_AGENTS,
						      .resource = "sandboxes",
						      .sub = "egress",
						      .ns = w->ns,
						      .name = w->sandbox,
						      .status = v == VERDICT_ALLOW ? 200 : 403,
						      .note = buf_str(&note) });
}

void gate_refused(struct gate *g, const struct gate_way_out *w)
{
	way_out_record(g, w, VERDICT_DENY, "not every agent of the sandbox may reach it");
}
