/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "client/access.h"
#include "node/host/load.h"
#include "node/pod/pod_priv.h"
#include "node/pod/usage_priv.h"

/*
 * One timer for all Pods. Each time, a job asks the runtime about every task and every network, the
 * loop adds up the answers, and a second job writes the sums to a file:
 *
 *   timer ─ (job) ask ─ add up, unless the task is another by now ─ (job) write ─ timer
 *
 * The counters of a task that ends are read once more at its end, and those of an attachment that
 * ends are kept by the kernel until a look at them was written. So only what is no counter,
 * memory and disk over time, depends on the looks; and only a daemon that is killed, together with
 * a task that ends before the next start, loses anything: what came after the last look.
 */
struct look { /* at one task, or at one network */
	const char *uid;
	size_t index; /* of the container */
};

struct spent { /* a part of a task in which nothing runs any more */
	char *task, *key;
	uint64_t look; /* the first that counts, by its number */
};

struct usage {
	struct pods *pods;
	char *data_dir; /* NULL: nothing is written down */
	uint64_t interval_ms;
	struct timer *timer;
	struct jobs jobs;
	struct usage_sums gone; /* of the Pods that are no more */
	struct host_load load;  /* of the machine, as the job read it */
	struct meter machine;   /* its task is the machine */
	bool pods_written;      /* the file has Pods */
	struct map *left;       /* uid → struct usage_pod_record: not restored yet; NULL: all are */
	struct arena *left_arena;
	struct map *attached; /* uid → struct attached */
	struct usage_sources sources;
	bool told_lost;
	bool settled;      /* something was, since the file was written */
	struct map *spent; /* "task/key" → struct spent: parts that wait for a last look */

	/* The look that is under way; arena NULL: none is. */
	struct arena *arena;
	struct look *looks;
	struct runtime_usage *list;
	size_t n;
	struct pod_disk *disks;
	size_t n_disks;
	struct buf text; /* to write */
	struct err *e;
	bool told; /* of a file that cannot be written */
	uint64_t n_looks, n_begun;
	usec began, took;
};

/* Meters */

void meter_done(struct meter *m)
{
	free(m->task);
}

/* Memory or disk over time: between two looks it was the mean of both. */
static int64_t over_time(int64_t was, int64_t is, int64_t usec_)
{
	return (int64_t)(((double)was + (double)is) / 2 * (double)MAX(usec_, (int64_t)0) / 1e6);
}

static void add_up_task(struct meter *m)
{
	m->cpu_usec += m->task_cpu_usec;
	m->task_cpu_usec = m->memory = m->disk = 0;
	m->looked = m->window_usec = m->cpu_nano = 0;
	m->over = true;
}

void meter_task(struct meter *m, const char *task, int64_t now)
{
	if (str_eq(m->task, task))
		return;
	add_up_task(m);
	free(m->task);
	m->task = xstrdup(task);
	m->over = false;
	m->at = now;
}

void meter_look(struct meter *m, const struct runtime_usage *u, int64_t now)
{
	int64_t passed = now - m->at, used = u->cpu_usec - m->task_cpu_usec;

	if (m->over || passed <= 0 || used < 0)
		return;
	m->memory_byte_s += over_time(m->memory, u->memory, passed);
	m->disk_byte_s += over_time(m->disk, u->disk, passed);
	m->memory = u->memory;
	m->disk = u->disk;
	m->task_cpu_usec = u->cpu_usec;
	m->at = now;
	m->window_usec = passed;
	m->cpu_nano = (int64_t)((double)used * 1e9 / (double)passed);
}

/* Of one that was never looked at nothing is known but the most that it had. */
void meter_end(struct meter *m, const struct runtime_usage *u, int64_t now)
{
	int64_t memory = m->memory ? m->memory : u->memory_peak;

	if (m->over)
		return;
	m->memory_byte_s += over_time(m->memory, memory, now - m->at);
	m->disk_byte_s += over_time(m->disk, m->disk, now - m->at);
	if (u->known)
		m->task_cpu_usec = MAX(m->task_cpu_usec, u->cpu_usec);
	m->at = now;
	add_up_task(m);
}

static void net_look(struct net_meter *m, const struct runtime_usage *u)
{
	m->net_received = MAX(m->net_received, u->received);
	m->net_sent = MAX(m->net_sent, u->sent);
}

