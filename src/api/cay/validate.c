/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/agent.h"
#include "api/cay/budget.h"
#include "api/cay/cay.h"
#include "api/cay/kinds_priv.h"
#include "api/cay/read_priv.h"
#include "api/cay/session.h"
#include "api/quantity.h"
#include "api/validate_priv.h"
#include "base/str.h"

/*
 * Rules of the kinds of cay.dev that their tables cannot express. They run on objects that the
 * tables accept. What takes other objects to decide is in server/policy.
 */
#define SPEC (&(const struct path){ .name = "spec" })

static const char immutable[] = "field is immutable";
static const char too_short[] = "must be 1s or longer";

/* old NULL: nothing can have changed. */
static void check_fixed(struct causes *c, const struct json *obj, const struct json *old,
			const char *name)
{
	const struct json *now = json_get(json_get(obj, "spec"), name);

	if (old && !json_equal(now, json_get(json_get(old, "spec"), name)))
		bad_invalid(c, IN(SPEC, name), now, immutable);
}

static void check_length(struct causes *c, const struct json *obj, const char *name,
			 const struct path *p)
{
	if (read_duration(obj, name, 1000000) < 1000000)
		bad_invalid(c, IN(p, name), json_get(obj, name), too_short);
}

/* Agent */

/* One key under two names would be verified and not verified. */
static void check_keys(struct causes *c, const struct json *keys)
{
	struct agent_key all[AGENT_KEYS_MAX];
	size_t n = 0;

	json_each(it, keys) {
		if (n == AGENT_KEYS_MAX || !agent_key_read(it.val, &all[n]))
			return;
		for (size_t i = 0; i < n; i++)
			if (!memcmp(all[i].key, all[n].key, AGENT_KEY_LEN))
				bad_duplicate(c, IN(AT(IN(SPEC, "keys"), n), "publicKey"),
					      json_get_str(it.val, "publicKey"));
		n++;
	}
}

static void check_rules(struct causes *c, const struct json *approval)
{
	static const char *const named[] = { "argv", "path", "host", "tool" };
	size_t n = 0;

	json_each(it, json_get(approval, "rules")) {
		size_t found = 0;

		for (size_t i = 0; i < ARRAY_LEN(named); i++)
			found += json_get(it.val, named[i]) != NULL;
		if (!found)
			bad_required(c, AT(IN(IN(SPEC, "approval"), "rules"), n),
				     "one of argv, path, host and tool must be named");
		n++;
	}
}

void validate_agent(const struct json *obj, const struct json *old unused, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec"), *approval = json_get(spec, "approval");
	const char *parent = json_get_str(spec, "parent");

	check_keys(c, json_get(spec, "keys"));
	check_rules(c, approval);
	check_length(c, approval, "timeout", IN(SPEC, "approval"));
	if (parent && str_eq(parent, json_get_str(json_get(obj, "metadata"), "name")))
		bad_text(c, IN(SPEC, "parent"), parent, "an agent cannot be its own parent");
}

/* Session */

void validate_session(const struct json *obj, const struct json *old, struct causes *c)
{
	check_fixed(c, obj, old, "agent");
}

/* Attachment */

void defaults_attachment(struct json_doc *d, const struct json *old unused)
{
	struct json *spec = json_get(json_root(d), "spec");
	bool read_only = str_eq(json_get_str(spec, "view"), "ReadOnly");

	if (json_is(spec, JSON_OBJ) && !json_get(spec, "rights"))
		json_set(d, json_own(d, spec), "rights",
			 rights_list(attachment_rights(read_only ? VIEW_READ_ONLY : VIEW_SHARED),
				     d));
}

void validate_attachment(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	size_t i = 0;

	check_fixed(c, obj, old, "session");
	check_fixed(c, obj, old, "sandbox");
	if (!str_eq(json_get_str(spec, "view"), "ReadOnly"))
		return;
	json_each(it, json_get(spec, "rights")) {
		if (str_eq(json_str(it.val), "write"))
			bad_text(c, AT(IN(SPEC, "rights"), i), "write",
				 "a ReadOnly view cannot have the right write");
		i++;
	}
}

