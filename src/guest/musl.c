/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Only for a cay-init with musl. Debian's archives of jansson and nghttp2 were compiled for glibc,
 * with checks of lengths that musl does not have under these names; everything else that they call
 * is the same in both. See docs/decisions/0028-a-guest-with-musl.md.
 */
int __vsnprintf_chk(char *to, size_t len, int flags, size_t space, const char *fmt, va_list ap);
int __snprintf_chk(char *to, size_t len, int flags, size_t space, const char *fmt, ...);
char *__strncpy_chk(char *to, const char *from, size_t len, size_t space);
int __fprintf_chk(FILE *f, int flags, const char *fmt, ...);

int __vsnprintf_chk(char *to, size_t len, int flags, size_t space, const char *fmt, va_list ap)
{
	(void)flags;
	if (len > space)
		abort();
	return vsnprintf(to, len, fmt, ap);
}

int __snprintf_chk(char *to, size_t len, int flags, size_t space, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = __vsnprintf_chk(to, len, flags, space, fmt, ap);
	va_end(ap);
	return n;
}

char *__strncpy_chk(char *to, const char *from, size_t len, size_t space)
{
	size_t n = strnlen(from, len);

	if (len > space)
		abort();
	memcpy(to, from, n);
	memset(to + n, 0, len - n);
	return to;
}

int __fprintf_chk(FILE *f, int flags, const char *fmt, ...)
{
	va_list ap;
	int n;

	(void)flags;
	va_start(ap, fmt);
	n = vfprintf(f, fmt, ap);
	va_end(ap);
	return n;
}
