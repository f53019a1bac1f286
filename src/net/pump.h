/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mem.h"

struct conn;

/*
 * A pump copies two connections into each other until both directions have ended, with
 * back-pressure and half-close. What is already in their input buffers goes first. It takes
 * ownership of both; done() is called once, then the pump is freed.
 */
struct pump;
struct pump *pump_start(struct conn *a, struct conn *b, void (*done)(void *arg), void *arg);
void pump_free(struct pump *p); /* cuts both connections; done() is not called */
AUTOPTR(pump)
