/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/view.h"
#include "base/buf.h"
#include "base/str.h"
#include "control/sandbox/sandbox_priv.h"

/*
 * What keeps a Pod from being ready, in the words of whoever found out: the scheduler, the node, or
 * the container itself. A start that goes well has nothing to say here, so that its report is
 * written as rarely as without this.
 */
enum {
	TROUBLE_MAX = 1024, /* bytes; part of it comes from the sandbox */
};

/* "reason: message", or whichever of them there is. False: neither. */
static bool say_why(const struct json *o, struct buf *out)
{
	const char *reason = json_get_str(o, "reason"), *message = json_get_str(o, "message");

	buf_add_str(out, str_or(reason, ""));
	if (!str_empty(message))
		buf_printf(out, "%s%s", str_empty(reason) ? "" : ": ", message);
	return !str_empty(reason) || !str_empty(message);
}

static bool unscheduled(const struct json *status, struct buf *out)
{
	struct condition_view c = condition_view_of(json_get(status, "conditions"), "PodScheduled");

	return str_eq(c.status, "False") && say_why(c.tree, out);
}

/* How a container ended: its reason and, if it did not succeed, its code. */
static void say_ending(const struct json *ending, struct buf *out)
{
	int64_t code = json_get_int(ending, "exitCode", 0);
	const char *message = json_get_str(ending, "message");

	buf_add_str(out, str_or(json_get_str(ending, "reason"), "ended"));
	if (code)
		buf_printf(out, ", exit code %lld", (long long)code);
	if (!str_empty(message))
		buf_printf(out, ": %s", message);
}

/* Every start passes through these. They are news only if they come with a message. */
static bool is_on_its_way(const struct json *waiting)
{
	const char *reason = json_get_str(waiting, "reason");

	return str_empty(json_get_str(waiting, "message")) &&
	       (str_empty(reason) || str_eq(reason, "ContainerCreating") ||
		str_eq(reason, "PodInitializing"));
}

/* False: this container is not what the Pod waits for. */
static bool say_container(const struct json *c, bool init, struct buf *out)
{
	const struct json *waiting = json_at_path(c, "state.waiting");
	const struct json *ended = json_at_path(c, "state.terminated");
	const struct json *last = json_at_path(c, "lastState.terminated");
	bool waits = waiting && (last || !is_on_its_way(waiting));

	if (!waits && (!ended || (init && !json_get_int(ended, "exitCode", 0))))
		return false;
	buf_printf(out, "container %s: ", str_or(json_get_str(c, "name"), ""));
	if (!waits) {
		say_ending(ended, out);
		return true;
	}
	(void)say_why(waiting, out);
	if (last) {
		buf_add_str(out, "; it last ended with ");
		say_ending(last, out);
	}
	return true;
}

static bool say_containers(const struct json *status, struct buf *out)
{
	static const char *const lists[] = { "initContainerStatuses", "containerStatuses" };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_each(it, json_get(status, lists[i]))
			if (say_container(it.val, i == 0, out))
				return true;
	return false;
}

/* All containers run: a probe has not succeeded, or a readiness gate is not open. */
static void say_unready(const struct json *status, struct buf *out)
{
	struct condition_view c = condition_view_of(json_get(status, "conditions"), "Ready");

	if (!str_eq(json_get_str(status, "phase"), "Running") || c.is_true)
		return;
	if (str_eq(c.reason, "ContainersNotReady"))
		buf_add_str(out, str_or(c.message, ""));
	else
		(void)say_why(c.tree, out);
}

/* Adds the text as one line of bounded length. */
static void add_line(struct buf *out, const struct buf *text)
{
	const char *p;
	size_t len;

	if (!text->len)
		return;
	p = buf_head(text);
	len = utf8_prefix(p, MIN(text->len, (size_t)TROUBLE_MAX));
	buf_add_str(out, "; ");
	for (size_t i = 0; i < len; i++)
		buf_add_char(out, iscntrl((unsigned char)p[i]) ? ' ' : p[i]);
}

void pod_trouble(const struct object *pod, struct buf *out)
{
	const struct json *status = object_status(pod);
	autobuf text = { 0 };

	if (!unscheduled(status, &text) && !say_containers(status, &text))
		say_unready(status, &text);
	add_line(out, &text);
}
