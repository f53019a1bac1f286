/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct face;
struct http_request;

/* Answers a request of the gRPC port. */
void rpc_serve(struct face *f, struct http_request *r);