static void net_add_up(struct net_meter *m)
{
	m->received += m->net_received;
	m->sent += m->net_sent;
	m->net_received = m->net_sent = 0;
}

struct usage_sums usage_sums_less(struct usage_sums a, const struct usage_sums *b)
{
	a.cpu_usec -= b->cpu_usec;
	a.memory_byte_s -= b->memory_byte_s;
	a.disk_byte_s -= b->disk_byte_s;
	a.received -= b->received;
	a.sent -= b->sent;
	return a;
}

static void add_meter(struct usage_sums *s, const struct meter *m)
{
	s->cpu_usec += m->cpu_usec + m->task_cpu_usec;
	s->memory_byte_s += m->memory_byte_s;
	s->disk_byte_s += m->disk_byte_s;
}

static void add_net(struct usage_sums *s, const struct net_meter *m)
{
	s->received += m->received + m->net_received;
	s->sent += m->sent + m->net_sent;
}

static void add_pod(struct usage_sums *s, const struct pod *p)
{
	add_net(s, &p->traffic);
	for (size_t i = 0; i < p->n_containers; i++)
		add_meter(s, &p->containers[i]->meter);
}

struct usage_sums usage_sums_of(const struct pod *p)
{
	struct usage_sums s = { 0 };

	add_pod(&s, p);
	return s;
}

struct usage_sums usage_sums_of_record(const struct usage_pod_record *r)
{
	struct usage_sums s = { 0 };

	add_net(&s, &r->net);
	for (size_t i = 0; i < r->n_containers; i++)
		add_meter(&s, &r->containers[i].meter);
	return s;
}

static struct attached_time time_of(const struct usage *u)
{
	return (struct attached_time){ pods_now(u->pods), pods_wall(u->pods) };
}

/* What happens to Pods */

void usage_started(struct container *c, const char *task)
{
	meter_task(&c->meter, task, pods_now(c->pod->pods));
}

static bool runs_task(const struct pod *p, const char *task)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (str_eq(p->containers[i]->meter.task, task))
			return true;
	return false;
}

static struct pod *pod_of_task(const struct usage *u, const char *task)
{
	map_each(it, u->pods->pods)
		if (runs_task(it.value, task))
			return it.value;
	return NULL;
}

static struct usage_sums attached_sums(const struct usage *u, const char *uid)
{
	struct access_usage sum;

	if (!attached_sum(u->attached, uid, &sum))
		return (struct usage_sums){ 0 };
	return (struct usage_sums){ .cpu_usec = sum.cpu_us,
				    .memory_byte_s = sum.memory_byte_s,
				    .disk_byte_s = sum.disk_byte_s };
}

/* Where it was used. One that began just before the daemon was killed is first known by its group.
 */
static void note_place(struct usage *u, const char *key, const struct pod *p)
{
	struct attached *a = map_get(u->attached, key);

	if (!a || a->ns)
		return;
	a->ns = xstrdup(p->obj->ns);
	a->sandbox = xstrdup(usage_sandbox_of(p));
}

/* What a part of a task was found to have used is its attachment's, and not its Pod's. */
static void part_counted(struct usage *u, struct pod *p, const struct runtime_usage *got,
			 struct attached_time t, bool ended)
{
	struct usage_sums before = attached_sums(u, got->key), after, more;

	if (ended)
		attached_end(u->attached, got, t);
	else
		attached_look(u->attached, got, t);
	after = attached_sums(u, got->key);
	more = usage_sums_less(after, &before);
	if (!p)
		return;
	note_place(u, got->key, p);
	p->attached.cpu_usec += more.cpu_usec;
	p->attached.memory_byte_s += more.memory_byte_s;
	p->attached.disk_byte_s += more.disk_byte_s;
}

static bool others_run(const struct container *c)
{
	const struct pod *p = c->pod;

	for (size_t i = 0; i < p->n_containers; i++)
		if (p->containers[i] != c && p->containers[i]->task)
			return true;
	return false;
}

/* A network that was taken over from an earlier run of the daemon goes with its last process, but
 * not at once. */
static void look_at_net(struct pod *p)
{
	struct runtime_usage u = { .ip = p->net->ip };

	p->pods->rt->usage(p->pods->rt_ctx, &u, 1);
	if (u.net_known)
		net_look(&p->traffic, &u);
}

