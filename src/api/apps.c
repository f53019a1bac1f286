/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apps.h"

#include <stdbool.h>
#include <string.h>

#include "api/defaults_priv.h"
#include "api/meta.h"
#include "api/selector.h"
#include "api/validate_priv.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * The rules and defaults of Deployments and ReplicaSets.
 */
enum {
	HISTORY = 10,
	DEADLINE_S = 600,
	PERCENT_MAX = 1000000, /* of a surge; more Pods than anybody has */
};

static const char not_a_percentage[] =
	"a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  "
	"or '93%', regex used for validation is '[0-9]+%')";

/* "25%" becomes 25. False: it is none. */
static bool read_percent(const char *s, uint64_t *ret)
{
	size_t len = strlen(s);
	autofree char *number = len && s[len - 1] == '%' ? xstrndup(s, len - 1) : NULL;
	struct err *e = number ? parse_uint(number, PERCENT_MAX, ret) : NULL;

	err_free(e);
	return number && !e;
}

static int64_t part_of(const struct json *v, int64_t of, bool up)
{
	uint64_t percent = 0;

	if (!json_str(v))
		return json_int(v, 0);
	if (!read_percent(json_str(v), &percent))
		return 0;
	return ((int64_t)percent * of + (up ? 99 : 0)) / 100;
}

void deployment_bounds(const struct json *spec, int64_t *ret_surge, int64_t *ret_missing)
{
	const struct json *by = json_at_path(spec, "strategy.rollingUpdate");
	int64_t replicas = json_get_int(spec, "replicas", 1);
	int64_t surge = part_of(json_get(by, "maxSurge"), replicas, true);
	int64_t missing = part_of(json_get(by, "maxUnavailable"), replicas, false);

	*ret_surge = surge;
	*ret_missing = !surge && !missing ? 1 : MIN(missing, replicas);
}

/* Defaults */

static struct json *defaults_set(struct json_doc *d)
{
	struct json *spec = defaults_need_obj(d, json_root(d), "spec");
	struct json *template = spec ? json_get(spec, "template") : NULL;

	if (!spec)
		return NULL;
	defaults_int(d, spec, "replicas", 1);
	if (json_is(json_get(template, "spec"), JSON_OBJ))
		defaults_pod_template(d, json_get(template, "spec"));
	return spec;
}

void defaults_replica_set(struct json_doc *d, const struct json *old)
{
	(void)defaults_set(d);
	if (!old)
		json_set_int(d, json_set(d, json_root(d), "status", json_obj(d)), "replicas", 0);
}

void defaults_deployment(struct json_doc *d, const struct json *old)
{
	struct json *spec = defaults_set(d), *strategy, *by;

	if (!old)
		json_set(d, json_root(d), "status", json_obj(d));
	if (!spec)
		return;
	strategy = defaults_need_obj(d, spec, "strategy");
	defaults_str(d, strategy, "type", "RollingUpdate");
	by = strategy && str_eq(json_get_str(strategy, "type"), "RollingUpdate")
		     ? defaults_need_obj(d, strategy, "rollingUpdate")
		     : NULL;
	if (by) {
		defaults_str(d, by, "maxUnavailable", "25%");
		defaults_str(d, by, "maxSurge", "25%");
	}
	defaults_int(d, spec, "revisionHistoryLimit", HISTORY);
	defaults_int(d, spec, "progressDeadlineSeconds", DEADLINE_S);
}

/* Rules */

static void check_template_labels(const struct json *template, const struct path *p,
				  struct causes *c)
{
	autofree char *labels = path_text(IN(IN(p, "metadata"), "labels"));
	autofree char *notes = path_text(IN(IN(p, "metadata"), "annotations"));

	meta_validate_labels(json_at_path(template, "metadata.labels"), labels, c);
	meta_validate_annotations(json_at_path(template, "metadata.annotations"), notes, c);
}

