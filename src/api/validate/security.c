/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/validate/pod_priv.h"
#include "base/map.h"
#include "base/str.h"

/* Security contexts, and what a Pod of another operating system cannot have. */

enum {
	APPARMOR_MAX = 4095, /* of bytes in the name of a profile */
	SYSCTL_MAX = 253,
};

static void check_id(struct causes *c, const struct json *v, const struct path *p)
{
	if (v && (json_int(v, 0) < 0 || json_int(v, 0) > INT32_MAX))
		bad_invalid(c, p, v, "must be between 0 and 2147483647, inclusive");
}

static const char *const profile_types[] = { "Localhost", "RuntimeDefault", "Unconfined", NULL };

static void check_profile_type(struct causes *c, const struct json *profile, const char *why,
			       const struct path *p)
{
	const char *type = str_or(json_get_str(profile, "type"), "");

	if (!*type)
		bad_required(c, IN(p, "type"), why);
	else if (!str_in(type, profile_types))
		bad_unsupported(c, IN(p, "type"), type, profile_types);
}

static void check_seccomp(struct causes *c, const struct json *context, const struct path *up)
{
	static const struct go_member members[] = { { "Type", "type" },
						    { "LocalhostProfile", "localhostProfile" },
						    { 0 } };
	const struct json *profile = json_get(context, "seccompProfile");
	const char *file = json_get_str(profile, "localhostProfile");
	const struct path *p = IN(up, "seccompProfile"), *at = IN(p, "localhostProfile");

	if (!profile)
		return;
	check_profile_type(c, profile, "type is required when seccompProfile is set", p);
	if (!str_eq(json_get_str(profile, "type"), "Localhost")) {
		if (file)
			bad_struct(c, at, profile, members,
				   "can only be set when seccomp type is Localhost");
	} else if (!file) {
		bad_required(c, at, "must be set when seccomp type is Localhost");
	} else {
		check_descending(c, file, at);
	}
}

static void check_local_apparmor(struct causes *c, const char *name, const struct path *p)
{
	size_t len = strlen(str_or(name, ""));

	if (str_empty(name))
		bad_required(c, p, "must be set when AppArmor type is Localhost");
	else if (isspace((unsigned char)name[0]) || isspace((unsigned char)name[len - 1]))
		bad_text(c, p, name, "must not be padded with whitespace");
	if (len > APPARMOR_MAX)
		bad_too_long(c, p, APPARMOR_MAX);
}

static void check_apparmor(struct causes *c, const struct json *context, const struct path *up)
{
	const struct json *profile = json_get(context, "appArmorProfile");
	const char *type = json_get_str(profile, "type");
	const char *name = json_get_str(profile, "localhostProfile");
	const struct path *p = IN(up, "appArmorProfile");

	if (!profile)
		return;
	if (str_eq(type, "Localhost"))
		check_local_apparmor(c, name, IN(p, "localhostProfile"));
	else if (!str_in(str_or(type, ""), profile_types))
		check_profile_type(c, profile, "type is required when appArmorProfile is set", p);
	else if (name)
		bad_text(c, IN(p, "localhostProfile"), name,
			 "can only be set when AppArmor type is Localhost");
}

static void check_windows_options(struct causes *c, const struct json *context,
				  const struct path *up)
{
	const struct json *options = json_get(context, "windowsOptions");
	const char *user = json_get_str(options, "runAsUserName");
	const char *spec = json_get_str(options, "gmsaCredentialSpec");
	const struct path *p = IN(up, "windowsOptions");

	if (spec && !*spec)
		bad_text(c, IN(p, "gmsaCredentialSpec"), "",
			 "gmsaCredentialSpec cannot be an empty string");
	if (user && !*user)
		bad_text(c, IN(p, "runAsUserName"), "", "runAsUserName cannot be an empty string");
}

