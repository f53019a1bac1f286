/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "server/policy/security_priv.h"

/*
 * The rules of the level baseline, in the words of Kubernetes. Rules that have changed over time
 * ask for the version.
 */

static bool armor_type_ok(const struct json *profile)
{
	const char *type = json_get_str(profile, "type");

	return !profile || str_eq(type, "RuntimeDefault") || str_eq(type, "Localhost");
}

static bool armor_text_ok(const char *v)
{
	return str_empty(v) || str_eq(v, "runtime/default") || str_starts(v, "localhost/");
}

bool app_armor(const struct subject *s, struct buf *out)
{
	static const char prefix[] = "container.apparmor.security.beta.kubernetes.io/";
	const struct json *own = context(s->spec, "appArmorProfile"), *c;
	autowords bad = { 0 }, values = { 0 }, notes = { 0 };
	autobuf note = { 0 };
	bool pod = !armor_type_ok(own);

	if (pod)
		words_add(&values, json_get_str(own, "type"));
	each_container(c, s)
	{
		const struct json *profile = context(c, "appArmorProfile");

		if (armor_type_ok(profile))
			continue;
		words_add(&bad, name_of(c));
		words_add(&values, json_get_str(profile, "type"));
	}
	json_each(it, json_get(s->meta, "annotations"))
		if (str_starts(it.key, prefix) && !armor_text_ok(json_str(it.val)))
			words_add(&notes, it.key);
	if (!pod && !bad.n && !notes.n)
		return false;
	words_sort(&values);
	words_sort(&notes);
	add_setters(out, pod, &bad);
	if (notes.n)
		buf_printf(out, "%sannotation%s", out->len ? " and " : "", notes.n == 1 ? "" : "s");
	buf_add_str(out, " must not set AppArmor profile type to ");
	add_words(out, &values, true);
	for (size_t i = 0; i < notes.n; i++) {
		autofree char *v =
			json_to_text(json_get(json_get(s->meta, "annotations"), notes.list[i]));

		buf_printf(out, "%s\"%s=%s\"", values.n || i ? ", " : "", notes.list[i], v);
	}
	return true;
}

bool capabilities_baseline(const struct subject *s, struct buf *out)
{
	static const char *const allowed[] = {
		"AUDIT_WRITE", "CHOWN",  "DAC_OVERRIDE",     "FOWNER",  "FSETID",
		"KILL",        "MKNOD",  "NET_BIND_SERVICE", "SETFCAP", "SETGID",
		"SETPCAP",     "SETUID", "SYS_CHROOT",       NULL
	};
	autowords bad = { 0 }, values = { 0 };
	const struct json *c;

	each_container(c, s)
	{
		size_t had = values.n;

		json_each(it, json_get(context(c, "capabilities"), "add"))
			if (!str_in(json_str(it.val), allowed))
				words_add(&values, json_str(it.val));
		if (values.n > had)
			words_add(&bad, name_of(c));
	}
	if (!bad.n)
		return false;
	words_sort(&values);
	add_named(out, "container", &bad);
	buf_add_str(out, " must not include ");
	add_words(out, &values, true);
	buf_add_str(out, " in securityContext.capabilities.add");
	return true;
}

bool host_namespaces(const struct subject *s, struct buf *out)
{
	static const char *const members[] = { "hostNetwork", "hostPID", "hostIPC" };

	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (json_get_bool(s->spec, members[i], false))
			buf_printf(out, "%s%s=true", out->len ? ", " : "", members[i]);
	return out->len;
}

bool host_paths(const struct subject *s, struct buf *out)
{
	autowords bad = { 0 };

	json_each(it, json_get(s->spec, "volumes"))
		if (json_get(it.val, "hostPath"))
			words_add(&bad, name_of(it.val));
	if (bad.n)
		add_named(out, "volume", &bad);
	return bad.n;
}

bool host_ports(const struct subject *s, struct buf *out)
{
	autowords bad = { 0 }, values = { 0 };
	const struct json *c;

	each_container(c, s)
	{
		size_t had = values.n;

		json_each(it, json_get(c, "ports")) {
			int64_t port = json_get_int(it.val, "hostPort", 0);

			if (port)
				words_add(&values, xasprintf("%lld", (long long)port));
		}
		if (values.n > had)
			words_add(&bad, name_of(c));
	}
	if (bad.n) {
		autowords unique = { 0 };

		for (size_t i = 0; i < values.n; i++)
			words_add(&unique, values.list[i]);
		words_sort(&unique);
		add_named(out, "container", &bad);
		buf_printf(out, " use%s hostPort%s ", bad.n == 1 ? "s" : "",
			   unique.n == 1 ? "" : "s");
		add_words(out, &unique, false);
	}
	for (size_t i = 0; i < values.n; i++)
		free((char *)values.list[i]);
	return bad.n;
}