static void check_template(const struct json *spec, struct causes *c)
{
	static const char *const always[] = { "Always", NULL };
	const struct path *p = IN(IN(NULL, "spec"), "template"), *in = IN(p, "spec");
	const struct json *template = json_get(spec, "template");
	const struct json *pod = json_get(template, "spec");
	const struct json *labels = json_at_path(template, "metadata.labels");
	const struct json *selector = json_get(spec, "selector");
	bool empty = selector && !json_len(json_get(selector, "matchLabels")) &&
		     !json_len(json_get(selector, "matchExpressions"));

	if (!empty && (!selector || !label_selector_matches(selector, labels, false)))
		bad_invalid(c, IN(IN(p, "metadata"), "labels"), labels,
			    "`selector` does not match template `labels`");
	check_template_labels(template, p, c);
	validate_pod_spec_at(template, in, c);
	check_values(c, in, pod, "restartPolicy", always);
	if (json_get(pod, "activeDeadlineSeconds"))
		bad_forbidden(c, IN(in, "activeDeadlineSeconds"),
			      "activeDeadlineSeconds in ReplicaSet is not Supported");
}

static void check_selected(const struct json *spec, const struct json *old, struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), "selector");
	const struct json *selector = json_get(spec, "selector");

	check_selector(c, p, selector);
	if (selector && !json_len(json_get(selector, "matchLabels")) &&
	    !json_len(json_get(selector, "matchExpressions")))
		bad_invalid(c, p, selector, "empty selector is invalid for deployment");
	if (old && selector && !json_equal(selector, json_at_path(old, "spec.selector")))
		bad_invalid(c, p, selector, "field is immutable");
}

/* A number of Pods, or a percentage of all. */
static void check_amount(const struct json *by, const char *name, bool bounded, struct causes *c)
{
	const struct path *p = IN(IN(IN(IN(NULL, "spec"), "strategy"), "rollingUpdate"), name);
	const struct json *v = json_get(by, name);
	uint64_t percent = 0;

	if (json_str(v) && !read_percent(json_str(v), &percent))
		bad_invalid(c, p, v, not_a_percentage);
	else if (json_str(v) && bounded && percent > 100)
		bad_invalid(c, p, v, "must not be greater than 100%");
	else if (json_int(v, 0) < 0)
		bad_invalid(c, p, v, "must be greater than or equal to 0");
}

static bool is_nothing(const struct json *v)
{
	return !part_of(v, 100, true);
}

static void check_strategy(const struct json *spec, struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), "strategy"), *in = IN(p, "rollingUpdate");
	const struct json *strategy = json_get(spec, "strategy");
	const struct json *by = json_get(strategy, "rollingUpdate");
	static const char *const types[] = { "Recreate", "RollingUpdate", NULL };

	check_values(c, p, strategy, "type", types);
	if (by && str_eq(json_get_str(strategy, "type"), "Recreate"))
		bad_forbidden(c, in, "may not be specified when strategy `type` is 'Recreate'");
	if (!by || !str_eq(json_get_str(strategy, "type"), "RollingUpdate"))
		return;
	check_amount(by, "maxUnavailable", true, c);
	check_amount(by, "maxSurge", false, c);
	if (is_nothing(json_get(by, "maxSurge")) && is_nothing(json_get(by, "maxUnavailable")))
		bad_invalid(c, IN(in, "maxUnavailable"), json_get(by, "maxUnavailable"),
			    "may not be 0 when `maxSurge` is 0");
}

void validate_replica_set(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	const struct path *p = IN(NULL, "spec");

	if (!json_is(spec, JSON_OBJ))
		return; /* the schema reports it */
	check_not_negative(c, p, spec, "replicas");
	check_not_negative(c, p, spec, "minReadySeconds");
	check_selected(spec, old, c);
	check_template(spec, c);
}

void validate_deployment(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec");
	const struct json *deadline = json_get(spec, "progressDeadlineSeconds");
	const struct path *p = IN(NULL, "spec");

	validate_replica_set(obj, old, c);
	check_strategy(spec, c);
	check_not_negative(c, p, spec, "revisionHistoryLimit");
	check_not_negative(c, p, spec, "progressDeadlineSeconds");
	if (deadline && json_int(deadline, 0) <= json_get_int(spec, "minReadySeconds", 0))
		bad_invalid(c, IN(p, "progressDeadlineSeconds"), deadline,
			    "must be greater than minReadySeconds");
}
