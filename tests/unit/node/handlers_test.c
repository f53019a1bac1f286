/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/handlers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

	works(handlers_new("mine=/bin/ls,--old,--old,--old mine=/bin/sh,--one,--two= g=sh", &h));
	works(handlers_find(h, "native", 1, a, &oci));
	is_true(!oci.program);
	works(handlers_find(h, "mine", 1, a, &oci));
	is_true(str_starts(oci.program, "/"));
	eq_str(oci.style, "oci");
	eq_str(oci.args[0], "--one");
	eq_str(oci.args[1], "--two=");
	is_true(!oci.args[2]);
	works(handlers_find(h, "g", 1, a, &oci)); /* on PATH */
	is_true(str_starts(oci.program, "/"));
	fails(handlers_find(h, "unknown", 1, a, &oci), ERR_UNAVAILABLE);
	fails(handlers_find(NULL, "crun", 1, a, &oci), ERR_UNAVAILABLE);
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
		fails(handlers_find(h, names[i], 1, a, &oci), ERR_UNAVAILABLE);
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

static void install(const char *path)
{
	autoclose fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);

	is_true(fd >= 0);
}

TEST(what_was_found_holds_for_two_seconds_and_so_does_what_was_missing)
{
	static const usec s = 1000000;
	char dir[] = "/tmp/cay-test-XXXXXX";
	autoptr(handlers) h = NULL;
	autoptr(arena) a = arena_new();
	autofree char *path = NULL, *text = NULL;
	struct plan_oci oci;

	is_true(mkdtemp(dir));
	path = xasprintf("%s/runtime", dir);
	text = xasprintf("mine=%s", path);
	works(handlers_new(text, &h));
	fails(handlers_find(h, "mine", 5 * s, a, &oci), ERR_UNAVAILABLE);
	install(path);
	fails(handlers_find(h, "mine", 7 * s - 1, a, &oci), ERR_UNAVAILABLE);
	works(handlers_find(h, "mine", 7 * s, a, &oci));
	eq_int(unlink(path), 0);
	works(handlers_find(h, "mine", 9 * s - 1, a, &oci));
	eq_str(oci.program, path);
	fails(handlers_find(h, "mine", 9 * s, a, &oci), ERR_UNAVAILABLE);
	eq_int(rmdir(dir), 0);
}
