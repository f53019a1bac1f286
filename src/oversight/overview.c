/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/agents.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/registry.h"
#include "base/map.h"
#include "base/share.h"
#include "base/str.h"
#include "client/client.h"
#include "control/control.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "oversight/oversight_priv.h"

/*
 * How pools, claims and the machine are doing. The controllers count in any case; while somebody
 * looks, a tick a second asks whether a number has changed, and every fifth one measures the
 * machine in a job and tells everybody. Nothing runs while nobody looks.
 *
 * Each line is what one user may see, asked anew: at most once a second, and once for a namespace.
 */
enum {
	TICK_MS = 1000,
	MEASURE_TICKS = 5,
	STREAMS_MAX = 32,
	POOLS_MAX = 1000,
	RECENT_MAX = 50,
	CLAIMS_MAX = 4096,
};
static const usec second = 1000 * 1000;
static const usec minute = INT64_C(60) * 1000 * 1000;

struct overview {
	struct visitor v;
	bool follow, begun, finished;
	usec full_since; /* monotonic; 0: it is not full */
};

/* What one user sees. */
struct sight {
	struct overview *s;
	struct json_doc *d;
	usec mono, wall;

	struct control_pool *pools;
	size_t n_pools, room;

	bool all_claims;
	struct map *claims_in; /* namespace → whether its claims may be seen */
	struct json *recent;
	usec took[CLAIMS_MAX];
	size_t n_took, n_recent;
};

static bool may(const struct sight *i, const char *group, const char *plural, const char *ns)
{
	const struct oversight_spec *spec = &i->s->v.o->spec;
	autoptr(err) e = spec->may(spec->arg, &i->s->v.who,
				   &(struct oversight_act){ "list", group, plural, ns });

	return !e;
}

static struct json *number(struct json_doc *d, usec v, usec per)
{
	return json_new_real(d, round((double)v * 1000 / (double)per) / 1000);
}

static void set_time(struct json_doc *d, struct json *o, const char *key, usec wall)
{
	char text[CLOCK_TEXT_MAX];

	clock_format_micro(wall, text);
	json_set_str(d, o, key, text);
}

/* Pools */

static bool note_pool(void *arg, const struct control_pool *p)
{
	struct sight *i = arg;

	if (i->n_pools == i->room) {
		i->room = MAX(i->room * 2, (size_t)64);
		i->pools = xrealloc(i->pools, i->room * sizeof(*i->pools));
	}
	i->pools[i->n_pools++] = *p;
	return true;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct control_pool *)a)->key, ((const struct control_pool *)b)->key);
}

static struct json *pool_row(struct sight *i, const struct control_pool *p, const char *ns,
			     const char *name)
{
	struct json_doc *d = i->d;
	struct json *o = json_obj(d);

	json_set_str(d, o, "namespace", ns);
	json_set_str(d, o, "name", name);
	json_set_int(d, o, "desired", p->desired);
	json_set_int(d, o, "members", (int64_t)p->members);
	json_set_int(d, o, "ready", (int64_t)p->ready);
	json_set_int(d, o, "waiting", (int64_t)p->waiting);
	json_set_int(d, o, "claimed", (int64_t)p->claimed);
	json_set_bool(d, o, "dry", p->dry);
	json_set_int(d, o, "dryTimes", (int64_t)p->dry_times);
	(void)json_set(d, o, "dryTotalSeconds", number(d, p->dry_time, second));
	if (p->dry_since)
		set_time(d, o, "drySince", i->wall - (i->mono - p->dry_since));
	return o;
}

static void add_pools(struct sight *i, struct json *root)
{
	struct json *list = json_set(i->d, root, "pools", json_arr(i->d));
	bool everywhere = may(i, GROUP_EXTENSIONS, "sandboxwarmpools", ""), here = false;
	autofree char *ns = NULL;
	size_t left_out = 0;

	control_each_pool(i->s->v.o->spec.control, note_pool, i);
	if (i->n_pools)
		qsort(i->pools, i->n_pools, sizeof(*i->pools), by_key);
	for (size_t n = 0; n < i->n_pools; n++) {
		const char *key = i->pools[n].key, *slash = strchr(key, '/');

		if (!slash)
			continue;
		if (!ns || strlen(ns) != (size_t)(slash - key) || !str_starts(key, ns)) {
			free(ns);
			ns = xstrndup(key, (size_t)(slash - key));
			here = everywhere || may(i, GROUP_EXTENSIONS, "sandboxwarmpools", ns);
		}
		if (here && json_len(list) < POOLS_MAX)
			json_push(i->d, list, pool_row(i, &i->pools[n], ns, slash + 1));
		else
			left_out += here;
	}
	json_set_int(i->d, root, "poolsLeftOut", (int64_t)left_out);
}

/* Claims */

static bool sees_claims(struct sight *i, const char *ns)
{
	static char yes, no;
	const char *known = i->all_claims ? &yes : map_get(i->claims_in, ns);

	if (!known) {
		known = may(i, GROUP_EXTENSIONS, "sandboxclaims", ns) ? &yes : &no;
		map_put(i->claims_in, ns, (char *)(uintptr_t)known);
	}
	return known == &yes;
}

