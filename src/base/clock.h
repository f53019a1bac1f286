/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Time, counted in microseconds. Wall time is for what people see in objects, monotonic time is for
 * waiting.
 */
typedef int64_t usec;

usec clock_wall(void); /* since 1970, UTC */
usec clock_mono(void);

/* RFC 3339 in UTC, like "2026-01-02T03:04:05Z"; micro adds six digits of fraction, nano nine. */
#define CLOCK_TEXT_MAX 40
void clock_format(usec wall, char ret[CLOCK_TEXT_MAX]);
void clock_format_micro(usec wall, char ret[CLOCK_TEXT_MAX]);
void clock_format_nano(usec wall, char ret[CLOCK_TEXT_MAX]);
/* Any RFC 3339 time, also with an offset. */
must_use struct err *clock_parse(const char *text, usec *ret);
