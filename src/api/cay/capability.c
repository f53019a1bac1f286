/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/capability.h"

#include <inttypes.h>

#include "api/cay/read_priv.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"

/*
 * Capabilities as sets, and whether one set is in another. Each list stands for the union of what
 * its members match. A pattern that is in a union is in one of its members (pattern.c says why), so
 * lists are compared member by member. A place on the network is a host with ports, methods and
 * paths: it is taken apart into single ports, methods and paths before it is compared, for a union
 * of places may hold it although none of them does.
 */
static const char *const names[] = { "exec", "read", "write", "ports", "lifecycle", NULL };

static const char *const nothing[] = { NULL };
static const char *const everything[] = { "*", NULL };
static const int64_t https = 443;

const char *right_name(enum right r)
{
	return names[r];
}

enum right right_named(const char *name)
{
	enum right r = 0;

	while (r < RIGHT_MAX_ && !str_eq(names[r], name))
		r++;
	return r;
}

unsigned rights_read(const struct json *list)
{
	unsigned set = 0;

	json_each(it, json_is(list, JSON_ARR) ? list : NULL) {
		const char *name = json_str(it.val);

		set |= 1U << right_named(str_or(name, ""));
	}
	return set & RIGHTS_ALL;
}

void rights_write(unsigned rights, struct buf *b)
{
	bool any = false;

	for (enum right r = 0; r < RIGHT_MAX_; r++) {
		if (!(rights & 1U << r))
			continue;
		buf_printf(b, "%s%s", any ? ", " : "", names[r]);
		any = true;
	}
	if (!any)
		buf_add_str(b, "none");
}

struct json *rights_list(unsigned rights, struct json_doc *d)
{
	struct json *list = json_arr(d);

	for (enum right r = 0; r < RIGHT_MAX_; r++)
		if (rights & 1U << r)
			json_push_str(d, list, names[r]);
	return list;
}

/* Reading and writing */

static void read_ports(const struct json *list, struct arena *a, struct egress *ret)
{
	int64_t *ports = arena_new_n(a, int64_t, json_len(list) + 1);

	json_each(it, json_is(list, JSON_ARR) ? list : NULL)
		ports[ret->n_ports++] = json_int(it.val, 0);
	ret->ports = ports;
}

static void read_egress(const struct json *list, struct arena *a, struct capabilities *ret)
{
	struct egress *all;

	if (!json_is(list, JSON_ARR))
		return;
	ret->egress = all = arena_new_n(a, struct egress, json_len(list) + 1);
	json_each(it, list) {
		struct egress *e = &all[ret->n_egress];

		e->host = read_text(it.val, "host");
		if (!*e->host)
			continue;
		read_ports(json_get(it.val, "ports"), a, e);
		e->methods = read_texts(json_get(it.val, "methods"), a, nothing);
		e->paths = read_texts(json_get(it.val, "paths"), a, nothing);
		ret->n_egress++;
	}
}

void capabilities_read(const struct json *tree, struct arena *a, struct capabilities *ret)
{
	const struct json *rights = json_get(tree, "rights");

	*ret = (struct capabilities){
		.rights = json_is(rights, JSON_ARR) ? rights_read(rights) : RIGHTS_DEFAULT,
		.credentials = read_texts(json_get(tree, "credentials"), a, nothing),
		.tools = read_texts(json_get(tree, "tools"), a, everything),
		.runtime_classes = read_texts(json_get(tree, "runtimeClasses"), a, everything),
		.max_sandboxes = json_get_int(tree, "maxSandboxes", -1),
	};
	read_egress(json_get(tree, "egress"), a, ret);
}

void capabilities_read_ceiling(const struct json *tree, struct arena *a, struct capabilities *ret)
{
	capabilities_read(tree, a, ret);
	if (!json_is(json_get(tree, "rights"), JSON_ARR))
		ret->rights = RIGHTS_ALL;
	if (!json_is(json_get(tree, "credentials"), JSON_ARR))
		ret->credentials = everything;
	ret->all_egress = !json_is(json_get(tree, "egress"), JSON_ARR);
}

