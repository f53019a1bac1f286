/* SPDX-License-Identifier: Apache-2.0 */
#include "router/route/route.h"

#include <arpa/inet.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"
#include "json/json.h"
#include "kinds.h"
#include "net/http.h"
#include "test.h"

/* The numbers are those of docs/reference/dataplane.md §6.4. */
static const char *parse(const char *id, const char *name, const char *value, struct route *ret)
{
	struct http_headers h = { 0 };
	const char *bad;

	if (id)
		http_headers_add(&h, "X-Sandbox-ID", id);
	if (name)
		http_headers_add(&h, name, value);
	bad = route_parse(&h, false, ret);
	http_headers_done(&h);
	return bad;
}

TEST(dataplane_90_to_94_headers_name_the_target)
{
	struct http_headers h = { 0 };
	struct route r;

	http_headers_add(&h, "x-sandbox-id", "box");
	is_false(route_parse(&h, false, &r));
	eq_str(r.id, "box");
	eq_str(r.ns, "default");
	eq_int(r.port, 8888);
	is_false(r.has_ip || r.has_uid);
	http_headers_add(&h, "X-Sandbox-Namespace", "my-ns-1");
	http_headers_add(&h, "X-Sandbox-Port", "9000");
	http_headers_add(&h, "X-Sandbox-Pod-IP", "10.0.0.5");
	http_headers_add(&h, "X-Sandbox-UID", "any Text");
	is_false(route_parse(&h, false, &r));
	eq_str(r.ns, "my-ns-1");
	eq_int(r.port, 9000);
	is_true(r.has_ip);
	eq_str(r.uid, "any Text");
	http_headers_done(&h);
}

TEST(dataplane_95_to_99_bad_headers_are_named_in_order)
{
	static const char required[] = "X-Sandbox-ID header is required.";
	static const char bad_id[] = "Invalid sandbox ID format.";
	static const char bad_ns[] = "Invalid namespace format.";
	static const char bad_port[] = "Invalid port format.";
	static const struct {
		const char *id, *name, *value, *says;
	} rows[] = {
		{ NULL, NULL, NULL, required },
		{ "", NULL, NULL, required },
		{ NULL, "X-Sandbox-Port", "bad", required },
		{ "foo.evil.com", NULL, NULL, bad_id },
		{ "foo/bar", NULL, NULL, bad_id },
		{ "foo_bar", NULL, NULL, bad_id },
		{ "FooBar", NULL, NULL, bad_id },
		{ "-foo", NULL, NULL, bad_id },
		{ "foo-", NULL, NULL, bad_id },
		{ "a", NULL, NULL, NULL },
		{ "1abc", NULL, NULL, NULL },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, NULL,
		  NULL },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, NULL,
		  bad_id },
		{ "x", "X-Sandbox-Namespace", "bad namespace", bad_ns },
		{ "x", "X-Sandbox-Namespace", "bad!", bad_ns },
		{ "x", "X-Sandbox-Namespace", "---", bad_ns },
		{ "x", "X-Sandbox-Namespace", " ns", bad_ns },
		{ "x", "X-Sandbox-Namespace", "my.ns", bad_ns },
		{ "x", "X-Sandbox-Namespace", "", NULL },
		{ "x", "X-Sandbox-Port", "abc", bad_port },
		{ "x", "X-Sandbox-Port", "0", bad_port },
		{ "x", "X-Sandbox-Port", "-1", bad_port },
		{ "x", "X-Sandbox-Port", "65536", bad_port },
		{ "x", "X-Sandbox-Port", "1", NULL },
		{ "x", "X-Sandbox-Port", "65535", NULL },
		{ "x", "X-Sandbox-ID", "y", bad_id }, /* twice */
	};
	struct route r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_str(parse(rows[i].id, rows[i].name, rows[i].value, &r), rows[i].says);
}

TEST(dataplane_100_to_102_addresses_no_sandbox_can_have_are_refused)
{
	static const char *const bad[] = { "127.0.0.1",        "::1",       "169.254.169.254",
					   "fe80::1",          "224.0.0.1", "ff02::1",
					   "0.0.0.0",          "::",        "not-an-ip",
					   "::ffff:127.0.0.1", "1.2.3",     "fe80::1%eth0" };
	struct in6_addr ip;
	struct route r;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		eq_str(parse("x", "X-Sandbox-Pod-IP", bad[i], &r), "Invalid target IP address.");
	is_true(route_ip("127.0.0.1", true, &ip));
	is_true(route_ip("::1", true, &ip));
	is_false(route_ip("169.254.169.254", true, &ip));
	is_false(route_ip("fe80::1", true, &ip));
	is_true(route_ip("10.1.2.3", false, &ip));
	is_true(route_ip("fd00::1", false, &ip));
}