void usage_ended(struct container *c, const struct runtime_end *end)
{
	usec now = pods_now(c->pod->pods);

	if (!c->log)
		return; /* it never ran */
	for (size_t i = 0; i < end->n_parts; i++) {
		struct runtime_usage u = end->parts[i].usage;

		u.id = c->log;
		u.key = end->parts[i].key;
		part_counted(c->pod->pods->usage, c->pod, &u, time_of(c->pod->pods->usage), true);
	}
	meter_task(&c->meter, c->log, now);
	meter_end(&c->meter, &end->usage, now);
	if (c->pod->net && !others_run(c))
		look_at_net(c->pod);
}

void usage_net_new(struct pod *p)
{
	net_add_up(&p->traffic);
}

static bool worth_writing(const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (p->containers[i]->meter.task)
			return true;
	return false;
}

void usage_pod_gone(struct pod *p)
{
	struct usage *u = p->pods->usage;

	add_pod(&u->gone, p);
	if (worth_writing(p))
		usage_over_put(&u->sources,
			       &(struct usage_over){
				       .uid = (char *)p->obj->uid,
				       .ns = (char *)p->obj->ns,
				       .sandbox = (char *)usage_sandbox_of(p),
				       .used = usage_sums_less(usage_sums_of(p), &p->attached),
				       .at = pods_wall(u->pods) });
}

/* The same Pod again, as after a shutdown of the node: its source goes on where it was. */
static void go_on(struct pod *p)
{
	static const struct usage_sums none = { 0 };
	struct usage_sources *s = &p->pods->usage->sources;
	const struct usage_over *o = map_get(s->over, p->obj->uid);

	if (!o)
		return;
	p->attached = usage_sums_less(none, &o->used);
	(void)map_del(s->over, p->obj->uid);
}

/* A task that still runs does so since the clock last began; or else its time does not count. */
void usage_restore(struct pod *p)
{
	struct usage *u = p->pods->usage;
	const struct usage_pod_record *r = u->left ? map_take(u->left, p->obj->uid) : NULL;

	go_on(p);
	if (!r)
		return;
	p->traffic = r->net;
	p->attached = r->attached;
	for (size_t i = 0; i < r->n_containers; i++) {
		struct container *c = pod_container(p, r->containers[i].name);

		if (!c)
			continue;
		c->meter = r->containers[i].meter;
		c->meter.task = xstrdup(c->meter.task);
		c->meter.at = MIN(c->meter.at, pods_now(p->pods));
	}
}

/* Writing down */

static struct usage_pod_record pod_record_of(const struct pod *p, struct arena *a)
{
	struct usage_pod_record r = {
		.uid = p->obj->uid,
		.ns = p->obj->ns,
		.sandbox = usage_sandbox_of(p),
		.net = p->traffic,
		.attached = p->attached,
		.containers = arena_new_n(a, struct usage_container_record, p->n_containers + 1),
		.n_containers = p->n_containers,
	};

	for (size_t i = 0; i < p->n_containers; i++)
		r.containers[i] =
			(struct usage_container_record){ .name = p->containers[i]->view->name,
							 .meter = p->containers[i]->meter };
	return r;
}

/* Those that are settled are left out, and forgotten once that is on the disk. */
static void write_text(const struct usage *u, struct buf *out)
{
	const struct map *pods = u->pods->pods;
	autoptr(arena) a = arena_new();
	struct usage_record r = {
		.gone = u->gone,
		.pods = arena_new_n(a, struct usage_pod_record, map_len(pods) + 1),
		.attached = arena_new_n(a, struct attached, map_len(u->attached) + 1),
		.over = arena_new_n(a, struct usage_over, map_len(u->sources.over) + 1),
	};

	map_each(it, u->attached) {
		struct attached *one = it.value;

		one->leaving = one->settled && !one->n_meters;
		if (!one->leaving)
			r.attached[r.n_attached++] = *one;
	}
	map_each(it, u->sources.over) {
		struct usage_over *one = it.value;

		one->leaving = one->settled;
		if (!one->leaving)
			r.over[r.n_over++] = *one;
	}
	map_each(it, pods)
		if (worth_writing(it.value))
			r.pods[r.n_pods++] = pod_record_of(it.value, a);
	usage_record_write(&r, out);
}

