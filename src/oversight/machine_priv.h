/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How this machine is doing. */
enum pressure_of {
	PRESSURE_CPU,
	PRESSURE_MEMORY,
	PRESSURE_IO,
	PRESSURE_MAX_,
};
struct machine {
	double pressure[PRESSURE_MAX_]; /* percent of the last ten seconds; < 0: not known */
	double load[3];
	int64_t cpus, memory_total, memory_available, disk_total, disk_available; /* 0: not known */
};
/* Blocks. dir: on the file system that counts. */
void machine_read(const char *dir, struct machine *ret);
/* The text of /proc/pressure/X; < 0: it is none. */
double machine_pressure(const char *text);
/* A line of /proc/meminfo, in bytes; 0: there is none. */
int64_t machine_memory(const char *text, const char *name);
