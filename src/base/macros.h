/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The few macros that every file may use. None of them returns, breaks or jumps. */
#define must_use          __attribute__((warn_unused_result))
#define printf_like(f, a) __attribute__((format(printf, f, a)))
#define unused            __attribute__((unused))
#define noreturn_fn       __attribute__((noreturn))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define B(n)         (1u << (n))
#define MIN(a, b)                                  \
	({                                         \
		__typeof__(a) min_a_ = (a);        \
		__typeof__(b) min_b_ = (b);        \
		min_a_ < min_b_ ? min_a_ : min_b_; \
	})
#define MAX(a, b)                                  \
	({                                         \
		__typeof__(a) max_a_ = (a);        \
		__typeof__(b) max_b_ = (b);        \
		max_a_ > max_b_ ? max_a_ : max_b_; \
	})
#define container_of(p, type, member) ((type *)(void *)((char *)(p) - offsetof(type, member)))
