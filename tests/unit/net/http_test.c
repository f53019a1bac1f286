/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http.h"

#include "net/http_proxy.h"
#include "test.h"

TEST(header_names_ignore_case)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "Content-Type", "a");
	http_headers_add(&h, "content-type", "b");
	http_headers_add(&h, "Other", "c");
	eq_str(http_headers_get(&h, "CONTENT-TYPE"), "a");
	http_headers_set(&h, "content-Type", http_headers_get(&h, "other"));
	eq_int(h.n, 2);
	eq_str(http_headers_get(&h, "Content-Type"), "c");
	http_headers_del(&h, "other");
	eq_str(http_headers_get(&h, "Other"), NULL);
	http_headers_done(&h);
}

TEST(header_lists_grow_and_shrink)
{
	struct http_headers h = { 0 };
	char name[16];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 70; i++) {
			(void)snprintf(name, sizeof(name), "h%d", i);
			http_headers_add(&h, name, "v");
		}
		for (int i = 0; i < 65; i++) {
			(void)snprintf(name, sizeof(name), "h%d", i);
			http_headers_del(&h, name);
		}
		eq_int(h.n, 5 + round * 5);
	}
	http_headers_done(&h);
}

TEST(tokens_are_found_in_comma_lists)
{
	static const struct {
		const char *value, *token;
		bool found;
	} rows[] = {
		{ "close", "close", true },
		{ "keep-alive, Upgrade", "upgrade", true },
		{ "keep-alive,upgrade ,x", "upgrade", true },
		{ "upgraded", "upgrade", false },
		{ "", "upgrade", false },
		{ ",,", "", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_headers h = { 0 };

		http_headers_add(&h, "Connection", "other");
		http_headers_add(&h, "Connection", rows[i].value);
		eq_int(http_headers_has_token(&h, "connection", rows[i].token), rows[i].found);
		http_headers_done(&h);
	}
}

TEST(hop_by_hop_headers_are_removed)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "Connection", "close, X-Private");
	http_headers_add(&h, "Keep-Alive", "5");
	http_headers_add(&h, "x-private", "1");
	http_headers_add(&h, "Proxy-Authorization", "secret");
	http_headers_add(&h, "Transfer-Encoding", "chunked");
	http_headers_add(&h, "TE", "trailers");
	http_headers_add(&h, "Upgrade", "h2c");
	http_headers_add(&h, "Proxy", "stays");
	http_headers_add(&h, "Accept", "stays");
	http_headers_del_hop_by_hop(&h);
	eq_int(h.n, 2);
	eq_str(h.list[0].name, "Proxy");
	eq_str(h.list[1].name, "Accept");
	http_headers_done(&h);
}

TEST(query_parameters_are_decoded)
{
	static const struct {
		const char *query, *name, *value;
	} rows[] = {
		{ "a=1&b=2", "b", "2" },
		{ "a=1&a=2", "a", "1" },
		{ "watch", "watch", "" },
		{ "watch=&x", "watch", "" },
		{ "l=a%3Db%2Cc+d", "l", "a=b,c d" },
		{ "l=a=b", "l", "a=b" },
		{ "%61=x", "a", "x" },
		{ "", "a", NULL },
		{ "ab=1", "a", NULL },
		{ "a=%zz", "a", NULL },
		{ "a=%00", "a", NULL },
		{ "&&&a=1", "a", "1" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *v = http_query_get(rows[i].query, rows[i].name);

		eq_str(v, rows[i].value);
	}
}

TEST(a_parameter_may_have_several_values)
{
	static const char *const values[] = { "1", "", "3", NULL };

	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		autofree char *v = http_query_nth("a=1&b=2&a=&a=3", "a", i);

		eq_str(v, values[i]);
	}
}

TEST(zero_limits_get_defaults)
{
	struct http_limits l = { .max_headers = 7, .max_head = 1 << 30 };

	http_limits_fill(&l);
	eq_int(l.max_headers, 7);
	eq_int(l.max_head, 64 * 1024); /* a connection cannot hold more */
	eq_int(l.max_body, 3 * 1024 * 1024);
	eq_int(l.max_conns, 4096);
}

