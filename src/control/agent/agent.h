/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* Says of an Agent what it may do in effect, whether it is verified, and how many sandboxes it has.
 */
struct again agent_reconcile(struct pass *p);