/* Approval */

void validate_approval(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec"), *was = json_get(old, "spec");

	if (!old)
		return;
	json_each(it, spec)
		check_fixed(c, obj, old, it.key);
	json_each(it, was)
		if (!json_get(spec, it.key))
			check_fixed(c, obj, old, it.key);
}

void validate_approval_status(const struct json *obj, const struct json *old, struct causes *c)
{
	static const struct path status = { .name = "status" };
	const struct json *now = json_get(obj, "status"), *was = json_get(old, "status");
	const char *decision = json_get_str(now, "decision");
	const char *made = json_get_str(was, "decision");
	bool used = json_get_bool(now, "used", false);

	if (made && !str_eq(decision, made))
		bad_invalid(c, IN(&status, "decision"), json_get(now, "decision"),
			    "a decision that was made cannot be changed");
	if (json_get_bool(was, "used", false) && !used)
		bad_invalid(c, IN(&status, "used"), json_get(now, "used"),
			    "what has been used stays used");
	if (used && (!decision || str_eq(decision, "Deny")))
		bad_invalid(c, IN(&status, "used"), json_get(now, "used"),
			    "only what was allowed can be used");
}

/* Budget */

static void check_amount(struct causes *c, const struct json *limits, const char *name, bool whole)
{
	const struct path *p = IN(IN(SPEC, "limits"), name);
	const struct json *v = json_get(limits, name);
	struct quantity q;

	if (!v || !quantity_read(v, &q))
		return;
	if (q.nano < 0)
		bad_invalid(c, p, v, "must be greater than or equal to 0");
	else if (whole && q.nano % 1000000000)
		bad_invalid(c, p, v, "must be a whole number");
}

void validate_budget(const struct json *obj, const struct json *old unused, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec"), *limits = json_get(spec, "limits");

	for (enum cost i = 0; i < COST_MAX_; i++)
		check_amount(c, limits, cost_name(i), false);
	check_amount(c, limits, "maxSandboxes", true);
	if (read_duration(spec, "period", BUDGET_PERIOD_MIN) < BUDGET_PERIOD_MIN)
		bad_invalid(c, IN(SPEC, "period"), json_get(spec, "period"),
			    "must be one minute or more");
}

/* Credential */

/* What says how long a request is, or where it goes, is not for others to write. */
static const char *const framing[] = {
	"connection",        "content-length",   "expect", "host",
	"keep-alive",        "proxy-connection", "te",     "trailer",
	"transfer-encoding", "upgrade",          NULL,
};

void validate_credential(const struct json *obj, const struct json *old unused, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	const char *header = json_get_str(spec, "header");
	const struct json *query = json_get(spec, "query");

	if (!header && !query)
		bad_required(c, IN(SPEC, "header"), "one of header and query is required");
	if (header && query)
		bad_forbidden(c, IN(SPEC, "query"), "may not be used together with header");
	for (size_t i = 0; header && framing[i]; i++)
		if (str_eq_nocase(header, framing[i]))
			bad_text(c, IN(SPEC, "header"), header, "says how a request is sent");
}

/* TeamPolicy */

void validate_team_policy(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec"), *isolation = json_get(spec, "isolation");
	const char *floor = json_get_str(isolation, "floor");
	const char *name = json_get_str(json_get(obj, "metadata"), "name");
	bool known = false;

	if (!old && !str_eq(name, TEAM_POLICY))
		causes_invalid_str(c, "metadata.name", name,
				   "only the TeamPolicy named \"" TEAM_POLICY
				   "\" counts in a namespace");
	json_each(it, json_get(isolation, "classes"))
		known |= str_eq(json_str(it.val), floor);
	if (floor && !known)
		bad_text(c, IN(IN(SPEC, "isolation"), "floor"), floor,
			 "must be one of spec.isolation.classes");
	check_length(c, spec, "retainMax", SPEC);
}
