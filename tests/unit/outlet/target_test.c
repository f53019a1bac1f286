/* SPDX-License-Identifier: Apache-2.0 */
#include "outlet/target.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "test.h"

TEST(a_url_says_where_a_request_goes)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		const char *path, *query, *authority;
	} rows[] = {
		{ "/https/api.example/v1/x", "api.example", 443, "/v1/x", NULL, "api.example" },
		{ "/https/API.Example", "api.example", 443, "/", NULL, "api.example" },
		{ "/https/api.example/", "api.example", 443, "/", NULL, "api.example" },
		{ "/https/api.example?a=1", "api.example", 443, "/", "a=1", "api.example" },
		{ "/https/api.example:443/x?", "api.example", 443, "/x", "", "api.example" },
		{ "/https/api.example:8443/x", "api.example", 8443, "/x", NULL,
		  "api.example:8443" },
		{ "/http/a_b.example/x", "a_b.example", 80, "/x", NULL, "a_b.example" },
		{ "/http/a.example:443/x", "a.example", 443, "/x", NULL, "a.example:443" },
		{ "/https/192.0.2.1/x", "192.0.2.1", 443, "/x", NULL, "192.0.2.1" },
		{ "/https/[2001:DB8::1]:99/x", "2001:db8::1", 99, "/x", NULL, "[2001:db8::1]:99" },
		{ "/https/[2001:db8:0::1]/x", "2001:db8::1", 443, "/x", NULL, "[2001:db8::1]" },
		{ "/https/h.x/a%2fb/%7Euser/%41?q=%2e%2e/", "h.x", 443, "/a%2Fb/~user/A",
		  "q=%2e%2e/", "h.x" },
		{ "/https/h.x/a/.b/c../...", "h.x", 443, "/a/.b/c../...", NULL, "h.x" },
		{ "/https/h.x/@scope%2Fname/a:b,c=(d)!*'$&+", "h.x", 443,
		  "/@scope%2Fname/a:b,c=(d)!*'$&+", NULL, "h.x" },
		{ "/https/h.x/caf%c3%a9/%20", "h.x", 443, "/caf%C3%A9/%20", NULL, "h.x" },
		{ "/https/h.x/git.git/info/refs?service=git-upload-pack", "h.x", 443,
		  "/git.git/info/refs", "service=git-upload-pack", "h.x" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf authority = { 0 };
		struct target t;

		works(target_read(rows[i].text, &t));
		eq_str(t.host, rows[i].host);
		eq_int(t.port, rows[i].port);
		eq_str(t.path, rows[i].path);
		eq_str(t.query, rows[i].query);
		target_authority(&t, &authority);
		eq_str(buf_str(&authority), rows[i].authority);
		target_done(&t);
	}
}

