/* SPDX-License-Identifier: Apache-2.0 */
#include "api/quota.h"
#include "base/str.h"
#include "json/json.h"

/*
 * How much of one resource a Pod requests, or is limited to. One resource is looked at at a time,
 * so that the work is bounded by the size of the Pod, whatever resources its author has thought of.
 */
struct sum {
	struct quantity q;
	bool any;
};

static void sum_add(struct sum *s, const struct sum *more)
{
	if (!more->any)
		return;
	quantity_add(&s->q, &more->q);
	s->any = true;
}

static void sum_raise(struct sum *s, const struct sum *to)
{
	if (to->any && (!s->any || quantity_cmp(&to->q, &s->q) > 0))
		*s = *to;
}

static struct sum read_amount(const struct json *map, const char *name)
{
	struct sum s = { 0 };

	s.any = quantity_read(json_get(map, name), &s.q);
	return s;
}

static const char *member(enum pod_amount which)
{
	return which == POD_REQUESTS ? "requests" : "limits";
}

/* What was asked for cannot be had: the Pod keeps what it has. */
static bool is_infeasible(const struct json *status)
{
	json_each(it, json_get(status, "conditions"))
		if (str_eq(json_get_str(it.val, "type"), "PodResizePending"))
			return str_eq(json_get_str(it.val, "reason"), "Infeasible");
	return false;
}

static const struct json *status_of(const struct json *list, const char *name)
{
	json_each(it, list)
		if (str_eq(json_get_str(it.val, "name"), name))
			return it.val;
	return NULL;
}

struct asked {
	enum pod_amount which;
	const char *name;
	const struct json *status; /* of the Pod; NULL: it does not matter */
};

/* index: where the status of the container probably is. */
static struct sum of_container(const struct asked *a, const struct json *container,
			       const char *statuses, size_t index)
{
	struct sum s =
		read_amount(json_get(json_get(container, "resources"), member(a->which)), a->name);
	const struct json *list = json_get(a->status, statuses), *at = json_at(list, index);
	const char *name = json_get_str(container, "name");
	struct sum has, allocated = { 0 };

	if (!str_eq(json_get_str(at, "name"), name))
		at = status_of(list, name);
	if (!json_get(at, "resources"))
		return s;
	has = read_amount(json_get(json_get(at, "resources"), member(a->which)), a->name);
	if (a->which == POD_REQUESTS)
		allocated = read_amount(json_get(at, "allocatedResources"), a->name);
	if (is_infeasible(a->status))
		s = (struct sum){ 0 };
	sum_raise(&s, &has);
	sum_raise(&s, &allocated);
	return s;
}

static struct sum of_containers(const struct asked *a, const struct json *spec)
{
	struct sum all = { 0 }, sidecars = { 0 }, most = { 0 };
	size_t i = 0;

	json_each(it, json_get(spec, "containers")) {
		struct sum s = of_container(a, it.val, "containerStatuses", i++);

		sum_add(&all, &s);
	}
	i = 0;
	json_each(it, json_get(spec, "initContainers")) {
		struct sum s = of_container(a, it.val, "initContainerStatuses", i++);

		if (str_eq(json_get_str(it.val, "restartPolicy"), "Always")) {
			sum_add(&all, &s);
			sum_add(&sidecars, &s);
			s = sidecars;
		} else {
			sum_add(&s, &sidecars);
		}
		sum_raise(&most, &s);
	}
	sum_raise(&all, &most);
	return all;
}

static bool is_for_pods(const char *name)
{
	return str_eq(name, "cpu") || str_eq(name, "memory") || str_starts(name, "hugepages-");
}

bool pod_has_amounts(const struct json *pod)
{
	const struct json *r = json_at_path(pod, "spec.resources");

	return json_len(json_get(r, "requests")) || json_len(json_get(r, "limits"));
}

bool pod_amount(const struct json *pod, enum pod_amount which, const char *name, unsigned flags,
		struct quantity *ret)
{
	const struct json *spec = json_get(pod, "spec");
	const struct asked a = { .which = which,
				 .name = name,
				 .status = flags & POD_AMOUNT_STATUS ? json_get(pod, "status")
								     : NULL };
	struct sum s = of_containers(&a, spec), more;

	if (is_for_pods(name)) {
		more = read_amount(json_get(json_get(spec, "resources"), member(which)), name);
		if (more.any)
			s = more;
	}
	more = read_amount(json_get(spec, "overhead"), name);
	if ((flags & POD_AMOUNT_OVERHEAD) && (which == POD_REQUESTS || (s.any && s.q.nano)))
		sum_add(&s, &more);
	if (s.any)
		*ret = s.q;
	return s.any;
}
