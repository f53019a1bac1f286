/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cmocka.h wants the others before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/err.h"

/*
 * The idioms of our unit tests over cmocka.
 *
 *   TEST(second_create_conflicts)
 *   {
 *   	works(put(s, "a", "1", 0));
 *   	fails(put(s, "a", "2", 0), ERR_CONFLICT);
 *   }
 *
 * A test registers itself; tests/unit/test_main.c runs them all, or those whose name contains the
 * first argument of the program.
 */
void test_register(const char *name, void (*fn)(void **state));
void test_works(struct err *e, const char *expr, const char *file, int line);
void test_fails(struct err *e, enum err_code code, const char *expr, const char *file, int line);
void test_eq_str(const char *a, const char *b, const char *file, int line);
void test_eq_int(intmax_t a, intmax_t b, const char *file, int line);
/* Declared not to return, so that the analyzer knows what a test has made sure of. */
__attribute__((noreturn)) void test_untrue(const char *expr, const char *file, int line);
void test_skip(const char *why, const char *file, int line);

#define TEST(name)                                                          \
	static void test_##name(void **test_state);                         \
	static __attribute__((constructor)) void test_register_##name(void) \
	{                                                                   \
		test_register(#name, test_##name);                          \
	}                                                                   \
	static void test_##name(__attribute__((__unused__)) void **test_state)

#define works(e)       test_works((e), #e, __FILE__, __LINE__)
#define fails(e, code) test_fails((e), (code), #e, __FILE__, __LINE__) /* frees the error */
#define eq_str(a, b)   test_eq_str((a), (b), __FILE__, __LINE__)       /* NULL equals only NULL */
#define eq_int(a, b)   test_eq_int((intmax_t)(a), (intmax_t)(b), __FILE__, __LINE__)
#define is_true(x)     ((x) ? (void)0 : test_untrue(#x, __FILE__, __LINE__))
#define is_false(x)    ((x) ? test_untrue("not " #x, __FILE__, __LINE__) : (void)0)
/* Ends the test without a verdict; says which privilege or program is not there. */
#define skip_because(why) test_skip((why), __FILE__, __LINE__)
