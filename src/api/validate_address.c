/* SPDX-License-Identifier: Apache-2.0 */
#include "api/service.h"
#include "api/validate_priv.h"
#include "base/ip.h"
#include "base/str.h"

/* The rules of IPAddresses and ServiceCIDRs. Their addresses and blocks are in canonical form,
 * unlike those in older kinds. */
enum {
	BLOCKS_MAX = 2,
};

static void bad_form(struct causes *c, const struct path *p, const char *s, const char *canonical)
{
	autofree char *why = xasprintf("must be in canonical form (\"%s\")", canonical);

	if (!str_eq(s, canonical))
		bad_text(c, p, s, why);
}

/* The name of an IPAddress is the address. */
static void check_name(struct causes *c, const char *name, const struct path *p)
{
	char text[IP_TEXT_MAX];
	struct ip ip;

	check_ip(c, name, p);
	if (!ip_parse(name, &ip))
		return;
	ip_text(&ip, text);
	bad_form(c, p, name, text);
}

static size_t path_faults(const char *s, const char *ret[FAULTS_MAX])
{
	size_t n = 0;

	if (str_eq(s, "."))
		ret[n++] = "may not be '.'";
	if (str_eq(s, ".."))
		ret[n++] = "may not be '..'";
	if (n)
		return n;
	if (strchr(s, '/'))
		ret[n++] = "may not contain '/'";
	if (strchr(s, '%'))
		ret[n++] = "may not contain '%'";
	return n;
}

static void check_parent(struct causes *c, const struct json *ref, const struct path *p)
{
	if (!ref) {
		bad_required(c, p, NULL);
		return;
	}
	check_text(c, p, ref, "group", meta_bad_dns_subdomain);
	if (need_text(c, p, ref, "resource"))
		check_texts(c, p, ref, "resource", path_faults);
	if (need_text(c, p, ref, "name"))
		check_texts(c, p, ref, "name", path_faults);
	check_texts(c, p, ref, "namespace", path_faults);
}

void validate_ip_address(const struct json *obj, const struct json *old, struct causes *c)
{
	static const struct go_member members[] = {
		{ "Group", "group", NULL, true },
		{ "Resource", "resource", NULL, true },
		{ "Namespace", "namespace", NULL, true },
		{ "Name", "name", NULL, true },
		{ 0 },
	};
	const struct json *ref = json_at_path(obj, "spec.parentRef");
	const struct path *at = IN(IN(NULL, "spec"), "parentRef");

	check_name(c, str_or(json_get_str(json_get(obj, "metadata"), "name"), ""),
		   IN(IN(NULL, "metadata"), "name"));
	check_parent(c, ref, at);
	if (!old || json_equal(ref, json_at_path(old, "spec.parentRef")))
		return;
	if (ref)
		bad_struct(c, at, ref, members, "field is immutable");
	else
		bad_invalid(c, at, NULL, "field is immutable");
}

/* ServiceCIDRs */

static void check_block(struct causes *c, const char *s, const struct path *p)
{
	autofree char *canonical = NULL;
	size_t before = c->n;
	char text[IP_TEXT_MAX];
	struct ip from, to;

	check_cidr(c, s, p);
	if (c->n > before || !ip_parse_block(s, &from, &to))
		return;
	ip_text(&from, text);
	canonical = xasprintf("%s%s", text, strchr(s, '/'));
	bad_form(c, p, s, canonical);
}

static bool is_block(const char *s)
{
	struct ip from, to;

	return ip_parse_block(s, &from, &to);
}

static bool same_family(const char *a, const char *b)
{
	return is_block(a) && is_block(b) && !strchr(a, ':') == !strchr(b, ':');
}

static void check_blocks(struct causes *c, const struct json *spec, const struct path *at)
{
	static const struct go_member members[] = { { "CIDRs", "cidrs" }, { 0 } };
	const struct json *list = json_get(spec, "cidrs");
	size_t i = 0;

	if (!json_len(list)) {
		bad_required(c, at, "at least one CIDR required");
		return;
	}
	if (json_len(list) > BLOCKS_MAX) {
		bad_struct(c, at, spec, members, "may only hold up to 2 values");
		return;
	}
	json_each(it, list)
		check_block(c, str_or(json_str(it.val), ""), AT(at, i++));
	if (json_len(list) == BLOCKS_MAX && same_family(str_or(json_str(json_at(list, 0)), ""),
							str_or(json_str(json_at(list, 1)), "")))
		bad_invalid(c, at, list,
			    "may specify no more than one IP for each IP family, i.e "
			    "192.168.0.0/24 and 2001:db8::/64");
}

/* A second family may be added, and nothing else. */
static void check_change(struct causes *c, const struct json *spec, const struct json *was,
			 const struct path *at)
{
	const struct json *list = json_get(spec, "cidrs"), *old = json_get(was, "cidrs");
	bool grows = json_len(old) == 1 && json_len(list) == BLOCKS_MAX;

	if (json_len(list) != json_len(old) && !grows) {
		bad_invalid(c, at, list, "field is immutable");
		return;
	}
	for (size_t i = 0; i < json_len(old); i++)
		if (!json_equal(json_at(list, i), json_at(old, i)))
			bad_invalid(c, AT(at, i), json_at(list, i), "field is immutable");
	if (grows)
		check_blocks(c, spec, at);
}

void validate_service_cidr(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct path *at = IN(IN(NULL, "spec"), "cidrs");

	if (old)
		check_change(c, json_get(obj, "spec"), json_get(old, "spec"), at);
	else
		check_blocks(c, json_get(obj, "spec"), at);
}

const char *forbid_create_service_cidr(const struct json *obj)
{
	const char *name = json_get_str(json_get(obj, "metadata"), "name");

	return str_eq(name, SERVICE_CIDR_NAME) ? NULL : SERVICE_CIDR_FIXED;
}

const char *forbid_update_service_cidr(const struct json *obj, const struct json *old,
				       const struct kind_env *env unused)
{
	return json_equal(json_get(obj, "spec"), json_get(old, "spec")) ? NULL : SERVICE_CIDR_FIXED;
}
