/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct buf;

/* Lines of /metrics, in Prometheus' text format. A role appends its own when it is asked to. */
void metrics_counter(struct buf *b, const char *name, const char *help, uint64_t value);
void metrics_seconds(struct buf *b, const char *name, const char *help,
		     uint64_t usec); /* a counter */
void metrics_gauge(struct buf *b, const char *name, const char *help, uint64_t value);