static void add_hosts(struct words *w, const struct json *handler)
{
	static const char *const ways[] = { "httpGet", "tcpSocket" };

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		const char *host = json_get_str(json_get(handler, ways[i]), "host");

		if (!str_empty(host))
			words_add(w, host);
	}
}

bool probe_hosts(const struct subject *s, struct buf *out)
{
	static const char *const probes[] = { "livenessProbe", "readinessProbe", "startupProbe" };
	autowords bad = { 0 }, values = { 0 };
	const struct json *c;

	each_container(c, s)
	{
		size_t had = values.n;

		for (size_t i = 0; i < ARRAY_LEN(probes); i++)
			add_hosts(&values, json_get(c, probes[i]));
		add_hosts(&values, json_get(json_get(c, "lifecycle"), "postStart"));
		add_hosts(&values, json_get(json_get(c, "lifecycle"), "preStop"));
		if (values.n > had)
			words_add(&bad, name_of(c));
	}
	if (!bad.n)
		return false;
	words_sort(&bad);
	words_sort(&values);
	add_named(out, "container", &bad);
	buf_printf(out, " use%s probe or lifecycle host%s ", bad.n == 1 ? "s" : "",
		   values.n == 1 ? "" : "s");
	add_words(out, &values, true);
	return true;
}

bool privileged(const struct subject *s, struct buf *out)
{
	autowords bad = { 0 };
	const struct json *c;

	each_container(c, s) if (json_bool(context(c, "privileged"), false))
		words_add(&bad, name_of(c));
	if (!bad.n)
		return false;
	add_named(out, "container", &bad);
	buf_add_str(out, " must not set securityContext.privileged=true");
	return true;
}

bool proc_mount_restricted(const struct subject *s, struct buf *out)
{
	autowords bad = { 0 }, values = { 0 };
	const struct json *c;

	each_container(c, s)
	{
		const char *mount = json_str(context(c, "procMount"));

		if (!mount || str_eq(mount, "Default"))
			continue;
		words_add(&bad, name_of(c));
		words_add(&values, mount);
	}
	if (!bad.n)
		return false;
	words_sort(&values);
	add_named(out, "container", &bad);
	buf_add_str(out, " must not set securityContext.procMount to ");
	add_words(out, &values, true);
	return true;
}

bool proc_mount(const struct subject *s, struct buf *out)
{
	return !has_user_space(s) && proc_mount_restricted(s, out);
}

struct selinux {
	struct words types;
	bool user, role;
};

static bool selinux_ok(const struct subject *s, const struct json *o, struct selinux *found)
{
	static const char *const types[] = { "", "container_t", "container_init_t",
					     "container_kvm_t", NULL };
	const char *type = str_or(json_get_str(o, "type"), "");
	bool bad_type = o && !str_in(type, types) &&
			(s->version < V_ENGINE_TYPE || !str_eq(type, "container_engine_t"));
	bool user = !str_empty(json_get_str(o, "user"));
	bool role = !str_empty(json_get_str(o, "role"));

	if (bad_type)
		words_add(&found->types, type);
	found->user |= user;
	found->role |= role;
	return !bad_type && !user && !role;
}

bool selinux(const struct subject *s, struct buf *out)
{
	bool pod;
	struct selinux found = { 0 };
	autowords bad = { 0 };
	const struct json *c;

	pod = !selinux_ok(s, context(s->spec, "seLinuxOptions"), &found);
	each_container(c, s) if (!selinux_ok(s, context(c, "seLinuxOptions"), &found))
		words_add(&bad, name_of(c));
	words_sort(&found.types);
	if (pod || bad.n) {
		add_setters(out, pod, &bad);
		buf_add_str(out, " set forbidden securityContext.seLinuxOptions: ");
		if (found.types.n)
			add_named(out, "type", &found.types);
		if (found.user)
			buf_printf(out, "%suser may not be set", found.types.n ? "; " : "");
		if (found.role)
			buf_printf(out, "%srole may not be set",
				   found.types.n || found.user ? "; " : "");
	}
	words_done(&found.types);
	return pod || bad.n;
}

static bool seccomp_ok(const struct json *profile)
{
	const char *type = json_get_str(profile, "type");

	return str_eq(type, "RuntimeDefault") || str_eq(type, "Localhost");
}

