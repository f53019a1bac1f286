/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include "api/schema.h"
#include "api/schema_builtin_priv.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/* Reads options from their decoded tree and checks them against what Kubernetes allows. */

enum {
	MANAGER_LEN_MAX = 128,
};

static const struct {
	const char *kind;
	const struct type *type;
} rows[OPTIONS_OF_MAX_] = {
	[OPTIONS_CREATE] = { "CreateOptions", &type_meta_create_options },
	[OPTIONS_UPDATE] = { "UpdateOptions", &type_meta_update_options },
	[OPTIONS_PATCH] = { "PatchOptions", &type_meta_patch_options },
	[OPTIONS_APPLY] = { "PatchOptions", &type_meta_patch_options },
	[OPTIONS_DELETE] = { "DeleteOptions", &type_meta_delete_options },
	[OPTIONS_LIST] = { "ListOptions", &type_meta_list_options },
};

const char *options_kind(enum options_of of)
{
	return rows[of].kind;
}

static struct err *verdict(enum options_of of, const struct causes *c)
{
	autofree char *text = c->n ? causes_text(c) : NULL;

	return text ? err_new(ERR_INVALID, "%s." OPTIONS_GROUP " \"\" is invalid: %s",
			      rows[of].kind, text)
		    : NULL;
}

static struct err *read_query(enum options_of of, const struct options_input *in,
			      struct json_doc **ret)
{
	return schema_decode_query(rows[of].type, &in->query, ret);
}

static void check_dry_run(const struct json *list, struct causes *c, bool *ret)
{
	autofree char *text = NULL;

	json_each(it, list) {
		*ret = true;
		if (!str_eq(json_str(it.val), "All") && !text)
			text = json_to_text(list);
	}
	if (text)
		causes_add(c, CAUSE_UNSUPPORTED, "dryRun",
			   "Unsupported value: %s: supported values: \"All\"", text);
}

static void check_strictness(const char *text, struct causes *c, enum strictness *ret)
{
	static const char *const values[] = { "", "Ignore", "Strict", "Warn", NULL };

	if (str_eq(text, "Strict"))
		*ret = STRICTNESS_STRICT;
	else if (str_eq(text, "Ignore"))
		*ret = STRICTNESS_IGNORE;
	else if (text && !str_in(text, values))
		causes_unsupported(c, "fieldValidation", text, values);
}

/* As Go quotes it. */
static void quote(const char *text, struct buf *out)
{
	static const char controls[] = "\a\b\t\n\v\f\r", letters[] = "abtnvfr";

	for (; *text; text++) {
		const char *at = strchr(controls, *text);

		if (at)
			buf_printf(out, "\\%c", letters[at - controls]);
		else if ((unsigned char)*text < ' ' || *text == 0x7f)
			buf_printf(out, "\\x%02x", (unsigned char)*text);
		else
			buf_printf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
	}
}

static void check_manager(const char *text, struct causes *c)
{
	autobuf quoted = { 0 };

	quote(str_or(text, ""), &quoted);
	if (text && strlen(text) > MANAGER_LEN_MAX)
		causes_add(c, CAUSE_TOO_LONG, "fieldManager",
			   "Too long: may not be more than %d bytes", MANAGER_LEN_MAX);
	for (size_t i = 0; text && text[i]; i++) {
		unsigned char b = (unsigned char)text[i];

		if (b >= ' ' && b != 0x7f)
			continue;
		causes_add(c, CAUSE_INVALID, "fieldManager",
			   "Invalid value: \"%s\": invalid character U+%04X (at position %zu)",
			   buf_str(&quoted), b, i);
	}
}

struct err *write_options_read(enum options_of of, const struct options_input *in,
			       struct write_options *ret)
{
	autoptr(json_doc) d = NULL;
	const struct json *o;
	struct err *e = read_query(of, in, &d);

	*ret = (struct write_options){ .strictness = STRICTNESS_WARN };
	if (e)
		return e;
	o = json_root(d);
	ret->manager = arena_strdup(in->arena, json_get_str(o, "fieldManager"));
	ret->force = json_get_bool(o, "force", false);
	if (of != OPTIONS_APPLY && json_get(o, "force"))
		causes_forbidden(in->causes, "force", "may not be specified for non-apply patch");
	if (of == OPTIONS_APPLY && str_empty(ret->manager))
		causes_required(in->causes, "fieldManager", "is required for apply patch");
	check_manager(ret->manager, in->causes);
	check_dry_run(json_get(o, "dryRun"), in->causes, &ret->dry_run);
	check_strictness(json_get_str(o, "fieldValidation"), in->causes, &ret->strictness);
	return verdict(of, in->causes);
}

/* Deleting */

static void check_propagation(const struct json *o, struct causes *c)
{
	static const char *const values[] = { "Foreground", "Background", "Orphan", "nil", NULL };
	const char *policy = json_get_str(o, "propagationPolicy");

	if (!policy)
		return;
	if (json_get(o, "orphanDependents"))
		causes_invalid_str(c, "propagationPolicy", policy,
				   "orphanDependents and deletionPropagation cannot be both set");
	if (!str_in(policy, values) || str_eq(policy, "nil"))
		causes_unsupported(c, "propagationPolicy", policy, values);
}

