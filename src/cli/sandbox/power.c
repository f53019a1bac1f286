/* SPDX-License-Identifier: Apache-2.0 */
/* `cay suspend` and `cay resume`. */
#include <stdio.h>

#include "api/agents.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/sandbox/sandbox_priv.h"

enum {
	HOUR_MS = 3600 * 1000,
	WATCH_AGAIN_MS = 200, /* a watch that ended is begun anew */
};

const struct setting power_settings[] = {
	{ "wait", SETTING_BOOL, "false", NULL, "Wait until it sleeps, or is Ready again" },
	{ "timeout", SETTING_DURATION, "60s", "TIME", "How long to wait", .max = HOUR_MS },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

struct wait {
	struct feed feed;
	const char *condition;
	char *revision; /* to watch from; NULL: from the state it is in */
	bool there;
	struct err *e;
};

static bool holds(const struct json *object, const char *condition)
{
	return str_eq(json_get_str(condition_of(object, condition), "status"), "True");
}

static bool on_event(struct feed *f, const char *p, size_t len)
{
	struct wait *w = container_of(f, struct wait, feed);
	autoptr(json_doc) doc = NULL;
	const struct json *object;
	const char *type, *revision;

	w->e = json_parse(p, len, NULL, &doc);
	if (w->e)
		return false;
	object = json_get(json_root(doc), "object");
	type = json_get_str(json_root(doc), "type");
	free(take(w->revision));
	if (str_eq(type, "ERROR")) /* it cannot be watched from there any more */
		return false;
	if (str_eq(type, "DELETED")) {
		w->e = err_new(ERR_NOT_FOUND, "somebody has deleted it");
		return false;
	}
	revision = json_str(json_at_path(object, "metadata.resourceVersion"));
	w->revision = revision ? xstrdup(revision) : NULL;
	w->there = holds(object, w->condition);
	return !w->there;
}

/* One watch, which may end before anything has happened. */
static struct err *watch_once(struct remote *r, const char *name, struct wait *w)
{
	autofree char *all = path_sandboxes(remote_ns(r), NULL);
	autofree char *path =
		xasprintf("%s?watch=true&fieldSelector=metadata.name%%3D%s%s%s", all, name,
			  w->revision ? "&resourceVersion=" : "", w->revision ? w->revision : "");
	struct err *e = remote_feed(r, path, &w->feed);

	if (!e)
		e = take(w->e);
	if (!e && !w->there)
		e = remote_pause(r, WATCH_AGAIN_MS);
	return e;
}

static struct err *wait_for(struct remote *r, const struct json *patched, struct wait *w)
{
	const struct json *meta = json_get(patched, "metadata");
	const char *name = json_get_str(meta, "name");
	usec deadline = clock_mono() + (usec)w->feed.timeout_ms * 1000;
	struct err *e = NULL;

	w->there = holds(patched, w->condition);
	w->revision = xstrdup(str_or(json_get_str(meta, "resourceVersion"), "0"));
	while (!e && !w->there) {
		usec left = (deadline - clock_mono()) / 1000;

		if (left <= 0)
			break;
		w->feed.timeout_ms = (uint64_t)left;
		e = watch_once(r, name, w);
	}
	free(w->revision);
	err_free(w->e);
	if (!e && !w->there)
		e = err_new(ERR_TIMEOUT,
			    "the condition %s is not True in time; see `cay explain %s`",
			    w->condition, name);
	return e;
}

static struct err *set_mode(struct remote *r, const struct settings *s, bool suspend)
{
	struct wait w = { .feed = { .line = on_event,
				    .timeout_ms = (uint64_t)settings_int(s, "timeout") },
			  .condition = suspend ? "Suspended" : "Ready" };
	/* The mark of idleness would let the next request wake it. */
	const char *body = suspend ? "{\"metadata\":{\"annotations\":{\"" KEY_ASLEEP_SINCE
				     "\":null}},\"spec\":{\"operatingMode\":\"Suspended\"}}"
				   : "{\"spec\":{\"operatingMode\":\"Running\"}}";
	autofree char *path = NULL;
	autoptr(json_doc) doc = NULL;
	struct named t = { 0 };
	struct err *e = named_find(r, settings_arg(s, 0), &t);

	if (!e) {
		path = path_sandboxes(t.ns, t.sandbox);
		e = remote_ask(r,
			       &(struct ask){ .method = "PATCH",
					      .path = path,
					      .body = body,
					      .type = "application/merge-patch+json" },
			       &doc);
	}
	if (!e && settings_bool(s, "wait"))
		e = wait_for(r, json_root(doc), &w);
	if (!e && str_eq(settings_text(s, "output"), "text"))
		(void)printf("sandbox/%s %s%s\n", t.sandbox,
			     settings_bool(s, "wait") ? "" : "will be ",
			     suspend ? "suspended" : "resumed");
	else if (!e)
		cli_print(json_root(doc), settings_text(s, "output"));
	named_done(&t);
	return e;
}

static int power(const struct command *c, const struct settings *s, bool suspend)
{
	autoptr(remote) r = NULL;
	struct err *e = NULL;

	if (settings_n_args(s) != 1)
		e = err_new(ERR_INVALID, "give one name: cay %s NAME", c->name);
	if (!e)
		e = remote_open(s, &r);
	if (!e)
		e = set_mode(r, s, suspend);
	return e ? cli_fail(err_wrap(e, "%s", c->name)) : EXIT_OK;
}

int suspend_run(const struct command *c, const struct settings *s)
{
	return power(c, s, true);
}

int resume_run(const struct command *c, const struct settings *s)
{
	return power(c, s, false);
}
