/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"

/*
 * multipart/form-data, fed in pieces of any size. A part's data is not kept: memory is limited to
 * one delimiter or the headers of one part (MULTIPART_HEADERS_MAX).
 */
#define MULTIPART_HEADERS_MAX 8192
#define MULTIPART_PARTS_MAX   64

struct multipart_events {
	/* name and filename are NULL if the part has none, and live until the call returns. */
	void (*begin)(void *arg, const char *name, const char *filename);
	void (*data)(void *arg, const char *p, size_t len);
	void (*end)(void *arg);
};

struct multipart;

/* ERR_MALFORMED: content_type is not multipart/form-data with a usable boundary. */
must_use struct err *multipart_new(const char *content_type, const struct multipart_events *ev,
				   void *arg, struct multipart **ret);
void multipart_free(struct multipart *m);
AUTOPTR(multipart)
/* After ERR_MALFORMED or ERR_TOO_LARGE, feed no more. */
must_use struct err *multipart_feed(struct multipart *m, const char *p, size_t len);
/* The body has ended. ERR_MALFORMED unless the last delimiter was seen. */
must_use struct err *multipart_end(struct multipart *m);
