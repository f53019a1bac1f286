/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"

/*
 * multipart/form-data, fed in pieces of any size. Nothing of a part's data is kept: memory is one
 * delimiter or one part's headers (MULTIPART_HEADERS_MAX).
 */
#define MULTIPART_HEADERS_MAX 8192
#define MULTIPART_PARTS_MAX   64

struct multipart_events {
	/* name and filename are NULL where the part has none, and live until the call returns. */
	void (*begin)(void *arg, const char *name, const char *filename);
	void (*data)(void *arg, const char *p, size_t len);
	void (*end)(void *arg);
};

struct multipart;

/* ERR_MALFORMED: content_type is no multipart/form-data with a usable boundary. */
must_use struct err *multipart_new(const char *content_type, const struct multipart_events *ev,
				   void *arg, struct multipart **ret);
void multipart_free(struct multipart *m);
AUTOPTR(multipart)
/* ERR_MALFORMED or ERR_TOO_LARGE: feed no more. */
must_use struct err *multipart_feed(struct multipart *m, const char *p, size_t len);
/* The body ended. ERR_MALFORMED unless the last delimiter was seen. */
must_use struct err *multipart_end(struct multipart *m);
