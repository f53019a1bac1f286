/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/admit/ranges.h"
#include "server/admit/service_priv.h"

/*
 * Addresses and node ports for a Service, from the ranges of the server. What is asked for is
 * refused if somebody has it; what is missing is picked.
 */
static void note_taken(struct draft *s, struct supply *of, size_t number)
{
	s->taken[s->n_taken++] = (struct taken){ of, number };
}

void service_give_back(struct draft *s)
{
	while (s->n_taken) {
		const struct taken *t = &s->taken[--s->n_taken];

		supply_release(t->of, t->number);
	}
}

static struct err *is_full(const struct draft *s)
{
	return err_new(ERR_INTERNAL,
		       "Internal error occurred: failed to allocate a serviceIP for Service "
		       "\"%s\": range is full",
		       s->name);
}

/* The address with this index, as it was asked for or any. */
static struct err *take_ip(struct draft *s, size_t at)
{
	struct json *ips = json_need_arr(s->d, s->spec, "clusterIPs");
	const char *want = service_text_at(ips, at);
	bool v6 = str_eq(service_text_at(json_get(s->spec, "ipFamilies"), at), "IPv6");
	struct ip_range *r = ranges_of(s->ranges, v6);
	char text[IP_TEXT_MAX];
	size_t number;

	if (*want) {
		bool known = r && ip_range_number(r, want, &number);
		autofree char *why =
			xasprintf("failed to allocate IP %s: %s", want,
				  known ? "provided IP is already allocated"
					: "the provided network does not match the current range");

		if (known && supply_take(&r->ips, number))
			note_taken(s, &r->ips, number);
		else
			service_invalid(s, "spec.clusterIPs", "clusterIPs", why);
		return NULL;
	}
	if (!r || !supply_pick(&r->ips, &number))
		return is_full(s);
	note_taken(s, &r->ips, number);
	ip_range_text(r, number, text);
	if (at < json_len(ips))
		json_remove(ips, at);
	json_insert(s->d, ips, at, json_new_str(s->d, text));
	if (!at)
		json_set_str(s->d, s->spec, "clusterIP", text);
	return NULL;
}

struct err *service_take_ips(struct draft *s)
{
	size_t had = json_len(json_get(s->was, "clusterIPs")),
	       n = json_len(json_get(s->spec, "ipFamilies"));
	struct err *e = NULL;

	if (service_is_external(s->spec) || service_is_headless(s->spec))
		return NULL;
	if (s->was && !service_is_external(s->was) && service_is_headless(s->was))
		return NULL; /* validation says that this cannot change */
	if (service_is_external(s->was))
		had = 0;
	for (size_t i = had; i < MIN(n, (size_t)SERVICE_FAMILIES_MAX) && !e; i++)
		e = take_ip(s, i);
	return e;
}

static void refuse_port(struct draft *s, size_t at, int64_t port, bool known)
{
	autofree char *field = xasprintf("spec.ports[%zu].nodePort", at);

	causes_add(&s->op->causes, CAUSE_INVALID, field, "Invalid value: %lld: %s", (long long)port,
		   known ? "provided port is already allocated"
			 : "provided port is not in the valid range. The range of valid ports is "
			   "30000-32767");
}

/* Whether this write has taken it before. */
static bool is_taken_here(const struct draft *s, size_t number)
{
	for (size_t i = 0; i < s->n_taken; i++)
		if (s->taken[i].of == &s->ranges->ports && s->taken[i].number == number)
			return true;
	return false;
}

/* shared: another port of the Service may have it. */
static bool take_asked_port(struct draft *s, int64_t port, bool shared, bool *ret_known)
{
	size_t number = 0;

	*ret_known = ranges_port_number(port, &number);
	if (!*ret_known)
		return false;
	if (shared && is_taken_here(s, number))
		return true;
	if (!supply_take(&s->ranges->ports, number))
		return false;
	note_taken(s, &s->ranges->ports, number);
	return true;
}

static struct err *take_any_port(struct draft *s, const char *what, int64_t *ret)
{
	size_t number;

	if (!supply_pick(&s->ranges->ports, &number))
		return err_new(ERR_INTERNAL,
			       "Internal error occurred: failed to allocate a %s: range is full",
			       what);
	note_taken(s, &s->ranges->ports, number);
	*ret = NODE_PORT_FIRST + (int64_t)number;
	return NULL;
}

/* One number for two protocols of a port: an entry before this one has the same. */
static bool is_shared(const struct draft *s, const struct json *port, size_t at, int64_t node_port)
{
	const struct json *ports = json_get(s->spec, "ports");

	for (size_t i = 0; i < at; i++)
		if (json_get_int(json_at(ports, i), "port", 0) == json_get_int(port, "port", 0) &&
		    json_get_int(json_at(ports, i), "nodePort", 0) == node_port)
			return true;
	return false;
}

/* The node port that another entry with the same port has, or asks for. */
static int64_t twin_port(const struct draft *s, const struct json *port)
{
	int64_t number = json_get_int(port, "port", 0);

	json_each(it, json_get(s->spec, "ports"))
		if (json_get_int(it.val, "port", 0) == number &&
		    json_get_int(it.val, "nodePort", 0))
			return json_get_int(it.val, "nodePort", 0);
	return 0;
}

static struct err *settle_port(struct draft *s, struct json *port, size_t at)
{
	int64_t want = json_get_int(port, "nodePort", 0);
	bool known = true;
	struct err *e;

	if (!want && !s->was)
		want = twin_port(s, port);
	if (want && s->was && service_ports_have(json_get(s->was, "ports"), want))
		return NULL; /* it has it */
	if (want && !take_asked_port(s, want, s->was || is_shared(s, port, at, want), &known))
		refuse_port(s, at, want, known);
	if (!want) {
		e = take_any_port(s, "nodePort", &want);
		if (e)
			return e;
	}
	json_set_int(s->d, port, "nodePort", want);
	return NULL;
}

static struct err *settle_health_port(struct draft *s)
{
	int64_t want = json_get_int(s->spec, "healthCheckNodePort", 0);
	bool known;
	struct err *e;

	if (!service_has_health_port(s->spec) || service_has_health_port(s->was))
		return NULL;
	if (want && !take_asked_port(s, want, false, &known))
		return err_new(
			ERR_INTERNAL,
			"Internal error occurred: failed to allocate requested HealthCheck "
			"NodePort %lld: %s",
			(long long)want,
			known ? "provided port is already allocated"
			      : "provided port is not in the valid range. The range of valid "
				"ports is 30000-32767");
	if (want)
		return NULL;
	e = take_any_port(s, "HealthCheck NodePort 0", &want);
	if (!e)
		json_set_int(s->d, s->spec, "healthCheckNodePort", want);
	return e;
}

struct err *service_take_ports(struct draft *s)
{
	bool any = service_has_own_ports(s->spec);
	struct err *e = NULL;
	size_t i = 0;

	if (!service_has_node_ports(s->spec))
		return NULL;
	json_each(it, json_get(s->spec, "ports")) {
		size_t at = i++;

		if (!any && !json_get_int(it.val, "nodePort", 0))
			continue;
		e = settle_port(s, it.val, at);
		if (e || s->op->causes.n)
			return e;
	}
	return settle_health_port(s);
}
