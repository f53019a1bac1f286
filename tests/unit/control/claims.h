/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "world.h"

/* Templates, pools and claims in a world. more goes into the spec: ",'replicas':2", or "". */
void make_template(struct world *w, const char *name, const char *more);
void make_pool(struct world *w, const char *name, const char *template, const char *more);
void make_claim(struct world *w, const char *name, const char *pool, const char *more);
/* The Sandbox of a claim by its status; malloc'd, NULL: none. */
char *bound_to(struct world *w, const char *claim);
const char *ready_of(struct world *w, const char *claim);

/* A world with a template t and a pool p of it, whose members run. */
void open_with_pool(struct world *w, const char *replicas);
