/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include "base/buf.h"

static void metric(struct buf *b, const char *name, const char *help, const char *type,
		   uint64_t value)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name,
		   (unsigned long long)value);
}

void metrics_counter(struct buf *b, const char *name, const char *help, uint64_t value)
{
	metric(b, name, help, "counter", value);
}

void metrics_gauge(struct buf *b, const char *name, const char *help, uint64_t value)
{
	metric(b, name, help, "gauge", value);
}

void metrics_seconds(struct buf *b, const char *name, const char *help, uint64_t usec)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s counter\n%s %llu.%06llu\n", name, help, name, name,
		   (unsigned long long)(usec / 1000000), (unsigned long long)(usec % 1000000));
}
