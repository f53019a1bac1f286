/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdarg.h>

/* Allocation that aborts when memory runs out: no caller could do better with what is left. */
enum {
	SMALL = 1024, /* glibc keeps freed blocks up to this size at hand, for malloc() alone */
};

static noreturn_fn void out_of_memory(void)
{
	static const char text[] = "out of memory\n";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1); /* nothing can be done if this fails */
	abort();
}

void *xmalloc(size_t len)
{
	void *p = malloc(len ? len : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	size_t len;
	void *p;

	n = n ? n : 1;
	size = size ? size : 1;
	if (!__builtin_mul_overflow(n, size, &len) && len <= SMALL)
		return memset(xmalloc(len), 0, len);
	p = calloc(n, size);
	if (!p)
		out_of_memory();
	return p;
}

void *xrealloc(void *p, size_t len)
{
	void *moved = realloc(p, len ? len : 1);

	if (!moved)
		out_of_memory();
	return moved;
}

char *xmemdup(const void *p, size_t len)
{
	char *copy = xmalloc(len + 1);

	if (len)
		memcpy(copy, p, len);
	copy[len] = '\0';
	return copy;
}

char *xstrdup(const char *s)
{
	return s ? xmemdup(s, strlen(s)) : NULL;
}

char *xstrndup(const char *s, size_t len)
{
	return s ? xmemdup(s, strnlen(s, len)) : NULL;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		out_of_memory();
	va_end(ap);
	return s;
}

void auto_close_(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
