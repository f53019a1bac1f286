/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/str.h"
#include "test.h"

/* Runs every test that registered itself, as one cmocka group with TAP on standard output. */

static struct CMUnitTest *tests;
static size_t n_tests;
static usec began;

static int note_start(void **state unused)
{
	began = clock_mono();
	return 0;
}

/* tools/run-tests reads this; it comes before the line of the test. */
static int tell_duration(void **state unused)
{
	print_message("# took: %lld us\n", (long long)(clock_mono() - began));
	return 0;
}

void test_register(const char *name, void (*fn)(void **state))
{
	tests = xrealloc(tests, (n_tests + 1) * sizeof(*tests));
	tests[n_tests++] = (struct CMUnitTest){ .name = name,
						.test_func = fn,
						.setup_func = note_start,
						.teardown_func = tell_duration };
}

void test_works(struct err *e, const char *expr, const char *file, int line)
{
	char text[512];

	if (!e)
		return;
	(void)snprintf(text, sizeof(text), "%s: %s", err_code_name(err_code(e)), err_text(e));
	err_free(e);
	print_error("%s failed with %s\n", expr, text);
	_fail(file, line);
}

void test_fails(struct err *e, enum err_code code, const char *expr, const char *file, int line)
{
	enum err_code got;

	if (!e) {
		print_error("%s worked, expected %s\n", expr, err_code_name(code));
		_fail(file, line);
		return;
	}
	got = err_code(e);
	if (got != code)
		print_error("%s failed with %s (%s), expected %s\n", expr, err_code_name(got),
			    err_text(e), err_code_name(code));
	err_free(e);
	if (got != code)
		_fail(file, line);
}

void test_eq_str(const char *a, const char *b, const char *file, int line)
{
	if (str_eq(a, b))
		return;
	print_error("\"%s\" is not \"%s\"\n", a ? a : "(null)", b ? b : "(null)");
	_fail(file, line);
}

void test_eq_int(intmax_t a, intmax_t b, const char *file, int line)
{
	if (a == b)
		return;
	print_error("%jd is not %jd\n", a, b);
	_fail(file, line);
}

void test_untrue(const char *expr, const char *file, int line)
{
	print_error("%s is not true\n", expr);
	_fail(file, line);
	abort(); /* not reached: _fail() jumps out of the test but is not declared so */
}

void test_skip(const char *why, const char *file, int line)
{
	print_message("# skipped: %s\n", why);
	_skip(file, line);
}

static void keep_matching(const char *part)
{
	size_t n = 0;

	for (size_t i = 0; i < n_tests; i++)
		if (strstr(tests[i].name, part))
			tests[n++] = tests[i];
	n_tests = n;
}

static void leave_out(const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < n_tests; i++)
		if (!str_eq(tests[i].name, name))
			tests[n++] = tests[i];
	n_tests = n;
}

/* PART: only tests whose name has it; -NAME: all but that one. */
int main(int argc, char **argv)
{
	int n_failed;

	for (int i = 1; i < argc; i++)
		if (*argv[i] == '-')
			leave_out(argv[i] + 1);
		else
			keep_matching(argv[i]);
	if (!n_tests) {
		print_error("there is no test to run\n");
		return 1;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	n_failed = _cmocka_run_group_tests("tests", tests, n_tests, NULL, NULL);
	free(tests);
	return n_failed ? 1 : 0;
}
