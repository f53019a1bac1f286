/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "loop/queue.h"

struct pass;

/* The name of the NetworkPolicy of a template, and of that which claims had in older versions. */
char *policy_name(const char *owner);

/* Keeps the NetworkPolicy that a SandboxTemplate asks for. */
struct again template_reconcile(struct pass *p);
