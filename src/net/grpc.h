/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

struct buf;

/* Header values of gRPC that more than one part of the program reads or writes. */

/*
 * grpc-timeout: one to eight digits and a unit, as in "30S". Rounded up to whole microseconds:
 * nobody gives up before the caller does. False: it is none.
 */
bool grpc_timeout_read(const char *text, usec *ret);
/* A text as grpc-message carries it: everything but visible ASCII is percent-encoded. */
void grpc_message_put(struct buf *out, const char *text);