/* The kind alone: clients disagree about the group of DeleteOptions. */
static struct err *check_delete_kind(const struct json *o)
{
	const char *kind = json_get_str(o, "kind");

	if (str_empty(kind) || str_eq(kind, "DeleteOptions"))
		return NULL;
	return err_new(ERR_MALFORMED,
		       "no kind \"%s\" is registered for version \"%s\" in scheme "
		       "\"pkg/runtime/scheme.go:111\"",
		       kind, str_or(json_get_str(o, "apiVersion"), "v1"));
}

static struct err *read_delete(const struct options_input *in, struct json_doc **ret)
{
	struct err *e;

	if (!in->body.len)
		return read_query(OPTIONS_DELETE, in, ret);
	e = body_decode(&type_meta_delete_options, NULL, &in->body, ret);
	return e ? e : check_delete_kind(json_root(*ret));
}

struct err *delete_options_of(const struct json *o, const struct options_input *in,
			      struct delete_options *ret)
{
	const struct json *pre = json_get(o, "preconditions"),
			  *orphan = json_get(o, "orphanDependents");

	*ret = (struct delete_options){ .grace_s = -1 };
	check_propagation(o, in->causes);
	check_dry_run(json_get(o, "dryRun"), in->causes, &ret->dry_run);
	ret->uid = arena_strdup(in->arena, json_get_str(pre, "uid"));
	ret->resource_version = arena_strdup(in->arena, json_get_str(pre, "resourceVersion"));
	ret->grace_s = json_get_int(o, "gracePeriodSeconds", -1);
	ret->propagation = arena_strdup(in->arena, json_get_str(o, "propagationPolicy"));
	if (orphan)
		ret->propagation = json_bool(orphan, false) ? "Orphan" : "Background";
	return verdict(OPTIONS_DELETE, in->causes);
}

struct err *delete_options_read(const struct options_input *in, struct delete_options *ret)
{
	autoptr(json_doc) d = NULL;
	struct err *e = read_delete(in, &d);

	*ret = (struct delete_options){ .grace_s = -1 };
	return e ? e : delete_options_of(json_root(d), in, ret);
}

/* Listing and watching */

static void check_list(const struct list_options *o, struct causes *c)
{
	static const char *const values[] = { "Exact", "NotOlderThan", "", NULL };
	const char *match = str_or(o->version_match, ""), *at = "resourceVersionMatch";

	if (*match && str_empty(o->resource_version))
		causes_forbidden(
			c, at,
			"resourceVersionMatch is forbidden unless resourceVersion is provided");
	if (*match && !str_empty(o->continue_token))
		causes_forbidden(c, at,
				 "resourceVersionMatch is forbidden when continue is provided");
	if (!str_in(match, values))
		causes_unsupported(c, at, match, values);
	if (str_eq(match, "Exact") && str_eq(o->resource_version, "0"))
		causes_forbidden(
			c, at,
			"resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
	if (o->initial_events)
		causes_forbidden(c, "sendInitialEvents", "sendInitialEvents is forbidden for list");
}

static void check_watch(const struct list_options *o, struct causes *c)
{
	static const char *const values[] = { "NotOlderThan", NULL };
	const char *match = str_or(o->version_match, ""), *at = "resourceVersionMatch";

	if (o->initial_events && !str_eq(match, "NotOlderThan"))
		causes_forbidden(
			c, at,
			"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
	if (*match && !o->initial_events)
		causes_forbidden(c, at,
				 "resourceVersionMatch is forbidden for watch unless "
				 "sendInitialEvents is provided");
	if (*match && !str_in(match, values))
		causes_unsupported(c, at, match, values);
	if (!str_empty(o->continue_token))
		causes_forbidden(c, at,
				 "resourceVersionMatch is forbidden when continue is provided");
}

static enum choice choice_of(const struct json *v)
{
	return !v ? CHOICE_UNSET : json_bool(v, false) ? CHOICE_TRUE : CHOICE_FALSE;
}

struct err *list_options_read(const struct options_input *in, struct list_options *ret)
{
	autoptr(json_doc) d = NULL;
	const struct json *o;
	struct err *e = read_query(OPTIONS_LIST, in, &d);

	if (e)
		return e;
	o = json_root(d);
	*ret = (struct list_options){
		.labels = arena_strdup(in->arena, json_get_str(o, "labelSelector")),
		.fields = arena_strdup(in->arena, json_get_str(o, "fieldSelector")),
		.resource_version = arena_strdup(in->arena, json_get_str(o, "resourceVersion")),
		.version_match = arena_strdup(in->arena, json_get_str(o, "resourceVersionMatch")),
		.continue_token = arena_strdup(in->arena, json_get_str(o, "continue")),
		.limit = json_get_int(o, "limit", 0),
		.timeout_s = json_get_int(o, "timeoutSeconds", -1),
		.watch = json_get_bool(o, "watch", false),
		.bookmarks = json_get_bool(o, "allowWatchBookmarks", false),
		.initial_events = choice_of(json_get(o, "sendInitialEvents")),
	};
	(ret->watch ? check_watch : check_list)(ret, in->causes);
	return verdict(OPTIONS_LIST, in->causes);
}
