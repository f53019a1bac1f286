/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct instance;

/* The instance's nftables table, from any thread. It is loaded whole; Pods that come and go change
 * nothing in it. open: every process of the host may send packets to sandboxes, not the daemon
 * alone. */
must_use struct err *firewall_load(const struct instance *i, bool open);
must_use struct err *firewall_remove(const struct instance *i); /* absent is fine */
/* As the kernel has it, without counters; *ret is NULL if it is not there. From any thread. */
void firewall_text(const struct instance *i, char **ret);
bool firewall_present(const struct instance *i);
