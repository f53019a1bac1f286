/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "net/http.h"
#include "router/router_priv.h"
#include "test.h"

/* Which sandbox a request names, by its host, its path and its headers. */
#define DOMAIN "sandbox.localhost"

struct way_row {
	const char *host, *target, *header, *value;
	const char *says; /* part of the refusal; NULL: it is understood */
	enum router_way way;
	const char *ns, *id;
	unsigned port;
	const char *rest;
};

static void check_row(const struct way_row *row)
{
	struct http_headers h = { 0 };
	struct route r;
	size_t rest;
	const char *bad;

	if (row->header)
		http_headers_add(&h, row->header, row->value);
	bad = way_read(&(struct way_ask){ .domain = DOMAIN,
					  .prefix = "/s",
					  .host = row->host,
					  .target = row->target,
					  .headers = &h },
		       &r, &rest);
	http_headers_done(&h);
	if (!bad != !row->says || (bad && !strstr(bad, row->says)))
		fail_msg("%s %s: \"%s\" instead of \"%s\"", row->host, row->target,
			 bad ? bad : "understood", row->says ? row->says : "understood");
	if (bad)
		return;
	eq_int(r.way, row->way);
	eq_str(r.ns, row->ns);
	eq_str(r.id, row->id);
	eq_int(r.port, row->port);
	eq_str(row->target + rest, row->rest);
}

