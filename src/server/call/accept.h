/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* The media types of an Accept header, by preference; fn returns true to choose one. */
bool accept_each(const char *accept, bool (*fn)(void *arg, struct span type, struct span params),
		 void *arg);
/* params is what follows the first semicolon: "as=Table;v=v1;g=meta.k8s.io". NULL value: any. */
bool accept_param(struct span params, const char *name, const char *value);
