/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "json/json.h"

struct type;

/*
 * Bodies in Kubernetes' protobuf, as kubectl's `create` commands and typed Go clients send them,
 * into the tree that the same object has in JSON. What the schema table gives no number for is
 * refused (ERR_MEDIA_TYPE): nothing is lost silently.
 */
bool protobuf_is(const char *content_type);
must_use struct err *protobuf_read(const char *data, size_t len, const struct type *t,
				   struct json_doc **ret);

/* Of what is not stored. */
extern const struct type type_delete_options, type_token_request;
