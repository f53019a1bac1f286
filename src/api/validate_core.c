/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode_priv.h"
#include "api/members_priv.h"
#include "api/meta.h"
#include "api/validate_priv.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"

/* The rules of the core kinds other than Pods, Services and volumes. */
enum {
	MAX_DATA = 1024 * 1024
};

/* Of a Namespace, in spec: ours, or one with a domain in front. */
static const char *bad_holder(const char *s)
{
	const char *bad = meta_bad_qualified_name(s);

	if (bad || strchr(s, '/') || str_eq(s, FINALIZER_NAMESPACE))
		return bad;
	return "name is neither a standard finalizer name nor is it fully qualified";
}

void validate_namespace(const struct json *obj, const struct json *old, struct causes *c)
{
	const char *phase = json_get_str(json_get(obj, "status"), "phase");
	bool deleting = json_get(json_get(obj, "metadata"), "deletionTimestamp");
	size_t i = 0;

	json_each(it, json_at_path(obj, "spec.finalizers")) {
		const char *text = str_or(json_str(it.val), "");
		const char *why = bad_holder(text);

		if (why)
			bad_text(c, AT(IN(IN(NULL, "spec"), "finalizers"), i), text, why);
		i++;
	}
	if (!old || str_eq(phase, deleting ? "Terminating" : "Active"))
		return;
	causes_invalid_str(c, "status.Phase", phase,
			   deleting
				   ? "may only be 'Terminating' if `deletionTimestamp` is not empty"
				   : "may only be 'Active' if `deletionTimestamp` is empty");
}

/* Secret and ConfigMap */

/* Bytes that a text in base64 stands for. */
static size_t decoded_len(const struct json *v)
{
	size_t len = json_str_len(v), padding = 0;
	const char *text = json_str(v);

	while (padding < 2 && padding < len && text[len - padding - 1] == '=')
		padding++;
	return len / 4 * 3 - (len / 4 ? padding : 0);
}

static size_t check_entries(const struct json *obj, const char *name, bool coded, struct causes *c)
{
	size_t total = 0;

	json_each(it, members(json_get(obj, name))) {
		const char *bad = bad_config_key(it.key);

		if (bad)
			bad_text(c, KEY(IN(NULL, name), it.key), it.key, bad);
		total += coded ? decoded_len(it.val) : json_str_len(it.val);
	}
	return total;
}

static void check_size(size_t total, const char *path, struct causes *c)
{
	if (total > MAX_DATA)
		causes_add(c, CAUSE_TOO_LONG, path, "Too long: may not be more than %d bytes",
			   MAX_DATA);
}

static void check_frozen(const struct json *obj, const struct json *old, const char *name,
			 struct causes *c)
{
	const struct json *now = json_get(obj, name), *was = json_get(old, name);

	if (!json_equal(now, was) && (json_len(now) || json_len(was)))
		causes_forbidden(c, name, "field is immutable when `immutable` is set");
}

static void check_immutable(const struct json *obj, const struct json *old, struct causes *c)
{
	if (!json_get_bool(old, "immutable", false))
		return;
	if (!json_get_bool(obj, "immutable", false))
		causes_forbidden(c, "immutable", "field is immutable when `immutable` is set");
	check_frozen(obj, old, "data", c);
	check_frozen(obj, old, "binaryData", c);
}

/* What holds the passwords of registries must be JSON. It is not shown. */
static void check_docker(const struct json *data, const char *type, struct causes *c)
{
	const char *key = str_eq(type, "kubernetes.io/dockerconfigjson") ? ".dockerconfigjson"
			  : str_eq(type, "kubernetes.io/dockercfg")      ? ".dockercfg"
									 : NULL;
	const struct json *v = key ? json_get(data, key) : NULL;
	autofree void *text = NULL;
	autoptr(err) e = NULL;
	size_t len = 0;

	e = v ? base64_decode(json_str(v), false, &text, &len) : NULL;
	if (!v || e)
		return;
	e = go_bad_json(text, len);
	if (e)
		bad_text(c, KEY(IN(NULL, "data"), key), "<secret contents redacted>", err_text(e));
}

