/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <assert.h>
#include <errno.h>

/* An error is one block: the code, the errno it came from, and then the text. */
struct err {
	enum err_code code;
	int errnum;
	char text[];
};

static const char *const code_names[ERR_CODE_MAX_] = {
	[ERR_MALFORMED] = "malformed",
	[ERR_UNAUTHENTICATED] = "unauthenticated",
	[ERR_FORBIDDEN] = "forbidden",
	[ERR_NOT_FOUND] = "not-found",
	[ERR_METHOD] = "method",
	[ERR_UNACCEPTABLE] = "unacceptable",
	[ERR_EXISTS] = "exists",
	[ERR_CONFLICT] = "conflict",
	[ERR_GONE] = "gone",
	[ERR_TOO_LARGE] = "too-large",
	[ERR_MEDIA_TYPE] = "media-type",
	[ERR_INVALID] = "invalid",
	[ERR_EXHAUSTED] = "exhausted",
	[ERR_UNSUPPORTED] = "unsupported",
	[ERR_UNAVAILABLE] = "unavailable",
	[ERR_TIMEOUT] = "timeout",
	[ERR_UNCERTAIN] = "uncertain",
	[ERR_CANCELED] = "canceled",
	[ERR_CORRUPT] = "corrupt",
	[ERR_SYS] = "sys",
	[ERR_INTERNAL] = "internal",
};

/* The text is fmt, followed by ": tail" if there is a tail. */
static printf_like(3, 0) struct err *err_build(enum err_code code, const char *tail,
					       const char *fmt, va_list ap)
{
	va_list again;
	struct err *e;
	int head_len;
	size_t tail_len = tail ? strlen(tail) + 2 : 0;

	assert((unsigned)code < ERR_CODE_MAX_);
	va_copy(again, ap);
	head_len = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (head_len < 0)
		head_len = 0;

	e = xcalloc(1, sizeof(*e) + (size_t)head_len + tail_len + 1);
	e->code = code;
	(void)vsnprintf(e->text, (size_t)head_len + 1, fmt, ap);
	if (tail)
		(void)snprintf(e->text + head_len, tail_len + 1, ": %s", tail);
	return e;
}

struct err *err_new(enum err_code code, const char *fmt, ...)
{
	struct err *e;
	va_list ap;

	va_start(ap, fmt);
	e = err_build(code, NULL, fmt, ap);
	va_end(ap);
	return e;
}

/* musl, which the guest may have, has the other strerror_r(), but a strerror() for all threads. */
static const char *reason_of(int errnum, char *text, size_t size)
{
#ifdef __GLIBC__
	return strerror_r(errnum, text, size);
#else
	(void)snprintf(text, size, "%s", strerror(errnum));
	return text;
#endif
}

struct err *err_sys(int errnum, const char *fmt, ...)
{
	enum err_code code = ERR_SYS;
	char why[128];
	struct err *e;
	va_list ap;

	if (errnum == ENOENT)
		code = ERR_NOT_FOUND;
	if (errnum == EEXIST)
		code = ERR_EXISTS;
	va_start(ap, fmt);
	e = err_build(code, reason_of(errnum, why, sizeof(why)), fmt, ap);
	va_end(ap);
	e->errnum = errnum;
	return e;
}

struct err *err_wrap(struct err *e, const char *fmt, ...)
{
	struct err *outer;
	va_list ap;

	if (!e)
		return NULL;
	va_start(ap, fmt);
	outer = err_build(e->code, e->text, fmt, ap);
	va_end(ap);
	outer->errnum = e->errnum;
	err_free(e);
	return outer;
}

struct err *err_recode(struct err *e, enum err_code code)
{
	assert((unsigned)code < ERR_CODE_MAX_);
	if (e)
		e->code = code;
	return e;
}

struct err *err_copy(const struct err *e)
{
	struct err *copy;

	if (!e)
		return NULL;
	copy = err_new(e->code, "%s", e->text);
	copy->errnum = e->errnum;
	return copy;
}

void err_free(struct err *e)
{
	free(e);
}

enum err_code err_code(const struct err *e)
{
	assert(e);
	return e->code;
}

const char *err_text(const struct err *e)
{
	return e ? e->text : "";
}

int err_errno(const struct err *e)
{
	return e ? e->errnum : 0;
}

const char *err_code_name(enum err_code code)
{
	assert((unsigned)code < ERR_CODE_MAX_);
	return code_names[code];
}
