/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdint.h>

#include "base/err.h"

/* The verdicts (SECCOMP_RET_*) of a filter by the number of a call. */
enum {
	CALLS_MAX = 1024,
};
#define CALL_BY_ARGUMENT UINT32_MAX /* no verdict has this value */

struct call_verdicts {
	uint32_t arch;          /* AUDIT_ARCH_* of the calls below */
	uint32_t of[CALLS_MAX]; /* or CALL_BY_ARGUMENT */
	uint32_t other;         /* higher numbers */
	uint32_t foreign;       /* calls of any other ABI */
};

/* A filter that begins with these verdicts and goes on with by_argument, which has to be complete.
 * ret->filter is malloc'd. */
must_use struct err *seccomp_numbers(const struct call_verdicts *v,
				     const struct sock_fprog *by_argument, struct sock_fprog *ret);
