/* SPDX-License-Identifier: Apache-2.0 */
/* `cay session`: conversations, from the first word to the end. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/agent/agent_priv.h"

enum {
	HOUR_MS = 3600 * 1000,
	AGAIN_MS = 200, /* a watch that ended is begun anew */
	SUFFIX_LEN = 5,
};

const struct setting session_settings[] = {
	{ "title", SETTING_TEXT, NULL, "TEXT", "new: what it is about" },
	{ "sandbox", SETTING_TEXT, NULL, "NAME",
	  "new: a Sandbox, or new, or none (default: as the agent's mode says)" },
	{ "user", SETTING_TEXT, NULL, "NAME", "new: the user whom it is for" },
	{ "retain", SETTING_TEXT, NULL, "TIME",
	  "new: how long its own sandbox is kept after the end (default: as the agent says)" },
	{ "name", SETTING_TEXT, NULL, "NAME",
	  "new: name of the session (default: the agent's, with a suffix)" },
	{ "wait", SETTING_BOOL, "true", NULL, "new: wait until it is Active" },
	{ "timeout", SETTING_DURATION, "60s", "TIME", "new: how long to wait", .max = HOUR_MS },
	LIST_SETTING,
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

/* New */

struct wait {
	struct feed feed;
	struct json_doc *last; /* the session as it was last seen */
	bool over;
	struct err *e;
};

/* Reasons that do not go away by themselves. */
static bool is_hopeless(const char *reason)
{
	static const char *const reasons[] = {
		"AgentNotFound",
		"AgentNotReady",
		"NoPool",
		"PoolNotFound",
		"TemplateNotFound",
		"TemplateNotAllowed",
		"MaxSandboxes",
		"BudgetExceeded",
		"ClaimRefused",
		"ClaimNameTaken",
		"RuntimeClassNotAllowed",
		"SandboxNotFound",
		"AttachmentNameTaken",
		NULL,
	};

	return str_in(reason, reasons);
}

static struct err *judge(const struct json *o, bool *ret_over)
{
	const char *phase = json_str(json_at_path(o, "status.phase"));
	const struct json *ready = condition_of(o, "Ready");
	const char *reason = str_or(json_get_str(ready, "reason"), "");

	*ret_over = str_eq(phase, "Active") || str_eq(reason, "NoSandboxChosen");
	if (str_eq(phase, "Failed") || str_eq(phase, "Ended") || is_hopeless(reason))
		return err_new(ERR_UNAVAILABLE, "session %s is %s: %s (%s)",
			       str_or(json_str(json_at_path(o, "metadata.name")), ""),
			       str_or(phase, "Pending"),
			       str_or(json_get_str(ready, "message"), "no reason is given"),
			       reason);
	return NULL;
}

static bool on_event(struct feed *f, const char *p, size_t len)
{
	struct wait *w = container_of(f, struct wait, feed);
	autoptr(json_doc) doc = NULL;
	const struct json *o;

	w->e = json_parse(p, len, NULL, &doc);
	o = w->e ? NULL : json_get(json_root(doc), "object");
	if (w->e || str_eq(json_get_str(json_root(doc), "type"), "ERROR"))
		return false;
	if (str_eq(json_get_str(json_root(doc), "type"), "DELETED")) {
		w->e = err_new(ERR_NOT_FOUND, "somebody has deleted it");
		return false;
	}
	json_doc_free(w->last);
	w->last = json_doc_new();
	json_set_root(w->last, json_copy(w->last, o));
	w->e = judge(o, &w->over);
	return !w->e && !w->over;
}

/* Until it is Active, or cannot become so. */
static struct err *wait_active(struct remote *r, const char *name, struct wait *w)
{
	autofree char *all = cay_path(&kind_sessions, remote_ns(r), NULL);
	autofree char *path =
		xasprintf("%s?watch=true&fieldSelector=metadata.name%%3D%s", all, name);
	usec deadline = clock_mono() + (usec)w->feed.timeout_ms * 1000;
	const struct json *ready;
	struct err *e = NULL;

	while (!e && !w->over) {
		usec left = (deadline - clock_mono()) / 1000;

		if (left <= 0)
			break;
		w->feed.timeout_ms = (uint64_t)left;
		e = remote_feed(r, path, &w->feed);
		if (!e)
			e = take(w->e);
		if (!e && !w->over && !w->feed.late)
			e = remote_pause(r, AGAIN_MS);
	}
	ready = w->last ? condition_of(json_root(w->last), "Ready") : NULL;
	if (!e && !w->over)
		e = err_new(ERR_TIMEOUT, "session %s is not Active in time: %s", name,
			    str_or(json_get_str(ready, "message"), "nobody has looked at it"));
	return e;
}

static struct json_doc *draft(const struct settings *s)
{
	static const char *const texts[] = { "title", "sandbox", "user", "retain" };
	const char *agent = settings_arg(s, 1);
	char suffix[SUFFIX_LEN + 1];
	autofree char *name = xstrdup(settings_text(s, "name"));
	struct json *spec;
	struct json_doc *d;

	random_suffix(suffix, SUFFIX_LEN);
	if (!name)
		name = xasprintf("%s-%s", agent, suffix);
	d = cay_draft("Session", name, &spec);
	json_set_str(d, spec, "agent", agent);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (settings_text(s, texts[i]))
			json_set_str(d, spec, texts[i], settings_text(s, texts[i]));
	return d;
}

static void print_new(const struct settings *s, const struct json *o)
{
	const char *sandbox = json_str(json_at_path(o, "status.sandbox"));
	autofree char *what =
		sandbox ? xasprintf("%s  sandbox/%s",
				    str_or(json_str(json_at_path(o, "status.phase")), "made"),
				    sandbox)
			: xstrdup(str_or(json_str(json_at_path(o, "status.phase")), "made"));

	cay_said(s, &kind_sessions, o, what);
}

static struct err *new_session(struct remote *r, const struct settings *s)
{
	struct wait w = { .feed = { .line = on_event,
				    .timeout_ms = (uint64_t)settings_int(s, "timeout") } };
	autoptr(json_doc) d = draft(s);
	autoptr(json_doc) made = NULL;
	struct err *e = cay_create(r, &kind_sessions, json_root(d), &made);

	if (!e && settings_bool(s, "wait"))
		e = wait_active(r, json_str(json_at_path(json_root(made), "metadata.name")), &w);
	if (!e)
		print_new(s, json_root(w.last ? w.last : made));
	json_doc_free(w.last);
	return e;
}

/* The others */

static struct err *list(struct remote *r, const struct settings *s)
{
	return cay_list(r, s, &kind_sessions);
}

static struct err *show(struct remote *r, const struct settings *s)
{
	return cay_show(r, s, &kind_sessions, settings_arg(s, 1));
}

static struct err *set_ended(struct remote *r, const struct settings *s, bool ended)
{
	autofree char *path = cay_path(&kind_sessions, remote_ns(r), settings_arg(s, 1));
	autoptr(json_doc) doc = NULL;
	struct err *e = cay_patch(
		r, path, "", ended ? "{\"spec\":{\"ended\":true}}" : "{\"spec\":{\"ended\":false}}",
		&doc);

	if (!e)
		cay_said(s, &kind_sessions, json_root(doc), ended ? "ended" : "goes on");
	return e;
}

static struct err *end(struct remote *r, const struct settings *s)
{
	return set_ended(r, s, true);
}

static struct err *resume(struct remote *r, const struct settings *s)
{
	return set_ended(r, s, false);
}

static struct err *remove_it(struct remote *r, const struct settings *s)
{
	return cay_remove(r, s, &kind_sessions, settings_arg(s, 1));
}

int session_cmd(const struct command *c, const struct settings *s)
{
	static const struct verb verbs[] = {
		{ "new", 1, 1, new_session },
		{ "ls", 0, 0, list },
		{ "show", 1, 1, show },
		{ "end", 1, 1, end },
		{ "resume", 1, 1, resume },
		{ "rm", 1, 1, remove_it },
		{ 0 },
	};

	return verbs_run(c, s, verbs);
}
