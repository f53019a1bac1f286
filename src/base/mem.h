/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>

#include "base/macros.h"

/*
 * Memory that a scope owns, and allocation that aborts when memory is out.
 *
 * AUTOPTR(thing) after the prototypes of thing_free() makes `autoptr(thing) t = NULL;` release on
 * every path; take(t) hands it on. What a peer can make us allocate is limited by the caller first.
 */
void *xmalloc(size_t len) __attribute__((malloc));
void *xcalloc(size_t n, size_t size) __attribute__((malloc));
void *xrealloc(void *p, size_t len);
char *xstrdup(const char *s) __attribute__((malloc)); /* NULL gives NULL */
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
/* For counted things: the scope's reference is dropped. */
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
