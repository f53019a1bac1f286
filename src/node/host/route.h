/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/ip.h"

/*
 * Whether packets to this address leave the host: not if it is one of the host's own, whatever link
 * it is on, nor if there is no route to it. Asks the kernel, which answers without waiting.
 */
bool route_leads_away(const struct ip *to);
