/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Strict conversion of text to values: the whole text must be the value. Nothing is written on
 * failure.
 */
must_use struct err *parse_int(const char *s, int64_t min, int64_t max, int64_t *ret);
must_use struct err *parse_uint(const char *s, uint64_t max, uint64_t *ret); /* decimal */
must_use struct err *parse_bool(const char *s, bool *ret); /* true false 1 0 yes no on off */
/* 500ms 2s 5m 1h, as in Go; also 1m30s. */
must_use struct err *parse_duration_ms(const char *s, uint64_t *ret);
void hex_encode(const void *p, size_t len, char *ret); /* writes 2 * len + 1 bytes */
/* malloc'd, NUL-terminated. url: the URL alphabet without padding. */
char *base64_encode(const void *p, size_t len, bool url);
must_use struct err *base64_decode(const char *s, bool url, void **ret, size_t *ret_len);
/*
 * Decodes %XX into a copy; with plus, '+' becomes a space. A bad escape or a NUL is ERR_MALFORMED.
 */
must_use struct err *url_decode(const char *s, size_t len, bool plus, char **ret, size_t *ret_len);
char *url_encode(const char *s); /* escapes everything but unreserved characters */