static void check_escalation(struct causes *c, const struct json *context, const struct path *p)
{
	static const struct go_member sets[] = { { "Add", "add" }, { "Drop", "drop" }, { 0 } };
	static const struct go_member profile[] = { { "Type", "type" },
						    { "LocalhostProfile", "localhostProfile" },
						    { 0 } };
	static const struct go_member shown[] = {
		{ "Capabilities", "capabilities", sets },
		{ "Privileged", "privileged" },
		{ "SELinuxOptions", "seLinuxOptions" },
		{ "WindowsOptions", "windowsOptions" },
		{ "RunAsUser", "runAsUser" },
		{ "RunAsGroup", "runAsGroup" },
		{ "RunAsNonRoot", "runAsNonRoot" },
		{ "ReadOnlyRootFilesystem", "readOnlyRootFilesystem" },
		{ "AllowPrivilegeEscalation", "allowPrivilegeEscalation" },
		{ "ProcMount", "procMount" },
		{ "SeccompProfile", "seccompProfile", profile },
		{ "AppArmorProfile", "appArmorProfile", profile },
		{ 0 }
	};

	if (json_get_bool(context, "allowPrivilegeEscalation", true))
		return;
	if (json_get_bool(context, "privileged", false))
		bad_struct(
			c, p, context, shown,
			"cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
	json_each(it, json_at_path(context, "capabilities.add"))
		if (str_eq(json_str(it.val), "CAP_SYS_ADMIN"))
			bad_struct(c, p, context, shown,
				   "cannot set `allowPrivilegeEscalation` to false and "
				   "`capabilities.Add` CAP_SYS_ADMIN");
}

void spec_security(struct pod_rules *r, const struct json *container, const struct path *up)
{
	static const char *const mounts[] = { "Default", "Unmasked", NULL };
	const struct json *context = json_get(container, "securityContext");
	const struct path *p = IN(up, "securityContext");
	struct causes *c = r->causes;

	if (!context)
		return;
	check_id(c, json_get(context, "runAsUser"), IN(p, "runAsUser"));
	check_id(c, json_get(context, "runAsGroup"), IN(p, "runAsGroup"));
	if (json_get(context, "procMount"))
		check_supported(c, p, context, "procMount", mounts);
	if (r->host_users && str_eq(json_get_str(context, "procMount"), "Unmasked"))
		bad_text(c, IN(p, "procMount"), "Unmasked",
			 "`hostUsers` must be false to use `Unmasked`");
	check_seccomp(c, context, p);
	check_escalation(c, context, p);
	check_windows_options(c, context, p);
	check_apparmor(c, context, p);
}

/* Parts of lower case letters, digits, - and _, between dots or slashes. */
static const char *bad_sysctl(const char *s)
{
	bool start = true;
	char last = 0;

	for (const char *p = s; *p; last = *p++) {
		bool word = islower((unsigned char)*p) || isdigit((unsigned char)*p);
		bool sep = *p == '.' || *p == '/';

		if ((start && !word) || (!word && !sep && *p != '-' && *p != '_') ||
		    (sep && (last == '-' || last == '_')))
			goto bad;
		start = sep;
	}
	if (!start && last != '-' && last != '_' && strlen(s) <= SYSCTL_MAX)
		return NULL;
bad:
	return "must have at most 253 characters and match regex "
	       "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
}

/* Those of a namespace that the Pod shares with the host would be the host's. */
static void check_host_sysctl(struct pod_rules *r, const char *name, const struct path *p)
{
	static const char *const ipc[] = { "kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue." };
	bool of_ipc = false;

	for (size_t i = 0; i < ARRAY_LEN(ipc); i++)
		of_ipc |= str_starts(name, ipc[i]);
	if (json_get_bool(r->spec, "hostNetwork", false) &&
	    (str_starts(name, "net.") || str_starts(name, "net/")))
		bad_text(r->causes, p, name, "may not be specified when 'hostNetwork' is true");
	else if (of_ipc && json_get_bool(r->spec, "hostIPC", false))
		bad_text(r->causes, p, name, "may not be specified when 'hostIPC' is true");
}

static void check_sysctls(struct pod_rules *r, const struct json *list, const struct path *p)
{
	autoptr(map) seen = json_len(list) ? map_new(NULL) : NULL;
	size_t i = 0;

	json_each(it, list) {
		const struct path *at = AT(p, i++);
		const char *name = need_text(r->causes, at, it.val, "name");

		if (!name)
			continue;
		if (bad_sysctl(name))
			bad_text(r->causes, IN(at, "name"), name, bad_sysctl(name));
		else if (map_has(seen, name))
			bad_duplicate(r->causes, IN(at, "name"), name);
		check_host_sysctl(r, name, IN(at, "name"));
		map_put(seen, name, r);
	}
}

void spec_security_context(struct pod_rules *r, const struct path *spec)
{
	static const char *const ids[] = { "fsGroup", "runAsUser", "runAsGroup" };
	static const char *const changes[] = { "Always", "OnRootMismatch", NULL };
	static const char *const groups[] = { "Merge", "Strict", NULL };
	static const char *const labels[] = { "Recursive", NULL };
	const struct json *context = json_get(r->spec, "securityContext");
	const struct path *p = IN(spec, "securityContext");
	struct causes *c = r->causes;
	size_t i = 0;

	for (size_t k = 0; k < ARRAY_LEN(ids); k++)
		check_id(c, json_get(context, ids[k]), IN(p, ids[k]));
	json_each(it, json_get(context, "supplementalGroups"))
		check_id(c, it.val, AT(IN(p, "supplementalGroups"), i++));
	if (json_get_bool(r->spec, "hostPID", false) &&
	    json_get_bool(r->spec, "shareProcessNamespace", false))
		bad_invalid(c, IN(p, "shareProcessNamespace"),
			    json_get(r->spec, "shareProcessNamespace"),
			    "ShareProcessNamespace and HostPID cannot both be enabled");
	check_sysctls(r, json_get(context, "sysctls"), IN(p, "sysctls"));
	if (json_get(context, "fsGroupChangePolicy"))
		check_supported(c, p, context, "fsGroupChangePolicy", changes);
	check_seccomp(c, context, p);
	check_windows_options(c, context, p);
	check_apparmor(c, context, p);
	if (json_get(context, "supplementalGroupsPolicy"))
		check_supported(c, p, context, "supplementalGroupsPolicy", groups);
	if (json_get(context, "seLinuxChangePolicy"))
		check_supported(c, p, context, "seLinuxChangePolicy", labels);
}

/* Other operating systems */

static const char not_for_windows[] = "cannot be set for a windows pod";
static const char not_for_linux[] = "windows options cannot be set for a linux pod";

static void forbid(struct causes *c, const struct json *obj, const char *const *names,
		   const struct path *p)
{
	for (; *names; names++)
		if (json_get(obj, *names) && !json_is(json_get(obj, *names), JSON_NULL))
			bad_forbidden(c, IN(p, *names), not_for_windows);
}

static void check_windows_container(struct pod_rules *r, const struct json *container,
				    const struct path *p)
{
	static const char *const names[] = { "appArmorProfile",
					     "seLinuxOptions",
					     "seccompProfile",
					     "capabilities",
					     "readOnlyRootFilesystem",
					     "privileged",
					     "allowPrivilegeEscalation",
					     "procMount",
					     "runAsUser",
					     "runAsGroup",
					     NULL };

	forbid(r->causes, json_get(container, "securityContext"), names, IN(p, "securityContext"));
}

static void check_windows(struct pod_rules *r, const struct path *spec)
{
	static const char *const first[] = { "appArmorProfile", "seLinuxOptions", NULL };
	static const char *const hosts[] = { "hostUsers", "hostPID", "hostIPC", NULL };
	static const char *const second[] = { "seccompProfile", "fsGroup", "fsGroupChangePolicy",
					      "sysctls", NULL };
	static const char *const share[] = { "shareProcessNamespace", NULL };
	static const char *const third[] = { "runAsUser",           "runAsGroup",
					     "supplementalGroups",  "supplementalGroupsPolicy",
					     "seLinuxChangePolicy", NULL };
	const struct json *context = json_get(r->spec, "securityContext");
	const struct path *p = IN(spec, "securityContext");

	forbid(r->causes, context, first, p);
	forbid(r->causes, r->spec, hosts, spec);
	forbid(r->causes, context, second, p);
	forbid(r->causes, r->spec, share, spec);
	forbid(r->causes, context, third, p);
	spec_visit(r->spec, spec, check_windows_container, r);
}

static void check_linux_container(struct pod_rules *r, const struct json *container,
				  const struct path *p)
{
	if (json_get(json_get(container, "securityContext"), "windowsOptions"))
		bad_forbidden(r->causes, IN(IN(p, "securityContext"), "windowsOptions"),
			      not_for_linux);
}

void spec_os(struct pod_rules *r, const struct path *spec)
{
	static const char *const known[] = { "linux", "windows", NULL };
	const struct path *p = IN(spec, "os");

	if (!json_get(r->spec, "os"))
		return;
	if (str_empty(r->os)) {
		bad_required(r->causes, IN(p, "name"), NULL);
	} else if (!str_in(r->os, known)) {
		bad_unsupported(r->causes, p, r->os, known);
	} else if (str_eq(r->os, "windows")) {
		check_windows(r, spec);
	} else {
		if (json_at_path(r->spec, "securityContext.windowsOptions"))
			bad_forbidden(r->causes, IN(IN(spec, "securityContext"), "windowsOptions"),
				      not_for_linux);
		spec_visit(r->spec, spec, check_linux_container, r);
	}
}

/* There is no Windows here: a container that would be a process of its host is never allowed. */
void spec_host_process(struct pod_rules *r, const struct path *spec)
{
	const struct json *options = json_at_path(r->spec, "securityContext.windowsOptions");

	if (!json_get_bool(options, "hostProcess", false))
		return;
	if (!json_get_bool(r->spec, "hostNetwork", false)) {
		autofree char *path = path_text(IN(spec, "hostNetwork"));

		causes_add(r->causes, CAUSE_INVALID, path,
			   "Invalid value: false: hostNetwork must be true if pod contains any "
			   "hostProcess containers");
	}
	bad_forbidden(r->causes, spec, "hostProcess containers are disallowed by cluster policy");
}