static struct json *write_texts(struct json_doc *d, const char *const *list)
{
	struct json *ret = json_arr(d);

	for (; *list; list++)
		json_push_str(d, ret, *list);
	return ret;
}

static struct json *write_egress(struct json_doc *d, const struct egress *e)
{
	struct json *ret = json_obj(d), *ports = json_arr(d);

	json_set_str(d, ret, "host", e->host);
	for (size_t i = 0; i < e->n_ports; i++)
		json_push(d, ports, json_new_int(d, e->ports[i]));
	if (e->n_ports)
		json_set(d, ret, "ports", ports);
	if (*e->methods)
		json_set(d, ret, "methods", write_texts(d, e->methods));
	if (*e->paths)
		json_set(d, ret, "paths", write_texts(d, e->paths));
	return ret;
}

struct json *capabilities_write(const struct capabilities *c, struct json_doc *d)
{
	struct json *ret = json_obj(d), *egress = json_arr(d);

	json_set(d, ret, "rights", rights_list(c->rights, d));
	for (size_t i = 0; i < c->n_egress; i++)
		json_push(d, egress, write_egress(d, &c->egress[i]));
	if (!c->all_egress)
		json_set(d, ret, "egress", egress);
	json_set(d, ret, "credentials", write_texts(d, c->credentials));
	json_set(d, ret, "tools", write_texts(d, c->tools));
	json_set(d, ret, "runtimeClasses", write_texts(d, c->runtime_classes));
	if (c->max_sandboxes >= 0)
		json_set_int(d, ret, "maxSandboxes", c->max_sandboxes);
	return ret;
}

/* Containment */

struct report {
	struct buf *path, *why;
};

/* Always false: that is what is reported. */
static bool exceeds(const struct report *r, const char *why, const char *fmt, ...)
	printf_like(3, 4);
static bool exceeds(const struct report *r, const char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (r->path)
		buf_vprintf(r->path, fmt, ap);
	va_end(ap);
	if (r->why)
		buf_add_str(r->why, why);
	return false;
}

static bool contain_rights(const struct report *r, unsigned outer, unsigned inner)
{
	int at = 0;

	for (enum right i = 0; i < RIGHT_MAX_; i++) {
		if (!(inner & 1U << i))
			continue;
		if (!(outer & 1U << i))
			return exceeds(r, names[i], "rights[%d]", at);
		at++;
	}
	return true;
}

static bool contain_patterns(const struct report *r, const char *name, const char *const *outer,
			     const char *const *inner)
{
	for (size_t i = 0; inner[i]; i++)
		if (!capabilities_list_has(outer, inner[i]))
			return exceeds(r, inner[i], "%s[%zu]", name, i);
	return true;
}

/* A place as it is compared: one port, method and path. NULL: any. */
struct spot {
	const char *host;
	int64_t port;
	const char *method, *path;
};

static bool has_port(const struct egress *e, int64_t port)
{
	for (size_t i = 0; i < e->n_ports; i++)
		if (e->ports[i] == port)
			return true;
	return !e->n_ports && port == https;
}

static bool has_method(const struct egress *e, const char *method)
{
	return !*e->methods || (method && str_in(method, e->methods));
}

static bool has_path(const struct egress *e, const char *path)
{
	return !*e->paths || capabilities_list_has(e->paths, path ? path : "*");
}

/* How much of it some place has, in the order in which members are blamed. */
enum fit {
	FIT_NONE,
	FIT_HOST,
	FIT_PORT,
	FIT_METHOD,
	FIT_ALL,
};

static enum fit fit_of(const struct egress *e, const struct spot *s)
{
	if (!host_contains(e->host, s->host))
		return FIT_NONE;
	if (!has_port(e, s->port))
		return FIT_HOST;
	if (!has_method(e, s->method))
		return FIT_PORT;
	return has_path(e, s->path) ? FIT_ALL : FIT_METHOD;
}

static enum fit best_fit(const struct capabilities *outer, const struct spot *s)
{
	enum fit best = FIT_NONE;

