/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ui/ui_priv.h"
#include "test.h"

TEST(only_names_of_this_machine_with_our_port_are_ours)
{
	static const char *const ours[] = { "127.0.0.1:9000", "localhost:9000", "LocalHost:9000",
					    "127.255.0.3:9000", "[::1]:9000" };
	static const char *const others[] = {
		"",
		":9000",
		"localhost",
		"localhost:",
		"localhost:80",
		"localhost:90000",
		"localhost:9000x",
		"evil.example:9000",
		"localhost.evil.example:9000",
		"a.localhost:9000",
		"127.0.0.1.evil.example:9000",
		"127.1:9000",
		"0.0.0.0:9000",
		"10.0.0.1:9000",
		"[::]:9000",
		"[::1]9000",
		"[::1:9000",
		"::1:9000",
		"[::ffff:127.0.0.1]:9000",
		"127.0.0.1:9000:9000",
	};

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (!ui_host_is_ours(ours[i], "127.0.0.1:9000"))
			fail_msg("%s", ours[i]);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (ui_host_is_ours(others[i], "127.0.0.1:9000"))
			fail_msg("%s", others[i]);
	is_false(ui_host_is_ours(NULL, "127.0.0.1:9000"));
	is_true(ui_host_is_ours("localhost", "127.0.0.1:80"));
}

TEST(the_page_is_served_on_loopback_alone)
{
	is_true(ui_is_loopback("127.0.0.1:0"));
	is_true(ui_is_loopback("127.9.9.9:80"));
	is_true(ui_is_loopback("[::1]:0"));
	is_false(ui_is_loopback("0.0.0.0:0"));
	is_false(ui_is_loopback("[::]:0"));
	is_false(ui_is_loopback("192.168.0.1:80"));
	is_false(ui_is_loopback("localhost:80")); /* addresses only: no names are looked up */
}

TEST(only_paths_of_the_api_go_on_to_the_server)
{
	static const char *const on[] = { "/api",    "/api/v1/pods", "/apis",
					  "/apis/x", "/version",     "/openapi/v3",
					  "/livez",  "/readyz/ping", "/cay/v1/users" };
	static const char *const off[] = { "",     "/",          "/apix",         "/metrics",
					   "/mcp", "/hooks/a/b", "//api",         "/API",
					   "api",  "/ui",        "/.well-known/x" };

	for (size_t i = 0; i < ARRAY_LEN(on); i++)
		if (!pass_path(on[i]))
			fail_msg("%s", on[i]);
	for (size_t i = 0; i < ARRAY_LEN(off); i++)
		if (pass_path(off[i]))
			fail_msg("%s", off[i]);
}
