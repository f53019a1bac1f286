/* SPDX-License-Identifier: Apache-2.0 */
#include "server/policy/limits.h"

#include <stdlib.h>
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/quota.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * LimitRanges. They are read from the store each time: there are one or two in a namespace, and a
 * namespace without any costs one search.
 */
#define ANNOTATION "kubernetes.io/limit-ranger"

/* Calls fn for each entry of each LimitRange in the namespace. */
static void each_limit(const struct objects *os, const char *ns,
		       void (*fn)(void *arg, const struct json *limit), void *arg)
{
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, os->limit_range, ns);
	while ((en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(os, en);

		json_each(it, o ? json_get(object_spec(o), "limits") : NULL)
			fn(arg, it.val);
	}
}

/* The names of a map in their order, ending with NULL; the names are borrowed. */
static const char **sorted_names(const struct json *map)
{
	const char **names = xnew_n(const char *, json_len(map) + 1);
	size_t n = 0;

	json_each(it, json_is(map, JSON_OBJ) ? map : NULL)
		names[n++] = it.key;
	str_sort(names, n);
	return names;
}

/* Filling in */

struct filling {
	struct json_doc *d;
	struct buf text; /* what was set, as the annotation says it */
};

static void merge(struct filling *f, struct json *container, const char *member,
		  const struct json *from, const char *what)
{
	struct json *resources = json_need_obj(f->d, container, "resources");
	autofree const char **names = sorted_names(from);
	struct json *have = json_len(from) ? json_need_obj(f->d, resources, member) : NULL;
	bool any = false;

	for (size_t i = 0; names[i]; i++) {
		if (json_get(have, names[i]))
			continue;
		json_set(f->d, have, names[i], json_copy(f->d, json_get(from, names[i])));
		buf_printf(&f->text, "%s%s", any ? ", " : f->text.len ? "; " : "", names[i]);
		any = true;
	}
	if (any)
		buf_printf(&f->text, " %s %s", what, str_or(json_get_str(container, "name"), ""));
}

static void fill_limit(void *arg, const struct json *limit)
{
	struct filling *f = arg;
	struct json *spec = json_need_obj(f->d, json_root(f->d), "spec");

	if (!str_eq(json_get_str(limit, "type"), "Container"))
		return;
	json_each(it, json_get(spec, "containers")) {
		merge(f, it.val, "requests", json_get(limit, "defaultRequest"),
		      "request for container");
		merge(f, it.val, "limits", json_get(limit, "default"), "limit for container");
	}
	json_each(it, json_get(spec, "initContainers")) {
		merge(f, it.val, "requests", json_get(limit, "defaultRequest"),
		      "request for init container");
		merge(f, it.val, "limits", json_get(limit, "default"), "limit for init container");
	}
}

bool limits_fill(const struct objects *os, const char *ns, struct json_doc *pod)
{
	struct filling f = { .d = pod };
	bool any;

	each_limit(os, ns, fill_limit, &f);
	any = f.text.len;
	if (any) {
		struct json *meta = json_need_obj(pod, json_root(pod), "metadata");
		autofree char *text = xasprintf("LimitRanger plugin set: %s", buf_str(&f.text));

		json_set_str(pod, json_need_obj(pod, meta, "annotations"), ANNOTATION, text);
	}
	buf_done(&f.text);
	return any;
}

/* Checking */

enum {
	COMPLAINTS_MAX = 64,
};

struct checking {
	const struct json *obj;
	char *complaints[COMPLAINTS_MAX];
	size_t n;
};

static void complain(struct checking *c, char *text)
{
	for (size_t i = 0; text && i < c->n; i++)
		if (str_eq(c->complaints[i], text)) {
			free(text);
			return;
		}
	if (text && c->n < COMPLAINTS_MAX)
		c->complaints[c->n++] = text;
	else
		free(text);
}

/* One resource of what is checked: a container, a Pod, or a claim. */
struct use {
	const char *type, *name;
	bool has_request, has_limit;
	struct quantity request, limit;
	bool claim; /* it has no limits */
};

static char *check_min(const struct use *u, const struct quantity *min)
{
	char least[QUANTITY_TEXT_MAX], has[QUANTITY_TEXT_MAX];

	quantity_text(min, least);
	if (!u->has_request)
		return xasprintf("minimum %s usage per %s is %s.  No request is specified", u->name,
				 u->type, least);
	quantity_text(&u->request, has);
	if (quantity_cmp(&u->request, min) < 0)
		return xasprintf("minimum %s usage per %s is %s, but request is %s", u->name,
				 u->type, least, has);
	quantity_text(&u->limit, has);
	if (u->has_limit && quantity_cmp(&u->limit, min) < 0)
		return xasprintf("minimum %s usage per %s is %s, but limit is %s", u->name, u->type,
				 least, has);
	return NULL;
}