	for (size_t i = 0; i < outer->n_egress && best < FIT_ALL; i++)
		best = MAX(best, fit_of(&outer->egress[i], s));
	return best;
}

/* The number of the place, and those of its port, method and path. */
struct where {
	size_t i, port, method, path;
};

static bool blame_list(const struct report *r, const char *text, const struct where *w,
		       const char *list, size_t at)
{
	return text ? exceeds(r, text, "egress[%zu].%s[%zu]", w->i, list, at)
		    : exceeds(r, "everything", "egress[%zu].%s", w->i, list);
}

static bool blame(const struct report *r, const struct egress *e, const struct spot *s,
		  const struct where *w, enum fit fit)
{
	char port[24];

	switch (fit) {
	case FIT_NONE:
		return exceeds(r, s->host, "egress[%zu].host", w->i);
	case FIT_HOST:
		(void)snprintf(port, sizeof(port), "%" PRId64, s->port);
		return e->n_ports ? exceeds(r, port, "egress[%zu].ports[%zu]", w->i, w->port)
				  : exceeds(r, port, "egress[%zu].ports", w->i);
	case FIT_PORT:
		return blame_list(r, s->method, w, "methods", w->method);
	case FIT_METHOD:
		return blame_list(r, s->path, w, "paths", w->path);
	case FIT_ALL:
		break;
	}
	return true;
}

/* One port of one place: all of its methods and paths. */
static bool contain_port(const struct report *r, const struct capabilities *outer,
			 const struct egress *e, struct spot s, struct where w)
{
	do {
		s.method = e->methods[w.method];
		w.path = 0;
		do {
			s.path = e->paths[w.path];
			enum fit fit = best_fit(outer, &s);

			if (fit < FIT_ALL)
				return blame(r, e, &s, &w, fit);
		} while (s.path && e->paths[++w.path]);
	} while (s.method && e->methods[++w.method]);
	return true;
}

static bool contain_egress(const struct report *r, const struct capabilities *outer,
			   const struct capabilities *inner)
{
	if (outer->all_egress)
		return true;
	if (inner->all_egress)
		return exceeds(r, "everything", "egress");
	for (size_t i = 0; i < inner->n_egress; i++) {
		const struct egress *e = &inner->egress[i];

		for (size_t j = 0; j < MAX(e->n_ports, (size_t)1); j++) {
			const struct spot s = { .host = e->host,
						.port = e->n_ports ? e->ports[j] : https };

			if (!contain_port(r, outer, e, s, (struct where){ .i = i, .port = j }))
				return false;
		}
	}
	return true;
}

static bool contain_count(const struct report *r, int64_t outer, int64_t inner)
{
	char text[24];

	if (outer < 0 || (inner >= 0 && inner <= outer))
		return true;
	(void)snprintf(text, sizeof(text), "%" PRId64, inner);
	return exceeds(r, inner < 0 ? "no limit" : text, "maxSandboxes");
}

bool capabilities_contain(const struct capabilities *outer, const struct capabilities *inner,
			  struct buf *path, struct buf *why)
{
	const struct report r = { path, why };

	return contain_rights(&r, outer->rights, inner->rights) &&
	       contain_egress(&r, outer, inner) &&
	       contain_patterns(&r, "credentials", outer->credentials, inner->credentials) &&
	       contain_patterns(&r, "tools", outer->tools, inner->tools) &&
	       contain_patterns(&r, "runtimeClasses", outer->runtime_classes,
				inner->runtime_classes) &&
	       contain_count(&r, outer->max_sandboxes, inner->max_sandboxes);
}

bool capabilities_reach(const struct capabilities *c, const char *host, int64_t port,
			const char *method, const char *path)
{
	if (c->all_egress)
		return true;
	for (size_t i = 0; i < c->n_egress; i++) {
		const struct egress *e = &c->egress[i];

		if (host_matches(e->host, host) && has_port(e, port) && has_method(e, method) &&
		    (!*e->paths || (path && capabilities_list_has(e->paths, path))))
			return true;
	}
	return false;
}