TEST(dataplane_149_bearer)
{
	static const struct {
		const char *header, *token;
	} rows[] = {
		{ "bearer x", "x" },   { "Bearer  x ", "x" },  { "BEARER x.y", "x.y" },
		{ " Bearer x", "x" },  { "Bearer \tx", "x" },  { "Bearer x y", "x y" },
		{ "Basic abc", NULL }, { "Bearer", NULL },     { "Bearer  ", NULL },
		{ "", NULL },          { NULL, NULL },         { "Bearerx y", NULL },
		{ "Bearer\tx", NULL }, { "x Bearer y", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct span token = { 0 };
		bool is = http_bearer(rows[i].header, &token);
		autofree char *got = xstrndup(token.p ? token.p : "", token.len);

		eq_int(is, rows[i].token != NULL);
		if (is)
			eq_str(got, rows[i].token);
	}
}

TEST(bearer_tokens_are_taken_out_of_subprotocols)
{
	static const char name[] = "sec-websocket-protocol";
	static const struct {
		const char *first, *second, *left;
	} rows[] = {
		{ "base64url.bearer.authorization.k8s.io.x, foo", NULL, "foo" },
		{ "foo,BASE64URL.bearer.authorization.k8s.io.x", "bar ,", "foo, bar" },
		{ "base64url.bearer.authorization.k8s.io.", NULL, NULL },
		{ ",base64url.bearer.authorization.x", ",", NULL },
		{ "base64url.bearer.authorization", "a,,b", "base64url.bearer.authorization" },
		{ "foo,bar", NULL, "foo,bar" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_headers h = { 0 };

		http_headers_add(&h, "Host", "a");
		http_headers_add(&h, name, rows[i].first);
		if (rows[i].second)
			http_headers_add(&h, name, rows[i].second);
		http_headers_drop_bearer_protocols(&h);
		eq_str(http_headers_get(&h, name), rows[i].left);
		eq_str(http_headers_get(&h, "Host"), "a");
		http_headers_done(&h);
	}
}

TEST(a_token_among_protocols_is_taken_if_it_is_alone_and_another_is_offered)
{
	static const char name[] = "Sec-WebSocket-Protocol";
	static const struct {
		const char *first, *second;
		bool bad;
		const char *token, *left;
	} rows[] = {
		{ "v5, base64url.bearer.authorization.k8s.io.dG9rZW4", NULL, false, "token", "v5" },
		{ "base64url.bearer.authorization.k8s.io.dG9rZW4,v5", NULL, false, "token", "v5" },
		{ "base64url.bearer.authorization.k8s.io.dG9rZW4", "v5", false, "token", "v5" },
		{ "v5", "v4", false, NULL, "v5" },
		{ "base64url.bearer.authorization.k8s.io.dG9rZW4", NULL, true, NULL, NULL },
		{ "base64url.bearer.authorization.k8s.io.dG9rZW4, ", NULL, true, NULL, NULL },
		{ "v5,base64url.bearer.authorization.k8s.io.", NULL, true, NULL, NULL },
		{ "v5,base64url.bearer.authorization.k8s.io.%%", NULL, true, NULL, NULL },
		{ "v5,base64url.bearer.authorization.k8s.io.AGFi", NULL, true, NULL,
		  NULL }, /* a NUL */
		{ "v5,base64url.bearer.authorization.k8s.io.gICA", NULL, true, NULL,
		  NULL }, /* not UTF-8 */
		{ "v5,base64url.bearer.authorization.k8s.io.dG9rZW4",
		  "base64url.bearer.authorization.k8s.io.dG9rZW4", true, NULL, NULL },
		/* As a kube-apiserver has it, which looks at the case. */
		{ "v5,Base64url.Bearer.Authorization.k8s.io.dG9rZW4", NULL, false, NULL,
		  "v5,Base64url.Bearer.Authorization.k8s.io.dG9rZW4" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_headers h = { 0 };
		autofree char *token = NULL;
		struct err *e;

		http_headers_add(&h, name, rows[i].first);
		if (rows[i].second)
			http_headers_add(&h, name, rows[i].second);
		e = http_headers_take_bearer_protocol(&h, &token);
		if (rows[i].bad)
			fails(e, ERR_MALFORMED);
		else
			works(e);
		eq_str(token, rows[i].token);
		if (!rows[i].bad)
			eq_str(http_headers_get(&h, name), rows[i].left);
		http_headers_done(&h);
	}
}
