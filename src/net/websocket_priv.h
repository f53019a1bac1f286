/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct conn;
struct websocket;

/* What the handshakes of both sides share. */

/* Takes ownership of c, over which the handshake has been made. */
struct websocket *websocket_new(struct conn *c, size_t max_message, bool client);
/* The answer that proves to a client that its handshake was understood. malloc'd. */
char *websocket_accept_key(const char *key);
