/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/file.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/host/cgroup.h"
#include "node/host/instance.h"
#include "node/host/load.h"
#include "node/launch/plan.h"
#include "node/runtime/native_priv.h"

/*
 * What tasks and networks have used. A slot has control groups, a layer and a log of its own, and a
 * network that is given to a Pod has counted nothing before, so each number began at zero with
 * whoever it is counted for. A job may ask: whatever is read here does not change after the start.
 */
static int64_t disk_used(const struct native *n, const char *id)
{
	static const char *const parts[] = { DISK_SLOT_LAYER, DISK_SLOT_LOGS };
	autofree char *root = diskpool_path(n->spec.disk, INSTANCE_SLOTS, id);
	int64_t sum = 0;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		autofree char *path = xasprintf("%s/%s", root, parts[i]);

		sum += diskpool_ops(n->spec.disk)->used(path);
	}
	return sum;
}

static void task_usage(const struct native *n, struct runtime_usage *u)
{
	autofree char *part = u->key ? seats_group(u->id, u->key) : NULL;
	struct cgroup_usage g;

	u->known = cgroup_usage(n->spec.cgroups, part ? part : u->id, &g);
	if (!u->known)
		return;
	if (part)
		u->born = cgroup_identity(n->spec.cgroups, part);
	u->cpu_usec = g.cpu_usec;
	u->memory_peak = g.memory_peak;
}

static bool link_of(const struct native *n, const char *ip, char ret[16])
{
	unsigned place;

	if (!instance_addr_place(n->spec.instance, ip, &place))
		return false;
	instance_ifname(n->spec.instance, place, ret);
	return true;
}

bool native_net_link(void *ctx, const struct runtime_net *net, char ret[16])
{
	return link_of(ctx, net->ip, ret);
}

/* The host's end of the link receives what the Pod sends. */
static void net_usage(const struct native *n, struct runtime_usage *u)
{
	char name[16];

	if (link_of(n, u->ip, name))
		u->net_known = host_link_traffic(name, &u->sent, &u->received);
}

/* What it has, and may give back. */
static void stock(const struct native *n, struct runtime_usage *u)
{
	autofree char *part = u->key ? seats_group(u->id, u->key) : NULL;
	autofree char *scratch = u->key ? seats_scratch(u->id, u->key) : NULL, *path = NULL;

	u->memory = cgroup_memory(n->spec.cgroups, part ? part : u->id);
	if (!scratch) {
		u->disk = disk_used(n, u->id);
		return;
	}
	path = diskpool_path(n->spec.disk, INSTANCE_SLOTS, scratch);
	u->disk = file_exists(AT_FDCWD, path) ? diskpool_ops(n->spec.disk)->used(path) : 0;
}

void native_usage(void *ctx, struct runtime_usage *list, size_t n_list)
{
	const struct native *n = ctx;

	for (size_t i = 0; i < n_list; i++) {
		struct runtime_usage *u = &list[i];

		if (u->id)
			task_usage(n, u);
		if (u->id && u->known && !u->brief)
			stock(n, u);
		if (u->ip)
			net_usage(n, u);
	}
}

/* A limit below what is in use would make the kernel kill, which nobody has asked for. */
struct err *native_resize(void *ctx, const char *id, const struct plan_limits *l)
{
	const struct native *n = ctx;
	const struct cgroup_limits limits = { .memory = l->memory,
					      .cpu_milli = l->cpu,
					      .cpu_share = l->cpu_share };
	int64_t used = l->memory ? cgroup_memory(n->spec.cgroups, id) : 0;

	if (l->memory && used >= l->memory)
		return err_new(ERR_EXHAUSTED,
			       "cannot decrease memory limits: attempting to set memory limit "
			       "(%lld) below current usage (%lld)",
			       (long long)l->memory, (long long)used);
	return cgroup_limit(n->spec.cgroups, id, &limits);
}

struct runtime_usage usage_of_ended(const struct native *n, const char *id)
{
	struct runtime_usage u = { .id = id };

	task_usage(n, &u);
	u.id = NULL; /* it will not outlive the call */
	return u;
}

struct parts {
	const struct native *n;
	const char *task;
	struct runtime_end *end;
};

static void add_part(void *arg, const char *name, unused const char *path)
{
	struct parts *p = arg;
	struct runtime_part part = { 0 };

	if (!str_starts(name, SEAT_GROUP))
		return;
	part.key = xstrdup(name + strlen(SEAT_GROUP));
	part.usage = (struct runtime_usage){ .id = p->task, .key = part.key };
	task_usage(p->n, &part.usage);
	part.usage.id = part.usage.key = NULL; /* they will not outlive the call */
	p->end->parts = xrealloc(p->end->parts, (p->end->n_parts + 1) * sizeof(part));
	p->end->parts[p->end->n_parts++] = part;
}

void usage_of_parts(const struct native *n, const char *id, struct runtime_end *ret)
{
	struct parts p = { n, id, ret };

	cgroup_each_below(n->spec.cgroups, id, add_part, &p);
}

void runtime_end_done(struct runtime_end *end)
{
	for (size_t i = 0; i < end->n_parts; i++)
		free(end->parts[i].key);
	free(take(end->parts));
	end->n_parts = 0;
}
