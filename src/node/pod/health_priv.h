/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;

/*
 * The messages of grpc.health.v1.Health/Check, each with the five bytes that gRPC puts in front:
 *
 *   0 (not compressed) | length, 4 bytes, big endian | message
 *   HealthCheckRequest { string service = 1; }   HealthCheckResponse { enum status = 1; }
 */
enum {
	HEALTH_UNKNOWN, /* also the default: an empty message */
	HEALTH_SERVING,
	HEALTH_NOT_SERVING,
	HEALTH_SERVICE_UNKNOWN,
};

void health_request(struct buf *b, const char *service);
/* The peer chose the bytes. *ret may be a number that has no name. ERR_MALFORMED. */
must_use struct err *health_response(const char *p, size_t len, uint64_t *ret);
const char *health_name(uint64_t status);     /* "NOT_SERVING" */
const char *grpc_code_name(const char *code); /* "Unimplemented" of "12" */
