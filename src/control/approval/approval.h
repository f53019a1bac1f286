/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* Closes an Approval that nobody has decided in time, and removes it a day after it was closed. */
struct again approval_reconcile(struct pass *p);
