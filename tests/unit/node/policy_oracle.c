/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_oracle.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "api/object.h"
#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"
#include "node/host/instance.h"
#include "policy_asks.h"
#include "test.h"

struct end {
	char text[IP_TEXT_MAX];
	const struct object *pod; /* NULL: none of these */
	bool names;               /* it is the name server */
};

struct asked {
	const struct policy_world *w;
	struct end from, to;
	uint8_t protocol;
	uint16_t port;
};

/* -- labels ---------------------------------------------------------------------------------- */

static const char *label(const struct json *labels, const char *key)
{
	json_each(it, labels)
		if (!strcmp(it.key, key))
			return json_str(it.val);
	return NULL;
}

static bool listed(const struct json *values, const char *value)
{
	bool found = false;

	json_each(it, values)
		found |= !strcmp(json_str(it.val), value);
	return found;
}

static bool matches(const struct json *selector, const struct json *labels, bool unknown)
{
	bool all = true;

	json_each(it, json_get(selector, "matchLabels")) {
		const char *have = label(labels, it.key);

		all &= have && !strcmp(have, json_str(it.val));
	}
	json_each(it, json_get(selector, "matchExpressions")) {
		const char *have = label(labels, json_get_str(it.val, "key"));
		const char *op = json_get_str(it.val, "operator");
		const struct json *values = json_get(it.val, "values");

		if (!strcmp(op, "In"))
			all &= have && listed(values, have);
		else if (!strcmp(op, "NotIn"))
			all &= !have || !listed(values, have);
		else if (!strcmp(op, "Exists"))
			all &= have != NULL;
		else if (!strcmp(op, "DoesNotExist"))
			all &= have == NULL;
		else
			all &= unknown;
	}
	return all;
}

/* A namespace that is not among the objects has only its name. */
static bool matches_namespace(const struct policy_world *w, const struct json *selector,
			      const char *ns)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *only = json_obj(d);

	for (size_t i = 0; i < w->n_namespaces; i++)
		if (!strcmp(w->namespaces[i]->name, ns))
			return matches(selector,
				       json_at_path(w->namespaces[i]->root, "metadata.labels"),
				       false);
	json_set_str(d, only, "kubernetes.io/metadata.name", ns);
	return matches(selector, only, false);
}

/* -- addresses ------------------------------------------------------------------------------- */

/* 1 or 0; -1: it cannot be read. */
static int in_cidr(const char *cidr, const char *addr)
{
	char net[64];
	const char *slash = cidr ? strchr(cidr, '/') : NULL;
	uint8_t a[16], b[16];
	int family = cidr && strchr(cidr, ':') ? AF_INET6 : AF_INET;
	unsigned prefix = 0;

	if (!slash || (size_t)(slash - cidr) >= sizeof(net))
		return -1;
	memcpy(net, cidr, (size_t)(slash - cidr));
	net[slash - cidr] = 0;
	for (const char *c = slash + 1; *c; c++)
		prefix = prefix * 10 + (unsigned)(*c - '0');
	if (inet_pton(family, net, a) != 1)
		return -1;
	if (inet_pton(family, addr, b) != 1)
		return 0;
	for (unsigned bit = 0; bit < prefix; bit++)
		if ((a[bit / 8] ^ b[bit / 8]) >> (7 - bit % 8) & 1)
			return 0;
	return 1;
}

static bool in_block(const struct json *block, const char *addr)
{
	int in = in_cidr(json_get_str(block, "cidr"), addr);

	json_each(it, json_get(block, "except"))
		if (in_cidr(json_str(it.val), addr))
			return false;
	return in == 1;
}

static bool block_allows(const struct asked *q, const struct json *block, const struct end *peer)
{
	char gateway[IP_TEXT_MAX];
	struct ip ip = instance_ip4(q->w->instance, 1);

	ip_text(&ip, gateway);
	return in_block(block, peer->text) || (peer->names && in_block(block, gateway));
}

/* -- rules ----------------------------------------------------------------------------------- */

static bool peer_allows(const struct asked *q, const struct object *policy, const struct json *peer,
			const struct end *end)
{
	const struct json *block = json_get(peer, "ipBlock");
	const struct json *spaces = json_get(peer, "namespaceSelector");
	const struct json *pods = json_get(peer, "podSelector");
	autoptr(json_doc) d = json_doc_new();
	struct json *dns = json_obj(d);
	const char *ns = end->names ? "kube-system" : end->pod ? end->pod->ns : NULL;

	if (block)
		return !end->pod && block_allows(q, block, end);
	if (!ns)
		return false;
	if (spaces ? !matches_namespace(q->w, spaces, ns) : strcmp(ns, policy->ns) != 0)
		return false;
	json_set_str(d, dns, "k8s-app", "kube-dns");
	return matches(pods, end->names ? dns : json_at_path(end->pod->root, "metadata.labels"),
		       false);
}

