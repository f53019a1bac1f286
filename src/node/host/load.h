/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the whole machine has used; what is unknown is 0. Any thread. */
struct host_load {
	int64_t cpu_usec; /* since it was started */
	int64_t memory;   /* bytes that are not available to anybody */
};
void host_load(struct host_load *ret);

bool host_has_swap(void); /* any space for it, used or not. Any thread. */

/* Bytes that a link has received and sent, from sysfs: netlink would wait for whoever changes
 * links. False: there is no such link. Any thread. */
bool host_link_traffic(const char *name, int64_t *ret_received, int64_t *ret_sent);
