/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind_priv.h"
#include "api/members_priv.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/* The columns of `kubectl get` for what limits the use of a namespace. */
#define AGE { "Age", "date", ".metadata.creationTimestamp", "Time since the object was created" }

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "pods: 1/10, requests.cpu: 500m/2", of the limits or of everything else. */
static struct json *use_cell(struct json_doc *d, const struct json *obj, bool limits)
{
	const struct json *hard = members(json_at_path(obj, "status.hard"));
	const struct json *used = json_at_path(obj, "status.used");
	autofree const char **names = xnew_n(const char *, json_len(hard) + 1);
	autobuf out = { 0 };
	size_t n = 0;

	json_each(it, hard)
		if (str_starts(it.key, "limits.") == limits)
			names[n++] = it.key;
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++)
		buf_printf(&out, "%s%s: %s/%s", i ? ", " : "", names[i],
			   str_or(json_get_str(used, names[i]), "0"),
			   str_or(json_get_str(hard, names[i]), "0"));
	return json_new_str(d, buf_str(&out));
}

static struct json *requests_cell(struct json_doc *d, const struct json *obj, unused usec now)
{
	return use_cell(d, obj, false);
}

static struct json *limits_cell(struct json_doc *d, const struct json *obj, unused usec now)
{
	return use_cell(d, obj, true);
}

const struct column columns_resource_quota[] = {
	{ "Request", "string", NULL, "What is used of each resource, and how much may be", 0,
	  requests_cell },
	{ "Limit", "string", NULL, "The same of the limits of containers", 0, limits_cell },
	AGE,
	{ 0 },
};

const struct column columns_limit_range[] = {
	{ "Created At", "date", ".metadata.creationTimestamp", "When the object was created",
	  .plain = true },
	{ 0 },
};

static struct json *default_cell(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_bool(d, json_get_bool(obj, "globalDefault", false));
}

static struct json *value_cell(struct json_doc *d, const struct json *obj, unused usec now)
{
	return json_new_int(d, json_get_int(obj, "value", 0));
}

const struct column columns_priority_class[] = {
	{ "Value", "integer", NULL, "The priority", 0, value_cell },
	{ "Global-Default", "boolean", NULL, "Whether Pods that name no class get this one", 0,
	  default_cell },
	AGE,
	{ "PreemptionPolicy", "string", ".preemptionPolicy",
	  "Whether Pods may take the place of others" },
	{ 0 },
};