static void check_secret_type(const struct json *obj, struct causes *c)
{
	static const struct {
		const char *type, *keys[2];
	} needed[] = {
		{ "kubernetes.io/tls", { "tls.crt", "tls.key" } },
		{ "kubernetes.io/dockerconfigjson", { ".dockerconfigjson" } },
		{ "kubernetes.io/dockercfg", { ".dockercfg" } },
		{ "kubernetes.io/ssh-auth", { "ssh-privatekey" } },
	};
	const char *type = json_get_str(obj, "type");
	const struct json *data = json_get(obj, "data"), *notes;

	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		for (size_t k = 0; str_eq(type, needed[i].type) && k < 2; k++)
			if (needed[i].keys[k] && !json_get(data, needed[i].keys[k]))
				bad_required(c, KEY(IN(NULL, "data"), needed[i].keys[k]), NULL);
	if (str_eq(type, "kubernetes.io/ssh-auth") && json_get(data, "ssh-privatekey") &&
	    !json_str_len(json_get(data, "ssh-privatekey")))
		bad_required(c, KEY(IN(NULL, "data"), "ssh-privatekey"), NULL);
	if (str_eq(type, "kubernetes.io/basic-auth") && !json_get(data, "username") &&
	    !json_get(data, "password")) {
		bad_required(c, KEY(IN(NULL, "data"), "username"), NULL);
		bad_required(c, KEY(IN(NULL, "data"), "password"), NULL);
	}
	check_docker(data, type, c);
	notes = json_at_path(obj, "metadata.annotations");
	if (str_eq(type, "kubernetes.io/service-account-token") &&
	    str_empty(json_get_str(notes, "kubernetes.io/service-account.name")))
		causes_required(c, "metadata.annotations[kubernetes.io/service-account.name]",
				NULL);
}

void validate_secret(const struct json *obj, const struct json *old, struct causes *c)
{
	check_size(check_entries(obj, "data", true, c), "data", c);
	check_secret_type(obj, c);
	if (!old)
		return;
	if (!json_equal(json_get(obj, "type"), json_get(old, "type")))
		causes_invalid(c, "type", json_get(obj, "type"), "field is immutable");
	check_immutable(obj, old, c);
}

void validate_config_map(const struct json *obj, const struct json *old, struct causes *c)
{
	size_t total = check_entries(obj, "data", false, c);
	const struct json *binary = members(json_get(obj, "binaryData"));
	autoptr(map) seen = NULL;

	total += check_entries(obj, "binaryData", true, c);
	check_size(total, "[]", c);
	if (json_len(binary)) {
		seen = map_new(NULL);
		json_each(it, binary)
			map_put(seen, it.key, seen);
		json_each(it, members(json_get(obj, "data")))
			if (map_has(seen, it.key))
				bad_text(c, KEY(IN(NULL, "data"), it.key), it.key,
					 "duplicate of key present in binaryData");
	}
	if (old)
		check_immutable(obj, old, c);
}

/* Event, Lease, RuntimeClass */
static void check_length(const struct json *obj, const char *name, size_t max, bool needed,
			 struct causes *c)
{
	const char *text = str_or(json_get_str(obj, name), "");

	if (needed && !*text)
		causes_required(c, name, NULL);
	if (strlen(text) > max)
		causes_add(c, CAUSE_INVALID, name,
			   "Invalid value: \"\": can have at most %zu characters", max);
}

/* An Event that says when it happened must also say who reports it, and of what. */
static void check_new_event(const struct json *obj, struct causes *c)
{
	static const char who[] = "reportingComponent";
	const char *reporter = str_or(json_get_str(obj, who), "");

	if (!*reporter)
		causes_required(c, who, NULL);
	meta_validate_key(reporter, who, c);
	check_length(obj, "reportingInstance", 128, true, c);
	check_length(obj, "action", 128, true, c);
	check_length(obj, "reason", 128, true, c);
	check_length(obj, "message", 1024, false, c);
}

void validate_event(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const anywhere[] = { "default", "kube-system", NULL };
	const char *ns = json_get_str(json_get(obj, "metadata"), "namespace");
	const char *about = str_or(json_get_str(json_get(obj, "involvedObject"), "namespace"), "");
	bool is_new = json_get_str(obj, "eventTime");
	bool misplaced =
		is_new ? !*about && !str_in(ns, anywhere) : !str_eq(*about ? about : "default", ns);

	if (misplaced)
		causes_invalid_str(c, "involvedObject.namespace", about,
				   "does not match event.namespace");
	if (is_new && !old)
		check_new_event(obj, c);
}

