/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/budget.h"

#include "base/macros.h"
#include "test.h"

#define MI (INT64_C(1) << 20)
#define GI (INT64_C(1) << 30)

TEST(sandboxes_leave_something_to_the_host)
{
	static const struct {
		struct budget_machine m;
		struct budget_spec s;
		struct host_budget want;
	} rows[] = {
		{ { 24 * GI, 32768, 20000, 2000, 16381 },
		  { 0 },
		  { 24 * GI - 24 * GI / 10, 32768 - 3276, .default_memory = 4 * GI,
		    .pod_pids = 1024, .pods = 2000, .containers = 2000 } },
		{ { 2 * GI, 4194304, 1 << 20, 2000, 16381 },
		  { .memory_reserve = 256 * MI,
		    .pids_reserve = 1000,
		    .default_memory = 64 * MI,
		    .pod_pids = 50,
		    .max_pods = 5,
		    .max_containers = 7 },
		  { 2 * GI - 256 * MI, 4194304 - 1000, .default_memory = 64 * MI, .pod_pids = 50,
		    .pods = 5, .containers = 7 } },
		/* A small machine, with few descriptors. */
		{ { 512 * MI, 1000, 100, 1000, 16381 },
		  { 0 },
		  { 256 * MI, 500, .default_memory = 128 * MI, .pod_pids = 500, .pods = 16,
		    .containers = 16 } },
		/* What the operator gives them, if the reserve leaves as much. */
		{ { GI, 32768, 1 << 20, 1000, 16381 },
		  { .memory = 64 * MI, .max_pods = 5 },
		  { 64 * MI, 32768 - 3276, .default_memory = 32 * MI, .pod_pids = 1024, .pods = 5,
		    .containers = 10 } },
		{ { GI, 32768, 1 << 20, 1000, 16381 },
		  { .memory = 2 * GI, .max_pods = 5 },
		  { GI / 2, 32768 - 3276, .default_memory = GI / 4, .pod_pids = 1024, .pods = 5,
		    .containers = 10 } },
		/* A reserve that is more than there is, and more Pods than addresses. */
		{ { GI, 32768, 1 << 20, 1000, 300 },
		  { .memory_reserve = 4 * GI, .max_pods = 16000 },
		  { GI / 4, 32768 - 3276, .default_memory = GI / 8, .pod_pids = 1024, .pods = 300,
		    .containers = 600 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct host_budget b = budget_of(&rows[i].m, &rows[i].s), *w = &rows[i].want;

		eq_int(b.memory, w->memory);
		eq_int(b.pids, w->pids);
		eq_int(b.default_memory, w->default_memory);
		eq_int(b.pod_pids, w->pod_pids);
		eq_int(b.pods, w->pods);
		eq_int(b.containers, w->containers);
	}
}
