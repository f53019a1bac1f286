/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/* The columns of the kinds in kinds_network.c. */
#define HOSTS_MAX 3

static struct json *ingress_class(struct json_doc *d, const struct json *obj, unused usec now)
{
	const char *class = json_get_str(json_get(obj, "spec"), "ingressClassName");

	return json_new_str(d, class ? class : "<none>");
}

static struct json *ingress_hosts(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *rules = json_at_path(obj, "spec.rules");
	autobuf b = { 0 };
	size_t n = 0;
	bool more = false;

	json_each(it, rules) {
		const char *host = json_get_str(it.val, "host");

		more |= n == HOSTS_MAX;
		if (more || str_empty(host))
			continue;
		buf_printf(&b, "%s%s", n++ ? "," : "", host);
	}
	if (more)
		buf_printf(&b, " + %zu more...", json_len(rules) - HOSTS_MAX);
	return json_new_str(d, n ? buf_str(&b) : "*");
}

static struct json *ingress_address(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf b = { 0 };

	json_each(it, json_at_path(obj, "status.loadBalancer.ingress"))
		buf_printf(&b, "%s%s", b.len ? "," : "",
			   str_or(json_get_str(it.val, "ip"),
				  str_or(json_get_str(it.val, "hostname"), "")));
	return json_new_str(d, b.len ? buf_str(&b) : "");
}

static struct json *ingress_ports(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_str(d, json_len(json_at_path(obj, "spec.tls")) ? "80, 443" : "80");
}

#define AGE { "Age", "date", ".metadata.creationTimestamp", "Time since it was created" }

const struct column columns_ingress[] = {
	{ "Class", "string", NULL, "IngressClass whose controller should act on it",
	  .cell = ingress_class },
	{ "Hosts", "string", NULL, "Hosts of requests that its rules are about",
	  .cell = ingress_hosts },
	{ "Address", "string", NULL, "Where a controller accepts such requests",
	  .cell = ingress_address },
	{ "Ports", "string", NULL, "Ports of such requests", .cell = ingress_ports },
	AGE,
	{ 0 },
};

static struct json *class_parameters(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *p = json_at_path(obj, "spec.parameters");
	const char *group = json_get_str(p, "apiGroup");

	if (!p)
		return json_new_str(d, "<none>");
	return json_new_strf(d, "%s%s%s/%s", str_or(json_get_str(p, "kind"), ""), group ? "." : "",
			     group ? group : "", str_or(json_get_str(p, "name"), ""));
}

const struct column columns_ingress_class[] = {
	{ "Controller", "string", ".spec.controller", "Who acts on Ingresses of this class" },
	{ "Parameters", "string", NULL, "An object with further settings",
	  .cell = class_parameters },
	AGE,
	{ 0 },
};

static struct json *ip_parent(struct json_doc *d, const struct json *obj, unused usec now)
{
	const struct json *ref = json_at_path(obj, "spec.parentRef");
	const char *group = str_or(json_get_str(ref, "group"), ""),
		   *ns = str_or(json_get_str(ref, "namespace"), "");

	if (!ref)
		return json_new_str(d, "<none>");
	return json_new_strf(d, "%s%s%s%s%s/%s", str_or(json_get_str(ref, "resource"), ""),
			     *group ? "." : "", group, *ns ? "/" : "", ns,
			     str_or(json_get_str(ref, "name"), ""));
}

const struct column columns_ip_address[] = {
	{ "ParentRef", "string", NULL, "What the address belongs to", .cell = ip_parent },
	{ 0 },
};

static struct json *cidr_blocks(struct json_doc *d, const struct json *obj, unused usec now)
{
	autobuf b = { 0 };

	json_each(it, json_at_path(obj, "spec.cidrs"))
		buf_printf(&b, "%s%s", b.len ? "," : "", str_or(json_str(it.val), ""));
	return json_new_str(d, buf_str(&b));
}

const struct column columns_service_cidr[] = {
	{ "CIDRs", "string", NULL, "Blocks that Services get addresses from", .cell = cidr_blocks },
	AGE,
	{ 0 },
};