TEST(dataplane_135_bad_timeouts_are_as_none)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} rows[] = { { "5", 5000 }, { "500", 500000 }, { "0.25", 250 }, { "310", 310000 },
		     { "abc", 0 },  { "nan", 0 },      { "inf", 0 },    { "0", 0 },
		     { "-1", 0 },   { "5s", 0 },       { "", 0 },       { "1e300", 86400000 } };
	struct route r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		is_false(parse("x", "X-Sandbox-Timeout", rows[i].text, &r));
		eq_int(r.timeout_ms, rows[i].ms);
	}
}

#define READY "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"
#define NOT_READY(reason) \
	"\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"" reason "\"}]"
#define IPS "\"podIPs\":[\"10.0.0.1\",\"fd00::1\"]"
#define OWNED(group, kind)                                                                        \
	"\"metadata\":{\"uid\":\"u\",\"ownerReferences\":[{\"apiVersion\":\"" group "/v1beta1\"," \
	"\"kind\":\"" kind "\",\"controller\":true}]},"
#define POOL OWNED("extensions.agents.x-k8s.io", "SandboxWarmPool")

TEST(a_sandbox_tells_where_it_is)
{
	static const struct {
		const char *json, *uid, *ip;
		enum target_state state;
		const char *addr;
	} rows[] = {
		{ "{\"status\":{" IPS "," READY "}}", NULL, NULL, TARGET_READY, "10.0.0.1:80" },
		/* 106: bracketed; the hint chooses among the sandbox's own */
		{ "{\"status\":{" IPS "," READY "}}", NULL, "fd00::1", TARGET_READY,
		  "[fd00::1]:80" },
		{ "{\"status\":{" IPS "," READY "}}", NULL, "10.9.9.9", TARGET_READY,
		  "10.0.0.1:80" },
		{ "{\"status\":{" READY "}}", NULL, "10.9.9.9", TARGET_STARTING, "" },
		{ "{\"status\":{\"podIPs\":[\"169.254.169.254\",7]," READY "}}", NULL, NULL,
		  TARGET_STARTING, "" },
		{ "{}", NULL, NULL, TARGET_STARTING, "" },
		{ "{\"status\":{" IPS "," NOT_READY("DependenciesNotReady") "}}", NULL, NULL,
		  TARGET_STARTING, "10.0.0.1:80" },
		{ "{\"status\":{" NOT_READY("PodFailed") "}}", NULL, NULL, TARGET_DOWN, "" },
		{ "{\"status\":{" NOT_READY("SandboxExpired") "}}", NULL, NULL, TARGET_DOWN, "" },
		{ "{\"spec\":{\"operatingMode\":\"Suspended\"}}", NULL, NULL, TARGET_DOWN, "" },
		{ "{\"metadata\":{\"deletionTimestamp\":\"x\"}}", NULL, NULL, TARGET_DOWN, "" },
		{ "{\"metadata\":{\"uid\":\"u\"},\"status\":{" IPS "," READY "}}", "u", NULL,
		  TARGET_READY, "10.0.0.1:80" },
		{ "{\"metadata\":{\"uid\":\"u\"},\"status\":{" IPS "," READY "}}", "other", NULL,
		  TARGET_UNKNOWN, "" },
		/* 158: a pool's member is reached by its uid only */
		{ "{" POOL "\"status\":{" IPS "," READY "}}", NULL, NULL, TARGET_UNKNOWN, "" },
		{ "{" POOL "\"status\":{" IPS "," READY "}}", "u", NULL, TARGET_READY,
		  "10.0.0.1:80" },
		/* 161: group and kind, any version */
		{ "{" OWNED("example.com", "SandboxWarmPool") "\"status\":{" IPS "," READY "}}",
		  NULL, NULL, TARGET_READY, "10.0.0.1:80" },
		{ "{" OWNED("extensions.agents.x-k8s.io", "SandboxClaim") "\"status\":{" IPS
									  "," READY "}}",
		  NULL, NULL, TARGET_READY, "10.0.0.1:80" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct route r = { .id = "x", .ns = "default", .port = 80 };
		struct json_doc *d = NULL;
		autoptr(object) o = NULL;
		struct target t;

		works(json_parse(rows[i].json, strlen(rows[i].json), NULL, &d));
		o = object_new(kind_named("Sandbox"), d);
		r.has_uid = rows[i].uid;
		if (rows[i].uid)
			memcpy(r.uid, rows[i].uid, strlen(rows[i].uid) + 1);
		r.has_ip = rows[i].ip;
		if (rows[i].ip)
			is_true(route_ip(rows[i].ip, false, &r.ip));
		target_find(o, &r, false, &t);
		eq_int(t.state, rows[i].state);
		if (t.state != TARGET_UNKNOWN)
			eq_str(t.addr, rows[i].addr);
	}
}
