/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* For the WebSocket handshake, which asks for nothing better. Not for secrets. */
void sha1(const void *p, size_t len, unsigned char ret[20]);
