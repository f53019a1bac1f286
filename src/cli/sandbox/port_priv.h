/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* A port of ours and one of a sandbox. */
struct port_pair {
	uint16_t local; /* 0: any */
	uint16_t remote;
};
/* "8000", "8000:80" (local:remote), ":80" (any local port). ERR_INVALID. */
must_use struct err *port_parse(const char *text, struct port_pair *ret);
