/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* What the whole machine has used; what is unknown is 0. Any thread. */
struct host_load {
	int64_t cpu_usec; /* since it was started */
	int64_t memory;   /* bytes that are not available to anybody */
};
void host_load(struct host_load *ret);