TEST(u43_one_of_host_path_and_headers_names_the_sandbox)
{
	static const char form[] = "PORT-NAME.NAMESPACE", path[] = "<prefix>/<namespace>",
			  twice[] = "leave one of them out";
	static const struct way_row rows[] = {
		/* by host */
		{ "80-box.ns." DOMAIN, "/x", NULL, NULL, NULL, ROUTER_BY_HOST, "ns", "box", 80,
		  "/x" },
		{ "8080-a-2-b.ns." DOMAIN ":99", "/s/a/b/1/", NULL, NULL, NULL, ROUTER_BY_HOST,
		  "ns", "a-2-b", 8080, "/s/a/b/1/" },
		{ "80-BOX.Ns.Sandbox.LOCALHOST.", "/", NULL, NULL, NULL, ROUTER_BY_HOST, "ns",
		  "box", 80, "/" },
		{ "80-box.ns." DOMAIN, "/", "X-Sandbox-Timeout", "9", NULL, ROUTER_BY_HOST, "ns",
		  "box", 80, "/" },
		{ "80-box.ns." DOMAIN, "/", "X-Sandbox-ID", "box", twice },
		{ "80-box.ns." DOMAIN, "/", "x-sandbox-pod-ip", "10.0.0.1", twice },
		{ "box.ns." DOMAIN, "/", NULL, NULL, form },
		{ "80-box." DOMAIN, "/", NULL, NULL, form },
		{ "80.ns." DOMAIN, "/", NULL, NULL, form },
		{ "80-.ns." DOMAIN, "/", NULL, NULL, "sandbox ID" },
		{ "-box.ns." DOMAIN, "/", NULL, NULL, "port" },
		{ "0-box.ns." DOMAIN, "/", NULL, NULL, "port" },
		{ "+80-box.ns." DOMAIN, "/", NULL, NULL, "port" },
		{ "65536-box.ns." DOMAIN, "/", NULL, NULL, "port" },
		{ "80-box.a.ns." DOMAIN, "/", NULL, NULL, "namespace" },
		{ "80-box.." DOMAIN, "/", NULL, NULL, "namespace" },
		{ "80-box.ns." DOMAIN ":80@evil.example", "/", NULL, NULL, "X-Sandbox-ID header" },
		{ "." DOMAIN, "/", NULL, NULL, "X-Sandbox-ID header" },
		{ "80-box.ns.x" DOMAIN, "/", NULL, NULL, "X-Sandbox-ID header" },
		/* by path */
		{ "localhost", "/s/ns/box/80/a%2Fb?q=1", NULL, NULL, NULL, ROUTER_BY_PATH, "ns",
		  "box", 80, "/a%2Fb?q=1" },
		{ "localhost", "/s/ns/box/80", NULL, NULL, NULL, ROUTER_BY_PATH, "ns", "box", 80,
		  "" },
		{ "localhost", "/s/ns/box/80?q=/", NULL, NULL, NULL, ROUTER_BY_PATH, "ns", "box",
		  80, "?q=/" },
		{ "localhost", "/s/ns/box/80//x/../y", NULL, NULL, NULL, ROUTER_BY_PATH, "ns",
		  "box", 80, "//x/../y" },
		{ "localhost", "/s", NULL, NULL, path },
		{ "localhost", "/s?/ns/box/80/", NULL, NULL, path },
		{ "localhost", "/s/ns", NULL, NULL, path },
		{ "localhost", "/s/ns/box", NULL, NULL, path },
		{ "localhost", "/s/ns/box/", NULL, NULL, path },
		{ "localhost", "/s//box/80/", NULL, NULL, "namespace" },
		{ "localhost", "/s/ns//80/", NULL, NULL, "sandbox ID" },
		{ "localhost", "/s/ns/b%6fx/80/", NULL, NULL, "sandbox ID" },
		{ "localhost", "/s/ns/box/eighty/", NULL, NULL, "port" },
		{ "localhost", "/s/ns/box/80/", "X-Sandbox-UID", "u", twice },
		/* by header */
		{ "localhost", "/sx/ns/box/80/", "X-Sandbox-ID", "box", NULL, ROUTER_BY_HEADER,
		  "default", "box", 8888, "/sx/ns/box/80/" },
		{ "localhost", "/x", NULL, NULL, "X-Sandbox-ID header" },
		{ DOMAIN, "/x", "X-Sandbox-ID", "box", NULL, ROUTER_BY_HEADER, "default", "box",
		  8888, "/x" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_row(&rows[i]);
}

TEST(headers_of_an_answer_speak_for_the_sandbox_alone)
{
	static const struct {
		enum router_way way;
		bool no_rewrite;
		const char *name, *value, *becomes; /* NULL: it is left out */
	} rows[] = {
		{ ROUTER_BY_HEADER, false, "Set-Cookie", "cay-door=1; Domain=x",
		  "cay-door=1; Domain=x" },
		{ ROUTER_BY_HOST, false, "Set-Cookie", "cay-door=1", NULL },
		{ ROUTER_BY_HOST, false, "Set-Cookie", " CAY-DOOR = 1; Path=/", NULL },
		{ ROUTER_BY_HOST, false, "set-cookie", "__Host-cay-door=1; Secure", NULL },
		{ ROUTER_BY_HOST, false, "Set-Cookie", "a=1;domain = " DOMAIN " ;Path=/x; Secure",
		  "a=1; Path=/x; Secure" },
		{ ROUTER_BY_HOST, false, "Set-Cookie", "=cay-door=1", NULL },
		{ ROUTER_BY_HOST, false, "Set-Cookie", "; Path=/", NULL },
		{ ROUTER_BY_HOST, false, "Set-Cookie", "a=1", "a=1" },
		{ ROUTER_BY_PATH, false, "Set-Cookie", "a=1; path=/x", "a=1; Path=/s/ns/box/80/x" },
		{ ROUTER_BY_PATH, true, "Set-Cookie", "a=1; Path=/x; Domain=.y", "a=1; Path=/x" },
		{ ROUTER_BY_HOST, false, "Location", "/x", "/x" },
		{ ROUTER_BY_HOST, false, "Location", "http://10.0.0.1:80/x", "/x" },
		{ ROUTER_BY_HOST, false, "Location", "http://10.0.0.1:80", "/" },
		{ ROUTER_BY_HOST, false, "Location", "http://10.0.0.1:80//evil/x", "/.//evil/x" },
		{ ROUTER_BY_HOST, false, "Location", "http://10.0.0.1:8000/x",
		  "http://10.0.0.1:8000/x" },
		{ ROUTER_BY_PATH, false, "Location", "/x?y", "/s/ns/box/80/x?y" },
		{ ROUTER_BY_PATH, false, "Location", "//evil/x", "//evil/x" },
		{ ROUTER_BY_PATH, false, "Location", "x", "x" },
		{ ROUTER_BY_PATH, true, "Location", "/x", "/x" },
		{ ROUTER_BY_PATH, false, "Service-Worker-Allowed", "/", NULL },
		{ ROUTER_BY_HOST, false, "Service-Worker-Allowed", "/", "/" },
		{ ROUTER_BY_PATH, false, "Clear-Site-Data", "\"*\"", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct route r = { .way = rows[i].way, .ns = "ns", .id = "box", .port = 80 };
		struct http_headers h = { 0 };

		http_headers_add(&h, "X-Before", "1");
		http_headers_add(&h, rows[i].name, rows[i].value);
		answer_headers(&h, &(struct answer){ &r, "/s", "10.0.0.1:80", rows[i].no_rewrite });
		eq_str(http_headers_get(&h, "X-Before"), "1");
		eq_str(http_headers_get(&h, rows[i].name), rows[i].becomes);
		eq_int(!!http_headers_get(&h, "Content-Security-Policy"),
		       rows[i].way == ROUTER_BY_PATH);
		http_headers_done(&h);
	}
}