static void tell(struct usage *u, struct err *e)
{
	if (e && !u->told)
		log_warn("what Pods use cannot be written down, going on with it in memory alone",
			 KV("err", e));
	u->told = e != NULL;
	err_free(e);
}

/* A look */

static void spent_drop(void *p)
{
	struct spent *s = p;

	free(s->task);
	free(s->key);
	free(s);
}

static const struct runtime_usage *look_of(const struct usage *u, const struct spent *s)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->list[i].key && str_eq(u->list[i].key, s->key) &&
		    str_eq(u->list[i].id, s->task))
			return &u->list[i];
	return NULL;
}

/* This look is written down, if anything is: those parts may go that it has counted. */
static void let_spent_go(struct usage *u)
{
	autoptr(map) later = map_new(spent_drop);
	autoptr(map) all = take(u->spent);

	u->spent = take(later);
	map_each(it, all) {
		struct spent *s = it.value;
		const struct runtime_usage *got = look_of(u, s);

		if (s->look > u->n_begun) {
			struct spent *copy = xnew(struct spent);

			*copy = (struct spent){ xstrdup(s->task), xstrdup(s->key), s->look };
			map_put(u->spent, it.key, copy);
			continue;
		}
		/* If its task ended since the part was looked at, the end has counted it. */
		if (got && got->known && attached_counts(u->attached, s->task, s->key))
			part_counted(u, pod_of_task(u, s->task), got, time_of(u), true);
		u->pods->rt->seats_remove(u->pods->rt_ctx, s->task, s->key);
	}
}

static void rest(struct usage *u)
{
	let_spent_go(u);
	arena_free(take(u->arena));
	if (u->timer && map_len(u->spent))
		timer_set(u->timer, 0);
	else if (u->interval_ms && u->timer)
		timer_set(u->timer, u->interval_ms);
}

static void on_began(void *arg, const char *task, const char *key)
{
	struct usage *u = arg;
	const struct pod *p = pod_of_task(u, task);

	attached_begin(u->attached, task, key, time_of(u));
	if (p)
		note_place(u, key, p);
}

static void on_spent(void *arg, const char *task, const char *key)
{
	autofree char *name = xasprintf("%s/%s", task, key);
	struct usage *u = arg;
	struct spent *s = xnew(struct spent);

	*s = (struct spent){ xstrdup(task), xstrdup(key), u->n_begun + 1 };
	map_put(u->spent, name, s);
	if (u->timer)
		timer_set(u->timer, 0); /* one that is under way goes first */
}

static void tell_measured(struct usage *u)
{
	u->sources.n_lost += attached_trim(u->attached);
	if (u->sources.n_lost && !u->told_lost)
		log_warn("too many sandboxes and attachments have ended whose use nobody has "
			 "written down, forgetting the oldest",
			 KV("count", u->sources.n_lost));
	u->told_lost = u->sources.n_lost;
	if (u->pods->access && !u->left)
		access_tell_measured(u->pods->access);
}

static void work_write(void *arg)
{
	struct usage *u = arg;

	u->e = usage_record_save(u->data_dir, buf_head(&u->text), u->text.len);
}

static void written(void *arg)
{
	struct usage *u = arg;

	if (!u->e)
		usage_sources_forget(&u->sources, u->attached);
	tell(u, take(u->e));
	buf_clear(&u->text);
	rest(u);
	tell_measured(u);
}

static void work_look(void *arg)
{
	struct usage *u = arg;

	u->pods->rt->usage(u->pods->rt_ctx, u->list, u->n);
	for (size_t i = 0; i < u->n_disks; i++)
		pod_disk_look(u->pods->disk, &u->disks[i]);
	host_load(&u->load);
}

static void add_machine(struct usage *u)
{
	const struct runtime_usage got = { .cpu_usec = u->load.cpu_usec, .memory = u->load.memory };
	bool first = !u->machine.task_cpu_usec;

	meter_look(&u->machine, &got, u->began);
	u->machine.looked = first ? 0 : pods_wall(u->pods); /* the first has nothing before it */
}

static void add_look(struct usage *u, const struct look *l, const struct runtime_usage *got)
{
	struct pod *p = map_get(u->pods->pods, l->uid);
	struct container *c = p && got->id ? p->containers[l->index] : NULL;

	if (c && got->known && c->task && str_eq(c->meter.task, got->id)) {
		meter_look(&c->meter, got, u->began);
		c->meter.looked = pods_wall(u->pods);
	}
	if (p && got->net_known && p->net && str_eq(p->net->ip, got->ip))
		net_look(&p->traffic, got);
}

