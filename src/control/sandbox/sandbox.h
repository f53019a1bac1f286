/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* Turns a Sandbox into a Pod, volumes and a Service, and reports on them. */
struct again sandbox_reconcile(struct pass *p);