static bool note_claim(void *arg, const struct control_claim *l)
{
	struct sight *i = arg;
	struct json *o;

	if (!sees_claims(i, l->ns))
		return true;
	if (i->mono - l->mono <= minute && i->n_took < CLAIMS_MAX)
		i->took[i->n_took++] = l->took;
	if (i->n_recent++ >= RECENT_MAX)
		return true;
	o = json_obj(i->d);
	json_set_str(i->d, o, "namespace", l->ns);
	json_set_str(i->d, o, "name", l->name);
	(void)json_set(i->d, o, "ms", number(i->d, l->took, 1000));
	json_set_bool(i->d, o, "warm", l->warm);
	set_time(i->d, o, "at", l->at);
	json_insert(i->d, i->recent, 0, o); /* the newest comes first to us, and last to others */
	return true;
}

static int by_time(const void *a, const void *b)
{
	usec x = *(const usec *)a, y = *(const usec *)b;

	return x < y ? -1 : x > y;
}

/* The smallest that so many in a hundred do not exceed. */
static void add_percentile(struct sight *i, struct json *o, const char *key, size_t percent)
{
	size_t rank = (i->n_took * percent + 99) / 100;

	(void)json_set(i->d, o, key, number(i->d, i->took[rank ? rank - 1 : 0], 1000));
}

static void add_claims(struct sight *i, struct json *root)
{
	struct json *o = json_set(i->d, root, "claims", json_obj(i->d));

	i->all_claims = may(i, GROUP_EXTENSIONS, "sandboxclaims", "");
	i->claims_in = map_new(NULL);
	i->recent = json_arr(i->d);
	control_each_claim(i->s->v.o->spec.control, note_claim, i);
	map_free(i->claims_in);
	json_set_int(i->d, o, "lastMinute", (int64_t)i->n_took);
	if (i->n_took) {
		qsort(i->took, i->n_took, sizeof(i->took[0]), by_time);
		add_percentile(i, o, "p50Ms", 50);
		add_percentile(i, o, "p95Ms", 95);
		add_percentile(i, o, "p99Ms", 99);
	}
	(void)json_set(i->d, o, "recent", i->recent);
}

/* The machine */

static void add_capacity(struct sight *i, struct json *o)
{
	const struct oversight_spec *spec = &i->s->v.o->spec;
	const struct kind *nodes = kinds_find(client_kinds(spec->client), "", "v1", "nodes");
	autoptr(object) node = NULL;
	struct quantity pods;

	if (nodes)
		node = client_get(spec->client, nodes, "", spec->node_name);
	if (node && quantity_read(json_at_path(node->root, "status.capacity.pods"), &pods))
		json_set_int(i->d, o, "sandboxesMax", quantity_milli(&pods) / 1000);
}

static void add_node(struct sight *i, struct json *root)
{
	static const char *const names[PRESSURE_MAX_] = {
		[PRESSURE_CPU] = "cpuPressure",
		[PRESSURE_MEMORY] = "memoryPressure",
		[PRESSURE_IO] = "ioPressure",
	};
	const struct oversight_spec *spec = &i->s->v.o->spec;
	const struct machine *m = &i->s->v.o->machine;
	autoptr(err) e = spec->may(spec->arg, &i->s->v.who,
				   &(struct oversight_act){ "get", "", "nodes", "" });
	struct json *o, *load;

	if (e)
		return;
	o = json_set(i->d, root, "node", json_obj(i->d));
	json_set_str(i->d, o, "name", spec->node_name);
	json_set_int(i->d, o, "cpus", m->cpus);
	load = json_set(i->d, o, "loadavg", json_arr(i->d));
	for (size_t n = 0; n < ARRAY_LEN(m->load); n++)
		json_push(i->d, load, json_new_real(i->d, round(m->load[n] * 100) / 100));
	for (int n = 0; n < PRESSURE_MAX_; n++)
		if (m->pressure[n] >= 0)
			(void)json_set(i->d, o, names[n], json_new_real(i->d, m->pressure[n]));
	json_set_int(i->d, o, "memoryTotal", m->memory_total);
	json_set_int(i->d, o, "memoryAvailable", m->memory_available);
	json_set_int(i->d, o, "diskTotal", m->disk_total);
	json_set_int(i->d, o, "diskAvailable", m->disk_available);
	json_set_int(i->d, o, "sandboxesRunning", (int64_t)control_running(spec->control));
	add_capacity(i, o);
}

static void write_line(struct overview *s, struct buf *out)
{
	autofree struct sight *i = xnew(struct sight);
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d);

	json_set_root(d, root);
	i->s = s;
	i->d = d;
	i->mono = clock_mono();
	i->wall = clock_wall();
	set_time(d, root, "time", i->wall);
	add_pools(i, root);
	add_claims(i, root);
	add_node(i, root);
	free(i->pools);
	json_write(root, out);
	buf_add_char(out, '\n');
}

