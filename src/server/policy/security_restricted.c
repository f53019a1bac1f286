/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "server/policy/security_priv.h"

/* The rules of the level restricted, beyond those of baseline. */

bool escalation(const struct subject *s, struct buf *out)
{
	autowords bad = { 0 };
	const struct json *c;

	if (is_windows(s))
		return false;
	each_container(c, s) if (json_bool(context(c, "allowPrivilegeEscalation"), true))
		words_add(&bad, name_of(c));
	if (!bad.n)
		return false;
	add_named(out, "container", &bad);
	buf_add_str(out, " must set securityContext.allowPrivilegeEscalation=false");
	return true;
}

bool capabilities_restricted(const struct subject *s, struct buf *out)
{
	autowords missing = { 0 }, adding = { 0 }, values = { 0 };
	const struct json *c;

	if (is_windows(s))
		return false;
	each_container(c, s)
	{
		const struct json *caps = context(c, "capabilities");
		bool dropped = false;
		size_t had = values.n;

		json_each(it, json_get(caps, "drop"))
			dropped |= str_eq(json_str(it.val), "ALL");
		if (!dropped)
			words_add(&missing, name_of(c));
		json_each(it, json_get(caps, "add"))
			if (!str_eq(json_str(it.val), "NET_BIND_SERVICE"))
				words_add(&values, json_str(it.val));
		if (values.n > had)
			words_add(&adding, name_of(c));
	}
	if (missing.n) {
		add_named(out, "container", &missing);
		buf_add_str(out, " must set securityContext.capabilities.drop=[\"ALL\"]");
	}
	if (adding.n) {
		words_sort(&values);
		buf_add_str(out, out->len ? "; " : "");
		add_named(out, "container", &adding);
		buf_add_str(out, " must not include ");
		add_words(out, &values, true);
		buf_add_str(out, " in securityContext.capabilities.add");
	}
	return missing.n || adding.n;
}

static const char *volume_type(const struct json *volume)
{
	json_each(it, volume)
		if (!str_eq(it.key, "name"))
			return it.key;
	return "unknown";
}

bool volumes(const struct subject *s, struct buf *out)
{
	static const char *const allowed[] = {
		"configMap", "csi",   "downwardAPI",           "emptyDir",
		"ephemeral", "image", "persistentVolumeClaim", "projected",
		"secret",    NULL
	};
	autowords bad = { 0 }, values = { 0 };

	json_each(it, json_get(s->spec, "volumes")) {
		const char *type = volume_type(it.val);

		if (str_in(type, allowed))
			continue;
		words_add(&bad, name_of(it.val));
		words_add(&values, type);
	}
	if (!bad.n)
		return false;
	words_sort(&values);
	add_named(out, "volume", &bad);
	buf_printf(out, " use%s restricted volume type%s ", bad.n == 1 ? "s" : "",
		   values.n == 1 ? "" : "s");
	add_words(out, &values, true);
	return true;
}

bool non_root(const struct subject *s, struct buf *out)
{
	const struct json *own = context(s->spec, "runAsNonRoot"), *c;
	bool pod = own && !json_bool(own, false);
	autowords bad = { 0 }, silent = { 0 };

	if (has_user_space(s))
		return false;
	each_container(c, s)
	{
		const struct json *v = context(c, "runAsNonRoot");

		if (v && !json_bool(v, false))
			words_add(&bad, name_of(c));
		else if (!v && !json_bool(own, false))
			words_add(&silent, name_of(c));
	}
	if (pod || bad.n) {
		add_setters(out, pod, &bad);
		buf_add_str(out, " must not set securityContext.runAsNonRoot=false");
		return true;
	}
	if (!silent.n)
		return false;
	buf_add_str(out, "pod or ");
	add_named(out, "container", &silent);
	buf_add_str(out, " must set securityContext.runAsNonRoot=true");
	return true;
}

bool user_zero(const struct subject *s, struct buf *out)
{
	bool pod = json_int(context(s->spec, "runAsUser"), 1) == 0;
	autowords bad = { 0 };
	const struct json *c;

	if (has_user_space(s))
		return false;
	each_container(c, s) if (json_int(context(c, "runAsUser"), 1) == 0)
		words_add(&bad, name_of(c));
	if (!pod && !bad.n)
		return false;
	add_setters(out, pod, &bad);
	buf_add_str(out, " must not set runAsUser=0");
	return true;
}

bool seccomp_restricted(const struct subject *s, struct buf *out)
{
	return !is_windows(s) && seccomp(s, out, true);
}
