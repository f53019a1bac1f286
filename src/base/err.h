/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#include "base/macros.h"
#include "base/mem.h"

/*
 * Errors: a code a program can act on and a text a person can read. NULL is success. The owner
 * returns, wraps, reports or frees an error exactly once.
 *
 * The text begins with the verb of what was tried: "open image directory /x: No such file".
 */
enum err_code {
	ERR_MALFORMED,       /* cannot be read at all: not JSON, not a number */
	ERR_UNAUTHENTICATED, /* who are you */
	ERR_FORBIDDEN,
	ERR_NOT_FOUND,
	ERR_METHOD,       /* the thing exists, this verb on it does not */
	ERR_UNACCEPTABLE, /* no representation that the peer accepts */
	ERR_EXISTS,
	ERR_CONFLICT, /* it changed since you looked */
	ERR_GONE,     /* a revision or stream that can never come back: start over */
	ERR_TOO_LARGE,
	ERR_MEDIA_TYPE,
	ERR_INVALID,   /* readable, but a field is wrong */
	ERR_EXHAUSTED, /* a limit was reached; later may work */
	ERR_UNSUPPORTED,
	ERR_UNAVAILABLE, /* the other side is not there or not ready */
	ERR_TIMEOUT,
	ERR_CANCELED,
	ERR_CORRUPT, /* our own data is damaged */
	ERR_SYS,     /* a system call; err_errno() tells which way */
	ERR_INTERNAL,
	ERR_CODE_MAX_,
};

struct err;

must_use struct err *err_new(enum err_code code, const char *fmt, ...) printf_like(2, 3)
	__attribute__((returns_nonnull));
/* Text is fmt + ": " + strerror(errnum). ENOENT becomes ERR_NOT_FOUND, EEXIST ERR_EXISTS, the rest
 * ERR_SYS. */
must_use struct err *err_sys(int errnum, const char *fmt, ...) printf_like(2, 3)
	__attribute__((returns_nonnull));
/* Takes e over and puts "fmt: " before its text; the code stays. NULL stays NULL. */
must_use struct err *err_wrap(struct err *e, const char *fmt, ...) printf_like(2, 3);
/* The same error with another code; takes e over. */
must_use struct err *err_recode(struct err *e, enum err_code code);
must_use struct err *err_copy(const struct err *e);
void err_free(struct err *e);
AUTOPTR(err)

enum err_code err_code(const struct err *e);
const char *err_text(const struct err *e);
int err_errno(const struct err *e); /* 0 unless ERR_SYS, NOT_FOUND or EXISTS by err_sys */
const char *err_code_name(enum err_code code); /* "not-found" */
static inline bool err_is(const struct err *e, enum err_code code)
{
	return e && err_code(e) == code;
}
