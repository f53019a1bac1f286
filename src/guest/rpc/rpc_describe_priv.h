/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct rpc_service;

/* Descriptions of services, as server reflection sends them: a FileDescriptorProto. */
void rpc_describe(const struct rpc_service *s, struct buf *out);
void rpc_describe_empty(struct buf *out); /* google/protobuf/empty.proto */
/* True if the file of s has this symbol: a service, a method, a message or an enum. */
bool rpc_describes(const struct rpc_service *s, const char *symbol);

#define RPC_EMPTY_FILE "google/protobuf/empty.proto"
#define RPC_EMPTY_NAME "google.protobuf.Empty"
