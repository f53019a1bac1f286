/* SPDX-License-Identifier: Apache-2.0 */
#include "server/read/filter.h"

#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/objects/objects.h"

/*
 * What a list or a watch selects: a run of keys, then labels and fields. A field selector that
 * names one object (as the published clients send it) turns the run into that one key.
 */
/* Fields are matched in stored objects; their names are those of the requested version. */
static struct err *check_fields(struct selector *fields, const struct kind *k)
{
	const char *label, *path;

	for (size_t i = 0; (label = selector_key(fields, i)); i++) {
		path = kind_selectable(k, label);
		if (!path && (k->selectable || k->flags & (KIND_CRD | KIND_DEFINES)))
			return err_new(ERR_MALFORMED, "field label not supported: %s", label);
		if (!path)
			return err_new(ERR_MALFORMED,
				       "\"%s\" is not a known field selector: only "
				       "\"metadata.name\", \"metadata.namespace\"",
				       label);
		selector_set_key(fields, i, path);
	}
	return NULL;
}

/* Across all namespaces a name is not a key, unless the kind has no namespaces. */
static void narrow(struct filter *f, const struct route *r)
{
	const char *name = selector_wants(f->fields, "metadata.name");
	const char *ns = selector_wants(f->fields, "metadata.namespace");
	bool namespaced = r->kind->flags & KIND_NAMESPACED;

	if (namespaced && str_empty(r->ns) && str_empty(ns))
		name = NULL;
	key_prefix(&f->prefix, r->kind, str_empty(r->ns) ? ns : r->ns);
	if (str_empty(name) || strchr(name, '/'))
		return;
	buf_add_str(&f->prefix, name);
	f->exact = true;
}

struct err *filter_init(struct filter *f, struct call *c, const struct list_options *o)
{
	struct err *e = NULL;

	*f = (struct filter){ 0 };
	if (!str_empty(o->labels))
		e = selector_parse_labels(o->labels, &f->labels);
	if (!e && !str_empty(o->fields))
		e = selector_parse_fields(o->fields, &f->fields);
	if (!e && f->fields)
		e = check_fields(f->fields, c->route.kind);
	if (e)
		return e;
	if (*c->route.name) { /* a watch of one object by its path */
		autofree char *key = key_of(c->route.kind, c->route.ns, c->route.name);

		buf_add_str(&f->prefix, key);
		f->exact = true;
	} else {
		narrow(f, &c->route);
	}
	(void)buf_str(&f->prefix);
	return NULL;
}

struct err *version_read(struct call *c, const char *text, uint64_t newest, uint64_t *ret)
{
	uint64_t wanted = 0;
	struct err *e;

	if (str_empty(text))
		return NULL;
	e = parse_uint(text, UINT64_MAX, &wanted);
	if (e) {
		err_free(e);
		return err_new(ERR_MALFORMED,
			       "resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing "
			       "\"%s\": invalid syntax",
			       text, text);
	}
	if (wanted > newest) {
		/* client-go recognises it by this cause, and lists again without a version. */
		causes_add(&c->causes, CAUSE_VERSION, "", "Too large resource version");
		c->details = DETAILS_NONE;
		return err_new(ERR_TIMEOUT,
			       "Timeout: Too large resource version: %llu, current: %llu",
			       (unsigned long long)wanted, (unsigned long long)newest);
	}
	*ret = wanted;
	return NULL;
}

bool filter_matches(const struct filter *f, const struct object *o)
{
	const struct json *meta;

	if (!f->labels && !f->fields)
		return true;
	meta = json_get(o->root, "metadata");
	return selector_matches_labels(f->labels, json_get(meta, "labels")) &&
	       (!f->fields || selector_matches_fields(f->fields, o->root));
}

void filter_done(struct filter *f)
{
	selector_free(f->labels);
	selector_free(f->fields);
	buf_done(&f->prefix);
}
