/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct call;
struct json_doc;

/* A span for a request that was let in, as the client's traceparent says. Watches and streams have
 * none: they last too long. */
void call_trace(struct call *c);
void call_trace_end(struct call *c);
/* A new SandboxClaim or Sandbox names its span, unless its creator has named one: what is done
 * about it continues the trace. */
void call_trace_stamp(struct call *c, struct json_doc *d);
