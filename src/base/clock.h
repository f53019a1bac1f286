/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Time. usec counts microseconds. Wall time is for objects people see, monotonic time for waiting.
 */
typedef int64_t usec;

usec clock_wall(void); /* since 1970, UTC */
usec clock_mono(void);

/* RFC 3339 in UTC: "2026-01-02T03:04:05Z"; micro: with six digits of fraction; nano: with nine. */
#define CLOCK_TEXT_MAX 40
void clock_format(usec wall, char ret[CLOCK_TEXT_MAX]);
void clock_format_micro(usec wall, char ret[CLOCK_TEXT_MAX]);
void clock_format_nano(usec wall, char ret[CLOCK_TEXT_MAX]);
must_use struct err *clock_parse(const char *text, usec *ret); /* any RFC 3339, offsets too */
