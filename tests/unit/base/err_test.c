/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>

#include "test.h"

TEST(wrapping_puts_in_front_what_was_being_done)
{
	autoptr(err) e = err_sys(EACCES, "open %s", "x");

	e = err_wrap(e, "start %s", "web-1");
	eq_str(err_text(e), "start web-1: open x: Permission denied");
	eq_int(err_code(e), ERR_SYS);
	eq_int(err_errno(e), EACCES);
}

TEST(success_stays_success_when_wrapped)
{
	is_true(!err_wrap(NULL, "x"));
	is_true(!err_copy(NULL));
	is_true(!err_recode(NULL, ERR_GONE));
	is_false(err_is(NULL, ERR_GONE));
}

TEST(system_errors_have_codes)
{
	static const struct {
		int errnum;
		enum err_code code;
	} rows[] = { { ENOENT, ERR_NOT_FOUND }, { EEXIST, ERR_EXISTS }, { EIO, ERR_SYS } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fails(err_sys(rows[i].errnum, "x"), rows[i].code);
}

TEST(copy_and_recode_keep_the_text)
{
	autoptr(err) e = err_recode(err_new(ERR_INTERNAL, "read %d", 7), ERR_GONE);
	autoptr(err) copy = err_copy(e);

	eq_str(err_text(copy), "read 7");
	is_true(err_is(copy, ERR_GONE));
	eq_int(err_errno(copy), 0);
}

TEST(every_code_has_a_name)
{
	for (int i = 0; i < ERR_CODE_MAX_; i++)
		is_true(err_code_name((enum err_code)i) && *err_code_name((enum err_code)i));
	eq_str(err_code_name(ERR_NOT_FOUND), "not-found");
}
