/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mem.h"

struct conn;

/*
 * A pump: two connections copied into each other until both directions ended, with back-pressure
 * and half-close. What is already in their input buffers goes first. Takes both over; done() is
 * called once, then it is freed.
 */
struct pump;
struct pump *pump_start(struct conn *a, struct conn *b, void (*done)(void *arg), void *arg);
void pump_free(struct pump *p); /* cuts both; done() is not called */
AUTOPTR(pump)
