/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* Keeps a SandboxWarmPool filled with Ready members. */
struct again pool_reconcile(struct pass *p);