TEST(what_can_be_read_in_two_ways_is_refused)
{
	static const char *const rows[] = {
		/* hosts */
		"/https/",
		"/https//x",
		"/https/a..b/x",
		"/https/.a/x",
		"/https/a./x",
		"/https/a b/x",
		"/https/user@host.example/x",
		"/https/host.example%2f@other/x",
		"/https/-a.example/x",
		"/https/127.1/x",
		"/https/0x7f000001/x",
		"/https/2130706433/x",
		"/https/0177.0.0.1/x",
		"/https/1.2.3.4.5/x",
		"/https/[::1/x",
		"/https/[::ffff:127.0.0.1]/x",
		"/https/[1.2.3.4]/x",
		"/https/[::1]x/x",
		"/https/[fe80::1%25eth0]/x",
		"/https/::1/x",
		"/https/h.x:/x",
		"/https/h.x:0/x",
		"/https/h.x:080/x",
		"/https/h.x:65536/x",
		"/https/h.x:443443443443/x",
		"/https/h.x:4a/x",
		"/https/h.x:80:80/x",
		"/https/caf\xc3\xa9.example/x",
		/* paths */
		"/https/h.x//x",
		"/https/h.x/a//b",
		"/https/h.x/a/%2fb",
		"/https/h.x/a%2F%2fb",
		"/https/h.x/..",
		"/https/h.x/../a",
		"/https/h.x/a/../b",
		"/https/h.x/a/./b",
		"/https/h.x/a/.",
		"/https/h.x/%2e%2e/a",
		"/https/h.x/.%2E/a",
		"/https/h.x/a%2f..%2fb",
		"/https/h.x/a%2f%2e%2e",
		"/https/h.x/..;/a",
		"/https/h.x/a;b",
		"/https/h.x/a%3bb",
		"/https/h.x/a\\b",
		"/https/h.x/a%5cb",
		"/https/h.x/a#b",
		"/https/h.x/a%",
		"/https/h.x/a%2",
		"/https/h.x/a%zz",
		"/https/h.x/%252e%252e/a",
		"/https/h.x/a%00b",
		"/https/h.x/a%0d%0ab",
		"/https/h.x/a%7f",
		"/https/h.x/%c0%ae%c0%ae/a",
		"/https/h.x/%ff",
		"/https/h.x/a b",
		"/https/h.x/a\"b",
		"/https/h.x/caf\xc3\xa9",
		/* queries */
		"/https/h.x/a?b#c",
		"/https/h.x/a?b c",
		"/https/h.x/a?b\\c",
		"/https/h.x/a?\xc3\xa9",
	};
	struct target t;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err *e = target_read(rows[i], &t);

		if (!e)
			print_message("%s\n", rows[i]);
		fails(e, ERR_MALFORMED);
	}
}

TEST(what_has_another_form_is_not_found)
{
	static const char *const rows[] = { "/", "/https", "/ftp/h.x/", "/HTTPS/h.x/", "*", "" };
	struct target t;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fails(target_read(rows[i], &t), ERR_NOT_FOUND);
}

TEST(a_parameter_takes_the_place_of_all_of_its_name)
{
	static const struct {
		const char *query, *written;
	} rows[] = {
		{ "", "/p?key=s%26%20x" },
		{ "?a=1", "/p?a=1&key=s%26%20x" },
		{ "?key=mine&a=1&key=also", "/p?a=1&key=s%26%20x" },
		{ "?k%65y=mine", "/p?key=s%26%20x" },
		{ "?key", "/p?key=s%26%20x" },
		{ "?keys=1&xkey=2", "/p?keys=1&xkey=2&key=s%26%20x" },
		{ "?&a", "/p?&a&key=s%26%20x" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("/https/h.x/p%s", rows[i].query);
		autobuf with = { 0 }, without = { 0 };
		struct target t;

		works(target_read(text, &t));
		target_write(&t, "key", "s& x", &with);
		eq_str(buf_str(&with), rows[i].written);
		target_write(&t, NULL, NULL, &without);
		eq_str(buf_str(&without), text + strlen("/https/h.x"));
		target_done(&t);
	}
}

TEST(a_location_at_the_same_server_leads_through_the_outlet)
{
	static const struct {
		const char *location, *seen; /* NULL: as it is */
	} rows[] = {
		{ "https://h.x:99/a?b", "/https/h.x:99/a?b" },
		{ "HTTPS://H.x:99", "/https/h.x:99" },
		{ "/a/b?c", "/https/h.x:99/a/b?c" },
		{ "a/b", NULL },
		{ "//h.x:99/a", NULL },
		{ "https://h.x/a", NULL },
		{ "https://h.x:999/a", NULL },
		{ "http://h.x:99/a", NULL },
		{ "https://h.x:99@other.example/a", NULL },
		{ "https://other.example/a", NULL },
		{ "", NULL },
	};
	struct target t;

	works(target_read("/https/h.x:99/p", &t));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autobuf out = { 0 };

		eq_int(target_location(&t, rows[i].location, &out), rows[i].seen != NULL);
		eq_str(buf_str(&out), rows[i].seen ? rows[i].seen : "");
	}
	target_done(&t);
}
