/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/approval.h"

#include <string.h>

#include "api/cay/capability.h"
#include "api/cay/read_priv.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"
#include "json/json.h"

#define EXPIRE_DEFAULT ((usec)10 * 60 * 1000000)

static const char *const verdict_names[] = { "Allow", "Ask", "Deny", NULL };
static const char *const decision_names[] = { "", "Once", "Always", "Deny", "Expired", NULL };

const char *verdict_name(enum verdict v)
{
	return verdict_names[v];
}

enum verdict verdict_named(const char *name)
{
	enum verdict v = 0;

	while (v < VERDICT_MAX_ && !str_eq(verdict_names[v], name))
		v++;
	return v;
}

enum verdict verdict_stricter(enum verdict x, enum verdict y)
{
	return MAX(x, y);
}

/* Rules */

static void read_rule(const struct json *tree, struct arena *a, struct approval_rule *ret)
{
	*ret = (struct approval_rule){
		/* The schema accepts nothing else; what it is then is not for us to guess. */
		.action = read_word(tree, "action", verdict_names, VERDICT_DENY),
		.argv = read_texts(json_get(tree, "argv"), a, NULL),
		.path = json_get_str(tree, "path"),
		.host = json_get_str(tree, "host"),
		.tool = json_get_str(tree, "tool"),
		.without_input = json_get_bool(tree, "withoutInput", false),
	};
}

void approval_rules_read(const struct json *tree, struct arena *a, struct approval_rules *ret)
{
	const struct json *list = json_get(tree, "rules");
	struct approval_rule *rules = arena_new_n(a, struct approval_rule, json_len(list) + 1);
	size_t n = 0;

	json_each(it, json_is(list, JSON_ARR) ? list : NULL)
		read_rule(it.val, a, &rules[n++]);
	*ret = (struct approval_rules){
		.otherwise = read_word(tree, "default", verdict_names,
				       json_get(tree, "default") ? VERDICT_DENY : VERDICT_ALLOW),
		.rules = rules,
		.n_rules = n,
		.expire = read_duration(tree, "timeout", EXPIRE_DEFAULT),
	};
}

static bool argv_matches(const char *const *patterns, const char *const *argv)
{
	for (; *patterns; patterns++, argv++) {
		if (str_eq(*patterns, "**") && !patterns[1])
			return true;
		if (!*argv || !pattern_matches(*patterns, *argv))
			return false;
	}
	return !*argv;
}

static bool rule_matches(const struct approval_rule *r, const struct deed *d)
{
	if (r->without_input && d->input)
		return false;
	if (r->argv && (!d->argv || !argv_matches(r->argv, d->argv)))
		return false;
	if (r->path && (!d->path || !pattern_matches(r->path, d->path)))
		return false;
	if (r->host && (!d->host || !host_matches(r->host, d->host)))
		return false;
	if (r->tool && (!d->tool || !pattern_matches(r->tool, d->tool)))
		return false;
	return r->argv || r->path || r->host || r->tool;
}

enum verdict approval_rules_decide(const struct approval_rules *r, const struct deed *d,
				   int *ret_rule)
{
	for (size_t i = 0; i < r->n_rules; i++) {
		if (!rule_matches(&r->rules[i], d))
			continue;
		if (ret_rule)
			*ret_rule = (int)i;
		return r->rules[i].action;
	}
	if (ret_rule)
		*ret_rule = -1;
	return r->otherwise;
}

static bool is_plain(const char *text)
{
	return !text || !strpbrk(text, "*\\");
}

struct json *approval_rule_for(const struct deed *d, struct json_doc *doc)
{
	const char *const *argv = d->path ? NULL : d->argv;
	struct json *rule, *list;

	if (!d->path && !d->tool && !d->host && (!argv || !*argv))
		return NULL;
	if (!is_plain(d->path) || !is_plain(d->tool))
		return NULL;
	if (d->host && !host_matches(d->host, d->host)) /* a pattern, or no host at all */
		return NULL;
	for (size_t i = 0; argv && argv[i]; i++)
		if (!is_plain(argv[i]))
			return NULL;
	rule = json_obj(doc);
	json_set_str(doc, rule, "action", verdict_name(VERDICT_ALLOW));
	if (d->tool)
		json_set_str(doc, rule, "tool", d->tool);
	if (d->path)
		json_set_str(doc, rule, "path", d->path);
	if (d->host)
		json_set_str(doc, rule, "host", d->host);
	if (argv && *argv)
		json_set_bool(doc, rule, "withoutInput", true);
	list = argv && *argv ? json_need_arr(doc, rule, "argv") : NULL;
	for (size_t i = 0; list && argv[i]; i++)
		json_push_str(doc, list, argv[i]);
	return rule;
}

/* Approvals */

const char *approval_decision_name(enum approval_decision d)
{
	return decision_names[d];
}

static void decode(const struct object *o, void *view)
{
	const struct json *spec = object_spec(o), *status = object_status(o);
	struct approval_view *v = view;

	v->agent = read_text(spec, "agent");
	v->session = read_text(spec, "session");
	v->attachment = read_text(spec, "attachment");
	v->sandbox = read_text(spec, "sandbox");
	v->operation = read_text(spec, "operation");
	v->digest = read_text(spec, "digest");
	v->requested_by = read_text(spec, "requestedBy");
	v->created = view_created(o);
	v->expires = view_time(json_get_str(spec, "expires"));
	v->decision = read_word(status, "decision", decision_names, APPROVAL_OPEN);
	if (v->decision == APPROVAL_OPEN &&
	    condition_view_of(json_get(status, "conditions"), "Expired").is_true)
		v->decision = APPROVAL_EXPIRED;
	v->by = read_text(status, "decidedBy");
	v->used = json_get_bool(status, "used", false);
	v->deleting = object_deleting(o);
}

const struct view_type approval_view_type = { sizeof(struct approval_view), decode, NULL };

const struct approval_view *approval_view(const struct object *o)
{
	return object_view(o, &approval_view_type);
}

enum approval_decision approval_decision_at(const struct approval_view *v, usec now)
{
	return v->decision == APPROVAL_OPEN && now >= v->expires ? APPROVAL_EXPIRED : v->decision;
}
