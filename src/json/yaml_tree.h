/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "json/json.h"

struct buf;

/*
 * YAML in and out as JSON trees, by the rules for Kubernetes manifests: core schema scalars, no
 * tags, anchors resolved up to a limit, duplicate keys rejected.
 */
/* Exactly one document. */
must_use struct err *yaml_parse_one(const char *text, size_t len, struct json_doc **ret);
/* Every document, as a list; empty documents are left out. */
must_use struct err *yaml_parse_all(const char *text, size_t len, struct json_doc **ret);
/* Block style; strings are quoted if they would otherwise be read as something else. */
void yaml_write(const struct json *v, struct buf *out);