static void note_standing(void *arg, const char *task, const char *key)
{
	autofree char *name = xasprintf("%s/%s", task, key);
	struct map *names = arg;

	map_put(names, name, names);
}

static bool part_stands(void *arg, const char *task, const char *uid)
{
	autofree char *name = xasprintf("%s/%s", task, uid);

	return map_has(arg, name);
}

static struct map *tasks_by_pod(const struct usage *u)
{
	struct map *tasks = map_new(NULL);

	map_each(it, u->pods->pods) {
		struct pod *p = it.value;

		for (size_t i = 0; i < p->n_containers; i++)
			if (p->containers[i]->meter.task)
				map_put(tasks, p->containers[i]->meter.task, p);
	}
	return tasks;
}

/* A part may have gone since it was looked at: with its task, and then it is counted. */
static void add_parts(struct usage *u)
{
	autoptr(map) names = map_new(NULL);
	autoptr(map) tasks = tasks_by_pod(u);
	const struct attached_time t = { u->began, pods_wall(u->pods) };

	if (u->pods->rt->seats_each)
		u->pods->rt->seats_each(u->pods->rt_ctx, note_standing, names);
	for (size_t i = 0; i < u->n; i++)
		if (u->list[i].key && u->list[i].known &&
		    part_stands(names, u->list[i].id, u->list[i].key))
			part_counted(u, map_get(tasks, u->list[i].id), &u->list[i], t, false);
	attached_close(u->attached, part_stands, names, time_of(u));
}

struct partial {
	struct map *looked; /* parts that were looked at */
	struct map *tasks;  /* those with others */
};

static void note_unlooked(void *arg, const char *task, const char *key)
{
	autofree char *name = xasprintf("%s/%s", task, key);
	struct partial *p = arg;

	if (!map_has(p->looked, name))
		map_put(p->tasks, task, p->tasks);
}

/* A part that began after the look did is not in it, but in what its task was found to have used:
 * it would count as the Pod's own, and a ledger takes nothing back. The next look has both. */
static struct map *tasks_seen_in_part(const struct usage *u)
{
	autoptr(map) looked = map_new(NULL);
	struct partial p = { looked, map_new(NULL) };

	for (size_t i = 0; i < u->n; i++)
		if (u->list[i].key)
			note_standing(looked, u->list[i].id, u->list[i].key);
	if (u->pods->rt->seats_each)
		u->pods->rt->seats_each(u->pods->rt_ctx, note_unlooked, &p);
	return p.tasks;
}

static bool worth_a_file(const struct usage *u)
{
	return map_len(u->pods->pods) || u->pods_written || u->settled;
}

static void looked(void *arg)
{
	struct usage *u = arg;
	autoptr(map) partial = tasks_seen_in_part(u);

	for (size_t i = 0; i < u->n; i++)
		if (!u->list[i].key && !(u->list[i].id && map_has(partial, u->list[i].id)))
			add_look(u, &u->looks[i], &u->list[i]);
	add_parts(u);
	for (size_t i = 0; i < u->n_disks; i++) {
		struct pod *p = map_get(u->pods->pods, u->disks[i].uid);

		if (p)
			p->disk = u->disks[i].used;
	}
	add_machine(u);
	u->n_looks++;
	u->took = pods_now(u->pods) - u->began;
	if (!u->data_dir || !u->timer || !worth_a_file(u)) {
		rest(u);
		tell_measured(u);
		return;
	}
	u->pods_written = map_len(u->pods->pods);
	u->settled = false;
	write_text(u, &u->text);
	jobs_run(&u->jobs, work_write, written, u);
}

static void look_at(struct usage *u, const struct pod *p, size_t index, struct runtime_usage what)
{
	u->looks[u->n] = (struct look){ arena_strdup(u->arena, p->obj->uid), index };
	u->list[u->n++] = (struct runtime_usage){
		.id = what.id ? arena_strdup(u->arena, what.id) : NULL,
		.ip = what.ip ? arena_strdup(u->arena, what.ip) : NULL,
	};
}