static char *check_max(const struct use *u, const struct quantity *max)
{
	char most[QUANTITY_TEXT_MAX], has[QUANTITY_TEXT_MAX];

	quantity_text(max, most);
	if (u->claim ? !u->has_request : !u->has_limit)
		return xasprintf("maximum %s usage per %s is %s.  No %s is specified", u->name,
				 u->type, most, u->claim ? "request" : "limit");
	quantity_text(&u->limit, has);
	if (u->has_limit && quantity_cmp(&u->limit, max) > 0)
		return xasprintf("maximum %s usage per %s is %s, but limit is %s", u->name, u->type,
				 most, has);
	quantity_text(&u->request, has);
	if (u->has_request && quantity_cmp(&u->request, max) > 0)
		return xasprintf("maximum %s usage per %s is %s, but request is %s", u->name,
				 u->type, most, has);
	return NULL;
}

static char *check_ratio(const struct use *u, const struct quantity *max)
{
	char most[QUANTITY_TEXT_MAX];
	double ratio;

	quantity_text(max, most);
	if (!u->has_request || !u->request.nano)
		return xasprintf("%s max limit to request ratio per %s is %s, but no request is "
				 "specified or request is 0",
				 u->name, u->type, most);
	if (!u->has_limit || !u->limit.nano)
		return xasprintf("%s max limit to request ratio per %s is %s, but no limit is "
				 "specified or limit is 0",
				 u->name, u->type, most);
	ratio = (double)u->limit.nano / (double)u->request.nano;
	if (ratio * 1e9 <= (double)max->nano)
		return NULL;
	return xasprintf("%s max limit to request ratio per %s is %s, but provided ratio is %f",
			 u->name, u->type, most, ratio);
}

static const struct {
	const char *member;
	char *(*check)(const struct use *u, const struct quantity *bound);
} bounds[] = {
	{ "min", check_min },
	{ "max", check_max },
	{ "maxLimitRequestRatio", check_ratio },
};

/* Fills in how much of u->name is used. */
typedef void (*measure_fn)(const struct json *of, struct use *u);

static void of_container(const struct json *container, struct use *u)
{
	const struct json *r = json_get(container, "resources");

	u->has_request = quantity_read(json_get(json_get(r, "requests"), u->name), &u->request);
	u->has_limit = quantity_read(json_get(json_get(r, "limits"), u->name), &u->limit) &&
		       u->limit.nano; /* a limit of nothing is none */
}

static void of_pod(const struct json *pod, struct use *u)
{
	u->has_request = pod_amount(pod, POD_REQUESTS, u->name, 0, &u->request);
	u->has_limit = pod_amount(pod, POD_LIMITS, u->name, 0, &u->limit);
}

static void of_claim(const struct json *claim, struct use *u)
{
	const struct json *r = json_at_path(claim, "spec.resources.requests");

	u->claim = true;
	u->has_request = quantity_read(json_get(r, u->name), &u->request);
}

static void check(struct checking *c, const struct json *limit, const struct json *of,
		  measure_fn measure)
{
	for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
		const struct json *map = json_get(limit, bounds[i].member);
		autofree const char **names = sorted_names(map);

		for (size_t k = 0; names[k]; k++) {
			struct use u = { .type = json_get_str(limit, "type"), .name = names[k] };
			struct quantity bound;

			measure(of, &u);
			if (u.claim && bounds[i].check == check_ratio)
				continue;
			if (quantity_read(json_get(map, names[k]), &bound))
				complain(c, bounds[i].check(&u, &bound));
		}
	}
}

static void check_pod(void *arg, const struct json *limit)
{
	const char *type = json_get_str(limit, "type");
	struct checking *c = arg;

	if (str_eq(type, "Container")) {
		json_each(it, json_at_path(c->obj, "spec.containers"))
			check(c, limit, it.val, of_container);
		json_each(it, json_at_path(c->obj, "spec.initContainers"))
			check(c, limit, it.val, of_container);
	}
	if (str_eq(type, "Pod"))
		check(c, limit, c->obj, of_pod);
}

static void check_claim(void *arg, const struct json *limit)
{
	struct checking *c = arg;

	if (str_eq(json_get_str(limit, "type"), "PersistentVolumeClaim"))
		check(c, limit, c->obj, of_claim);
}

static char *refuse(const struct objects *os, const char *ns, const struct json *obj,
		    void (*fn)(void *arg, const struct json *limit))
{
	struct checking c = { .obj = obj };
	autobuf out = { 0 };

	each_limit(os, ns, fn, &c);
	for (size_t i = 0; i < c.n; i++) {
		buf_printf(&out, "%s%s", i ? ", " : c.n > 1 ? "[" : "", c.complaints[i]);
		free(c.complaints[i]);
	}
	if (c.n > 1)
		buf_add_str(&out, "]");
	return c.n ? xstrdup(buf_str(&out)) : NULL;
}

char *limits_refuse_pod(const struct objects *os, const char *ns, const struct json *pod)
{
	return refuse(os, ns, pod, check_pod);
}

char *limits_refuse_claim(const struct objects *os, const char *ns, const struct json *claim)
{
	return refuse(os, ns, claim, check_claim);
}