static bool port_has_name(const struct end *at, const char *name, const char *protocol,
			  uint16_t port)
{
	if (at->names)
		return port == 53 && ((!strcmp(protocol, "UDP") && !strcmp(name, "dns")) ||
				      (!strcmp(protocol, "TCP") && !strcmp(name, "dns-tcp")));
	if (!at->pod)
		return false;
	json_each(c, json_get(object_spec(at->pod), "containers"))
		json_each(p, json_get(c.val, "ports"))
			if (!strcmp(str_or(json_get_str(p.val, "name"), ""), name) &&
			    !strcmp(str_or(json_get_str(p.val, "protocol"), "TCP"), protocol) &&
			    json_get_int(p.val, "containerPort", 0) == port)
				return true;
	return false;
}

static bool port_allows(const struct asked *q, const struct json *port)
{
	const char *protocol = str_or(json_get_str(port, "protocol"), "TCP");
	const struct json *number = json_get(port, "port");
	int64_t first = json_int(number, 0), last = json_get_int(port, "endPort", first);
	uint8_t want = !strcmp(protocol, "TCP")    ? IPPROTO_TCP
		       : !strcmp(protocol, "UDP")  ? IPPROTO_UDP
		       : !strcmp(protocol, "SCTP") ? IPPROTO_SCTP
						   : 255;

	if (q->protocol != want)
		return false;
	if (!number)
		return true;
	if (json_str(number))
		return port_has_name(&q->to, json_str(number), protocol, q->port);
	return first <= q->port && q->port <= last;
}

static bool rule_allows(const struct asked *q, const struct object *policy, const struct json *rule,
			bool out)
{
	const struct json *peers = json_get(rule, out ? "to" : "from");
	const struct json *ports = json_get(rule, "ports");
	bool peer = !json_len(peers), port = !json_len(ports);

	json_each(it, peers)
		peer |= peer_allows(q, policy, it.val, out ? &q->to : &q->from);
	json_each(it, ports)
		port |= port_allows(q, it.val);
	return peer && port;
}

static bool decides(const struct json *spec, bool out)
{
	const struct json *types = json_get(spec, "policyTypes");

	if (json_len(types))
		return listed(types, out ? "Egress" : "Ingress");
	return !out || json_len(json_get(spec, "egress"));
}

static bool side_allows(const struct asked *q, bool out)
{
	const struct object *pod = out ? q->from.pod : q->to.pod;
	bool selected = false, allowed = false;

	for (size_t i = 0; i < q->w->n_policies; i++) {
		const struct object *policy = q->w->policies[i];
		const struct json *spec = object_spec(policy);

		if (strcmp(policy->ns, pod->ns) != 0 || !decides(spec, out) ||
		    !matches(json_get(spec, "podSelector"),
			     json_at_path(pod->root, "metadata.labels"), true))
			continue;
		selected = true;
		json_each(it, json_get(spec, out ? "egress" : "ingress"))
			allowed |= rule_allows(q, policy, it.val, out);
	}
	return selected ? allowed : out && !q->to.pod;
}

static struct end end_of(const struct policy_world *w, const struct ip *ip)
{
	struct end end = { .pod = NULL };
	unsigned place;

	ip_text(ip, end.text);
	if (!instance_ip_place(w->instance, ip, &place))
		return end;
	end.names = place == 1;
	for (size_t i = 0; i < w->n_pods; i++) {
		struct ip own;

		if (ip_parse(json_get_str(object_status(w->pods[i]), "podIP"), &own) &&
		    ip_to4(&own) == w->instance->pool + place)
			end.pod = w->pods[i];
	}
	return end;
}

bool oracle_allows(const struct policy_world *w, const struct policy_packet *packet)
{
	const struct asked q = { .w = w,
				 .from = end_of(w, &packet->from),
				 .to = end_of(w, &packet->to),
				 .protocol = packet->protocol,
				 .port = packet->port };

	is_true(q.from.pod);
	return side_allows(&q, true) && (!q.to.pod || side_allows(&q, false));
}
