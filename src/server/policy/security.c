/* SPDX-License-Identifier: Apache-2.0 */
#include "server/policy/security.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "server/policy/security_priv.h"

enum {
	SEARCHED_MAX = 64, /* containers that are looked for by name */
};

/* One rule, in the order in which Kubernetes names them. */
struct security_rule {
	const char *reason;
	enum security_level level;
	int from;     /* the first version that has it */
	int stricter; /* a baseline rule: the version from which restricted has another one in its
			 place; 0: none has, -1: all have */
	/* False: it is kept. Otherwise the detail names what breaks it. */
	bool (*check)(const struct subject *s, struct buf *ret_detail);
};

#define BASE SECURITY_BASELINE
#define REST SECURITY_RESTRICTED

static const struct security_rule security_rules[] = {
	{ "forbidden AppArmor profile", BASE, 0, 0, app_armor },
	{ "non-default capabilities", BASE, 0, 22, capabilities_baseline },
	{ "host namespaces", BASE, 0, 0, host_namespaces },
	{ "hostPath volumes", BASE, 0, -1, host_paths },
	{ "hostPort", BASE, 0, 0, host_ports },
	{ "probe or lifecycle host", BASE, 34, 0, probe_hosts },
	{ "privileged", BASE, 0, 0, privileged },
	{ "procMount", BASE, 0, V_USER_SPACES, proc_mount },
	{ "seLinuxOptions", BASE, 0, 0, selinux },
	{ "seccompProfile", BASE, 0, V_SECCOMP, seccomp_baseline },
	{ "forbidden sysctls", BASE, 0, 0, sysctls },
	{ "hostProcess", BASE, 0, 0, host_process },
	{ "allowPrivilegeEscalation != false", REST, 8, 0, escalation },
	{ "unrestricted capabilities", REST, 22, 0, capabilities_restricted },
	{ "procMount", REST, V_USER_SPACES, 0, proc_mount_restricted },
	{ "restricted volume types", REST, 0, 0, volumes },
	{ "runAsNonRoot != true", REST, 0, 0, non_root },
	{ "runAsUser=0", REST, 23, 0, user_zero },
	{ "seccompProfile", REST, V_SECCOMP, 0, seccomp_restricted },
	{ 0 },
};

static const char *const level_names[] = { "privileged", "baseline", "restricted" };

/* False: it is none, and *ret is the strictest. */
static bool read_level(const char *text, enum security_level *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(level_names); i++)
		if (str_eq(text, level_names[i])) {
			*ret = (enum security_level)i;
			return true;
		}
	*ret = SECURITY_RESTRICTED;
	return false;
}

/* False: it is none, and *ret is the latest. */
static bool read_version(const char *text, int *ret)
{
	const char *p = str_starts(text, "v1.") ? text + 3 : "";
	int n = 0;

	*ret = SECURITY_LATEST;
	if (str_eq(text, "latest"))
		return true;
	if (!*p || strlen(p) > 6 || (*p == '0' && p[1]))
		return false;
	for (; isdigit((unsigned char)*p); p++)
		n = n * 10 + (*p - '0');
	if (*p)
		return false;
	*ret = n;
	return true;
}

/* What the labels say of one mode. *ret_good: its level is one. */
static struct security read_mode(const struct json *labels, const char *mode,
				 enum security_level otherwise, bool *ret_good)
{
	autofree char *level = xasprintf(SECURITY_PREFIX "%s", mode), *version = NULL;
	struct security s = { SECURITY_PRIVILEGED, SECURITY_LATEST };
	const char *text = json_get_str(labels, level);

	version = xasprintf("%s-version", level);
	*ret_good = text && read_level(text, &s.level);
	if (text && !*ret_good)
		s.level = otherwise;
	text = json_get_str(labels, version);
	if (text)
		(void)read_version(text, &s.version);
	return s;
}

struct security_policy security_policy_of(const struct json *labels)
{
	struct security_policy p = { { SECURITY_PRIVILEGED, SECURITY_LATEST },
				     { SECURITY_PRIVILEGED, SECURITY_LATEST },
				     { SECURITY_PRIVILEGED, SECURITY_LATEST } };
	bool enforced, good, any = false;

