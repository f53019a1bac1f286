/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/budget.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/parse.h"
#include "node/host/instance.h"

enum {
	POD_PIDS = 1024,
	MAX_PODS = 2000,
	OVERCOMMIT = 1000, /* sandboxes are many and mostly idle */
	PIDS_RESERVE = 2048,
	DESCRIPTORS_EACH = 5, /* of a container: pidfd, two sockets, its Pod's network; one spare */
	PODS_LEAST = 16,
};

static const int64_t memory_reserve = INT64_C(512) << 20;
static const int64_t default_memory = INT64_C(4) << 30;

static int64_t read_number(const char *path, int64_t otherwise)
{
	autofree char *text = NULL;
	int64_t v = otherwise;
	char *nl;

	err_free(file_read(AT_FDCWD, path, 64, &text, NULL));
	nl = text ? strchr(text, '\n') : NULL;
	if (nl)
		*nl = '\0';
	if (text)
		err_free(parse_int(text, 1, INT64_MAX, &v));
	return v;
}

static int64_t descriptor_limit(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_NOFILE, &r) < 0 ? 1024
						: (int64_t)MIN(r.rlim_cur, (rlim_t)INT32_MAX);
}

struct budget_machine budget_machine(void)
{
	struct sysinfo si = { 0 };

	(void)sysinfo(&si);
	return (struct budget_machine){
		.memory = (int64_t)si.totalram * (si.mem_unit ? si.mem_unit : 1),
		.pids = MIN(read_number("/proc/sys/kernel/pid_max", 32768),
			    read_number("/proc/sys/kernel/threads-max", 32768)),
		.descriptors = descriptor_limit(),
		.cpu_milli = sysconf(_SC_NPROCESSORS_ONLN) * 1000,
		.addresses = POOL_SIZE - POOL_FIRST - 1,
	};
}

/* What is left after the reserve; a reserve that is too large for the machine leaves a quarter. */
static int64_t less(int64_t all, int64_t reserve, int64_t least)
{
	if (!reserve)
		reserve = MIN(MAX(least, all / 10), all / 2);
	return MAX(all - reserve, all / 4);
}

struct host_budget budget_of(const struct budget_machine *m, const struct budget_spec *s)
{
	/* The other half is for connections. */
	int64_t fit = MAX(m->descriptors / 2 / DESCRIPTORS_EACH, (int64_t)PODS_LEAST);
	struct host_budget b = {
		.memory = less(m->memory, s->memory_reserve, memory_reserve),
		.pids = less(m->pids, s->pids_reserve, PIDS_RESERVE),
		.memory_capacity = m->memory,
		.cpu_milli = m->cpu_milli,
		.pods = s->max_pods ? s->max_pods : MAX_PODS,
		.overcommit = s->overcommit ? s->overcommit : OVERCOMMIT,
	};

	if (s->memory)
		b.memory = MIN(b.memory, s->memory);
	b.pods = MIN(b.pods, fit);
	b.pods = MIN(b.pods, (int64_t)m->addresses);
	b.containers = MIN(s->max_containers ? s->max_containers : 2 * b.pods, fit);
	b.default_memory =
		s->default_memory ? s->default_memory : MIN(default_memory, b.memory / 2);
	b.pod_pids = MIN(s->pod_pids ? s->pod_pids : POD_PIDS, b.pids);
	return b;
}
