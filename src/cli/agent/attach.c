/* SPDX-License-Identifier: Apache-2.0 */
/* `cay attach` and `cay detach`: a sandbox more, or less, in a session. */
#include "base/mem.h"
#include "cli/agent/agent_priv.h"

static const char *const views[] = { "Shared", "ReadOnly", "Scratch", NULL };

const struct setting attach_settings[] = {
	{ "right", SETTING_LIST, NULL, "RIGHT",
	  "exec, read, write, ports or lifecycle; may be given again (default: the first four, "
	  "without write for a ReadOnly view)" },
	{ "view", SETTING_CHOICE, "Shared", "VIEW",
	  "What commands see: Shared, ReadOnly, or Scratch, where nothing stays",
	  .choices = views },
	{ "name", SETTING_TEXT, NULL, "NAME",
	  "Name of the attachment (default: those of session and sandbox)" },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};
const struct setting detach_settings[] = {
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

static struct json_doc *draft(const struct settings *s, const char *sandbox)
{
	const char *session = settings_arg(s, 0), *right;
	autofree char *name = xstrdup(settings_text(s, "name"));
	struct json *spec;
	struct json_doc *d;

	if (!name)
		name = xasprintf("%s-%s", session, sandbox);
	d = cay_draft("Attachment", name, &spec);
	json_set_str(d, spec, "session", session);
	json_set_str(d, spec, "sandbox", sandbox);
	json_set_str(d, spec, "view", settings_text(s, "view"));
	for (size_t i = 0; (right = settings_nth(s, "right", i)); i++)
		json_push_str(d, json_need_arr(d, spec, "rights"), right);
	return d;
}

static struct err *attach(struct remote *r, const struct settings *s)
{
	autofree char *session = cay_path(&kind_sessions, remote_ns(r), settings_arg(s, 0));
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) made = NULL;
	struct named t = { 0 };
	struct err *e = remote_get(r, session, NULL);

	if (!e)
		e = named_find(r, settings_arg(s, 1), &t);
	if (!e) {
		d = draft(s, t.sandbox);
		e = cay_create(r, &kind_attachments, json_root(d), &made);
	}
	if (!e)
		cay_said(s, &kind_attachments, json_root(made), "attached");
	named_done(&t);
	return e;
}

static struct err *detach(struct remote *r, const struct settings *s)
{
	autofree char *path = cay_path(&kind_attachments, remote_ns(r), settings_arg(s, 0));
	autoptr(json_doc) was = NULL;
	struct err *e = remote_get(r, path, &was);

	if (!e)
		e = remote_ask(r, &(struct ask){ .method = "DELETE", .path = path }, NULL);
	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return err_new(ERR_NOT_FOUND,
			       "there is no attachment %s in namespace %s; it may have been "
			       "detached already",
			       settings_arg(s, 0), remote_ns(r));
	}
	if (!e)
		cay_said(s, &kind_attachments, json_root(was), "detached");
	return e;
}

int attach_cmd(const struct command *c, const struct settings *s)
{
	return names_run(c, s, 2, attach);
}

int detach_cmd(const struct command *c, const struct settings *s)
{
	return names_run(c, s, 1, detach);
}
