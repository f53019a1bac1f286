/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * What the sandboxes of an instance may use together, and what the host keeps for itself. A sandbox
 * that takes all it can get meets these limits; the daemon and everything else on the host do not.
 */
struct budget_machine {
	int64_t memory;      /* bytes */
	int64_t pids;        /* processes and threads that the kernel can number and hold */
	int64_t descriptors; /* that the daemon may have open */
	int64_t cpu_milli;
	unsigned addresses; /* of the instance's pool */
};

/* Settings; 0: the default that budget_of() computes from the machine. */
struct budget_spec {
	int64_t memory_reserve, pids_reserve; /* for the host */
	int64_t memory;                       /* of all sandboxes, if that is less */
	int64_t default_memory;               /* of a container that names no limit */
	int64_t pod_pids;
	int64_t max_pods, max_containers;
	int64_t overcommit; /* how many times over CPUs and memory may be requested */
};

struct host_budget {
	int64_t memory, pids;    /* of all sandboxes together */
	int64_t memory_capacity; /* of the machine */
	int64_t cpu_milli;
	int64_t default_memory;
	int64_t pod_pids; /* of a Pod, all of its containers together */
	int64_t pods, containers;
	int64_t overcommit;
};

struct budget_machine budget_machine(void);
struct host_budget budget_of(const struct budget_machine *m, const struct budget_spec *s);
