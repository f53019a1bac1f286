/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/handlers.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "node/launch/plan.h"
#include "test.h"

static char *names_of(const char *text)
{
	autoptr(handlers) h = NULL;
	autobuf b = { 0 };

	works(handlers_new(text, &h));
	for (const char *const *n = handlers_names(h); *n; n++)
		buf_printf(&b, "%s%s", b.len ? " " : "", *n);
	return buf_steal(&b, NULL);
}

TEST(runtimes_are_known_by_name_and_by_setting)
{
	autofree char *known = names_of(NULL), *more = names_of("  youki=/usr/bin/youki crun=/x ");

	eq_str(known, "native crun runc runsc kata");
	eq_str(more, "native crun runc runsc kata youki");
}

TEST(a_bad_list_of_runtimes_is_refused)
{
	static const char *const bad[] = { "x",
					   "=/bin/true",
					   "A=/bin/true",
					   "x=",
					   "x=,a",
					   "native=/bin/true",
					   "-x=/bin/true",
					   "x_y=/bin/true",
					   "x=/a,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17" };
	autobuf many = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		autoptr(handlers) h = NULL;

		fails(handlers_new(bad[i], &h), ERR_INVALID);
	}
	for (int i = 0; i < 40; i++)
		buf_printf(&many, "r%d=/bin/true ", i);
	{
		autoptr(handlers) h = NULL;

		fails(handlers_new(buf_str(&many), &h), ERR_INVALID);
	}
}

TEST(a_handler_becomes_a_program_with_its_arguments)
{
	autoptr(handlers) h = NULL;
	autoptr(arena) a = arena_new();
	struct plan_oci oci;

	works(handlers_new("mine=/bin/sh,--one,--two= g=sh runsc=/usr/bin/env", &h));
	works(handlers_find(h, "native", a, &oci));
	is_true(!oci.program);
	works(handlers_find(h, "mine", a, &oci));
	is_true(str_starts(oci.program, "/"));
	eq_str(oci.style, "runc");
	eq_str(oci.args[0], "--one");
	eq_str(oci.args[1], "--two=");
	is_true(!oci.args[2]);
	works(handlers_find(h, "g", a, &oci)); /* on PATH */
	is_true(str_starts(oci.program, "/"));
	fails(handlers_find(h, "unknown", a, &oci), ERR_UNAVAILABLE);
	fails(handlers_find(NULL, "crun", a, &oci), ERR_UNAVAILABLE);
}

TEST(a_program_that_is_missing_or_no_program_is_not_found)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	autoptr(handlers) h = NULL;
	autoptr(arena) a = arena_new();
	struct plan_oci oci;

	works(handlers_new("a=/no/such b=/etc/passwd c=/tmp d=relative/path e=no-such-program",
			   &h));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		fails(handlers_find(h, names[i], a, &oci), ERR_UNAVAILABLE);
}

TEST(the_style_follows_the_program)
{
	autoptr(handlers) h = NULL;

	works(handlers_new("gvisor=/opt/runsc-2024 plain=/usr/bin/youki", &h));
	is_true(handlers_lacks(h, "gvisor", 2) != NULL);
	is_true(!handlers_lacks(h, "gvisor", 1));
	is_true(!handlers_lacks(h, "plain", 2));
	is_true(!handlers_lacks(h, "native", 2));
}
