/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* Says of an Attachment whether it holds, and with which rights. */
struct again attachment_reconcile(struct pass *p);
