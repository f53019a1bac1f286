/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct diskpool;
struct loop;
struct node_object;
struct pods;

/*
 * Looks after disk and memory from time to time: gives back what the pool no longer uses, tells by
 * the Node's conditions DiskPressure and MemoryPressure when little is left, and evicts Pods if
 * that lasts: for the pool, and for the memory that sandboxes may use together.
 */
struct pressure;

struct pressure_spec {
	struct loop *loop;
	const struct diskpool *disk;
	struct node_object *object;
	struct pods *pods;
	int64_t memory;       /* that sandboxes may use together; 0: not limited */
	uint64_t interval_ms; /* between looks while something is short; 0: ten seconds */
};
struct pressure *pressure_new(const struct pressure_spec *spec);
void pressure_free(struct pressure *p); /* turns the loop until nothing is under way */
