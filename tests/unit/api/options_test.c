/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include "api_test.h"
#include "base/arena.h"

/* A query as "name=value" lines, separated by &, without escapes. */
static const char *param(void *arg, const char *name, size_t n)
{
	static char value[64];
	struct span pair, rest = SPAN((const char *)arg);

	while (rest.p) {
		struct span text, key;

		pair = span_cut(rest, '&', &rest);
		key = span_cut(pair, '=', &text);
		if (!span_eq(key, name) || n--)
			continue;
		(void)snprintf(value, sizeof(value), "%.*s", (int)text.len, text.p ? text.p : "");
		return value;
	}
	return NULL;
}

struct rig {
	struct arena *arena;
	struct causes causes;
};

static struct options_input input(struct rig *r, const char *query, const char *body)
{
	return (struct options_input){
		.query = { param, (void *)query },
		.body = { DECODE_JSON, body, strlen(body), NULL },
		.arena = r->arena,
		.causes = &r->causes,
	};
}

static void rig_done(struct rig *r)
{
	causes_done(&r->causes);
	arena_free(r->arena);
}

TEST(options_that_are_wrong_are_told_as_kubernetes_does)
{
	static const struct {
		enum options_of of;
		const char *query, *body, *want;
	} rows[] = {
		{ OPTIONS_CREATE, "dryRun=All&dryRun=Some", "",
		  "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: "
		  "[\"All\",\"Some\"]: supported values: \"All\"" },
		{ OPTIONS_UPDATE, "fieldValidation=strict", "",
		  "UpdateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: "
		  "\"strict\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"" },
		{ OPTIONS_PATCH, "force=false", "",
		  "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified "
		  "for non-apply patch" },
		{ OPTIONS_LIST, "limit=x", "", "strconv.ParseInt: parsing \"x\": invalid syntax" },
		{ OPTIONS_LIST, "limit=99999999999999999999", "",
		  "strconv.ParseInt: parsing \"99999999999999999999\": value out of range" },
		{ OPTIONS_LIST, "resourceVersionMatch=Exact", "",
		  "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: "
		  "resourceVersionMatch is forbidden unless resourceVersion is provided" },
		{ OPTIONS_LIST, "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", "",
		  "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: "
		  "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, "
		  "resourceVersionMatch: Unsupported value: \"Exact\": supported values: "
		  "\"NotOlderThan\"]" },
		{ OPTIONS_DELETE, "gracePeriodSeconds=", "",
		  "strconv.ParseInt: parsing \"\": invalid syntax" },
		{ OPTIONS_DELETE, "", "{\"gracePeriodSeconds\":\"x\"}",
		  "json: cannot unmarshal string into Go struct field "
		  "DeleteOptions.gracePeriodSeconds of type int64" },
		{ OPTIONS_DELETE, "",
		  "{\"orphanDependents\":true,\"propagationPolicy\":\"Orphan\"}",
		  "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: "
		  "\"Orphan\": orphanDependents and deletionPropagation cannot be both set" },
		{ OPTIONS_DELETE, "", "{\"kind\":\"Pod\"}",
		  "no kind \"Pod\" is registered for version \"v1\" in scheme "
		  "\"pkg/runtime/scheme.go:111\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig r = { .arena = arena_new() };
		struct options_input in = input(&r, rows[i].query, rows[i].body);
		struct delete_options d;
		struct write_options w;
		struct list_options l;
		struct err *e = rows[i].of == OPTIONS_LIST ? list_options_read(&in, &l)
				: rows[i].of == OPTIONS_DELETE
					? delete_options_read(&in, &d)
					: write_options_read(rows[i].of, &in, &w);

		is_true(e != NULL);
		eq_str(err_text(e), rows[i].want);
		err_free(e);
		rig_done(&r);
	}
}

TEST(options_of_a_body_replace_those_of_the_query)
{
	struct rig r = { .arena = arena_new() };
	struct options_input in =
		input(&r, "propagationPolicy=Maybe&dryRun=All",
		      "{\"gracePeriodSeconds\":5,\"orphanDependents\":false,"
		      "\"preconditions\":{\"uid\":\"u\",\"resourceVersion\":\"7\"}}");
	struct delete_options o;

	works(delete_options_read(&in, &o));
	eq_int(o.grace_s, 5);
	is_true(!o.dry_run);
	eq_str(o.propagation, "Background");
	eq_str(o.uid, "u");
	eq_str(o.resource_version, "7");
	rig_done(&r);
}

TEST(parameters_become_options)
{
	struct rig r = { .arena = arena_new() };
	struct options_input in = input(&r,
					"watch=yes&allowWatchBookmarks=0&limit=-3&continue=&"
					"labelSelector=a&sendInitialEvents=False&"
					"resourceVersionMatch=NotOlderThan",
					"");
	struct list_options o;

	works(list_options_read(&in, &o));
	is_true(o.watch);
	is_true(!o.bookmarks);
	eq_int(o.limit, -3);
	eq_int(o.timeout_s, -1);
	eq_str(o.labels, "a");
	is_true(str_empty(o.continue_token));
	eq_int(o.initial_events, CHOICE_FALSE);
	rig_done(&r);
}