static void look_at_pod(struct usage *u, const struct pod *p)
{
	u->disks[u->n_disks++] = pod_disk_of(p, u->arena);
	if (p->net)
		look_at(u, p, 0, (struct runtime_usage){ .ip = p->net->ip });
	for (size_t i = 0; i < p->n_containers; i++)
		if (p->containers[i]->task)
			look_at(u, p, i,
				(struct runtime_usage){ .id = p->containers[i]->meter.task });
}

static void count_part(void *arg, unused const char *task, unused const char *key)
{
	++*(size_t *)arg;
}

static void look_at_part(void *arg, const char *task, const char *key)
{
	struct usage *u = arg;

	u->looks[u->n] = (struct look){ 0 };
	u->list[u->n++] = (struct runtime_usage){ .id = arena_strdup(u->arena, task),
						  .key = arena_strdup(u->arena, key) };
}

void usage_look(struct usage *u)
{
	bool seats = u->pods->rt->seats_each;
	size_t max = 0;

	if (u->arena)
		return;
	u->n_begun++;
	map_each(it, u->pods->pods)
		max += ((struct pod *)it.value)->n_containers + 1;
	if (seats)
		u->pods->rt->seats_each(u->pods->rt_ctx, count_part, &max);
	u->arena = arena_new();
	u->looks = arena_new_n(u->arena, struct look, max + 1);
	u->list = arena_new_n(u->arena, struct runtime_usage, max + 1);
	u->disks = arena_new_n(u->arena, struct pod_disk, map_len(u->pods->pods) + 1);
	u->n = u->n_disks = 0;
	map_each(it, u->pods->pods)
		look_at_pod(u, it.value);
	if (seats)
		u->pods->rt->seats_each(u->pods->rt_ctx, look_at_part, u);
	u->began = pods_now(u->pods);
	jobs_run(&u->jobs, work_look, looked, u);
}

bool usage_looks(const struct usage *u)
{
	return u->arena;
}

static void on_timer(void *arg)
{
	usage_look(arg);
}

/* Start and end */

static void load(struct usage *u)
{
	struct usage_record r = { 0 };
	struct err *e = usage_record_load(u->data_dir, u->left_arena, &r);

	if (e && !err_is(e, ERR_NOT_FOUND))
		log_error("what Pods have used cannot be read, counting from zero", KV("err", e));
	err_free(e);
	u->gone = r.gone;
	for (size_t i = 0; i < r.n_over; i++)
		usage_over_put(&u->sources, &r.over[i]);
	for (size_t i = 0; i < r.n_attached; i++) {
		for (size_t k = 0; k < r.attached[i].n_meters; k++) {
			struct meter *m = &r.attached[i].meters[k].meter;

			m->at = MIN(m->at, pods_now(u->pods));
		}
		attached_restore(u->attached, &r.attached[i]);
	}
	for (size_t i = 0; i < r.n_pods; i++)
		map_put(u->left, r.pods[i].uid, &r.pods[i]);
}

static const struct runtime_seats_events seats_events = { .began = on_began, .spent = on_spent };

struct usage *usage_new(struct pods *ps, const char *data_dir, uint64_t interval_ms)
{
	struct usage *u = xnew(struct usage);

	u->pods = ps;
	u->data_dir = xstrdup(data_dir);
	u->interval_ms = interval_ms;
	u->timer = timer_new(ps->loop, on_timer, u);
	jobs_init(&u->jobs, ps->loop, NULL, NULL);
	u->left = map_new(NULL);
	u->left_arena = arena_new();
	u->attached = attached_new();
	usage_sources_init(&u->sources);
	u->spent = map_new(spent_drop);
	if (data_dir)
		load(u);
	if (ps->rt->seats_watch)
		ps->rt->seats_watch(ps->rt_ctx, &seats_events, u);
	return u;
}

void usage_pods_known(struct usage *u)
{
	map_each(it, u->left) {
		const struct usage_pod_record *r = it.value;
		struct usage_sums used = usage_sums_of_record(r);

		add_net(&u->gone, &r->net);
		for (size_t i = 0; i < r->n_containers; i++)
			add_meter(&u->gone, &r->containers[i].meter);
		if (r->ns)
			usage_over_put(
				&u->sources,
				&(struct usage_over){ .uid = (char *)r->uid,
						      .ns = (char *)r->ns,
						      .sandbox = (char *)r->sandbox,
						      .used = usage_sums_less(used, &r->attached),
						      .at = pods_wall(u->pods) });
	}
	map_free(take(u->left));
	arena_free(take(u->left_arena));
	rest(u);
}

