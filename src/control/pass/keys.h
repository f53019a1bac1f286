/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/agents.h"

/*
 * Names that the controllers write besides those of the agent kinds.
 */
#define API_NETWORK_POLICY "networking.k8s.io/v1"
#define API_EVENT          "events.k8s.io/v1"

/* The reporting controllers of Events. */
#define WHO_SANDBOX "sandbox-controller"
#define WHO_CLAIM   "sandboxclaim-controller"
#define WHO_POOL    "sandboxwarmpool-controller"
