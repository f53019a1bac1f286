/* SPDX-License-Identifier: Apache-2.0 */
#include "server/policy/security.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "server/admit/admit_priv.h"
#include "server/call/status.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * Pod Security: a Pod is let in or refused by the level of its namespace; what only describes Pods
 * is warned about, since its Pods will be asked for themselves.
 */
enum {
	PODS_MAX = 3000, /* existing ones that a new level is compared with */
};

static void warn(const struct op *op, const char *text)
{
	if (op->warn)
		op->warn(op->warn_arg, text);
}

static struct security_policy policy_of(const struct op *op)
{
	const struct objects *os = op->admit->objects;
	const struct object *ns = objects_find(os, os->namespace, "", op->ns);

	return security_policy_of(ns ? json_get(json_get(ns->root, "metadata"), "labels") : NULL);
}

/* What the level forbids of a Pod, as a sentence; malloc'd, NULL: nothing. */
static char *violations(const char *would, const struct security *s, const struct json *pod)
{
	autofree char *found = s->level ? security_violations(s, pod, true) : NULL;
	char name[SECURITY_NAME_MAX];

	if (!found)
		return NULL;
	security_name(s, name);
	return xasprintf("%s PodSecurity \"%s\": %s", would, name, found);
}

static void warn_of(const struct op *op, const struct security *s, const struct json *pod)
{
	autofree char *text = violations("would violate", s, pod);

	if (text)
		warn(op, text);
}

static void note_violations(const struct op *op, const struct security *s, const struct json *pod)
{
	autofree char *text = op->note ? violations("would violate", s, pod) : NULL;

	if (text)
		op->note(op->warn_arg, SECURITY_PREFIX "audit-violations", text);
}

static void note_policy(const struct op *op, const struct security *s)
{
	char name[SECURITY_NAME_MAX];

	security_name(s, name);
	if (op->note)
		op->note(op->warn_arg, SECURITY_PREFIX "enforce-policy", name);
}

static struct err *check_pod(const struct op *op, const struct json *obj, const struct json *old)
{
	const struct security_policy p = policy_of(op);
	autofree char *why = NULL;

	if ((!p.enforce.level && !p.warn.level && !p.audit.level) || str_eq(op->sub, "status") ||
	    !security_concerns(obj, old))
		return NULL;
	note_policy(op, &p.enforce);
	note_violations(op, &p.audit, obj);
	why = violations("violates", &p.enforce, obj);
	if (why)
		return err_forbidden(op->kind, json_get_str(json_get(obj, "metadata"), "name"),
				     why);
	warn_of(op, &p.warn, obj);
	return NULL;
}

static void check_template(const struct op *op, const struct json *obj)
{
	const char *member = kind_storage(op->kind)->pod_template;
	const struct json *template = json_get(json_get(obj, "spec"), member);
	struct security_policy p;

	if (!template || !op->warn || *op->sub)
		return;
	p = policy_of(op);
	note_violations(op, &p.audit, template);
	warn_of(op, &p.warn, template);
}

/* Namespaces */

static void bad_label(void *arg, const char *label, const char *value, const char *why)
{
	autofree char *field = xasprintf("metadata.labels[%s]", label);

	causes_invalid_str(arg, field, value, why);
}

/* Pods that violate the same rules. */
struct offenders {
	char *first; /* by name */
	size_t n;
};

static void offenders_free(void *value)
{
	struct offenders *o = value;

	free(o->first);
	free(o);
}

static void count_offender(struct map *all, const char *reasons, const char *pod)
{
	struct offenders *o = map_get(all, reasons);

	if (!o) {
		o = xnew(struct offenders);
		o->first = xstrdup(pod); /* they come in the order of their names */
		map_put(all, reasons, o);
	}
	o->n++;
}

static void warn_of_offenders(const struct op *op, const struct map *all)
{
	autofree char **texts = xnew_n(char *, map_len(all) + 1);
	size_t n = 0;

	map_each(it, all) {
		const struct offenders *o = it.value;

		if (o->n == 1)
			texts[n++] = xasprintf("%s: %s", o->first, it.key);
		else
			texts[n++] = xasprintf("%s (and %zu other pod%s): %s", o->first, o->n - 1,
					       o->n == 2 ? "" : "s", it.key);
	}
	str_sort(texts, n);
	for (size_t i = 0; i < n; i++) {
		warn(op, texts[i]);
		free(texts[i]);
	}
}

static void check_existing(const struct op *op, const char *ns, const struct security *s)
{
	const struct objects *os = op->admit->objects;
	autoptr(map) all = map_new(offenders_free);
	struct store_entry *en = NULL;
	autofree char *text = NULL;
	char name[SECURITY_NAME_MAX];
	autobuf prefix = { 0 };
	size_t n = 0, total;

	key_prefix(&prefix, os->pod, ns);
	total = store_count(os->store, buf_str(&prefix));
	while (n < PODS_MAX &&
	       (en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(os, en);
		autofree char *found = o ? security_violations(s, o->root, false) : NULL;

		n++;
		if (found)
			count_offender(all, found, o->name);
	}
	if (n < total) {
		autofree char *part = xasprintf("new PodSecurity enforce level only checked "
						"against the first %zu of %zu existing pods",
						n, total);

		warn(op, part);
	}
	if (!map_len(all))
		return;
	security_name(s, name);
	text = xasprintf("existing pods in namespace \"%s\" violate the new PodSecurity enforce "
			 "level \"%s\"",
			 ns, name);
	warn(op, text);
	warn_of_offenders(op, all);
}

static struct err *check_namespace(struct op *op, const struct json *obj, const struct json *old)
{
	const struct json *meta = json_get(obj, "metadata"), *labels = json_get(meta, "labels");
	const struct json *was_labels = json_get(json_get(old, "metadata"), "labels");
	struct security_policy now, was;

	if (*op->sub || (old && json_equal(labels, was_labels)))
		return NULL;
	security_check_labels(labels, bad_label, &op->causes);
	if (op->causes.n)
		return err_invalid(op->kind, json_get_str(meta, "name"), &op->causes);
	now = security_policy_of(labels);
	was = security_policy_of(was_labels);
	if (!old || !op->warn || now.enforce.level == SECURITY_PRIVILEGED ||
	    (now.enforce.version == was.enforce.version && now.enforce.level <= was.enforce.level))
		return NULL;
	check_existing(op, json_get_str(meta, "name"), &now.enforce);
	return NULL;
}

struct err *security_allows(struct op *op, const struct json *obj, const struct json *old)
{
	const struct objects *os = op->admit->objects;
	const struct kind *k = kind_storage(op->kind);

	if (k == os->pod)
		return check_pod(op, obj, old);
	if (k == os->namespace)
		return check_namespace(op, obj, old);
	if (k->pod_template)
		check_template(op, obj);
	return NULL;
}