/* Before all Pods are known, the file has more than we do. */
void usage_stop(struct usage *u)
{
	autobuf text = { 0 };

	timer_free(take(u->timer));
	jobs_wait(&u->jobs);
	if (!u->data_dir || u->left)
		return;
	write_text(u, &text);
	tell(u, usage_record_save(u->data_dir, buf_head(&text), text.len));
}

void usage_free(struct usage *u)
{
	if (!u)
		return;
	timer_free(u->timer);
	jobs_wait(&u->jobs);
	arena_free(u->arena);
	map_free(u->left);
	arena_free(u->left_arena);
	map_free(u->attached);
	usage_sources_done(&u->sources);
	map_free(u->spent);
	if (u->pods->rt->seats_watch)
		u->pods->rt->seats_watch(u->pods->rt_ctx, NULL, NULL);
	buf_done(&u->text);
	free(u->data_dir);
	free(u);
}

static struct access_usage now_of(const struct meter *m)
{
	return (struct access_usage){
		.at_us = m->looked,
		.window_us = m->window_usec,
		.cpu_nano = m->cpu_nano,
		.memory = m->memory,
		.disk = m->disk,
		.cpu_us = m->cpu_usec + m->task_cpu_usec,
		.memory_byte_s = m->memory_byte_s,
		.disk_byte_s = m->disk_byte_s,
	};
}

bool usage_of_container(const struct container *c, struct access_usage *ret)
{
	const struct net_meter *net = &c->pod->traffic;

	if (!c->meter.looked)
		return false;
	*ret = now_of(&c->meter);
	ret->received = net->received + net->net_received;
	ret->sent = net->sent + net->net_sent;
	return true;
}

bool usage_of_attachment(const struct usage *u, const char *uid, struct access_usage *ret)
{
	return attached_sum(u->attached, uid, ret);
}

bool usage_of_machine(const struct usage *u, struct access_usage *ret)
{
	if (!u->machine.looked)
		return false;
	*ret = now_of(&u->machine);
	return true;
}

void usage_each(const struct usage *u, void (*fn)(void *arg, const struct access_source *s),
		void *arg)
{
	const struct usage_told t = { u->pods->pods, u->attached, &u->sources, pods_wall(u->pods) };

	if (!u->left)
		usage_sources_each(&t, fn, arg);
}

void usage_settled(struct usage *u, const char *uid)
{
	u->settled |= usage_sources_settled(&u->sources, u->attached, uid);
}

/* Totals of the node alone: a line for each Pod would never stop growing where Pods come and go. */
void usage_metrics(const struct usage *u, struct buf *b)
{
	struct usage_sums s = u->gone;

	map_each(it, u->pods->pods)
		add_pod(&s, it.value);
	metrics_seconds(b, "cay_usage_cpu_seconds_total",
			"Processor time of all sandboxes that this node has had.",
			(uint64_t)s.cpu_usec);
	metrics_counter(b, "cay_usage_memory_byte_seconds_total", "Memory over time, likewise.",
			(uint64_t)s.memory_byte_s);
	metrics_counter(b, "cay_usage_disk_byte_seconds_total",
			"Bytes in layers and logs over time, likewise.", (uint64_t)s.disk_byte_s);
	metrics_counter(b, "cay_usage_network_received_bytes_total",
			"Bytes that sandboxes received.", (uint64_t)s.received);
	metrics_counter(b, "cay_usage_network_sent_bytes_total", "Bytes that sandboxes sent.",
			(uint64_t)s.sent);
	metrics_gauge(b, "cay_usage_unsettled",
		      "Pods that are gone and whose use is not in a ledger yet.",
		      map_len(u->sources.over));
	metrics_counter(b, "cay_usage_lost_total",
			"Pods and attachments that were too many to be kept until then.",
			u->sources.n_lost);
	metrics_counter(b, "cay_usage_looks_total", "How many times all sandboxes were looked at.",
			u->n_looks);
	metrics_gauge(b, "cay_usage_look_microseconds", "How long the last look took.",
		      (uint64_t)u->took);
}