static void check_series(const struct json *series, struct causes *c)
{
	if (!series)
		return;
	if (json_get_int(series, "count", 0) < 2)
		causes_add(c, CAUSE_INVALID, "series.count",
			   "Invalid value: \"\": should be at least 2");
	if (!json_get_str(series, "lastObservedTime"))
		causes_required(c, "series.lastObservedTime", NULL);
}

/* As it was sent; the rest is checked once it is converted. */
void validate_events_event(const struct json *obj, unused const struct json *old, struct causes *c)
{
	static const char *const types[] = { "Normal", "Warning", NULL };
	static const struct {
		const char *name, *field;
	} unset[] = {
		{ "deprecatedFirstTimestamp", "firstTimestamp" },
		{ "deprecatedLastTimestamp", "lastTimestamp" },
		{ "deprecatedCount", "count" },
		{ "deprecatedSource", "source" },
	};
	const char *type = str_or(json_get_str(obj, "type"), "");

	if (!json_get_str(obj, "eventTime"))
		causes_required(c, "eventTime", NULL);
	if (!str_in(type, types))
		causes_add(c, CAUSE_INVALID, "type",
			   "Invalid value: \"\": has invalid value: %.64s", type);
	check_series(json_get(obj, "series"), c);
	for (size_t i = 0; i < ARRAY_LEN(unset); i++)
		if (json_len(json_get(obj, unset[i].name)) || json_get_str(obj, unset[i].name) ||
		    json_get_int(obj, unset[i].name, 0))
			causes_add(c, CAUSE_INVALID, unset[i].field,
				   "Invalid value: \"\": needs to be unset");
}

/* A member of an Event as Go has it: absent texts and numbers are empty ones, structs are whole. */
struct event_member {
	const char *name, *shown;
	const struct go_member *in; /* NULL: a text, a number or a time */
	bool time;
};

static bool same_text(const struct json *a, const struct json *b)
{
	return str_eq(str_or(json_str(a), ""), str_or(json_str(b), ""));
}

static bool same_member(const struct event_member *m, const struct json *a, const struct json *b)
{
	for (const struct go_member *g = m->in; g && g->go; g++)
		if (!same_text(json_get(a, g->json), json_get(b, g->json)))
			return false;
	return m->in || (same_text(a, b) && json_int(a, 0) == json_int(b, 0));
}

static void keep_member(const struct event_member *m, const struct json *obj,
			const struct json *old, struct causes *c)
{
	const struct json *now = json_get(obj, m->name), *was = json_get(old, m->name);
	const struct path *p = IN(NULL, m->shown);

	if (same_member(m, now, was))
		return;
	if (m->in)
		bad_struct(c, p, now, m->in, "field is immutable");
	else if (json_str(now) || json_int(now, 0))
		bad_invalid(c, p, now, "field is immutable");
	else
		causes_add(c, CAUSE_INVALID, m->shown, "Invalid value: %s: field is immutable",
			   m->time         ? "null"
			   : json_str(was) ? "\"\""
					   : "0");
}

/* Of an update in events.k8s.io: a series goes on, and all else stays. */
void validate_events_event_change(const struct json *obj, const struct json *old, struct causes *c)
{
	static const struct go_member reference[] = {
		{ "Kind", "kind", .text = true },
		{ "Namespace", "namespace", .text = true },
		{ "Name", "name", .text = true },
		{ "UID", "uid", .text = true },
		{ "APIVersion", "apiVersion", .text = true },
		{ "ResourceVersion", "resourceVersion", .text = true },
		{ "FieldPath", "fieldPath", .text = true },
		{ 0 },
	};
	static const struct go_member source[] = { { "Component", "component", .text = true },
						   { "Host", "host", .text = true },
						   { 0 } };
	static const struct event_member kept[] = {
		{ "involvedObject", "involvedObject", reference },
		{ "reason", "reason" },
		{ "message", "message" },
		{ "source", "source", source },
		{ "firstTimestamp", "firstTimestamp", .time = true },
		{ "lastTimestamp", "lastTimestamp", .time = true },
		{ "count", "count" },
		{ "type", "type" },
		{ "eventTime", "eventTime", .time = true },
		{ "action", "action" },
		{ "related", "related", reference },
		{ "reportingComponent", "reportingController" },
		{ "reportingInstance", "reportingInstance" },
	};

	if (!json_equal(json_get(obj, "series"), json_get(old, "series")))
		check_series(json_get(obj, "series"), c);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		keep_member(&kept[i], obj, old, c);
}

