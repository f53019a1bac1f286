/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/mem.h"

struct conn;

/*
 * A pump copies two connections into each other until both directions have ended, with
 * back-pressure and half-close. What is already in their input buffers goes first. It takes
 * ownership of both; done() is called once, then the pump is freed.
 */
struct pump;
struct pump *pump_start(struct conn *a, struct conn *b, void (*done)(void *arg), void *arg);
/*
 * Cuts both after ms in which no byte moved, but only once one of them has ended its direction:
 * as long as both are open they may be silent for ever. 0: never.
 */
void pump_set_half_open_ms(struct pump *p, uint64_t ms);
/* Adds the bytes of a to from[0] and those of b to from[1] as they come. from outlives the pump. */
void pump_count(struct pump *p, uint64_t from[2]);
void pump_free(struct pump *p); /* cuts both connections; done() is not called */
AUTOPTR(pump)
