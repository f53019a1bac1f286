/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"

struct loop;

/* Where a loop, whichever it is, keeps its deferred calls: struct deferred, first in, first out. */
struct list *loop_deferred(struct loop *l);

/* Makes the calls until none is left, those that they ask for included. */
void deferred_run(struct list *line);
