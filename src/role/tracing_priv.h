/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/mem.h"

struct loop;
struct settings;
struct tracer;

/* Rows for the roles that make spans. */
#define TRACING_SETTINGS                                                                                  \
	{ "otlp-endpoint",                                                                                \
	  SETTING_TEXT,                                                                                   \
	  NULL,                                                                                           \
	  "URL",                                                                                          \
	  "Collector that spans are sent to, at URL/v1/traces (OTLP over HTTP in JSON; by default none)", \
	  .env = "OTEL_EXPORTER_OTLP_ENDPOINT" },                                                         \
		{ "otlp-traces-endpoint",                                                                 \
		  SETTING_TEXT,                                                                           \
		  NULL,                                                                                   \
		  "URL",                                                                                  \
		  "The same with its path, before --otlp-endpoint",                                       \
		  .env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" },                                          \
		{ "otel-service-name",                                                                    \
		  SETTING_TEXT,                                                                           \
		  "agent-sandbox-controller",                                                             \
		  "NAME",                                                                                 \
		  "What spans call this process",                                                         \
		  .env = "OTEL_SERVICE_NAME" },                                                           \
		{ "otel-resource-attributes",                                                             \
		  SETTING_TEXT,                                                                           \
		  NULL,                                                                                   \
		  "KEY=VALUE,...",                                                                        \
		  "What spans tell of it besides",                                                        \
		  .env = "OTEL_RESOURCE_ATTRIBUTES" }

/* The tracer of a role, and what sends its spans. */
struct tracing;
/* *ret NULL: no endpoint is set. ERR_INVALID names the setting. */
must_use struct err *tracing_start(struct loop *l, const struct settings *s, struct tracing **ret);
struct tracer *tracing_tracer(const struct tracing *t); /* NULL for NULL */
/* Waits a moment for what is left to be sent. */
void tracing_free(struct tracing *t);
AUTOPTR(tracing)
