/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>

#include "base/macros.h"

/*
 * Memory owned by a scope, and allocation that aborts when memory runs out.
 *
 * AUTOPTR(thing) after the prototype of thing_free() makes `autoptr(thing) t = NULL;` free t on
 * every path; take(t) passes ownership on. Callers must limit whatever a peer can make us allocate.
 */
void *xmalloc(size_t len) __attribute__((malloc));
void *xcalloc(size_t n, size_t size) __attribute__((malloc));
void *xrealloc(void *p, size_t len);
char *xstrdup(const char *s) __attribute__((malloc)); /* NULL if s is NULL */
char *xstrndup(const char *s, size_t len) __attribute__((malloc));
char *xmemdup(const void *p, size_t len) __attribute__((malloc));
char *xasprintf(const char *fmt, ...) printf_like(1, 2) __attribute__((malloc));

#define xnew(type)      ((type *)xcalloc(1, sizeof(type)))
#define xnew_n(type, n) ((type *)xcalloc((n), sizeof(type)))

#define AUTOPTR(name)                                         \
	static inline void name##_auto_free_(struct name **p) \
	{                                                     \
		name##_free(*p);                              \
	}
/* For reference-counted objects: drops the scope's reference. */
#define AUTOREF(name)                                         \
	static inline void name##_auto_free_(struct name **p) \
	{                                                     \
		name##_unref(*p);                             \
	}
#define autoptr(name) __attribute__((cleanup(name##_auto_free_))) struct name *

static inline void auto_free_(void *p)
{
	free(*(void **)p);
}
#define autofree __attribute__((cleanup(auto_free_)))

void auto_close_(int *fd);
#define autoclose __attribute__((cleanup(auto_close_))) int /* initialise with -1 */

#define take(p)                              \
	({                                   \
		__typeof__(p) take_p_ = (p); \
		(p) = NULL;                  \
		take_p_;                     \
	})
#define take_fd(fd)                  \
	({                           \
		int take_fd_ = (fd); \
		(fd) = -1;           \
		take_fd_;            \
	})