/* Streams */

static void overview_free(struct overview *s)
{
	struct oversight *o = s->v.o;

	if (!--o->n_streams && o->tick)
		timer_clear(o->tick);
	visitor_done(&s->v);
	free(s);
}

static void on_ended(void *owner)
{
	struct overview *s = owner;

	s->v.req = NULL;
	overview_free(s);
}

/* Each line has everything, so one that a slow client cannot take is left out. */
static bool is_full(struct overview *s)
{
	usec now = clock_mono();

	if (!s->begun || !http_respond_full(s->v.req)) {
		s->full_since = 0;
		return false;
	}
	if (!s->full_since)
		s->full_since = now;
	if (now - s->full_since > minute)
		http_respond_abort(s->v.req); /* the last act */
	return true;
}

static void send(struct overview *s)
{
	autobuf b = { 0 };

	if (s->finished || is_full(s))
		return;
	write_line(s, &b);
	if (!s->begun)
		visitor_begin(&s->v, s->follow ? "application/x-ndjson" : "application/json");
	s->begun = true;
	http_respond_write(s->v.req, buf_head(&b), b.len);
	if (!s->follow) {
		s->finished = true;
		http_respond_end(s->v.req);
	}
}

static void on_over(struct visitor *v)
{
	struct overview *s = container_of(v, struct overview, v);

	if (s->finished)
		return;
	s->finished = true;
	if (s->begun)
		http_respond_end(v->req);
	else
		v->o->spec.refuse(v->req, visitor_check_end(v));
}

static void send_all(struct oversight *o, bool new_ones)
{
	struct overview *s, *tmp;

	list_each_safe(s, tmp, &o->streams, v.on)
		if (!new_ones || !s->begun)
			send(s);
}

struct measuring {
	struct oversight *o;
	struct machine m;
};

static void measure_work(void *arg)
{
	struct measuring *m = arg;

	machine_read(m->o->spec.data_dir, &m->m);
}

static void measure_done(void *arg)
{
	autofree struct measuring *m = arg;
	struct oversight *o = m->o;
	bool all = o->tell_all;

	o->n_jobs--;
	o->measuring = o->tell_all = false;
	o->machine = m->m;
	o->machine_at = clock_mono();
	if (!o->ending)
		send_all(o, !all);
}

static void measure(struct oversight *o)
{
	struct measuring *m;

	if (o->measuring)
		return;
	m = xnew(struct measuring);
	m->o = o;
	o->measuring = true;
	o->n_jobs++;
	job_run(o->loop, measure_work, measure_done, m);
}

static void on_tick(void *arg)
{
	struct oversight *o = arg;
	uint64_t changes = control_changes(o->spec.control);

	timer_set(o->tick, TICK_MS);
	if (++o->n_ticks % MEASURE_TICKS == 0) {
		o->n_changes = changes;
		o->tell_all = true;
		measure(o);
	} else if (changes != o->n_changes) {
		o->n_changes = changes;
		send_all(o, false);
	}
}

/* Whoever asks in the name of others has one share. */
static const char *payer(const struct access_target *who)
{
	return who->by ? who->by : who->user;
}

static size_t streams_of(const struct oversight *o, const char *user)
{
	const struct overview *s;
	size_t n = 0;

	list_each(s, &o->streams, v.on)
		n += str_eq(payer(&s->v.who), user);
	return n;
}

static struct err *check(struct oversight *o, struct http_request *req,
			 const struct access_target *who, bool *ret_follow)
{
	static const char *const known[] = { "follow", NULL };
	const char *q = http_request_query(req);
	struct err *e = query_check(q, known);

	if (!e)
		e = query_bool(q, "follow", ret_follow);
	if (!e && !share_has_room(streams_of(o, payer(who)), o->n_streams, STREAMS_MAX))
		e = err_new(ERR_EXHAUSTED,
			    "%zu overviews are being shown, of which this user may have no more",
			    o->n_streams);
	return e;
}

void overview_visit(struct oversight *o, struct http_request *req, const struct access_target *who)
{
	bool follow = false;
	struct err *e = check(o, req, who, &follow);
	struct overview *s;

	if (e) {
		o->spec.refuse(req, e);
		return;
	}
	s = xnew(struct overview);
	visitor_init(&s->v, o, req, who);
	s->follow = follow;
	list_add_tail(&o->streams, &s->v.on);
	o->n_streams++;
	http_request_set_owner(req, s, on_ended);
	visitor_on_end(&s->v, on_over);
	if (!o->tick)
		o->tick = timer_new(o->loop, on_tick, o);
	if (!timer_armed(o->tick))
		timer_set(o->tick, TICK_MS);
	if (o->machine_at && clock_mono() - o->machine_at < second)
		send(s);
	else
		measure(o);
}

void overview_done(struct oversight *o)
{
	struct overview *s, *tmp;

	list_each_safe(s, tmp, &o->streams, v.on)
		overview_free(s);
}
