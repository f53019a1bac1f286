/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* Keeps the NetworkPolicy that a SandboxTemplate asks for. */
struct again template_reconcile(struct pass *p);