/* Before it was a field. */
static bool seccomp_notes(const struct subject *s, struct buf *out)
{
	const struct json *notes = json_get(s->meta, "annotations"), *c;
	struct words bad = { 0 };
	const char *v = json_get_str(notes, "seccomp.security.alpha.kubernetes.io/pod");
	size_t n;

#define NOTE_OK(v) \
	(str_eq(v, "runtime/default") || str_eq(v, "docker/default") || str_starts(v, "localhost/"))
	if (v && !NOTE_OK(v))
		words_add(&bad, xasprintf("seccomp.security.alpha.kubernetes.io/pod=\"%s\"", v));
	each_container(c, s)
	{
		autofree char *key = xasprintf("container.seccomp.security.alpha.kubernetes.io/%s",
					       str_or(name_of(c), ""));

		v = json_get_str(notes, key);
		if (v && !NOTE_OK(v))
			words_add(&bad, xasprintf("%s=\"%s\"", key, v));
	}
#undef NOTE_OK
	n = bad.n;
	if (n) {
		str_sort(bad.list, n);
		buf_printf(out, "forbidden annotation%s ", n == 1 ? "" : "s");
		add_words(out, &bad, false);
	}
	for (size_t i = 0; i < n; i++)
		free((char *)bad.list[i]);
	words_done(&bad);
	return n;
}

/* need: whoever says nothing is at fault too. */
bool seccomp(const struct subject *s, struct buf *out, bool need)
{
	const struct json *own = context(s->spec, "seccompProfile"), *c;
	autowords bad = { 0 }, values = { 0 }, silent = { 0 };
	bool pod = own && !seccomp_ok(own);

	if (pod)
		words_add(&values, json_get_str(own, "type"));
	each_container(c, s)
	{
		const struct json *profile = context(c, "seccompProfile");

		if (profile && !seccomp_ok(profile)) {
			words_add(&bad, name_of(c));
			words_add(&values, json_get_str(profile, "type"));
		} else if (!profile && !seccomp_ok(own)) {
			words_add(&silent, name_of(c));
		}
	}
	if (pod || bad.n) {
		words_sort(&values);
		add_setters(out, pod, &bad);
		buf_add_str(out, " must not set securityContext.seccompProfile.type to ");
		add_words(out, &values, true);
		return true;
	}
	if (!need || !silent.n)
		return false;
	buf_add_str(out, "pod or ");
	add_named(out, "container", &silent);
	buf_add_str(out, " must set securityContext.seccompProfile.type to \"RuntimeDefault\" or "
			 "\"Localhost\"");
	return true;
}

bool seccomp_baseline(const struct subject *s, struct buf *out)
{
	return s->version < V_SECCOMP ? seccomp_notes(s, out) : seccomp(s, out, false);
}

bool sysctls(const struct subject *s, struct buf *out)
{
	static const struct {
		const char *name;
		int from;
	} allowed[] = {
		{ "kernel.shm_rmid_forced", 0 },
		{ "net.ipv4.ip_local_port_range", 0 },
		{ "net.ipv4.tcp_syncookies", 0 },
		{ "net.ipv4.ping_group_range", 0 },
		{ "net.ipv4.ip_unprivileged_port_start", 0 },
		{ "net.ipv4.ip_local_reserved_ports", 27 },
		{ "net.ipv4.tcp_keepalive_time", 29 },
		{ "net.ipv4.tcp_fin_timeout", 29 },
		{ "net.ipv4.tcp_keepalive_intvl", 29 },
		{ "net.ipv4.tcp_keepalive_probes", 29 },
		{ "net.ipv4.tcp_rmem", 32 },
		{ "net.ipv4.tcp_wmem", 32 },
	};

	json_each(it, context(s->spec, "sysctls")) {
		const char *name = str_or(name_of(it.val), "");
		bool ok = false;

		for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
			ok |= str_eq(name, allowed[i].name) && s->version >= allowed[i].from;
		if (!ok)
			buf_printf(out, "%s%s", out->len ? ", " : "", name);
	}
	return out->len;
}

static bool is_host_process(const struct json *of)
{
	return json_get_bool(context(of, "windowsOptions"), "hostProcess", false);
}

bool host_process(const struct subject *s, struct buf *out)
{
	bool pod = is_host_process(s->spec);
	autowords bad = { 0 };
	const struct json *c;

	each_container(c, s) if (is_host_process(c)) words_add(&bad, name_of(c));
	if (!pod && !bad.n)
		return false;
	add_setters(out, pod, &bad);
	buf_add_str(out, " must not set securityContext.windowsOptions.hostProcess=true");
	return true;
}
