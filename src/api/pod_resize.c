/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/pod.h"
#include "api/validate_priv.h"
#include "base/str.h"

/*
 * The subresource resize of a Pod: what its containers request and may use of processors and
 * memory, and nothing else. Rules and texts are those of kube-apiserver 1.36.
 */
static const char *const lists[] = { "containers", "initContainers" };

static bool same_names(const struct json *now, const struct json *was)
{
	struct json_iter old = { .of = was };

	if (json_len(now) != json_len(was))
		return false;
	json_each(it, now)
		if (!json_next(&old) ||
		    !str_eq(json_get_str(it.val, "name"), json_get_str(old.val, "name")))
			return false;
	return true;
}

static void take_member(struct json_doc *d, struct json *to, const struct json *from,
			const char *name)
{
	const struct json *v = json_get(from, name);

	if (v)
		json_set(d, to, name, json_copy(d, v));
	else
		json_del(to, name);
}

/* Containers that are others now are taken as they are: the rules refuse them. */
void apply_pod_resize(struct json_doc *whole, const struct json *sent)
{
	struct json *spec = json_get(json_root(whole), "spec");

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct json *now = json_at_path(sent, "spec");
		struct json *list = json_get(spec, lists[i]);
		struct json_iter it = { .of = json_get(now, lists[i]) };

		if (!same_names(it.of, list)) {
			take_member(whole, spec, now, lists[i]);
			continue;
		}
		json_each(c, list) {
			(void)json_next(&it);
			take_member(whole, c.val, it.val, "resources");
			take_member(whole, c.val, it.val, "resizePolicy");
		}
	}
}

static void check_order(const struct json *spec, const struct json *old, const char *list,
			struct causes *c)
{
	const struct path *p = IN(IN(NULL, "spec"), list);
	struct json_iter was = { .of = json_get(old, list) };
	autofree char *text = NULL;
	size_t i = 0;

	if (json_len(json_get(spec, list)) != json_len(was.of)) {
		text = xasprintf("%s may not be added or removed on resize", list);
		bad_forbidden(c, p, text);
		return;
	}
	text = xasprintf("%s may not be renamed or reordered on resize", list);
	json_each(it, json_get(spec, list)) {
		const struct path *at = AT(p, i++);

		(void)json_next(&was);
		if (!str_eq(json_get_str(it.val, "name"), json_get_str(was.val, "name")))
			bad_forbidden(c, IN(at, "name"), text);
	}
}

static bool is_removed(const struct json *now, const struct json *was)
{
	json_each(it, was)
		if (!json_get(now, it.key))
			return true;
	return false;
}

static bool is_mutable(const char *name)
{
	static const char *const names[] = { "cpu", "memory", NULL };

	return str_in(name, names);
}

/* Every amount of `in` but those that may change is the same in `as`. */
static bool keeps_amounts(const struct json *in, const struct json *as)
{
	json_each(it, in)
		if (!is_mutable(it.key) &&
		    (!json_get(as, it.key) || !quantity_equal(it.val, json_get(as, it.key))))
			return false;
	return true;
}

static bool keeps_rest(const struct json *now, const struct json *was)
{
	static const char *const amounts[] = { "limits", "requests" };

	for (size_t i = 0; i < ARRAY_LEN(amounts); i++) {
		const struct json *n = json_get(json_get(now, "resources"), amounts[i]);
		const struct json *w = json_get(json_get(was, "resources"), amounts[i]);

		if (!keeps_amounts(n, w) || !keeps_amounts(w, n))
			return false;
	}
	json_each(it, now)
		if (!str_eq(it.key, "resources") && !json_equal(it.val, json_get(was, it.key)))
			return false;
	return !is_removed(now, was);
}

static void check_removed(const struct json *now, const struct json *was, const struct path *p,
			  struct causes *c)
{
	const struct json *n = json_get(now, "resources"), *w = json_get(was, "resources");

	if (is_removed(json_get(n, "requests"), json_get(w, "requests")))
		bad_forbidden(c, IN(IN(p, "resources"), "requests"),
			      "resource requests cannot be removed");
	if (is_removed(json_get(n, "limits"), json_get(w, "limits")))
		bad_forbidden(c, IN(IN(p, "resources"), "limits"),
			      "resource limits cannot be removed");
}

static void check_resized(const struct json *spec, const struct json *old, const char *list,
			  struct causes *c)
{
	const struct path *root = IN(NULL, "spec");
	struct json_iter was = { .of = json_get(old, list) };
	bool init = str_eq(list, "initContainers");
	size_t i = 0;

	json_each(it, json_get(spec, list)) {
		const struct path *p = AT(IN(root, list), i++);

		(void)json_next(&was);
		check_removed(it.val, was.val, p, c);
		if (keeps_rest(it.val, was.val))
			continue;
		if (init)
			bad_forbidden(c, p,
				      "only cpu and memory resources for init or sidecar "
				      "containers are mutable");
		else
			bad_forbidden(c, root, "only cpu and memory resources are mutable");
	}
}

void validate_pod_resize(const struct json *obj, const struct json *old, struct causes *c)
{
	const struct json *spec = json_get(obj, "spec"), *was = json_get(old, "spec");
	const char *qos = json_get_str(json_get(old, "status"), "qosClass");
	size_t n;

	validate_pod_spec(obj, c);
	if (!str_eq(str_or(qos, pod_qos(was)), pod_qos(spec)))
		bad_text(c, IN(NULL, "spec"), str_or(qos, ""),
			 "Pod QOS Class may not change as a result of resizing");
	n = c->n;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		check_order(spec, was, lists[i], c);
	for (size_t i = 0; i < ARRAY_LEN(lists) && c->n == n; i++)
		check_resized(spec, was, lists[ARRAY_LEN(lists) - 1 - i], c);
}
