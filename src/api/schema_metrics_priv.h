/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"

extern const struct type type_pod_metrics, type_node_metrics;
