/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * Text into JSON: bytes that are not UTF-8 become U+FFFD. Escapes from the beginning of in[0..len)
 * until at least max bytes (or all) are used; returns how many. newlines: \r\n and \r become \n.
 */
size_t json_escape(struct buf *out, const char *in, size_t len, size_t max, bool newlines);
void json_put_string(struct buf *out, const char *s); /* with its quotes */
