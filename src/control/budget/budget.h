/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* Says of a Budget how much of it is used, and suspends the sandboxes of agents that used it up. */
struct again budget_reconcile(struct pass *p);
