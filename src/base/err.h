/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#include "base/macros.h"
#include "base/mem.h"

/*
 * Errors: a code that a program can act on and a text that a person can read. NULL is success. The
 * owner returns, wraps, reports or frees an error exactly once.
 *
 * The cause says what is wrong, with its value: "archive has more than 100000 entries". Each
 * wrapper puts what was being done in front of it, as a verb phrase: "open image directory /x: No
 * such file or directory".
 */
enum err_code {
	ERR_MALFORMED,       /* cannot be parsed at all: not JSON, not a number */
	ERR_UNAUTHENTICATED, /* the peer has not said who it is */
	ERR_FORBIDDEN,
	ERR_NOT_FOUND,
	ERR_METHOD,       /* the thing exists but does not support this verb */
	ERR_UNACCEPTABLE, /* there is no representation that the peer accepts */
	ERR_EXISTS,
	ERR_CONFLICT, /* it has changed since the caller read it */
	ERR_GONE,     /* a revision or stream that will never be available again: start over */
	ERR_TOO_LARGE,
	ERR_MEDIA_TYPE,
	ERR_INVALID,   /* well-formed, but a value is wrong */
	ERR_EXHAUSTED, /* a limit was reached; a later attempt may succeed */
	ERR_UNSUPPORTED,
	ERR_UNAVAILABLE, /* the other side does not exist yet or is not ready */
	ERR_TIMEOUT,
	ERR_UNCERTAIN, /* it may have happened, or may happen yet: look before trying again */
	ERR_CANCELED,
	ERR_CORRUPT, /* our own data is damaged */
	ERR_SYS,     /* a system call; err_errno() says which error */
	ERR_INTERNAL,
	ERR_CODE_MAX_,
};

struct err;

must_use struct err *err_new(enum err_code code, const char *fmt, ...) printf_like(2, 3)
	__attribute__((returns_nonnull));
/*
 * The text is fmt + ": " + strerror(errnum). ENOENT becomes ERR_NOT_FOUND, EEXIST becomes
 * ERR_EXISTS, everything else ERR_SYS.
 */
must_use struct err *err_sys(int errnum, const char *fmt, ...) printf_like(2, 3)
	__attribute__((returns_nonnull));
/* Consumes e and puts "fmt: " in front of its text; the code stays the same. NULL stays NULL. */
must_use struct err *err_wrap(struct err *e, const char *fmt, ...) printf_like(2, 3);
/* The same error with another code; consumes e. */
must_use struct err *err_recode(struct err *e, enum err_code code);
must_use struct err *err_copy(const struct err *e);
void err_free(struct err *e);
AUTOPTR(err)

enum err_code err_code(const struct err *e);
const char *err_text(const struct err *e);
int err_errno(const struct err *e);            /* 0 unless the error came from err_sys() */
const char *err_code_name(enum err_code code); /* "not-found" */
static inline bool err_is(const struct err *e, enum err_code code)
{
	return e && err_code(e) == code;
}