void validate_lease(const struct json *obj, unused const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	const struct json *seconds = json_get(spec, "leaseDurationSeconds");

	if (seconds && json_int(seconds, 1) <= 0)
		causes_invalid(c, "spec.leaseDurationSeconds", seconds, "must be greater than 0");
	check_not_negative(c, IN(NULL, "spec"), spec, "leaseTransitions");
}

/* What is spent on a runtime itself is not counted, and there is one node: both would be wishes
 * that nobody grants. */
void validate_runtime_class(const struct json *obj, const struct json *old, struct causes *c)
{
	static const char *const refused[] = { "overhead", "scheduling" };
	const struct json *scheduling = json_get(obj, "scheduling");
	const struct path *p = IN(NULL, "scheduling");

	if (need_text(c, NULL, obj, "handler"))
		check_text(c, NULL, obj, "handler", meta_bad_dns_label);
	if (old && !json_equal(json_get(obj, "handler"), json_get(old, "handler")))
		causes_invalid(c, "handler", json_get(obj, "handler"), "field is immutable");
	validate_overhead(json_at_path(obj, "overhead.podFixed"), IN(NULL, "overhead"), c);
	check_labels(c, json_get(scheduling, "nodeSelector"), IN(p, "nodeSelector"));
	check_tolerations(c, json_get(scheduling, "tolerations"), IN(p, "tolerations"));
	for (size_t i = 0; !c->n && i < ARRAY_LEN(refused); i++)
		if (json_get(obj, refused[i]))
			bad_forbidden(c, IN(NULL, refused[i]), "not supported by this server");
}

/* Node. As kube-apiserver: taints are said to be in metadata. */
static void check_taint(struct causes *c, const struct json *taint, struct map *seen,
			const struct path *p)
{
	static const char *const effects[] = { "NoSchedule", "PreferNoSchedule", "NoExecute",
					       NULL };
	static const struct go_member members[] = { { "Key", "key" },
						    { "Value", "value", .text = true },
						    { "Effect", "effect" },
						    { "TimeAdded", "timeAdded" },
						    { 0 } };
	const char *key = str_or(json_get_str(taint, "key"), "");
	const char *value = str_or(json_get_str(taint, "value"), "");
	autofree char *both = xasprintf("%s/%s", str_or(json_get_str(taint, "effect"), ""), key);

	check_qualified(c, key, IN(p, "key"));
	if (meta_bad_label_value(value))
		bad_text(c, IN(p, "value"), value, meta_bad_label_value(value));
	if (need_text(c, p, taint, "effect"))
		check_values(c, p, taint, "effect", effects);
	if (map_has(seen, both))
		bad_twin(c, p, taint, members, "taints must be unique by key and effect pair");
	map_put(seen, both, seen);
}

static void check_taints(struct causes *c, const struct json *taints)
{
	autoptr(map) seen = json_len(taints) ? map_new(NULL) : NULL;
	size_t i = 0;

	json_each(it, taints)
		check_taint(c, it.val, seen, AT(IN(IN(NULL, "metadata"), "taints"), i++));
}

static void check_ranges(struct causes *c, const struct json *list)
{
	const struct path *p = IN(IN(NULL, "spec"), "podCIDRs");
	size_t i = 0, n6 = 0;

	json_each(it, list) {
		const char *range = str_or(json_str(it.val), "");

		check_cidr(c, range, AT(p, i++));
		n6 += strchr(range, ':') != NULL;
	}
	if (i > 2 || (i == 2 && n6 != 1))
		bad_invalid(c, p, list, "may specify no more than one CIDR for each IP family");
}

void validate_node(const struct json *obj, const struct json *old, struct causes *c)
{
	static const struct {
		const char *name, *why;
	} kept[] = {
		{ "podCIDRs", "node updates may not change podCIDR except from \"\" to valid" },
		{ "providerID",
		  "node updates may not change providerID except from \"\" to valid" },
	};
	const struct json *spec = json_get(obj, "spec"), *was = json_get(old, "spec");

	check_taints(c, json_get(spec, "taints"));
	check_ranges(c, json_get(spec, "podCIDRs"));
	if (!old)
		return;
	for (size_t k = 0; k < ARRAY_LEN(kept); k++)
		if (json_get(was, kept[k].name) &&
		    !json_equal(json_get(spec, kept[k].name), json_get(was, kept[k].name)))
			bad_forbidden(c, IN(IN(NULL, "spec"), kept[k].name), kept[k].why);
	check_taints(c, json_get(spec, "taints")); /* as kube-apiserver: once more */
}