	json_each(it, json_is(labels, JSON_OBJ) ? labels : NULL)
		any |= str_starts(it.key, SECURITY_PREFIX);
	if (!any)
		return p;
	p.enforce = read_mode(labels, "enforce", SECURITY_RESTRICTED, &enforced);
	p.audit = read_mode(labels, "audit", SECURITY_PRIVILEGED, &good);
	p.warn = read_mode(labels, "warn", SECURITY_PRIVILEGED, &good);
	if (!json_get(labels, SECURITY_PREFIX "warn") && enforced &&
	    p.enforce.level > p.warn.level) {
		p.warn.level = p.enforce.level;
		if (!json_get(labels, SECURITY_PREFIX "warn-version"))
			p.warn.version = p.enforce.version;
	}
	return p;
}

void security_check_labels(const struct json *labels,
			   void (*bad)(void *arg, const char *label, const char *value,
				       const char *why),
			   void *arg)
{
	static const char *const modes[] = { "enforce", "audit", "warn" };

	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		autofree char *label = xasprintf(SECURITY_PREFIX "%s", modes[i]);
		autofree char *numbered = xasprintf("%s-version", label);
		const char *level = json_get_str(labels, label);
		const char *version = json_get_str(labels, numbered);
		enum security_level l;
		int v;

		if (level && !read_level(level, &l))
			bad(arg, label, level, "must be one of privileged, baseline, restricted");
		if (version && !read_version(version, &v))
			bad(arg, numbered, version, "must be \"latest\" or \"v1.x\"");
	}
}

void security_name(const struct security *s, char ret[SECURITY_NAME_MAX])
{
	if (s->version == SECURITY_LATEST)
		(void)snprintf(ret, SECURITY_NAME_MAX, "%s:latest", level_names[s->level]);
	else
		(void)snprintf(ret, SECURITY_NAME_MAX, "%s:v1.%d", level_names[s->level],
			       s->version);
}

static bool applies(const struct security_rule *r, const struct security *s)
{
	if (r->level > s->level || s->version < r->from)
		return false;
	return s->level != SECURITY_RESTRICTED || r->level != SECURITY_BASELINE || !r->stricter ||
	       s->version < r->stricter;
}

char *security_violations(const struct security *s, const struct json *pod, bool with_names)
{
	const struct subject subject = { json_get(pod, "metadata"), json_get(pod, "spec"),
					 s->version };
	autobuf out = { 0 };

	for (const struct security_rule *r = security_rules; r->reason; r++) {
		autobuf detail = { 0 };
		bool several;

		if (!applies(r, s) || !r->check(&subject, &detail))
			continue;
		/* The one reason that has a plural. */
		several = str_starts(r->reason, "forbidden AppArmor") &&
			  strstr(strstr(buf_str(&detail), " type to ") + 9, "\", \"");
		buf_printf(&out, "%s%s%s", out.len ? ", " : "", r->reason, several ? "s" : "");
		if (with_names && detail.len)
			buf_printf(&out, " (%s)", buf_str(&detail));
	}
	return out.len ? xstrdup(buf_str(&out)) : NULL;
}

static bool has_same(const struct json *container, const struct json *others)
{
	json_each(it, others)
		if (str_eq(json_get_str(it.val, "name"), json_get_str(container, "name")))
			return str_eq(json_get_str(it.val, "image"),
				      json_get_str(container, "image"));
	return false;
}

bool security_concerns(const struct json *pod, const struct json *old)
{
	static const char *const lists[] = { "containers", "initContainers" };
	const struct json *spec = json_get(pod, "spec"), *was = json_get(old, "spec");
	const struct json *extra = json_get(was, "ephemeralContainers");

	if (!old)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct json *a = json_get(spec, lists[i]), *b = json_get(was, lists[i]);
		size_t k = 0;

		if (json_len(a) != json_len(b))
			return true;
		json_each(it, a)
			if (!str_eq(json_get_str(it.val, "image"),
				    json_get_str(json_at(b, k++), "image")))
				return true;
	}
	if (json_len(extra) > SEARCHED_MAX)
		return true;
	json_each(it, json_get(spec, "ephemeralContainers"))
		if (!has_same(it.val, extra))
			return true;
	return false;
}
