/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"

extern const struct type type_gateway;
