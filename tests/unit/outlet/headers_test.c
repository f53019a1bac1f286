/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/object.h"
#include "base/mem.h"
#include "json/json.h"
#include "kinds.h"
#include "net/http.h"
#include "outlet/outlet_priv.h"
#include "outlet/target.h"
#include "test.h"

static struct credential_use use_of(const char *spec)
{
	autofree char *text = xasprintf("{\"metadata\":{\"name\":\"c\"},\"spec\":{%s}}", spec);
	struct json_doc *d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return (struct credential_use){ .object = object_new(kind_named("Credential"), d),
					.text = xstrdup("Bearer s3&cret"),
					.value = xstrdup("s3&cret") };
}

static struct target target_of(const char *text)
{
	struct target t = { 0 };

	works(target_read(text, &t));
	return t;
}

TEST(a_header_takes_the_place_of_all_that_pass_for_it)
{
	struct credential_use u = use_of("\"header\":\"X-Api-Key\"");
	struct target t = target_of("/https/h.x:99/p");
	struct http_headers from = { 0 }, to = { 0 };

	http_headers_add(&from, "Host", "outlet.cay.internal");
	http_headers_add(&from, "x-api-key", "mine");
	http_headers_add(&from, "X_Api_Key", "also mine");
	http_headers_add(&from, "X-Api-Key-Id", "kept");
	http_headers_add(&from, "Connection", "close, X-Hop");
	http_headers_add(&from, "X-Hop", "here");
	http_headers_add(&from, "Proxy-Authorization", "x");
	http_headers_add(&from, "Expect", "100-continue");
	http_headers_add(&from, "Referer", "http://outlet.cay.internal/https/h.x/");
	headers_to_send(&from, &t, &u, &to);
	eq_int(to.n, 3);
	eq_str(http_headers_get(&to, "Host"), "h.x:99");
	eq_str(http_headers_get(&to, "X-Api-Key"), "Bearer s3&cret");
	eq_str(http_headers_get(&to, "X-Api-Key-Id"), "kept");
	headers_wipe(&to);
	http_headers_done(&from);
	target_done(&t);
	credential_done(&u);
}

TEST(nothing_is_put_into_the_headers_for_a_parameter_or_without_a_credential)
{
	struct credential_use u = use_of("\"query\":\"key\""), none = { 0 };
	struct target t = target_of("/https/h.x/p");
	struct http_headers from = { 0 }, to = { 0 };

	http_headers_add(&from, "Authorization", "mine");
	headers_to_send(&from, &t, &u, &to);
	eq_int(to.n, 2);
	eq_str(http_headers_get(&to, "Authorization"), "mine");
	headers_wipe(&to);
	headers_to_send(&from, &t, &none, &to);
	eq_int(to.n, 2);
	headers_wipe(&to);
	http_headers_done(&from);
	target_done(&t);
	credential_done(&u);
}

TEST(no_header_of_an_answer_tells_the_value)
{
	struct credential_use u = use_of("\"header\":\"Authorization\"");
	struct target t = target_of("/https/h.x/p");
	struct http_headers h = { 0 };

	http_headers_add(&h, "authorization", "something else");
	http_headers_add(&h, "X-Seen", "you sent Bearer s3&cret, did you not");
	http_headers_add(&h, "X-Encoded", "/?key=s3%26cret");
	http_headers_add(&h, "x-encoded", "and once more: s3%26cret");
	http_headers_add(&h, "Transfer-Encoding", "chunked");
	http_headers_add(&h, "Location", "/new");
	http_headers_add(&h, "X-Other", "fine");
	headers_to_answer(&h, &t, &u);
	eq_int(h.n, 5); /* with those that isolate it in a browser */
	eq_str(http_headers_get(&h, "Location"), "/https/h.x/new");
	eq_str(http_headers_get(&h, "X-Other"), "fine");
	eq_str(http_headers_get(&h, "X-Content-Type-Options"), "nosniff");
	http_headers_done(&h);
	target_done(&t);
	credential_done(&u);
}

TEST(what_says_that_a_browser_asks_is_named)
{
	static const struct {
		const char *name, *value;
		bool browser;
	} rows[] = {
		{ "origin", "null", true },
		{ "Upgrade-Insecure-Requests", "1", true },
		{ "Sec-Fetch-Site", "same-origin", true },
		{ "Sec-Fetch-Mode", "cors", false },
		{ "Referer", "https://evil.example/", true },
		{ "Referer", "http://evil.example", true },
		{ "Referer", "http://outlet.cay.internal.evil.example/", true },
		{ "Referer", "http://outlet.cay.internal:8080/", true },
		{ "Referer", "http://100.64.0.1@evil.example/", true },
		{ "Referer", "http://", true },
		{ "Referer", "https://outlet.cay.internal/", true },
		{ "Referer", "http://outlet.cay.internal", false },
		{ "Referer", "HTTP://Outlet.Cay.Internal:80/https/h.x/", false },
		{ "Referer", "http://100.64.0.1/https/h.x/", false },
		{ "Referer", "install left-pad", false },
		{ "Referer", "", false },
		{ "User-Agent", "curl/8", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_headers h = { 0 };
		const char *mark;

		http_headers_add(&h, rows[i].name, rows[i].value);
		mark = headers_browser_mark(&h, "100.64.0.1");
		if (!!mark != rows[i].browser)
			print_message("%s: %s\n", rows[i].name, rows[i].value);
		eq_int(!!mark, rows[i].browser);
		http_headers_done(&h);
	}
}
