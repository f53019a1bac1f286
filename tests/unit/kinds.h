/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/registry.h"

/* The registry that all tests of a program share. A test that adds a kind removes it again. */
struct kinds *test_kinds(void);
/* The first kind in it of that name; "events.k8s.io/v1 Event" for one that comes later. */
const struct kind *kind_named(const char *name);
