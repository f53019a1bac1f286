/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp_priv.h"
#include "test.h"

TEST(a_path_is_what_is_left_without_its_detours)
{
	static const char *const rows[][2] = {
		{ "/", "/" },
		{ "//", "/" },
		{ "/.", "/" },
		{ "/..", "/" },
		{ "/../..", "/" },
		{ "/etc/passwd", "/etc/passwd" },
		{ "//etc//passwd", "/etc/passwd" },
		{ "/etc/passwd/", "/etc/passwd" },
		{ "/etc/./passwd/.", "/etc/passwd" },
		{ "/work/../etc/passwd", "/etc/passwd" },
		{ "/../../etc/passwd", "/etc/passwd" },
		{ "/a/b/../../etc", "/etc" },
		{ "/a/..", "/" },
		{ "/a/../", "/" },
		{ "/...", "/..." },
		{ "/a/..b", "/a/..b" },
		{ "/a/.b/", "/a/.b" },
		{ "/a b/\n", "/a b/\n" },
		{ "/~/$HOME/*", "/~/$HOME/*" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *got = path_normal(rows[i][0]);

		eq_str(got, rows[i][1]);
	}
}

TEST(where_a_relative_path_begins_is_not_known)
{
	static const char *const rows[] = { "", ".", "..", "etc/passwd", "./x", "~/x", " /x", "-" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		is_true(!path_normal(rows[i]));
}
